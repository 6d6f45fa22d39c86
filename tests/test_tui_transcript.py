from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.pilot import Pilot
from tui_pilot import CALLED, DIFF, RETURNED, answered, drive, settle, shown, until, write, wrote

from pace_tui.app import PaceApp
from pace_tui.diff_lines import DiffLayout, draw_diff, read_diff
from pace_tui.entries import AnswerEntry, CallEntry, DiffEntry, NoteEntry, PromptEntry, ThoughtEntry
from pace_tui.heights import Heights
from pace_tui.looks import Looks, Pen
from pace_tui.markdown_text import MarkdownText
from pace_tui.plain_text import drawable
from pace_tui.testing import FakeConnect

ROUGH = (
    "[bold]x[/bold] [/] [@click=app.leave]y[/] "
    "\x1b[31mred\x1b]0;title\x07 \u202eback 漢字 🙂 שלום e\u0301 \x00"
)


@given(
    st.lists(st.integers(0, 9), max_size=60),
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 9)), max_size=20),
)
def test_heights_say_what_a_list_would(heights: list[int], changes: list[tuple[int, int]]) -> None:
    tree = Heights()
    for height in heights:
        tree.append(height)
    for place, height in changes:
        if place < len(heights):
            heights[place] = tree[place] = height
    assert tree.total == sum(heights)
    assert [tree.top(place) for place in range(len(heights) + 1)] == [
        sum(heights[:p]) for p in range(len(heights) + 1)
    ]
    lines = [(place, line) for place, height in enumerate(heights) for line in range(height)]
    assert [tree.at(line) for line in range(len(lines))] == lines


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_harmless_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    assert all(one == "\n" or (ord(one) >= 32 and not 0x7F <= ord(one) < 0xA0) for one in drawable(text))
    assert drawable(drawable(text)) == drawable(text)


MARKDOWN = (
    "# Title\n\nA *b* `c`.\n\n1. one\n\n2. two\n\n   more of two\n\n"
    "```python\ndef f():\n\n    return 1\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n\nlast\n"
)


@pytest.mark.parametrize("seed", range(5))
def test_markdown_that_came_in_pieces_looks_like_markdown_in_one(seed: int) -> None:
    pen = Pen(Looks(), 60)
    chooser = random.Random(seed)
    pieces = MarkdownText()
    at = 0
    while at < len(MARKDOWN):
        size = chooser.randint(1, 9)
        pieces.append(MARKDOWN[at : at + size])
        pieces.lines(pen)
        at += size
    assert pieces.source == MARKDOWN
    whole = [strip.text.rstrip() for strip in MarkdownText(MARKDOWN).lines(pen)]
    assert [strip.text.rstrip() for strip in pieces.lines(pen)] == whole
    text = "\n".join(whole)
    assert "Title" in text
    assert "*b*" not in text
    assert " 2 two" in text
    assert "    return 1" in text


def test_html_and_markup_in_an_answer_are_text() -> None:
    lines = MarkdownText("a <b>bold</b> List<int> [red]x[/red]\n\n<div>\nkept\n</div>\n").lines(
        Pen(Looks(), 60)
    )
    text = "\n".join(strip.text for strip in lines)
    for part in ("<b>bold</b>", "List<int>", "[red]x[/red]", "<div>", "kept"):
        assert part in text


def test_entities_bring_nothing_back_that_a_terminal_obeys() -> None:
    text = "a &lt;b&gt; &#x202e;c&#8236; &#8232; `&#x2066;` &Tab;[d](http://e/&#x202e; 'f&#x2067;')\n\n"
    drawn = "\n".join(strip.text for strip in MarkdownText(text).lines(Pen(Looks(), 80)))
    assert "a <b> ·c· · &#x2066;" in drawn
    assert drawn == drawable(drawn)


def test_a_long_block_of_code_is_laid_out_piece_by_piece() -> None:
    text = MarkdownText("```python\n")
    text.append("x = 1\n" * 10_000)
    assert len(text._blocks) >= 2
    assert sum("x = 1" in strip.text for strip in text.lines(Pen(Looks(), 40))) == 10_000


@pytest.mark.parametrize("width", [8, 40, 300])
def test_entries_of_rough_text_fit_any_width(width: int) -> None:
    pen = Pen(Looks(), width)
    call = CallEntry(ROUGH, {"path": ROUGH, "text": ROUGH * 20})
    call.finish(True, ROUGH + "\n" + "漢" * 400, 0.1)
    diff = DiffEntry(ROUGH, f"@@ -1 +1 @@\n-{ROUGH}\n+{'漢' * 200}\n", "agent")
    entries = [
        PromptEntry(ROUGH),
        AnswerEntry(ROUGH + "\n" + "漢" * 200),
        ThoughtEntry(ROUGH),
        call,
        diff,
        NoteEntry(ROUGH),
    ]
    for entry in entries:
        for is_folded in (True, False):
            entry.is_folded = is_folded
            for strip in entry.lines(pen):
                assert strip.cell_length <= width, entry
                assert strip.text == drawable(strip.text)


