from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from git_repositories import commit_all, git, repository, write
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.walk import Walk


@pytest.fixture(autouse=True)
def _no_user_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))


def files_of(root: Path) -> list[str]:
    return [entry.path for entry in Walk(Ignoring(root)) if not entry.is_folder]


def files_of_git(root: Path) -> list[str]:
    listed = git(root, "ls-files", "-o", "--exclude-standard", "-z").split(b"\0")
    return sorted((os.fsdecode(path) for path in listed if path), key=walk_order)


def walk_order(path: str) -> tuple[bytes, ...]:
    return tuple(os.fsencode(part) for part in path.split("/"))


def ignored_by_git(root: Path, paths: list[str]) -> set[str]:
    data = b"\0".join(os.fsencode(path) for path in paths) + b"\0"
    listed = git(root, "check-ignore", "-z", "--stdin", "--no-index", given=data, statuses=(0, 1))
    return {os.fsdecode(path) for path in listed.split(b"\0") if path}


def check_same(root: Path) -> None:
    """The walk gives what git would add, and every single path is judged as git judges it."""
    assert files_of(root) == files_of_git(root)
    everything: dict[str, bool] = {}
    for folder, folders, files in os.walk(root):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            everything[os.path.relpath(path, root)] = os.path.isdir(path) and not os.path.islink(path)
    ignoring = Ignoring(root)
    ours = {path for path, is_folder in everything.items() if ignoring.ignores(path, is_folder)}
    assert ours == ignored_by_git(root, list(everything))


NAMES = ["a", "b", "ab", "a.c", "b.c", "ä", " s", "c ", "#x", "!x", "[k]", "a-b", ".h", "0", "A"]
PATTERN_PARTS = [
    *NAMES,
    *[
        "*",
        "**",
        "***",
        "?",
        "*.c",
        "a*",
        "[ab]",
        "[!a]",
        "[^b]*",
        "[a-c]",
        "[[:alpha:]]*",
        "[[:digit:]]",
        "??",
    ],
    *[
        "\\#x",
        "\\!x",
        "[]",
        "[",
        "[a",
        "[z-a]",
        "[\\]k]",
        "[]-]",
        "\\[k\\]",
        "c\\ ",
        "x\\",
        "a[/]b",
        "**a",
        "[[:no:]]",
    ],
]


@st.composite
def pattern_lines(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(["", "", "!"])) + draw(st.sampled_from(["", "", "/", "**/", "//"]))
    text += "/".join(draw(st.lists(st.sampled_from(PATTERN_PARTS), min_size=1, max_size=3)))
    return text + draw(st.sampled_from(["", "", "/", "/**", "/*", " ", "  ", "\t", "\r", "//"]))


pattern_files = st.lists(pattern_lines(), max_size=5).map("\n".join)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(paths, min_size=3, max_size=14, unique=True),
    st.lists(st.tuples(st.sampled_from(["", "a/", "a/b/", "ab/", "b/a/"]), pattern_files), max_size=4),
    pattern_files,
)
@example(["a/b", "a/a.c", "b"], [("", "*\n!a/")], "")
@example(["a/b", "a/a.c", "b"], [("", "/*\n!/a")], "")
@example(["a/b/a.c", "a/b/b.c"], [("", "a/b/*\n!a/b/b.c"), ("a/", "b\n!b")], "*.c")
@example(["a/b/0", "ab/b/0"], [("", "a/**/0\n[a]b/**")], "")
def test_every_tree_is_judged_as_git_judges_it(
    tmp_path_factory: pytest.TempPathFactory, made: list[str], files: list[tuple[str, str]], exclude: str
) -> None:
    root = repository(tmp_path_factory.getbasetemp() / "tree")
    try:
        for path in made:
            if not (root / path).exists() and not any(p.is_file() for p in (root / path).parents):
                write(root / path)
        for folder, text in files:
            if not any(p.is_file() for p in (root / folder / "x").parents):
                write(root / folder / ".gitignore", text)
        write(root / ".git/info/exclude", exclude)
        if not (root / ".gitignore").exists():
            write(root / ".gitignore", "")  # else the folders that are ignored without one would differ
        check_same(root)
    finally:
        shutil.rmtree(root)


