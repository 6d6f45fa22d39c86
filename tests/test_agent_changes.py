from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from git_repositories import git, repository, write
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pace_agent.repository.git_state import Head
from pace_agent.watching.changes import Batch, Change, batch_of, diff_of, digest_of, is_editor_file, merged

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def lines_of(text: str) -> tuple[list[str], bool]:
    """A text's lines without their ends, and whether the last one has an end."""
    lines = text.split("\n")
    ended = lines[-1] == ""
    if ended:
        lines.pop()
    return [line.removesuffix("\r") for line in lines[:-1]] + [
        line.removesuffix("\r") if ended else line for line in lines[-1:]
    ], ended or not text


def applied(diff: str, old_text: str) -> tuple[list[str], bool]:
    """The lines that a unified diff makes of a text; every number and every line in it is checked."""
    old, ended = lines_of(old_text)
    head, *rest = diff.removesuffix("\n").split("\n")
    assert head.startswith("--- ")
    assert rest.pop(0).startswith("+++ ")
    new: list[str] = []
    taken = 0
    last_mark = ""
    while rest:
        numbers = _HUNK.fullmatch(rest.pop(0))
        assert numbers
        old_start, old_count, new_start, new_count = (int(one) if one else 1 for one in numbers.groups())
        begin = old_start - (old_count > 0)
        assert begin >= taken
        new += old[taken:begin]
        taken = begin
        assert new_start - (new_count > 0) == len(new)
        old_left, new_left = old_count, new_count
        while old_left or new_left or (rest and rest[0].startswith("\\")):
            line = rest.pop(0)
            mark, content = line[0], line[1:]
            if mark == "\\":
                ended = last_mark == "-"  # of the old text alone: the new one has an end again
                continue
            if mark != "+":
                assert old[taken] == content
                taken += 1
                old_left -= 1
                if mark == "-" and taken == len(old):
                    ended = True
            if mark != "-":
                new.append(content)
                new_left -= 1
            last_mark = mark
    return new + old[taken:], ended


words = st.sampled_from(["a", "b", "", " ", "-x", "+y", "@@ -1 +1 @@", "\\ No", "é\u2028z", "\x0b", "a\rb"])
ends = st.sampled_from(["\n", "\n", "\r\n"])
texts = st.builds(
    lambda lines, last: "".join(word + end for word, end in lines) + last,
    st.lists(st.tuples(words, ends), max_size=12),
    st.sampled_from(["", "", "end", "-"]),
)


@st.composite
def changed_texts(draw: st.DrawFn) -> tuple[str, str]:
    """Two texts, the second often close to the first."""
    old = draw(texts)
    if draw(st.booleans()):
        return old, draw(texts)
    lines = re.split(r"(?<=\n)", old)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines)))
        lines[at : at + draw(st.integers(0, 2))] = draw(
            st.lists(words.map(lambda word: word + "\n"), max_size=2)
        )
    return old, "".join(lines)


