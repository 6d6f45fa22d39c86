from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pace_agent.repository.git_state import Head
from pace_agent.watching.changes import Batch, Change, batch_of
from pace_agent.watching.staleness import SHORT_NOTE, Excerpt, Excerpts, note_of
from pace_local.errors import ConfigError

TEXT = "import os\n\ndef a():\n    return 1\n\ndef b():\n    return 2\n"


def excerpts_of(text: str, *spans: tuple[int, int], path: str = "f.py") -> Excerpts:
    """Excerpts of a text, named by their lines."""
    excerpts = Excerpts()
    lines = text.splitlines(keepends=True)
    for first, last in spans:
        content = "".join(lines[first - 1 : last])
        excerpts.add(
            Excerpt.of(f"{first}-{last}", path, first, last, content, (first, last) == (1, len(lines)))
        )
    return excerpts


def outline_of(text: str) -> Excerpts:
    """The outline of a text, and nothing else."""
    excerpts = Excerpts()
    excerpts.add(Excerpt.of("outline", "f.py", 0, 0, text))
    return excerpts


def places(excerpts: Excerpts) -> dict[str, tuple[int, int]]:
    return {one.segment: (one.first, one.last) for one in excerpts}


class TestChanged:
    def test_exactly_those_whose_text_is_gone(self) -> None:
        excerpts = excerpts_of(TEXT, (1, 2), (3, 4), (6, 7), (1, 7))
        assert excerpts.changed("f.py", TEXT.replace("return 2", "return 3")) == ("6-7", "1-7")
        assert [excerpts.is_stale(name) for name in ("1-2", "3-4", "6-7", "1-7")] == [
            False,
            False,
            True,
            True,
        ]

    def test_lines_that_moved_are_not_stale(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4), (6, 7))
        assert excerpts.changed("f.py", "import re\n" + TEXT) == ()
        assert places(excerpts) == {"3-4": (4, 5), "6-7": (7, 8)}
        swapped = "def b():\n    return 2\n\ndef a():\n    return 1\n"
        assert excerpts.changed("f.py", swapped) == ()
        assert places(excerpts) == {"3-4": (4, 5), "6-7": (1, 2)}

    def test_the_nearest_of_several_places(self) -> None:
        text = "".join(f"same\n{number}\n" for number in range(10))
        excerpts = excerpts_of(text, (11, 11))
        assert excerpts.changed("f.py", "new\nnew\n" + text) == ()
        assert places(excerpts) == {"11-11": (11, 11)}
        assert excerpts.changed("f.py", "new\n" + text) == ()
        assert places(excerpts)["11-11"] in {(10, 10), (12, 12)}

    def test_line_ends_do_not_count(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4), (1, 7))
        assert excerpts.changed("f.py", TEXT.replace("\n", "\r\n").rstrip()) == ()

    def test_half_a_line_is_another_line(self) -> None:
        excerpts = excerpts_of("a = 1\nb = 2\n", (1, 1))
        assert excerpts.changed("f.py", "a = 12\nb = 2\n") == ("1-1",)

    def test_a_whole_file_that_grew_is_no_longer_whole(self) -> None:
        excerpts = excerpts_of(TEXT, (1, 7))
        assert next(iter(excerpts)).whole
        assert excerpts.changed("f.py", TEXT + "more\n") == ()
        assert not next(iter(excerpts)).whole

    def test_a_file_that_is_gone(self) -> None:
        excerpts = excerpts_of(TEXT, (1, 2), (6, 7))
        excerpts.add(Excerpt.of("other", "g.py", 1, 1, "import os\n"))
        assert excerpts.changed("f.py", None) == ("1-2", "6-7")
        assert not excerpts.is_stale("other")

    def test_stale_once_is_said_once_and_taken_once(self) -> None:
        excerpts = excerpts_of(TEXT, (1, 2), (3, 4))
        assert excerpts.changed("f.py", "x\n") == ("1-2", "3-4")
        assert excerpts.changed("f.py", "y\n") == ()
        assert excerpts.take_stale() == ("1-2", "3-4")
        assert excerpts.take_stale() == ()
        assert excerpts.is_stale("1-2")

    def test_what_comes_back_is_not_stale(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4))
        excerpts.changed("f.py", None)
        assert excerpts.changed("f.py", TEXT) == ()
        assert not excerpts.is_stale("3-4")
        assert excerpts.take_stale() == ()

    def test_another_name(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4))
        excerpts.moved({"f.py": "g.py"})
        assert (excerpts.paths, excerpts.of_path("f.py")) == (("g.py",), ())
        assert excerpts.changed("f.py", None) == ()
        assert excerpts.changed("g.py", "x\n") == ("3-4",)

    def test_an_outline_is_stale_as_soon_as_its_file_is_another(self) -> None:
        excerpts = outline_of(TEXT)
        assert excerpts.changed("f.py", TEXT.replace("\n", "\r\n")) == ()
        assert places(excerpts) == {"outline": (0, 0)}
        assert excerpts.changed("f.py", f"# new\n{TEXT}") == ("outline",)
        assert excerpts.changed("f.py", TEXT) == ()
        assert not excerpts.is_stale("outline")
        assert excerpts.changed("f.py", None) == ("outline",)

    def test_two_files_that_change_names(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4))
        excerpts.add(Excerpt.of("other", "g.py", 1, 1, "x\n"))
        excerpts.moved({"f.py": "g.py", "g.py": "f.py"})
        assert [(one.segment, one.path) for one in excerpts] == [("3-4", "g.py"), ("other", "f.py")]

    def test_an_empty_file_is_there_or_not(self) -> None:
        excerpts = Excerpts()
        excerpts.add(Excerpt.of("empty", "f.py", 1, 0, "", True))
        assert excerpts.changed("f.py", "") == ()
        assert excerpts.changed("f.py", None) == ("empty",)

    @settings(max_examples=400, deadline=None)
    @given(st.data())
    def test_stale_are_exactly_those_whose_text_is_no_longer_there(self, data: st.DataObject) -> None:
        line = st.sampled_from(["a", "b", "", " a"])
        old = data.draw(st.lists(line, min_size=1, max_size=10))
        text = "".join(one + "\n" for one in old)
        numbers = st.integers(1, len(old))
        spans = data.draw(
            st.lists(st.tuples(numbers, numbers).map(sorted).map(tuple), min_size=1, max_size=4)
        )
        excerpts = excerpts_of(text, *spans)
        held = {f"{first}-{last}": old[first - 1 : last] for first, last in spans}
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(old)))
            old = old[:at] + data.draw(st.lists(line, max_size=3)) + old[at + data.draw(st.integers(0, 3)) :]
            end = data.draw(st.sampled_from(["\n", "\r\n"]))
            excerpts.changed("f.py", "".join(one + end for one in old))
            for one in excerpts:
                wanted = held[one.segment]
                stands = any(old[i : i + len(wanted)] == wanted for i in range(len(old)))
                assert excerpts.is_stale(one.segment) is not stands
                if stands:
                    assert old[one.first - 1 : one.last] == wanted

    @pytest.mark.timeout(20)
    def test_large_files_take_no_time(self) -> None:
        text = "".join(f"line {number % 1000}\n" for number in range(200_000))
        excerpts = excerpts_of(text, (100_001, 100_500), (150_001, 150_500), (1, 200_000))
        assert excerpts.changed("f.py", text[:-2] + "\n") == ("1-200000",)