def test_a_diff_has_numbers_and_both_looks() -> None:
    lines = read_diff(DIFF)
    assert [(line.sign, line.old, line.new) for line in lines] == [
        ("@", None, None), (" ", 1, 1), ("-", 2, None), ("+", None, 2), (" ", 3, 3), (" ", 4, 4),
    ]  # fmt: skip
    unified = [strip.text.rstrip() for strip in draw_diff(DIFF, "a.py", Pen(Looks(), 60))]
    assert unified[2:4] == [" 2 -     return sum(prices[1:])", " 2 +     return sum(prices)"]
    beside = [strip.text for strip in draw_diff(DIFF, "a.py", Pen(Looks(), 150))]
    assert "sum(prices[1:])" in beside[2].split("│")[0]
    assert "sum(prices)" in beside[2].split("│")[1]


@pytest.mark.parametrize("width", [40, 150])
def test_a_layout_draws_each_row_as_high_as_it_said(width: int) -> None:
    lines = ["short", "漢" * 90, "word " * 60, "", "e\u0301" * 50, "\tx" * 40]
    diff = "@@ -1,9 +1,9 @@\n" + "".join(f"{sign}{line}\n" for line in lines for sign in "- ++")
    layout = DiffLayout(diff, "", Pen(Looks(), width))
    rows = [layout.row(y).text for y in range(len(layout))]
    backwards = [layout.row(y).text for y in reversed(range(len(layout)))]
    assert backwards[::-1] == rows
    whole = "".join(rows).replace("│", "")
    assert whole.count("漢") == 90 * 4 + (90 if width == 150 else 0)
    with pytest.raises(IndexError):
        layout.row(len(layout))


def test_a_change_that_cannot_be_shown_is_said_in_the_place_of_numbers() -> None:
    notice = "deploy.sh: created, too much to show: 0 lines from line 1 on are now 800; read it again"
    title = DiffEntry("deploy.sh", notice, "agent").title(Pen(Looks(), 120)).plain
    assert title.startswith("± deploy.sh created, too much to show: 0 lines from line 1 on are now 800")
    assert "+0" not in title


def test_code_in_a_diff_is_coloured() -> None:
    def colours(path: str) -> set[Style | None]:
        return {each.style for strip in draw_diff(DIFF, path, Pen(Looks(), 60)) for each in strip}

    assert len(colours("a.py")) > len(colours("a.unknown"))


def test_a_run_is_drawn_as_it_comes() -> None:
    run = answered(
        {"type": "thought", "written": "I look at it"},
        wrote("The **total** "), wrote("leaves [b]one[/b] out."),
        CALLED, RETURNED,
        {"type": "changed", "path": "shop/cart.py", "by": "agent", "diff": DIFF, "stale": []},
    )  # fmt: skip

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "fix it")
        await pilot.press("enter")
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert "▸ thought, 4 words" in text
        assert "I look at it" not in text
        assert "The total leaves [b]one[/b] out." in text
        assert "✓ edit shop/cart.py" in text
        assert "mark-of-the-result" not in text
        assert "return sum(prices[1:])" in text
        assert "✓ done" in text
        await pilot.press("ctrl+o")
        assert "mark-of-the-result" in "\n".join(shown(app))
        app.main.transcript.focus()
        await pilot.press("up", "up", "up", "enter")
        await settle(app, pilot)
        assert "I look at it" in "\n".join(shown(app))

    drive(steps, runs=[run], is_threaded=True)


def notes(app: PaceApp, count: int, lines: int = 1) -> None:
    for number in range(count):
        app.main.transcript.add(NoteEntry("\n".join([f"note {number}", *["more"] * (lines - 1)])))


def test_only_what_is_near_the_view_is_laid_out() -> None:
    laid_out = []

    class Counted(NoteEntry):
        def lay_out(self, pen: Pen):  # type: ignore[no-untyped-def]
            laid_out.append(self)
            return super().lay_out(pen)

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        for number in range(5000):
            app.main.transcript.add(Counted(f"note {number}"))
        await settle(app, pilot)
        assert "note 4999" in "\n".join(shown(app))
        assert len(laid_out) < 200
        app.main.transcript.scroll_to(y=1000, animate=False)
        await settle(app, pilot)
        assert len(laid_out) < 400
        laid_out.clear()
        app.post_message(events.AppBlur())  # the user goes to another window
        await until(pilot, lambda: not app.app_focus)
        await settle(app, pilot)
        app.post_message(events.AppFocus())
        await until(pilot, lambda: app.app_focus)
        await settle(app, pilot)
        assert len(laid_out) < 200

    drive(steps)