class TestDiff:
    @settings(max_examples=300, deadline=None)
    @given(changed_texts(), st.integers(0, 400))
    @example(("", "a\n"), 400)
    @example(("a\n", ""), 400)
    @example(("a\nb", "a\nc"), 400)
    @example(("a", "a\nb"), 400)
    @example(("a\n", "b"), 400)
    @example(("x\n" * 9 + "a\n" + "x\n" * 9, "x\n" * 9 + "x\n" * 9), 400)
    def test_applied_it_gives_the_new_text(self, both: tuple[str, str], limit: int) -> None:
        old, new = both
        text = diff_of("f.py", old, new, limit)
        if text.startswith("--- f.py\n+++ f.py\n"):
            assert len(text) <= limit
            assert text.endswith("\n")
            assert applied(text, old) == lines_of(new)
        elif old == new:
            assert text == "f.py: unchanged"
        elif "only line ends" in text:
            plain = [[line.rstrip("\r") for line in re.split("\n", one)] for one in both]
            assert [line for line in plain[0] if line] == [line for line in plain[1] if line]
        else:
            assert "too much to show" in text
            assert text.count("\n") == 0
            # It is cut only if it would be longer.
            whole = diff_of("f.py", old, new, 10**6)
            assert len(whole) > limit

    @settings(max_examples=25, deadline=None)
    @given(changed_texts())
    def test_git_applies_it(self, tmp_path_factory: pytest.TempPathFactory, both: tuple[str, str]) -> None:
        # Git wants the line ends that the diff leaves out, and takes an empty file for none.
        old, new = (one.replace("\r", "") for one in both)
        text = diff_of("f.txt", old, new, 10**6)
        if not old or not new or not text.startswith("---"):
            return
        root = repository(tmp_path_factory.getbasetemp() / "applied")
        try:
            write(root / "f.txt", old)
            git(root, "apply", "-p0", "--unidiff-zero", "-", given=text.encode())
            assert (root / "f.txt").read_bytes().decode() == new
        finally:
            shutil.rmtree(root)

    def test_what_is_said(self) -> None:
        assert diff_of("a.py", "x\n", "x\n") == "a.py: unchanged"
        assert diff_of("a.py", "x\n", None) == "a.py: deleted"
        assert diff_of("a.py", None, "") == "a.py: created, empty"
        assert diff_of("a.py", None, "x\n") == "--- a.py\n+++ a.py\n@@ -0,0 +1 @@\n+x\n"
        assert diff_of("a.py", "x\n", "") == "--- a.py\n+++ a.py\n@@ -1 +0,0 @@\n-x\n"
        assert diff_of("a.py", "x\n", "x\0\n") == "a.py: a binary file, changed"
        assert diff_of("a.py", "x\ny\n", "x\r\ny\r\n") == "a.py: only line ends changed"
        assert diff_of("a\nb.py", "x\n", None) == "a\\nb.py: deleted"

    def test_no_line_end_at_the_end(self) -> None:
        assert diff_of("a", "x", "y\n") == (
            "--- a\n+++ a\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n"
        )

    def test_two_lines_around_a_change_with_the_numbers_of_the_file(self) -> None:
        old = "".join(f"{number}\n" for number in range(1, 101))
        assert diff_of("a", old, old.replace("50\n", "fifty\n", 1)) == (
            "--- a\n+++ a\n@@ -48,5 +48,5 @@\n 48\n 49\n-50\n+fifty\n 51\n 52\n"
        )

    def test_too_much_is_said_with_the_numbers_of_lines(self) -> None:
        old = "same\n" + "".join(f"old {number}\n" for number in range(300)) + "same\n"
        new = "same\n" + "".join(f"new {number}\n" for number in range(200)) + "same\n"
        assert diff_of("a.py", old, new) == (
            "a.py: changed, too much to show: 300 lines from line 2 on are now 200; read it again"
        )
        assert diff_of("a.py", None, new, 1_000).startswith("a.py: created, too much to show: 0 lines")

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (None, "".join(f"echo step {number} of the deployment\n" for number in range(800))),
            ("a\nb\nc\n" + "x\n" * 5_000 + "d\n", "a\nb\nc\n" + "y\n" * 4_000 + "d\n"),
            ("x\n" * 5_000, "y"),
            ("same\n" + "".join(f"{number}\n" for number in range(2_900)), "same\n" + "z\n" * 2_900),
            ("plain\n", "pl\0in\n"),
        ],
    )
    def test_without_a_limit_nothing_is_left_out(self, old: str | None, new: str) -> None:
        text = diff_of("a.sh", old, new, None)
        assert applied(text, old or "") == lines_of(new)

    @pytest.mark.timeout(20)
    def test_large_texts_take_no_time(self) -> None:
        """Comparing tens of thousands of lines that differ took minutes."""
        old = "".join(f"{number % 7}\n" for number in range(60_000))
        new = "".join(f"{number % 5}\n" for number in range(60_000))
        assert "too much to show" in diff_of("a", old, new)
        assert "+new" in diff_of("a", old, old[:60_000] + "new\n" + old[60_000:])


def change(kind: str, path: str, old_path: str | None = None, **more: object) -> Change:
    digest = None if kind == "deleted" else digest_of(b"new " + path.encode())
    return Change(kind, path, digest, old_path, **more)  # type: ignore[arg-type]


def kinds(batch: Batch) -> list[str]:
    return [str(one) for one in batch.changes]


