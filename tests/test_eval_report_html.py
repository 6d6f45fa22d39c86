"""The page: whole and partial runs, hostile answers, and nothing that would be loaded or run."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from eval_lines import CEILING, done_line, probe_line, run_line, turn_line
from test_eval_measures import read

from pace_local.errors import FileError
from pace_local.eval.cells import Cell
from pace_local.eval.journal import NAME, Results, load_results
from pace_local.eval.page import elements, escaped, from_markdown, visible
from pace_local.eval.report_html import html_report

PACE = Cell("alike", "pace", None, 1)
FOCUS = Cell("alike", "pace_focus", "auto", 1)
NONE = Cell("alike", "none", None, 1)
GAP = Cell("unlike", "pace", None, 1, 60_000)
LINES: list[dict[str, Any]] = [
    run_line([CEILING, PACE, FOCUS, NONE, GAP]),
    probe_line(CEILING, 1, 5),
    probe_line(CEILING, 2, 5),
    done_line(CEILING),
    turn_line(PACE, 1, 100, needed_residency=None, needed_distance=None),
    turn_line(PACE, 2, 200, needed_residency=0.5, needed_distance=120, kv_bytes=120_000_000),
    probe_line(PACE, 1, 3, 2, reads=(read(60, 700, "spec:b"),), broke="not resident", seconds=4.0),
    probe_line(PACE, 2, 4, 3, seconds=6.0, finish="length"),
    done_line(PACE),
    probe_line(FOCUS, 1, 0, 0),
    done_line(NONE, "policy 'none' is <full>"),
]
RESULTS = Path(__file__).parent.parent / "docs" / "results"
VOID = {"meta", "br", "path", "use", "rect"}


class Page(HTMLParser):
    """Elements in order, with the text of each and all within it; notes what is not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[int] = []
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.texts: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()
        self.wrong += [self.tags[index] for index in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begin(tag, attrs)
        if tag not in ("meta", "br"):
            self.open.append(len(self.tags) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begin(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.tags[self.open.pop()] != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        for index in self.open:
            self.texts[index] += data

    def _begin(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append(dict(attrs))
        self.texts.append("")

    def of(self, tag: str) -> list[str]:
        """Text of each element of a kind."""
        return [text for found, text in zip(self.tags, self.texts, strict=True) if found == tag]

    def rows(self) -> list[list[str]]:
        """Each row of all tables."""
        lines = [
            text for found, text in zip(self.tags, self.texts, strict=True) if found in ("tr", "th", "td")
        ]
        cells = iter(lines)
        rows: list[list[str]] = []
        for tag, _ in zip([tag for tag in self.tags if tag in ("tr", "th", "td")], lines, strict=True):
            text = next(cells)
            if tag == "tr":
                rows.append([])
            else:
                rows[-1].append(text)
        return rows


def checked(text: str) -> Page:
    """A page that is well formed and self-contained."""
    page = Page(text)
    assert page.wrong == []
    counts = Counter(page.tags)
    assert {counts[tag] for tag in ("html", "head", "body", "title", "h1", "style")} == {1}
    assert not {"script", "link", "img", "image", "iframe", "object", "embed", "base", "form"} & counts.keys()
    for attributes in page.attributes:
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in ("src", "srcset", "action", "data")
            assert name != "href" or str(value).startswith("#")
    values = [value for attributes in page.attributes for value in attributes.values()]
    for value in (*map(str, values), *page.of("style")):
        assert not re.search(r"//|@import|@font-face|javascript:|url\((?!#)", value)
    ids = [attributes["id"] for attributes in page.attributes if "id" in attributes]
    assert len(set(ids)) == len(ids)
    text.encode()
    return page


@pytest.fixture(scope="module")
def whole() -> Page:
    return checked(html_report(Results(LINES)))


def test_the_page_shows_every_cell_with_its_intervals(whole: Page) -> None:
    page = whole
    assert page.of("h1") == page.of("title") == ["Gap: tiny, 64,000 tokens of other work"]
    rows = {row[0]: row[1:] for row in page.rows()[:5]}
    head = rows["row"]
    ceiling, pace = (dict(zip(head, rows[row], strict=True)) for row in ("ceiling", "pace"))
    assert ceiling["checks passed"] == "10/10 (72–100 %)"
    assert pace == {
        "reads": "1",
        "probes": "2",
        "checks passed": "7/10 (40–89 %)",
        "tasks passed": "0/2 (0–66 %)",
        "facts recalled": "5/6 (44–97 %)",
        "against pace, points": "",
        "s a probe": "5.0",
        "resident": "80 %",
        "farthest, positions": "700",
        "peak of keys and values": "120 MB",
    }
    assert dict(zip(head, rows["pace_focus, auto"], strict=True))["probes"] == "1 of 8"
    assert dict(zip(head, rows["none"], strict=True))["probes"] == "refused"
    assert "Refused (none): policy 'none' is <full>." in page.of("p")
    assert any(text.startswith("Not finished: 2 of 5") for text in page.of("p"))


def test_every_failed_probe_is_folded_with_its_answer(whole: Page) -> None:
    page = whole
    folded = [text for text in page.of("summary") if "The numbers" not in text]
    assert [text.partition(";")[0] for text in folded] == [
        "alike, pace: not resident: 60 % was",
        "alike, pace: code wrong, answer cut off",
        "alike, pace_focus, auto: facts not reused: 41, 41, 41",
    ]
    assert "3/5 checks, 2/3 facts" in folded[0]
    assert "spec:b; seed 1, probe 1" in folded[0]
    details = [text for text in page.of("details") if "The answer" in text]
    assert "Facts that the answer does not hold: 41." in details[0]
    assert ["spec:b", "100", "60", "20", "700", "kept"] in page.rows()
    assert "check 4: no" in details[0]
    assert page.of("pre") == ["\né\n\\u2028 code"] * 3
    broke = {row[0]: row[1:] for row in page.rows() if row[0].startswith("alike, ")}
    assert broke["alike, pace"] == ["1", "1", "", "", "1", ""]
    assert broke["alike, ceiling"] == ["1", "", "", "", "", "2"]


def test_many_errors_are_cut() -> None:
    failures = tuple(f"check {number}: no" for number in range(1, 31))
    page = checked(html_report(Results([run_line([PACE]), probe_line(PACE, 1, 0, failures=failures)])))
    assert sum(text.startswith("check ") for text in page.of("li")) == 10
    assert "and 20 more" in page.of("li")


HOSTILE = [
    "</pre><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</details></body></html><h1>x",
    "<!-- --!> ]]> &lt; &amp;#0;",
    "\x00\x07\x1b[31mred\x1b[0m\x7f\x85",
    "\ud800 and \udfff",
    "\u202eright to left\u2066, \u200bzero\ufeff width",
    "`code` **bold** | cell",
    "$x^2$ {} %s \\n",
]


def test_what_a_model_or_a_file_says_is_text_everywhere() -> None:
    """Each text as an answer, and all of them together in every other place."""
    every = "".join(HOSTILE)
    named: dict[str, Any] = {"reads": (read(name=every),), "finish": every}
    lines: list[dict[str, Any]] = [
        probe_line(PACE, number, 0, 0, answer=text, failures=(text,), missing_facts=(text,), **named)
        for number, text in enumerate(HOSTILE, 1)
    ]
    cells = [Cell(every, every, every, 1), PACE]
    header = run_line(cells, model={"name": every, "sha256": every, "fingerprint": every}, command=[every])
    page = checked(html_report(Results([header, probe_line(cells[0], 1, 5), *lines, done_line(PACE, every)])))
    assert page.of("pre") == [f"\n{visible(text)}" for text in HOSTILE]
    assert {visible(text) for text in HOSTILE} <= set(page.of("code"))
    shown = visible(every)
    assert shown in page.of("h1")[0]
    assert page.of("title") == page.of("h1")
    assert any(shown in row[0] for row in page.rows())
    assert any(shown in words for words in page.of("figcaption"))
    assert all(f"ended by {shown}:" in text for text in page.of("details") if "The answer" in text)


def test_hidden_characters_are_shown_as_escapes() -> None:
    assert visible("a\tb\nc é 漢 😀") == "a\tb\nc é 漢 😀"
    assert visible("\x00\x1b\r\x7f\x85\u202e\u2028\ud800\U000e0001") == (
        r"\x00\x1b\r\x7f\x85\u202e\u2028\ud800\U000e0001"
    )
    assert escaped("<a b=\"c\" d='e'>&\x00") == r"&lt;a b=&quot;c&quot; d=&#x27;e&#x27;&gt;&amp;\x00"


def test_our_own_markdown_becomes_elements() -> None:
    assert from_markdown("**a** `b**c**<` d") == "<strong>a</strong> <code>b**c**&lt;</code> d"
    assert from_markdown("5 ** 2 and `open") == "5 ** 2 and `open"
    lines = ["### A", "", "| | x |", "|---|---|", "| a | **b** |", "", "- one", "- more", "two"]
    page = Page("".join(elements(lines)))
    assert page.wrong == []
    assert page.rows() == [["", "x"], ["a", "b"]]
    assert page.of("ul") == ["onemore"]
    assert (page.of("h3"), page.of("li"), page.of("p")) == (["A"], ["one", "more"], ["two"])


@pytest.mark.parametrize("length", [1, 2, 4, 5, 6, 7, 9, 10])
def test_a_partial_run_gives_a_page(length: int) -> None:
    page = checked(html_report(Results(LINES[:length])))
    assert any(text.startswith("Not finished") for text in page.of("p"))
    assert ("Nothing was measured so far that could be drawn." in page.of("p")) == (length == 1)


def test_a_run_without_results_is_refused() -> None:
    with pytest.raises(FileError, match="no results"):
        html_report(Results(()))


def test_a_refused_cell_alone_gives_a_page() -> None:
    page = checked(html_report(Results([run_line([NONE]), done_line(NONE, "no room")])))
    assert "Refused (none): no room." in page.of("p")
    assert "No probe failed so far." in page.of("p")


def test_every_plot_has_words_and_numbers_beside_it(whole: Page) -> None:
    page = whole
    plots = [found for tag, found in zip(page.tags, page.attributes, strict=True) if tag == "svg"]
    assert len(plots) == len(page.of("figure")) == page.of("summary").count("The numbers") == 3
    for plot, words in zip(plots, page.of("figcaption"), strict=True):
        assert plot["role"] == "img"
        assert words[:20] in str(plot["aria-label"])


def test_the_page_says_how_it_was_measured(whole: Page) -> None:
    items = whole.of("li")
    assert "model: tiny, sha256 not known, fingerprint ab" in items
    assert any("pace eval gap --out 'two words'" in item for item in items)


def test_the_same_results_give_the_same_bytes() -> None:
    assert html_report(Results(LINES)) == html_report(Results(LINES))


@pytest.mark.parametrize("name", sorted(path.parent.name for path in RESULTS.glob(f"*/{NAME}.gz")))
def test_committed_results_give_a_page(name: str, tmp_path: Path) -> None:
    with gzip.open(RESULTS / name / f"{NAME}.gz") as packed:
        (tmp_path / NAME).write_bytes(packed.read())
    text = html_report(load_results(tmp_path))
    page = checked(text)
    assert page.of("svg")
    assert len(text) < 2_000_000


def test_there_are_committed_results() -> None:
    assert list(RESULTS.glob(f"*/{NAME}.gz"))
