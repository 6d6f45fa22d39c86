from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from git_repositories import repository, write
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pace_agent.errors import RefusedError, ToolError
from pace_agent.finding import search as search_module
from pace_agent.finding.file_names import FileNames
from pace_agent.finding.found import LEAST_SHOWN, LONGEST_LINE, Found, Match, match_of
from pace_agent.finding.line_search import lines_of
from pace_agent.finding.listing import Listing, list_files
from pace_agent.finding.ripgrep import Sieve, find_ripgrep, loosened
from pace_agent.finding.search import LARGEST_SEARCHED, MOST_OF_A_FILE, search_text, text_of
from pace_agent.safety.paths import Territory
from pace_local.excerpts.layout import split_lines

Search = Callable[..., Found]

WAYS = [
    "python",
    pytest.param(
        "ripgrep", marks=pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
    ),
]


def searching(root: Path, way: str) -> Search:
    """Searches a folder in one of the two ways."""
    find = find_ripgrep if way == "ripgrep" else lambda roots: None

    def search(pattern: str, **options: object) -> Found:
        return search_text(Territory(root), pattern, ripgrep=find, **options)  # type: ignore[arg-type]

    return search


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "r")
    write(root / "shop/orders.py", "RATE = 53\n\ndef total(order):\n    return order.sum * RATE\n")
    write(root / "shop/views.py", "from shop.orders import total\n\nprint(total(1))\n")
    write(root / "README.md", "The Total of an order.\n")
    write(root / ".gitignore", "out/\n*.log\n")
    write(root / "out/total.py", "total\n")
    write(root / "shop/debug.log", "total\n")
    return root


@pytest.fixture
def search(root: Path, way: str) -> Search:
    return searching(root, way)


def lines(found: Found) -> list[tuple[str, int]]:
    return [(match.path, match.line) for match in found.matches]


ALL = [("README.md", 1), ("shop/orders.py", 3), ("shop/views.py", 1), ("shop/views.py", 3)]


class TestWhatIsFound:
    def test_a_text_without_capitals_in_files_that_are_not_ignored(self, search: Search) -> None:
        found = search("total")
        assert lines(found) == ALL
        assert found.matches[1].text == "def total(order):"
        assert found.notes == ("ignored: out/",)
        assert (found.count, found.left_out, found.is_cut_short) == (4, 0, False)

    def test_a_capital_makes_case_count(self, search: Search) -> None:
        assert lines(search("Total")) == [("README.md", 1)]
        assert lines(search("RATE")) == [("shop/orders.py", 1), ("shop/orders.py", 4)]
        assert lines(search("rate")) == [("shop/orders.py", 1), ("shop/orders.py", 4)]

    def test_capitals_of_escapes_and_group_names_are_none(self, search: Search) -> None:
        for pattern in (r"\Srder", r"o\x72der", r"(?P<Name>o)rder", r"\u006Frder", r"(?P<A>r)de(?P=A)"):
            assert "README.md" in {path for path, _ in lines(search(pattern, regex=True))}, pattern
        assert search(r"\bTOTAL", regex=True).matches == ()

    def test_an_expression(self, search: Search) -> None:
        assert lines(search(r"^def \w+\(", regex=True)) == [("shop/orders.py", 3)]
        assert lines(search(r"total(?!\()$", regex=True)) == [("shop/views.py", 1)]
        assert lines(search(r"(?i)TOTAL OF", regex=True)) == [("README.md", 1)]

    def test_a_text_is_no_expression_unless_asked(self, search: Search) -> None:
        assert search("t.tal").matches == ()
        assert lines(search("total(1)")) == [("shop/views.py", 3)]

    def test_below_a_folder_or_in_a_file(self, search: Search) -> None:
        assert lines(search("total", below="shop")) == ALL[1:]
        assert lines(search("total", below="shop/views.py")) == ALL[2:]
        assert lines(search("total", below="")) == ALL

    def test_what_is_named_is_searched_though_it_is_ignored(self, search: Search) -> None:
        assert lines(search("total", below="out")) == [("out/total.py", 1)]
        assert lines(search("total", below="shop/debug.log")) == [("shop/debug.log", 1)]

    @pytest.mark.parametrize(
        ("names", "files"),
        [
            ("*.py", {"shop/orders.py", "shop/views.py"}),
            ("*.{md,txt}", {"README.md"}),
            ("!*.py", {"README.md"}),
            ("shop/", {"shop/orders.py", "shop/views.py"}),
            ("./shop/v*", {"shop/views.py"}),
            ("**/v*.py", {"shop/views.py"}),
            ("", {"README.md", "shop/orders.py", "shop/views.py"}),
            ("*.rs", set()),
        ],
    )
    def test_names(self, search: Search, names: str, files: set[str]) -> None:
        found = search("total", names=names)
        assert {path for path, _ in lines(found)} == files
        if not files:
            assert "no file is named like '*.rs' in '.'" in found.shown(400)

    def test_names_from_the_folder_searched(self, search: Search) -> None:
        assert lines(search("total", below="shop", names="/orders.py")) == ALL[1:2]

    def test_another_folder_of_the_territory(self, root: Path, way: str, tmp_path: Path) -> None:
        extra = tmp_path / "extra"
        write(extra / "in/a.txt", "total\n")
        find = find_ripgrep if way == "ripgrep" else lambda roots: None
        found = search_text(Territory(root, [extra]), "total", below=str(extra), ripgrep=find)
        assert lines(found) == [(f"{extra}/in/a.txt", 1)]

    def test_a_repository_inside_a_repository(self, root: Path, search: Search) -> None:
        inner = repository(root / "vendor/inner")
        write(inner / ".gitignore", "*.tmp\n")
        write(inner / "a.py", "rarely = 1\n")
        write(inner / "b.tmp", "rarely = 1\n")
        assert lines(search("rarely")) == [("vendor/inner/a.py", 1)]
        assert search("repositoryformatversion").matches == ()


