from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from git_repositories import commit_all, git, repository, write

from pace_agent.files.file_state import KnownFiles
from pace_agent.safety.paths import Territory
from pace_agent.watching.news import News, RepositoryWatch
from pace_agent.watching.options import WatchOptions
from pace_agent.watching.staleness import Excerpt, Excerpts

FAST = WatchOptions(quiet=0.05, longest=1.0)
TEXT = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"


class Agent:
    """What an agent does with files, as far as a watch is concerned."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = KnownFiles(Territory(root, [root.parent]))
        self.excerpts = Excerpts()
        self.said: list[str] = []

    def watch(self, watches: bool = True, territory: Territory | None = None) -> RepositoryWatch:
        return RepositoryWatch(
            self.root,
            self.files,
            self.excerpts,
            options=FAST,
            say=self.said.append,
            watches=watches,
            territory=territory,
        )

    def read(self, path: str, first: int = 1, last: int | None = None) -> None:
        lines = self.files.read(self.root / path).text.splitlines(keepends=True)
        last = len(lines) if last is None else last
        content = "".join(lines[first - 1 : last])
        self.excerpts.add(Excerpt.of(f"{path}:{first}-{last}", path, first, last, content))

    def edit(self, path: str, old: str, new: str) -> None:
        text = self.files.read(self.root / path).text
        self.files.write(self.root / path, text.replace(old, new).encode())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = repository(tmp_path / "r")
    write(root / "a.py", TEXT)
    write(root / "b.py", "b = 1\n")
    write(root / ".gitignore", "*.log\n")
    commit_all(root)
    return root


@pytest.fixture
def agent(root: Path) -> Agent:
    return Agent(root)


@pytest.fixture
def watch(agent: Agent) -> Iterator[RepositoryWatch]:
    with agent.watch() as watch:
        yield watch


def awaited(watch: RepositoryWatch, done: Callable[[News], bool] = lambda news: bool(news.paths)) -> News:
    """The first news of the kind that is waited for."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        news = watch.news()
        if done(news):
            return news
        time.sleep(0.02)
    raise AssertionError("no such news in 20 s")


def test_a_change_of_the_users_is_told_with_a_diff(agent: Agent, watch: RepositoryWatch) -> None:
    agent.read("a.py", 1, 2)
    agent.read("a.py", 5, 6)
    assert watch.news() == News()
    write(agent.root / "a.py", TEXT.replace("return 2", "return 3"))
    news = awaited(watch)
    diff = "--- a.py\n+++ a.py\n@@ -4,3 +4,3 @@\n \n def b():\n-    return 2\n+    return 3\n"
    assert news.note == "Changed meanwhile, not by you:\n" + diff.rstrip()
    assert news.stale == ("a.py:5-6",)
    assert news.paths == ("a.py",)
    assert [(one.path, one.by, one.diff, one.stale) for one in news.changed] == [
        ("a.py", "user", diff, ("a.py:5-6",))
    ]
    assert agent.excerpts.take_stale() == ("a.py:5-6",)
    # The next diff starts from what was told.
    write(agent.root / "a.py", TEXT.replace("return 2", "return 4"))
    news = awaited(watch)
    assert "-    return 3\n+    return 4" in (news.note or "")
    assert news.stale == ()


def test_lines_that_move_are_followed(agent: Agent, watch: RepositoryWatch) -> None:
    agent.read("a.py", 5, 6)
    write(agent.root / "a.py", "import os\n" + TEXT)
    news = awaited(watch)
    assert news.stale == ()
    assert [(one.first, one.last) for one in agent.excerpts] == [(6, 7)]


def test_own_writes_are_no_news_but_bring_excerpts_up_to_date(agent: Agent, watch: RepositoryWatch) -> None:
    agent.read("a.py", 1, 2)
    watch.news()
    agent.edit("a.py", "return 1", "return 9")
    news = awaited(watch)
    assert (news.note, news.changed, news.paths) == (None, (), ("a.py",))
    assert news.stale == ("a.py:1-2",)
    # What the user does to it afterwards is compared with what the agent wrote.
    agent.read("a.py")
    watch.news()
    write(agent.root / "a.py", (agent.root / "a.py").read_text().replace("return 9", "return 8"))
    assert "-    return 9\n+    return 8" in (awaited(watch).note or "")


def test_a_file_that_was_never_read_is_named_alone(agent: Agent, watch: RepositoryWatch) -> None:
    write(agent.root / "b.py", "b = 2\n")
    assert awaited(watch).note == "Changed meanwhile, not by you:\nmodified b.py"
    write(agent.root / "noise.log", "x\n")
    write(agent.root / "new.py", "x = 1\n")
    news = awaited(watch)
    assert news.note == "Changed meanwhile, not by you:\n--- new.py\n+++ new.py\n@@ -0,0 +1 @@\n+x = 1"
    assert news.paths == ("new.py",)


def test_deleted_and_moved(agent: Agent, watch: RepositoryWatch) -> None:
    agent.read("a.py", 1, 2)
    agent.read("b.py")
    watch.news()
    (agent.root / "a.py").rename(agent.root / "moved.py")
    news = awaited(watch)
    assert news.note == "Changed meanwhile, not by you:\nmoved a.py -> moved.py"
    assert set(news.paths) == {"a.py", "moved.py"}
    assert news.stale == ()
    assert agent.excerpts.paths == ("moved.py", "b.py")
    (agent.root / "moved.py").unlink()
    news = awaited(watch)
    assert news.note == "Changed meanwhile, not by you:\ndeleted moved.py"
    assert news.stale == ("a.py:1-2",)