class TestLookedUp:
    def test_holding_exactly_these_lines(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4), (6, 7))
        found = excerpts.holding("f.py", "def a():\r\n    return 1")
        assert found is not None
        assert found.segment == "3-4"
        assert excerpts.holding("f.py", "def a():\n") is None
        assert excerpts.holding("g.py", "def a():\n    return 1\n") is None
        excerpts.changed("f.py", "x\n")
        assert excerpts.holding("f.py", "def a():\n    return 1\n") is None

    def test_an_outline_holds_no_lines(self) -> None:
        """Whoever had read an outline was told that he had the whole file already."""
        excerpts = outline_of(TEXT)
        assert excerpts.holding("f.py", TEXT) is None
        assert excerpts.overlapping("f.py", 1, 7) == ()

    def test_the_newest_of_several(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4))
        excerpts.add(Excerpt.of("again", "f.py", 3, 4, "def a():\n    return 1\n"))
        found = excerpts.holding("f.py", "def a():\n    return 1\n")
        assert found is not None
        assert found.segment == "again"

    @pytest.mark.parametrize(
        ("first", "last", "expected"),
        [(1, 2, ()), (2, 3, ("3-4",)), (4, 6, ("3-4", "6-7")), (7, 9, ("6-7",))],
    )
    def test_overlapping(self, first: int, last: int, expected: tuple[str, ...]) -> None:
        assert excerpts_of(TEXT, (3, 4), (6, 7)).overlapping("f.py", first, last) == expected

    def test_stale_ones_overlap_nothing(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4))
        excerpts.changed("f.py", "x\n")
        assert excerpts.overlapping("f.py", 1, 9) == ()

    def test_added_again_and_dropped(self) -> None:
        excerpts = excerpts_of(TEXT, (3, 4))
        excerpts.changed("f.py", None)
        excerpts.add(Excerpt.of("3-4", "f.py", 1, 1, "x\n"))
        assert (len(excerpts), excerpts.is_stale("3-4"), places(excerpts)) == (1, False, {"3-4": (1, 1)})
        excerpts.drop("3-4")
        excerpts.drop("3-4")
        assert len(excerpts) == 0