class TestFilesOfAllKinds:
    def test_encodings_and_line_ends(self, root: Path, search: Search) -> None:
        write(root / "crlf.txt", b"one\r\nneedle here\r\nlast needle")
        write(root / "bom.txt", "\ufeffneedle\n".encode())
        write(root / "le.txt", "a\r\nneedle Ä\r\n".encode("utf-16"))
        write(root / "be.txt", b"\xfe\xff" + "x\nneedle\n".encode("utf-16-be"))
        write(root / "latin.txt", "caf\xe9 needle\n".encode("latin-1"))
        write(root / "cr.txt", b"a\rneedle\rb\n")
        write(root / "empty.txt", b"")
        names = ["be.txt", "bom.txt", "cr.txt", "crlf.txt", "crlf.txt", "latin.txt", "le.txt"]
        found = search("needle")
        assert [path for path, _ in lines(found)] == names
        assert lines(search("^needle", regex=True, names="*.txt")) == [
            *(("be.txt", 2), ("bom.txt", 1), ("cr.txt", 2), ("crlf.txt", 2), ("le.txt", 2)),
        ]
        ends = search("needle$", regex=True, names="*.txt")
        assert lines(ends) == [
            *(("be.txt", 2), ("bom.txt", 1), ("cr.txt", 2), ("crlf.txt", 3), ("latin.txt", 1)),
        ]
        assert lines(search("needle ä", names="*.txt")) == [("le.txt", 2)]
        assert lines(search("caf. needle", regex=True)) == [("latin.txt", 1)]
        assert [one.text for one in found.matches if one.path == "crlf.txt"] == ["needle here", "last needle"]
        assert all("\r" not in line for line in found.shown(2_000).split("\n"))

    def test_what_is_no_text_is_left_out(self, root: Path, search: Search) -> None:
        write(root / "a.bin", b"needle\n" * 20_000 + b"\0")
        write(root / "wide.bin", "needle".encode("utf-16-le"))
        write(root / "utf32.txt", "needle".encode("utf-32"))
        assert search("needle").matches == ()
        with pytest.raises(ToolError, match=r"'a\.bin' is a binary file"):
            search("needle", below="a.bin")

    def test_large_files_are_left_out_and_named(self, root: Path, search: Search) -> None:
        write(root / "just.txt", b"needle\n" + b"x" * (LARGEST_SEARCHED - 7))
        write(root / "over.txt", b"needle\n" + b"x" * (LARGEST_SEARCHED - 6))
        found = search("needle")
        assert lines(found) == [("just.txt", 1)]
        assert "not searched (over 4 MB): over.txt" in found.notes
        with pytest.raises(ToolError, match="more than the 4,194,304 that"):
            search("needle", below="over.txt")

    def test_names_with_anything_in_them(self, root: Path, search: Search) -> None:
        for name in ("a b.txt", "-e.txt", "line\nbreak.txt", "ünï.txt", "q'\"$(x).txt"):
            write(root / "odd" / name, "needle\n")
        write(Path(os.fsdecode(os.fsencode(root) + b"/odd/\xff.txt")), "needle\n")
        found = search("needle")
        assert len(found.matches) == 6
        assert "odd/line\\nbreak.txt:1: needle" in found.shown(2_000).split("\n")
        assert found.shown(2_000).isprintable() is False  # of line feeds alone
        assert found.shown(2_000).replace("\n", "").isprintable()

    def test_links_are_not_followed(self, root: Path, search: Search, tmp_path: Path) -> None:
        write(tmp_path / "outside/secret.txt", "needle\n")
        write(root / "real.txt", "needle\n")
        (root / "link.txt").symlink_to(root / "real.txt")
        (root / "out.txt").symlink_to(tmp_path / "outside/secret.txt")
        (root / "folder").symlink_to(tmp_path / "outside")
        (root / "loop").symlink_to(root)
        assert lines(search("needle")) == [("real.txt", 1)]
        assert lines(search("needle", below="link.txt")) == [("real.txt", 1)]
        with pytest.raises(RefusedError):
            search("needle", below="folder")

    def test_protected_files_are_left_out_unless_named(self, root: Path, way: str) -> None:
        write(root / ".env", "needle\n")
        write(root / "deep/id_rsa", "needle\n")
        write(root / "pem.txt", "-----BEGIN RSA PRIVATE KEY-----\nneedle\n")
        found = searching(root, way)("needle")
        assert found.matches == ()
        assert "not searched (protected): .env, deep/id_rsa" in found.notes
        with pytest.raises(RefusedError):
            searching(root, way)("needle", below=".env")
        find = find_ripgrep if way == "ripgrep" else lambda roots: None
        named = Territory(root, named=[".env"])
        assert lines(search_text(named, "needle", ripgrep=find)) == [(".env", 1)]

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
    def test_what_cannot_be_read_is_said(self, root: Path, search: Search) -> None:
        write(root / "shut/a.txt", "needle\n")
        write(root / "file.txt", "needle\n").chmod(0)
        write(root / "open.txt", "needle\n")
        (root / "shut").chmod(0)
        try:
            found = search("needle")
        finally:
            (root / "shut").chmod(0o700)
        assert lines(found) == [("open.txt", 1)]
        assert "not searched (cannot be read): file.txt" in found.notes
        assert "cannot read shut: Permission denied" in found.notes

    def test_pipes_are_not_waited_for(self, root: Path, search: Search) -> None:
        os.mkfifo(root / "pipe")
        assert lines(search("total")) == ALL