def test_saved_by_rename(agent: Agent, watch: RepositoryWatch) -> None:
    agent.read("b.py")
    watch.news()
    write(agent.root / ".b.py.swp", "b = 5\n").rename(agent.root / "b.py")
    news = awaited(watch)
    assert "-b = 1\n+b = 5" in (news.note or "")
    assert news.stale == ("b.py:1-1",)


def test_another_branch_is_one_line(agent: Agent) -> None:
    git(agent.root, "checkout", "-q", "-b", "topic")
    for number in range(40):
        write(agent.root / f"made/{number:02}.py", f"{number}\n")
    write(agent.root / "a.py", TEXT.replace("1", "7"))
    commit_all(agent.root)
    git(agent.root, "checkout", "-q", "main")
    with agent.watch() as watch:
        agent.read("a.py", 1, 2)
        watch.news()
        git(agent.root, "checkout", "-q", "topic")
        news = awaited(watch)
    assert news.note is not None
    assert news.note.startswith("Checked out now: branch topic (")
    assert "41 files differ: modified a.py, created made/00.py" in news.note
    assert "\n" not in news.note
    assert news.stale == ("a.py:1-2",)
    assert len(news.changed) == 41


def test_secrets_are_named_and_not_shown(agent: Agent, watch: RepositoryWatch, tmp_path: Path) -> None:
    write(agent.root / ".env", "TOKEN=hidden\n")
    write(tmp_path / "outside", "hidden\n")
    (agent.root / "link.txt").symlink_to(tmp_path / "outside")
    write(agent.root / "pem.txt", "-----BEGIN PRIVATE KEY-----\nhidden\n")
    seen: set[str] = set()
    notes = ""

    def collected(news: News) -> bool:
        nonlocal notes
        seen.update(news.paths)
        notes += news.note or ""
        assert "hidden" not in "".join(one.diff for one in news.changed)
        return seen == {".env", "link.txt", "pem.txt"}

    awaited(watch, collected)
    assert "hidden" not in notes
    assert "created .env" in notes


def test_without_a_watcher_what_was_read_is_compared(agent: Agent) -> None:
    with agent.watch(watches=False) as watch:
        agent.read("a.py", 1, 2)
        assert watch.news() == News()
        write(agent.root / "a.py", TEXT.replace("return 1", "return 5"))
        write(agent.root / "b.py", "b = 2\n")
        news = watch.news()
        assert "-    return 1\n+    return 5" in (news.note or "")
        assert (news.stale, news.paths) == (("a.py:1-2",), ("a.py",))
        assert watch.news() == News()
        agent.edit("a.py", "return 5", "return 6")
        assert watch.news().note is None
        (agent.root / "a.py").unlink()
        assert watch.news().note == "Changed meanwhile, not by you:\ndeleted a.py"


def test_other_folders_are_compared(agent: Agent, tmp_path: Path) -> None:
    other = write(tmp_path / "extra/x.txt", "one\n")
    with agent.watch(territory=Territory(agent.root, [tmp_path / "extra"])) as watch:
        agent.read(str(other))
        assert watch.news() == News()
        other.write_text("two\n")
        news = watch.news()
        assert "-one\n+two" in (news.note or "")
        assert news.stale == (f"{other}:1-1",)


def test_a_kept_session_learns_what_changed_while_it_was_away(agent: Agent) -> None:
    agent.read("a.py", 1, 2)
    agent.read("a.py", 5, 6)
    agent.read("b.py")
    document = agent.excerpts.as_document()
    write(agent.root / "a.py", "\n" + TEXT.replace("return 2", "return 3"))
    later = Agent(agent.root)
    with later.watch() as watch:
        later.excerpts.take_document(document)
        watch.compare()
        news = watch.news()
        assert news.note == "Changed meanwhile, not by you:\nmodified a.py"
        assert news.stale == ("a.py:5-6",)
        assert [one.stale for one in news.changed] == [("a.py:5-6",)]
        assert later.excerpts.take_stale() == ("a.py:5-6",)
        assert [one.first for one in later.excerpts] == [2, 5, 1]
        assert watch.news() == News()


def test_a_watcher_that_fails_is_said_and_the_work_goes_on(
    agent: Agent, watch: RepositoryWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.read("a.py", 1, 2)
    watch.news()

    def broken(path: str, digest: str | None) -> bool:
        raise RuntimeError("out of order")

    monkeypatch.setattr(agent.files, "is_own_write", broken)
    write(agent.root / "b.py", "b = 2\n")
    awaited(watch, lambda news: bool(agent.said))
    assert agent.said == [
        "the repository is no longer watched: out of order; files are compared before each turn"
    ]
    monkeypatch.undo()
    write(agent.root / "a.py", TEXT.replace("return 1", "return 5"))
    assert watch.news().stale == ("a.py:1-2",)


def test_started_and_stopped_twice(agent: Agent) -> None:
    watch = agent.watch()
    watch.stop()
    watch.start()
    watch.start()
    write(agent.root / "b.py", "b = 2\n")
    assert awaited(watch).paths == ("b.py",)
    watch.stop()
    watch.stop()
    assert watch.news() == News()