def test_what_repositories_write(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(
        root / ".gitignore",
        "\ufeff# caches\r\n*.pyc\r\n/dist/\r\nlogs/*\n!logs/keep.txt\n*.log \nfoo\\ \n\n!\n/\n",
    )
    write(root / "web/.gitignore", "!*.log\nnode_modules\n/only/here\n")
    for path in (
        *["m.pyc", "dist/a", "lib/dist/a", "logs/a", "logs/keep.txt", "x.log", "web/x.log", "foo ", "foo"],
        *["web/node_modules/p/a.js", "node_modules", "web/only/here", "web/b/only/here", "only/here"],
    ):
        write(root / path)
    write(root / "node_modules_not/a")
    check_same(root)
    assert "web/x.log" in files_of(root)
    assert "x.log" not in files_of(root)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe.c")))
    write(root / "größe.c")
    write(root / "grö?e.c")
    write(root / ".gitignore", b"\xff?.c\ngr??\xc3?e.c\n")
    check_same(root)
    assert files_of(root) == [".gitignore", "grö?e.c"]


def test_symlinks_are_files_and_never_followed(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(root / "real/a")
    (root / "loop").symlink_to(".")
    (root / "real/up").symlink_to("..")
    (root / "link").symlink_to("real")
    (root / "gone").symlink_to("nowhere")
    write(root / ".gitignore", "link/\ngone\n")  # "link/" is for folders: a symlink is none
    check_same(root)
    assert files_of(root) == [".gitignore", "link", "loop", "real/a", "real/up"]


def test_an_ignore_file_that_is_a_symlink_is_not_read(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(tmp_path / "rules", "*\n")
    write(root / "sub/a")
    (root / "sub/.gitignore").symlink_to(tmp_path / "rules")
    write(root / ".gitignore", "")
    assert files_of(root) == [".gitignore", "sub/.gitignore", "sub/a"]


def test_case_is_ignored_where_the_repository_says_so(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(root / ".gitignore", "*.LOG\n[A-C]x\n")
    write(root / "a.log")
    write(root / "bX")
    check_same(root)
    assert len(files_of(root)) == 3
    git(root, "config", "core.ignoreCase", "true")
    check_same(root)
    assert files_of(root) == [".gitignore"]


def test_the_users_own_ignore_file_is_the_weakest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    write(tmp_path / "home/git/ignore", "*.swp\n*.bak\n")
    root = repository(tmp_path / "r")
    write(root / ".gitignore", "!keep.bak\n")
    for name in ("a.swp", "a.bak", "keep.bak"):
        write(root / name)
    assert files_of(root) == [".gitignore", "keep.bak"]


def test_git_itself_is_ignored_at_any_depth(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(root / ".gitignore", "!.git\n!.git/**\n")
    write(root / "module/.git", "gitdir: ../.git/modules/module\n")
    write(root / "module/a")
    assert files_of(root) == [".gitignore", "module/a"]
    assert Ignoring(root).ignores(".git/config")
    assert Ignoring(root).ignores("module/.git")


def test_without_an_ignore_file_what_tools_make_is_left_out(tmp_path: Path) -> None:
    for path in (
        "a.py",
        "src/build.py",
        "node_modules/p/i.js",
        "s/.venv/bin/p",
        "s/__pycache__/a.pyc",
        "build/o",
    ):
        write(tmp_path / path)
    assert files_of(tmp_path) == ["a.py", "src/build.py"]
    write(tmp_path / ".gitignore", "*.js\n")  # who writes one says what is ignored
    assert "build/o" in files_of(tmp_path)
    assert "node_modules/p/i.js" not in files_of(tmp_path)


def test_a_folder_inside_a_repository_obeys_the_rules_above(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(root / ".gitignore", "/lib/gen/\n*.log\ntmp\n")
    write(root / "lib/.gitignore", "!b.log\n")
    for path in ("lib/gen/a", "lib/in/gen/a", "lib/in/a.log", "lib/in/b.log", "lib/in/tmp/a"):
        write(root / path)
    assert files_of(root / "lib/in") == ["b.log", "gen/a"]
    assert files_of(root / "lib") == [".gitignore", "in/b.log", "in/gen/a"]
    # Named on purpose although ignored: then the rules above it say nothing of what is inside.
    write(root / "tmp/a.log")
    assert files_of(root / "tmp") == ["a.log"]


def test_a_linked_worktree_uses_the_common_exclude_file(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(root / ".gitignore", "")
    commit_all(root)
    git(root, "worktree", "add", "-q", str(tmp_path / "w"), "-b", "other")
    write(root / ".git/info/exclude", "*.tmp\n")
    write(tmp_path / "w/a.tmp")
    write(tmp_path / "w/b")
    assert files_of(tmp_path / "w") == [".gitignore", "b"]


def test_rules_are_read_again_when_asked(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(root / ".gitignore", "a\n")
    write(root / "a")
    write(root / "b/c")
    ignoring = Ignoring(root)
    assert ignoring.ignores("a")
    assert not ignoring.ignores("b/c")
    write(root / ".gitignore", "b/\n")
    ignoring.reread()
    assert not ignoring.ignores("a")
    assert ignoring.ignores("b/c")
    assert ignoring.is_rule_file("b/.gitignore")
    assert ignoring.is_rule_file(".git/info/exclude")
    assert not ignoring.is_rule_file("gitignore")


def test_ignored_folders_are_never_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "r")
    write(root / ".gitignore", "big/\n")
    write(root / "big/deep/a")
    write(root / "src/a")
    seen: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: seen.append(os.fspath(path)) or scandir(path))
    walk = Walk(Ignoring(root))
    assert [entry.path for entry in walk] == [".gitignore", "src", "src/a"]
    assert seen == [str(root), str(root / "src")]
    assert walk.ignored == [".git", "big"]


class TestWalk:
    def test_order_does_not_depend_on_the_file_system(self, tmp_path: Path) -> None:
        made = ["b/z", "b.txt", "a", "B", "b-c/d", "ä", "b/a"]
        for path in made:
            write(tmp_path / path)
        assert files_of(tmp_path) == sorted(made, key=walk_order)

    def test_cut_off_is_said(self, tmp_path: Path) -> None:
        for number in range(12):
            write(tmp_path / f"f{number:02}")
        walk = Walk(Ignoring(tmp_path), most_files=10)
        assert [entry.path for entry in walk] == [f"f{number:02}" for number in range(10)]
        assert walk.cut_off
        assert walk.notes() == ["more than 10 files: the rest was not looked at; name a folder"]
        whole = Walk(Ignoring(tmp_path), most_files=12)
        assert len(list(whole)) == 12
        assert not whole.cut_off

    def test_unreadable_folders_are_named_and_the_rest_is_walked(self, tmp_path: Path) -> None:
        write(tmp_path / "shut/a")
        write(tmp_path / "open/a")
        tmp_path.chmod(0o755)
        for folder in tmp_path.parents:
            if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o011)
        (tmp_path / "shut").chmod(0)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)  # root reads everything, so look as nobody
        try:
            walk = Walk(Ignoring(tmp_path))
            found = [entry.path for entry in walk]
        finally:
            if root:
                os.seteuid(0)
            (tmp_path / "shut").chmod(0o755)
        assert found == ["open", "open/a", "shut"]
        assert walk.notes() == ["cannot read shut: Permission denied"]

    def test_a_root_that_is_not_there_is_said(self, tmp_path: Path) -> None:
        walk = Walk(Ignoring(tmp_path / "none"))
        assert list(walk) == []
        assert walk.notes() == ["cannot read .: no such folder"]

    def test_pipes_and_devices_are_left_out(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "p")
        write(tmp_path / "q")
        assert files_of(tmp_path) == ["q"]

    def test_starts_below_and_stays_out_of_folders(self, tmp_path: Path) -> None:
        for path in ("a/b/c", "a/d", "e"):
            write(tmp_path / path)
        walk = Walk(Ignoring(tmp_path), below="a", enter=lambda folder: False)
        assert [entry.path for entry in walk] == ["a/b", "a/d"]

    @pytest.mark.slow
    def test_a_hundred_thousand_files(self, tmp_path: Path) -> None:
        """Files of one folder are held as entries of that folder only: memory follows the widest folder."""
        import tracemalloc

        for folder in range(100):
            (tmp_path / f"d{folder:02}").mkdir()
            for number in range(1000):
                os.close(os.open(tmp_path / f"d{folder:02}" / f"f{number}", os.O_CREAT | os.O_WRONLY))
        write(tmp_path / ".gitignore", "\n".join(f"*.x{number}\nname{number}" for number in range(100)))
        tracemalloc.start()
        try:
            count = sum(1 for entry in Walk(Ignoring(tmp_path)) if not entry.is_folder)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert count == 100_001
        assert peak < 8 * 2**20, f"{peak:,} bytes"