class TestPatterns:
    def test_no_expression_is_searched_as_text(self, search: Search) -> None:
        found = search("total(", regex=True)
        assert lines(found) == [("shop/orders.py", 3), ("shop/views.py", 3)]
        assert found.notes[0].startswith("'total(' is no regular expression (missing )")
        assert "searched as plain text" in found.shown(400)

    @pytest.mark.parametrize("pattern", ["a{99999999999999}", "[", "*", "(?<=a+)b"])
    def test_expressions_that_python_does_not_take(self, search: Search, pattern: str) -> None:
        found = search(pattern, regex=True)
        assert lines(found) == ([(".gitignore", 2), ("shop/orders.py", 4)] if pattern == "*" else [])
        assert f"{pattern!r} is no regular expression" in found.notes[0]

    def test_deep_expressions(self, search: Search) -> None:
        assert search("(" * 490 + "RATE" + ")" * 490, regex=True).count in (0, 2)  # as deep as Python goes

    def test_an_expression_that_matches_nothing_but_stands_there(self, search: Search) -> None:
        found = search("total(1)", regex=True)
        assert lines(found) == [("shop/views.py", 3)]
        assert "nothing matches 'total(1)' as a regular expression" in found.notes[0]
        assert search("nowhere(1)", regex=True).notes == ("ignored: out/",)

    def test_only_one_line_is_searched_for(self, search: Search) -> None:
        found = search("\ndef total(order):\n    return")
        assert lines(found) == [("shop/orders.py", 3)]
        assert "only 'def total(order):' was searched for" in found.notes[0]
        assert search("RATE = 53\n").notes == ("ignored: out/",)

    @pytest.mark.parametrize("pattern", ["", "\n", "x" * 1_001])
    def test_none_at_all(self, search: Search, pattern: str) -> None:
        with pytest.raises(ToolError, match="is none to search for"):
            search(pattern)

    def test_a_place_that_is_not_there(self, search: Search) -> None:
        with pytest.raises(ToolError, match="no such file or folder: 'shpo'"):
            search("total", below="shpo")
        with pytest.raises(RefusedError, match="outside"):
            search("total", below="..")

    @pytest.mark.filterwarnings("error")
    def test_python_warns_of_nothing(self, search: Search) -> None:
        assert search("[[a]b", regex=True).matches == ()