class TestMerged:
    @pytest.mark.parametrize(
        ("batches", "expected"),
        [
            ([[change("created", "a")], [change("deleted", "a")]], []),
            ([[change("deleted", "a")], [change("created", "a")]], ["modified a"]),
            ([[change("created", "a")], [change("modified", "a")]], ["created a"]),
            ([[change("modified", "a")], [change("deleted", "a")]], ["deleted a"]),
            ([[change("created", "a")], [change("moved", "b", "a")]], ["created b"]),
            ([[change("moved", "b", "a")], [change("moved", "c", "b")]], ["moved a -> c"]),
            ([[change("moved", "b", "a")], [change("deleted", "b")]], ["deleted a"]),
            ([[change("moved", "b", "a")], [change("modified", "b")]], ["moved a -> b"]),
            # Saved by rename, over a name in use.
            (
                [[change("created", "t")], [change("deleted", "a")], [change("moved", "a", "t")]],
                ["modified a"],
            ),
            ([[change("moved", "b", "a")], [change("created", "a")]], ["created a", "moved a -> b"]),
        ],
    )
    def test_as_one(self, batches: list[list[Change]], expected: list[str]) -> None:
        assert kinds(merged([batch_of(one) for one in batches])) == expected

    def test_there_and_back_is_nothing(self) -> None:
        there = batch_of([Change("moved", "b", "1", "a", "1")])
        assert merged([there, batch_of([Change("moved", "a", "1", "b", "1")])]).changes == ()
        edit = batch_of([Change("modified", "a", "2", old_digest="1")])
        assert merged([edit, batch_of([Change("modified", "a", "1", old_digest="2")])]).changes == ()

    def test_only_what_is_ours_in_all_its_parts_is_ours(self) -> None:
        ours, theirs = change("modified", "a", own=True), change("modified", "a")
        for parts, own in (((ours, ours), True), ((ours, theirs), False), ((theirs, ours), False)):
            batch = merged([batch_of([part]) for part in parts])
            assert [one.own for one in batch.changes] == [own]
            assert batch.by_user == (() if own else batch.changes)

    def test_the_last_branch_counts(self) -> None:
        heads = [Head("main", None), Head("topic", None)]
        assert merged([batch_of([], heads[0]), batch_of([], heads[1]), batch_of([])]).head == heads[1]

    @settings(max_examples=400, deadline=None)
    @given(st.data())
    def test_applied_it_gives_what_all_of_them_give(self, data: st.DataObject) -> None:
        start = data.draw(st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123")))
        # Who a file is, beside what it holds: a file that moves stays the same one.
        files = {path: (number, digest) for number, (path, digest) in enumerate(start.items())}
        fresh = len(files)
        batches = []
        for _ in range(data.draw(st.integers(1, 4))):
            after = dict(files)
            for _ in range(data.draw(st.integers(0, 3))):
                path = data.draw(st.sampled_from("abcd"))
                act = data.draw(st.sampled_from(["put", "put", "delete", "move"]))
                if act == "put":
                    fresh += path not in after
                    after[path] = (
                        after[path][0] if path in after else fresh,
                        data.draw(st.sampled_from("123")),
                    )
                elif act == "delete":
                    after.pop(path, None)
                elif path in after:
                    after[data.draw(st.sampled_from("abcd"))] = after.pop(path)
            batches.append(difference(files, after))
            files = after
        batch = merged(batches)
        paths = [one.path for one in batch.changes]
        assert paths == sorted(set(paths))
        assert apply(batch, start) == {path: digest for path, (_, digest) in files.items()}
        for one in batch.changes:
            # Only what was there at the start has been changed, and what is said of it holds.
            if one.kind == "created":
                assert one.path not in start or any(other.old_path == one.path for other in batch.changes)
            else:
                assert one.old_digest == start[one.old_path or one.path]
            assert one.kind != "modified" or one.digest != one.old_digest


def difference(before: dict[str, tuple[int, str]], after: dict[str, tuple[int, str]]) -> Batch:
    """What a watcher reports: files are compared by name first, then those gone with those that came."""
    gone = {before[path][0]: path for path in before if path not in after}
    changes = []
    for path, (number, digest) in after.items():
        if path in before:
            if before[path][1] != digest:
                changes.append(Change("modified", path, digest, old_digest=before[path][1]))
        elif number in gone:
            old = gone.pop(number)
            changes.append(Change("moved", path, digest, old, before[old][1]))
        else:
            changes.append(Change("created", path, digest))
    changes += [Change("deleted", path, None, old_digest=before[path][1]) for path in gone.values()]
    return batch_of(changes)


def apply(batch: Batch, files: dict[str, str]) -> dict[str, str]:
    result = dict(files)
    for one in batch.changes:
        if one.kind in ("deleted", "moved"):
            del result[one.old_path or one.path]
    for one in batch.changes:
        if one.kind == "created":
            assert one.path not in result
        if one.digest is not None:
            result[one.path] = one.digest
    return result


@pytest.mark.parametrize(
    "name", ["a.py~", ".a.py.swp", "4913", "#a.py#", ".#a.py", ".goutputstream-X1", "a.py___jb_tmp___"]
)
def test_files_of_editors(name: str) -> None:
    assert is_editor_file(f"src/{name}")
    assert not is_editor_file(f"{name}/a.py")


@pytest.mark.parametrize("name", ["a.py", "4914", "swp", ".swap", "a#b", ".gitignore", "~a"])
def test_files_of_nobody_but_the_user(name: str) -> None:
    assert not is_editor_file(name)


def test_a_file_is_told_by_its_bytes(tmp_path: Path) -> None:
    assert digest_of(write(tmp_path / "a", "x\n").read_bytes()) == digest_of(b"x\n") != digest_of(b"x\r\n")