class TestDocument:
    def test_there_and_back(self) -> None:
        excerpts = excerpts_of(TEXT, (1, 7), (3, 4), (6, 7))
        excerpts.changed("f.py", TEXT.replace("2", "3"))
        document = json.loads(json.dumps(excerpts.as_document()))
        other = excerpts_of("x\n", (1, 1))
        other.take_document(document)
        assert list(other) == list(excerpts)
        assert [other.is_stale(one.segment) for one in other] == [True, False, True]
        assert other.take_stale() == ("1-7", "6-7")
        excerpts.take_stale()
        other.take_document(excerpts.as_document())
        assert other.take_stale() == ()
        assert other.changed("f.py", TEXT) == ()
        assert not other.is_stale("6-7")

    @pytest.mark.parametrize("document", [[{}], ["x"], [{"segment": 1}], [None], 5])
    def test_something_else(self, document: object) -> None:
        excerpts = excerpts_of(TEXT, (3, 4))
        with pytest.raises(ConfigError, match="list of excerpts is not as it should be"):
            excerpts.take_document(document)  # type: ignore[arg-type]
        assert places(excerpts) == {"3-4": (3, 4)}


def user(kind: str, path: str, old: str | None = None, own: bool = False) -> Change:
    return Change(kind, path, None if kind == "deleted" else "0", old, own=own)  # type: ignore[arg-type]


class TestNote:
    def test_small_changes_are_shown(self) -> None:
        batch = batch_of([user("modified", "f.py"), user("created", "new.py"), user("deleted", "gone.py")])
        note = note_of(
            batch, {"f.py": TEXT, "new.py": None}, {"f.py": TEXT.replace("2", "3"), "new.py": "x\n"}
        )
        assert note == (
            "Changed meanwhile, not by you:\n"
            "--- f.py\n+++ f.py\n@@ -5,3 +5,3 @@\n \n def b():\n-    return 2\n+    return 3\n"
            "deleted gone.py\n"
            "--- new.py\n+++ new.py\n@@ -0,0 +1 @@\n+x"
        )

    def test_own_writes_are_left_out(self) -> None:
        own = user("modified", "own.py", own=True)
        assert note_of(batch_of([own]), {}, {}) is None
        assert note_of(batch_of([]), {}, {}) is None
        note = note_of(batch_of([own, user("modified", "f.py")]), {}, {})
        assert note == "Changed meanwhile, not by you:\nmodified f.py"

    def test_another_name(self) -> None:
        batch = batch_of([user("moved", "new.py", "old.py")])
        head = "Changed meanwhile, not by you:\nmoved old.py -> new.py"
        assert note_of(batch, {"old.py": "x\n"}, {"new.py": "x\n"}) == head
        note = note_of(batch, {"old.py": "x\n"}, {"new.py": "y\n"})
        assert note == f"{head}\n--- new.py\n+++ new.py\n@@ -1 +1 @@\n-x\n+y"

    def test_large_changes_are_named(self) -> None:
        changes = [user("modified", f"file{number:02}.py") for number in range(30)]
        before = {change.path: "old line\n" * 9 for change in changes}
        after = {change.path: "new line\n" * 9 for change in changes}
        note = note_of(batch_of(changes), before, after)
        assert note is not None
        assert note.startswith(
            "Changed meanwhile, not by you: 30 files: modified file00.py, modified file01.py,"
        )
        assert note.endswith("and 18 more. Read again what you need of them.")
        assert len(note) <= SHORT_NOTE
        one = note_of(batch_of(changes[:1]), {"file00.py": "old\n" * 999}, {"file00.py": "new\n" * 999})
        assert one is not None
        assert "too much to show: 999 lines" in one

    def test_another_branch_is_one_line(self) -> None:
        batch = Batch((user("modified", "a.py"), user("created", "b.py")), Head("topic", "ab" * 20))
        assert note_of(batch, {"a.py": "x\n"}, {"a.py": "y\n"}) == (
            "Checked out now: branch topic (ababababa); 2 files differ: modified a.py, created b.py"
        )
        assert (
            note_of(Batch((), Head("topic", None)), {}, {}) == "Checked out now: branch topic (no commit yet)"
        )
        many = Batch(tuple(user("modified", f"{number}.py") for number in range(500)), Head(None, "0" * 40))
        note = note_of(many, {}, {})
        assert note is not None
        assert note.startswith("Checked out now: detached at 000000000; 500 files differ: modified 0.py,")
        assert note.endswith("and 488 more")
        assert "\n" not in note

    @settings(max_examples=200, deadline=None)
    @given(
        st.dictionaries(st.text(min_size=1, max_size=60), st.tuples(st.text(), st.text()), max_size=20),
        st.integers(200, 2_000),
        st.booleans(),
    )
    @example({"a": ("", "\0")}, 200, False)
    def test_never_longer_than_allowed(
        self, files: dict[str, tuple[str, str]], limit: int, switch: bool
    ) -> None:
        batch = batch_of(
            [user("modified", path) for path in files], Head("b" * 300, None) if switch else None
        )
        note = note_of(
            batch,
            {path: old for path, (old, _) in files.items()},
            {path: new for path, (_, new) in files.items()},
            limit=limit,
        )
        assert (note is None) == (not files and not switch)
        assert len(note or "") <= limit