class TestLimits:
    def test_so_many_matches_and_the_others_counted(self, root: Path, search: Search) -> None:
        write(root / "a/many.txt", "needle\n" * 500)
        write(root / "b/few.txt", "needle\n" * 3)
        found = search("needle", most=MOST_OF_A_FILE + 2)
        assert len(found.matches) == MOST_OF_A_FILE + 2
        assert found.more == {"a/many.txt": 500 - MOST_OF_A_FILE, "b/few.txt": 1}
        assert found.count == 503
        assert len(search("needle", below="a/many.txt", most=200).matches) == 200

    def test_it_ends_where_everything_matches(
        self, root: Path, search: Search, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(search_module, "MOST_COUNTED", 1_000)
        write(root / "a.txt", "needle\n" * 999)
        assert not search("needle").is_cut_short
        write(root / "b.txt", "needle\n")
        write(root / "c.txt", "needle\n")
        found = search("needle")
        assert found.is_cut_short
        assert found.count == 1_000
        assert found.shown(400).startswith("at least 1,000 lines in 2 files match 'needle':")

    def test_more_files_than_are_looked_at(
        self, root: Path, search: Search, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(search_module, "MOST_FILES", 20)
        for number in range(30):
            write(root / f"a/{number:02}.txt", "needle\n")
        found = search("needle")
        assert 0 < len(found.matches) <= 20
        assert any(note.startswith("more than 20 files") for note in found.notes)

    @pytest.mark.slow
    def test_a_hundred_thousand_files(self, tmp_path: Path, way: str) -> None:
        for folder in range(100):
            (tmp_path / f"r/{folder:03}").mkdir(parents=True)
            for number in range(1_005):
                (tmp_path / f"r/{folder:03}/{number:04}.txt").write_bytes(b"x\n")
        write(tmp_path / "r/050/0500.txt", "needle\n")
        found = searching(tmp_path / "r", way)("needle", seconds=300.0)
        assert lines(found) == [("050/0500.txt", 1)]
        assert "more than 100,000 files: the rest was not looked at; name a folder" in found.notes
        found = searching(tmp_path / "r", way)("needle", seconds=0.2)
        assert found.notes[0].startswith("the search ended early: the time limit was reached")

    def test_a_catastrophic_expression_ends_at_the_time_limit(self, root: Path, search: Search) -> None:
        """An expression such as (a+)+$ kept a search busy for ever, and nothing could interrupt it."""
        write(root / "zz/bad.txt", "a" * 60 + "!\n")
        before = {child.pid for child in psutil.Process().children()}
        found = search("total|(a+)+$", regex=True, seconds=1.5)
        assert lines(found) == ALL
        assert found.is_cut_short
        assert found.notes[0].startswith("the search ended early: the time limit was reached; give a simpler")
        assert {child.pid for child in psutil.Process().children()} == before

    def test_cancel(self, root: Path, search: Search) -> None:
        write(root / "bad.txt", "a" * 60 + "!\n")
        cancel = threading.Event()
        timer = threading.Timer(0.5, cancel.set)
        timer.start()
        found = search("(a+)+$", regex=True, cancel=cancel, seconds=60.0)
        timer.join()
        assert found.notes[0] == "the search ended early: cancelled"
        assert found.is_cut_short
        assert search("total", cancel=cancel).notes[0] == "the search ended early: cancelled"


def test_ripgrep_in_the_repository_is_not_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository can hold a program of that name, and a user's PATH its folder."""
    write(root / "bin/rg", f"#!/bin/sh\ntouch {root}/ran\n").chmod(0o755)
    monkeypatch.setenv("PATH", str(root / "bin"))
    assert shutil.which("rg") is not None
    assert find_ripgrep((root,)) is None
    assert find_ripgrep((root / "shop",)) == str(root / "bin/rg")
    assert lines(search_text(Territory(root), "total")) == ALL
    assert not (root / "ran").exists()


def test_ripgrep_that_fails_costs_nothing_but_time(root: Path, tmp_path: Path) -> None:
    for number, script in enumerate(("exit 2", "kill -9 $$", "echo nonsense; exit 3")):
        program = write(tmp_path / f"bin{number}/rg", f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert lines(search_text(Territory(root), "total", ripgrep=lambda roots, p=program: str(p))) == ALL
    gone = str(tmp_path / "nowhere/rg")
    assert lines(search_text(Territory(root), "total", ripgrep=lambda roots: gone)) == ALL


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
def test_ripgrep_reads_no_settings_of_its_own(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_file = write(root.parent / "ripgreprc", "--invert-match\n--fixed-strings\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings_file))
    assert lines(search_text(Territory(root), "t.tal", regex=True)) == ALL


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
def test_ripgrep_keeps_the_files_that_match_and_no_others(root: Path) -> None:
    program = find_ripgrep((root,))
    assert program is not None
    write(root / "-odd name\n.txt", b"\0needle\xff")
    write(root / ".hidden/wide.txt", "needle".encode("utf-16"))
    paths = ["README.md", "out/total.py", "-odd name\n.txt", ".hidden/wide.txt", "shop/debug.log"]
    later = time.monotonic() + 60
    assert Sieve(program, re.compile("needle"), root).kept(paths, later, None) == set(paths[2:4])
    assert Sieve(program, re.compile(r"\bTOTAL\b", re.I), root).kept(paths, later, None) == {
        *("README.md", "out/total.py", "shop/debug.log"),
    }
    # What cannot be read is for the search to say.
    assert Sieve(program, re.compile("needle"), root).kept(["gone.txt"], later, None) == {"gone.txt"}


# Characters that the two ways could take differently: letters that lose their case to ASCII ones, marks, line
# ends, spaces that are none elsewhere.
CHARACTERS = "abikKsS\u00e9\u00c9\u00c5\u0131\u0130\u017f\u212a\u00bd\u0663_ -.("
CHARACTERS += "\t\r\x1c\u0301\u2028\u00a0\ufffd\U0001d4b3"
IN_A_LINE = CHARACTERS.replace("\r", "")  # of a pattern, one line is searched for
texts = st.text(st.sampled_from(CHARACTERS + "\n\n"), max_size=30)
files = st.one_of(
    texts.map(lambda text: text.encode()),
    texts.map(lambda text: text.encode("utf-16")),
    texts.map(lambda text: b"\xef\xbb\xbf" + text.encode()),
    st.lists(st.sampled_from([b"a", b"k", b"\xc3", b"\xa9", b"\xe2\x84", b"\xaa", b"\n", b"\xff", b"s"])).map(
        b"".join
    ),
)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """Python expressions of most kinds, some of them none."""
    if depth == 0:
        sets = r"[a-k] [^k] [^\w] [s\d] [\W_] [é-ſ] [^é] [\s\S]"
        atoms = rf". \w \W \d \D \s \S \b \B ^ $ {sets} \x6b \u212a \( \. (?=a)"
        return draw(st.one_of(st.sampled_from(atoms.split()), st.sampled_from(IN_A_LINE).map(re.escape)))
    inner = expressions(depth - 1)
    kind = draw(st.integers(0, 7))
    if kind < 3:
        return "".join(draw(st.lists(inner, min_size=1, max_size=3)))
    if kind == 3:
        return f"(?:{draw(inner)}|{draw(inner)})"
    if kind == 4:
        return f"({draw(inner)})" + draw(st.sampled_from(["", r"\1"]))
    if kind == 5:
        return f"(?:{draw(inner)})" + draw(st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{0}", "*?"]))
    if kind == 6:
        return draw(st.sampled_from(["(?i:%s)", "(?a:%s)", "(?!%s)", "(?s:%s)", "(?<!a)%s"])) % draw(inner)
    return draw(inner)


def reference(root: Path, names: list[str], regex: re.Pattern[str]) -> list[tuple[str, int]]:
    """Every line of every file, one by one."""
    found = []
    for name in sorted(names):
        data = (root / name).read_bytes()
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            text = data.decode("utf-16", "replace")
        else:
            text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        for number, (line, end) in enumerate(re.findall(r"([^\r\n]*)(\r\n|\r|\n|$)", text), 1):
            if (line or end) and regex.search(line):
                found.append((name, number))
    return found


def compiled(pattern: str) -> re.Pattern[str] | None:
    plain = re.sub(r"\\(?:u....|x..|.)|\(\?P?[<=>]", "", pattern)
    try:
        return re.compile(pattern, 0 if any(c.isupper() for c in plain) else re.IGNORECASE)
    except re.error:
        return None


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(files, min_size=1, max_size=4), expressions())
@example(["\u212a\n".encode(), "ſ İ ı\n".encode()], "[a-k]|s")
@example([b"\xe9\n", b"\xff\xfek\x00\n"], ".")
@example([b"a\r\n"], "a$")
@example([b"\n"], "^$")
def test_both_ways_find_what_a_slow_reference_finds(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], pattern: str
) -> None:
    regex = compiled(pattern)
    if regex is None or not pattern:
        return
    root = tmp_path_factory.mktemp("searched")
    names = [f"{number}.txt" for number in range(len(contents))]
    for name, data in zip(names, contents, strict=True):
        (root / name).write_bytes(data)
    # What is no text has no lines.
    expected = reference(root, [n for n in names if text_of((root / n).read_bytes()) is not None], regex)
    ways = ["python", *(["ripgrep"] if shutil.which("rg") else [])]
    for way in ways:
        found = searching(root, way)(pattern, regex=True)
        if expected or not any("as plain text" in note for note in found.notes):
            assert lines(found) == expected, way


@given(st.text(st.sampled_from("a\r\n\x0b\u2028")))
def test_lines_are_numbered_as_they_are_read(text: str) -> None:
    assert lines_of(text) == [line.rstrip("\r\n") for line in split_lines(text)]


@settings(max_examples=500, deadline=None)
@given(texts, expressions(), st.booleans())
@example("\u0131", "i", True)
@example("\u212a", "[j-k]", True)
@example("é", "É", True)
def test_ripgreps_expression_matches_at_least_what_pythons_does(text: str, pattern: str, case: bool) -> None:
    try:
        regex = re.compile(pattern, re.IGNORECASE if case else 0)
    except re.error:
        return
    loose = loosened(regex)
    assert loose is not None
    assert loose.startswith("(?-u)")
    # The part behind the flag means the same to Python, of bytes.
    raw = re.compile(loose.removeprefix("(?-u)").encode("ascii"))
    for row in text.split("\n"):  # what ends a line to ripgrep
        if any(regex.search(line) for line in row.split("\r")):
            assert raw.search(row.encode()), (loose, row)


@pytest.mark.parametrize(
    ("pattern", "line"), [("needle", b"need"), (r"def \w+\(", b"def ("), ("[a-c]x", b"dx"), ("café", b"cafe")]
)
def test_ripgreps_expression_is_not_so_loose_that_it_is_of_no_use(pattern: str, line: bytes) -> None:
    loose = loosened(re.compile(pattern))
    assert loose is not None
    assert not re.search(loose.removeprefix("(?-u)").encode(), line)


class TestShown:
    def test_all_of_it(self, root: Path) -> None:
        assert searching(root, "python")("total").shown() == (
            "4 lines in 3 files match 'total':\n"
            "README.md:1: The Total of an order.\n"
            "shop/orders.py:3: def total(order):\n"
            "shop/views.py:1: from shop.orders import total\n"
            "shop/views.py:3: print(total(1))\n"
            "ignored: out/"
        )

    def test_nothing(self, root: Path) -> None:
        assert searching(root, "python")("nowhere").shown() == "no line matches 'nowhere'\nignored: out/"

    def test_long_lines_are_cut_around_the_match(self) -> None:
        line = "a" * 500 + "needle" + "b" * 500
        match = match_of("f", line, 7, 500, 506)
        assert match.text == "…" + "a" * 60 + "needle" + "b" * (LONGEST_LINE - 66) + "…"
        assert match_of("f", "needle" + "b" * 500, 1, 0, 6).text.startswith("needleb")
        assert match_of("f", "b" * 500 + "needle", 1, 500, 506).text.endswith("bneedle")
        assert match_of("f", "x" * LONGEST_LINE, 1, 0, 1).text == "x" * LONGEST_LINE

    def test_every_file_gets_its_first_line_before_any_gets_its_second(self) -> None:
        matches = [Match("a.py", n, "needle " + "x" * 40) for n in range(1, 31)]
        matches += [Match("b.py", 5, "needle in b"), Match("c.py", 6, "needle in c")]
        text = Found("needle", tuple(matches), (), {"a.py": 470}).shown(500)
        assert "b.py:5: needle in b" in text
        assert "c.py:6: needle in c" in text
        shown_of_a = text.count("\na.py:")
        assert shown_of_a >= 2
        assert f"… {500 - shown_of_a} more lines: a.py ({500 - shown_of_a})" in text

    def test_nothing_that_a_terminal_obeys(self) -> None:
        text = Found("x", (Match("a\x1b[2J.py", 1, "x\x1b]0;title\x07\x08\u202ey"),)).shown()
        assert text.replace("\n", "").isprintable()

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["a.py", "b/" * 60 + "c.py", "d"]), st.integers(1, 9), st.text(max_size=99)
            ),
            max_size=40,
        ),
        st.integers(LEAST_SHOWN, 3_000),
        st.dictionaries(st.sampled_from(["a.py", "d", "e"]), st.integers(1, 999)),
        st.lists(st.text(max_size=80), max_size=5),
        st.text(max_size=90),
    )
    def test_never_longer_than_allowed(
        self,
        found: list[tuple[str, int, str]],
        limit: int,
        more: dict[str, int],
        notes: list[str],
        pattern: str,
    ) -> None:
        matches = tuple(Match(path, line, "".join(text.splitlines())) for path, line, text in sorted(found))
        whole = Found(pattern, matches, tuple(notes), more)
        text = whole.shown(limit)
        assert len(text) <= limit
        is_all = all(str(match) in text for match in matches)
        assert is_all or "more line" in text