def test_it_follows_only_at_the_end_and_end_resumes() -> None:
    """Regression: the view is pulled to the end while the user reads."""

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        transcript = app.main.transcript
        notes(app, 200)
        await settle(app, pilot)
        await pilot.press("pageup")
        await settle(app, pilot)
        before = shown(app)[0:20]
        assert "note 199" not in "\n".join(before)
        assert not transcript.is_following
        notes(app, 50)
        await settle(app, pilot)
        assert shown(app)[0:20] == before
        assert "End follows" in shown(app)[-1]
        await pilot.press("end")
        await settle(app, pilot)
        assert transcript.is_following
        assert "note 49" in "\n".join(shown(app))
        connect.worker.say({"type": "warned", "message": "the newest"})
        await settle(app, pilot)
        assert "the newest" in "\n".join(shown(app))

    drive(steps)


def test_scrolling_up_into_entries_never_laid_out_does_not_jump() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        transcript = app.main.transcript
        for number in range(100):  # much higher than estimated
            transcript.add(
                AnswerEntry(f"answer {number}\n\n" + "\n\n".join("- a\n- b" for _ in range(3)) + "\n\n---\n")
            )
        await settle(app, pilot)
        top = transcript.size.height
        for _ in range(60):
            before = shown(app)[:top]
            transcript.scroll_relative(y=-3, animate=False)
            await pilot.pause()
            assert [line[:60] for line in shown(app)[3:top]] == [line[:60] for line in before[: top - 3]]

    drive(steps)


def test_a_resize_while_text_streams_keeps_the_place() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        transcript = app.main.transcript
        for number in range(200):
            transcript.add(PromptEntry(f"prompt {number} " + "word " * 60))
        transcript.scroll_to(y=0, animate=False)
        await settle(app, pilot)
        transcript.action_start()
        await settle(app, pilot)
        transcript.scroll_relative(y=100, animate=False)
        await settle(app, pilot)
        place, _ = transcript._anchor()
        for width in (40, 300, 60, 120):
            await pilot.resize_terminal(width, 30)
            connect.worker.say(wrote("streamed "))
            await settle(app, pilot)
            assert abs(transcript._anchor()[0] - place) <= 1
            assert all(len(line) <= width for line in shown(app))
        await until(pilot, lambda: not app._is_drawing_soon)

    drive(steps)


def test_a_selection_is_copied_as_text() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        from textual.geometry import Offset
        from textual.selection import Selection

        transcript = app.main.transcript
        transcript.clear()
        notes(app, 3)
        await settle(app, pilot)
        app.main.selections = {transcript: Selection(Offset(2, 0), Offset(6, 1))}
        await pilot.pause()
        assert app.main.get_selected_text() == "note 0\n· note"
        await pilot.press("ctrl+c")
        assert app.clipboard == "note 0\n· note"
        assert app.is_running

    drive(steps)


def test_the_transcript_is_exported_as_markdown(tmp_path) -> None:  # type: ignore[no-untyped-def]
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        await write(pilot, "fix it")
        await pilot.press("enter")
        await settle(app, pilot)
        app.commands.do("export", str(tmp_path / "out.md"))
        await until(pilot, lambda: "written to" in "\n".join(shown(app)))
        app.commands.do("export", str(tmp_path / "out.md"))
        await until(pilot, lambda: "cannot write" in "\n".join(shown(app)))

    drive(steps, runs=[answered(wrote("An *answer*"), CALLED, RETURNED)])
    text = (tmp_path / "out.md").read_text()
    assert "> fix it" in text
    assert "An *answer*" in text
    assert "mark-of-the-result" in text


@pytest.mark.parametrize("size", [(60, 20), (110, 34)])
def test_no_letter_is_lost_beside_the_scrollbar(size: tuple[int, int]) -> None:
    """Textual counts the scrollbar's column as content; the last letter of each full line was under it."""

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        app.main.scribe.note("♦" * 300)
        await settle(app, pilot)
        assert "".join(shown(app)).count("♦") == 300
        transcript = app.main.transcript
        crop = Region(0, 0, transcript.outer_size.width, 5)
        first, again = transcript.render_lines(crop), transcript.render_lines(crop)
        assert all(one is other for one, other in zip(first, again, strict=True))

    drive(steps, size=size)