class TestNames:
    @pytest.mark.parametrize(
        ("glob", "path", "expected"),
        [
            ("*.py", "a/b.py", True),
            ("*.{py,pyi}", "a/b.pyi", True),
            ("{src,lib}/*.{c,h}", "lib/x.h", True),
            ("{src,lib}/*.{c,h}", "lib/in/x.h", False),
            ("!*.{py,md}", "x.md", False),
            ("!*.{py,md}", "x.rs", True),
            ("#*", "#x", True),
            ("#*", "x", False),
            ("[ab].txt", "b.txt", True),
            ("src/**/x", "src/a/b/x", True),
            ("src/", "src/a/b", True),
            ("src/", "a/src/b", False),
            (None, "anything", True),
            ("Ä*", "Äpfel", True),
        ],
    )
    def test_match(self, glob: str | None, path: str, expected: bool) -> None:
        assert FileNames(glob).match(path) is expected

    def test_too_many(self) -> None:
        with pytest.raises(ToolError, match="stands for more than"):
            FileNames("{a,b}" * 20)
        with pytest.raises(ToolError, match="too long"):
            FileNames("a" * 501)


def listed(root: Path, below: str = ".", **options: int) -> Listing:
    return list_files(Territory(root), below, **options)


class TestListing:
    def test_paths_as_they_can_be_used(self, root: Path) -> None:
        (root / "empty").mkdir()
        (root / "link").symlink_to("shop/orders.py")
        write(root / ".env", "X=1\n")
        write(root / "large.bin", b"\0" * 2_500_000)
        assert listed(root).shown() == (
            ".: 7 files\n"
            ".env (protected)\n"
            ".gitignore\n"
            "README.md\n"
            "empty/ (no files)\n"
            "large.bin (2.5 MB)\n"
            "link -> shop/orders.py\n"
            "shop/orders.py\n"
            "shop/views.py\n"
            "ignored: out/"
        )
        assert listed(root, "shop").shown() == "shop: 2 files\nshop/orders.py\nshop/views.py"
        assert listed(root, "out").shown() == "out: 1 file\nout/total.py"

    def test_as_deep_as_there_is_room(self, root: Path) -> None:
        for number in range(40):
            write(root / f"lib/part{number % 4}/file{number:02}.py")
        assert "lib/part3/file39.py" in listed(root).shown()
        lines = listed(root, most=10).shown().split("\n")
        assert "lib/part0/ (10 files)" in lines
        assert len(lines) == 10  # head, two files, four folders of lib, two files of shop, what is ignored
        assert "lib/ (40 files)" in listed(root, most=7).shown()
        assert "shop/ (2 files)" in listed(root, depth=1).shown()
        assert "lib/part0/ (10 files)" in listed(root).shown(300)

    def test_a_deep_folder_alone(self, root: Path) -> None:
        write(root / "x/a/b/c/d/e/f.py")
        assert listed(root, "x").shown() == "x: 1 file\nx/a/b/c/d/e/f.py"

    def test_more_than_there_is_room_for(self, root: Path) -> None:
        for number in range(300):
            write(root / f"many/{number:03}.txt")
        lines = listed(root, "many", most=50).shown().split("\n")
        assert lines[0] == "many: 300 files"
        assert lines[-1] == "… 250 more"
        assert len(lines) == 52
        text = listed(root, "many").shown(LEAST_SHOWN)
        assert len(text) <= LEAST_SHOWN
        assert re.search(r"\n… \d+ more$", text)

    def test_another_folder(self, root: Path, tmp_path: Path) -> None:
        write(tmp_path / "extra/a.txt")
        territory = Territory(root, [tmp_path / "extra"])
        assert f"{tmp_path}/extra/a.txt" in list_files(territory, str(tmp_path / "extra")).shown()

    def test_what_cannot_be_listed(self, root: Path) -> None:
        with pytest.raises(ToolError, match="is a file; read it"):
            listed(root, "README.md")
        with pytest.raises(ToolError, match="no such folder: 'nowhere'"):
            listed(root, "nowhere")
        with pytest.raises(RefusedError, match="protected"):
            listed(root, ".git")
        with pytest.raises(RefusedError, match="outside"):
            listed(root, "..")

    def test_names_are_on_one_line(self, root: Path) -> None:
        write(root / "a\nb\x1b[2J/c d.txt")
        assert "a\\nb\\x1b[2J/c d.txt" in listed(root).shown().split("\n")

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), max_size=30), st.integers(200, 900)
    )
    def test_every_file_is_counted(
        self, tmp_path_factory: pytest.TempPathFactory, made: list[list[str]], limit: int
    ) -> None:
        root = tmp_path_factory.mktemp("listed")
        for parts in made:
            write(root.joinpath(*parts[:-1], parts[-1] + ".txt"))
        count = sum(len(names) for _, _, names in os.walk(root))
        listing = listed(root)
        for depth in range(1, 6):
            lines = listing.lines(depth)
            folders = [re.fullmatch(r".+/ \((\d+) files?\)", line) for line in lines]
            assert sum(int(one[1]) if one else 1 for one in folders) == count
            assert len(set(lines)) == len(lines)
        assert len(listing.shown(limit)) <= limit
