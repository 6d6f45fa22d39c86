"""What changes in a repository while an agent works there: by the user, by commands, by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from agent_runs import DONE, EDIT, FIX, PLAN, QUESTION, SHOP, Runs, call, make_repository
from git_repositories import commit_all, git
from session_pair import TALKER

from pace_agent.events import Changed, Noted, Returned, StepStarted, Turned
from pace_local import Model
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop", SHOP)


def replaces(path: Path, old: str, new: str, answer: str) -> Callable[[object], str]:
    """A line of a script; as it is spoken, the user edits a file."""

    def line(sampling: object) -> str:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return answer

    return line


def notes(runs: Runs) -> list[str]:
    return [event.note for event in runs.of(Noted)]


def held(runs: Runs, path: str) -> list[str]:
    """Segments with lines of a file that are resident."""
    names = [one.name for one in runs.agent.session.segments if one.name.startswith(f"file:{path}")]
    return [name for name in names if runs.agent.conversation.residency(name)[0]]


def test_a_user_s_edit_between_two_turns(model: Model, shop: Path) -> None:
    """What the agent has read is stale, gone and told as a diff before the next turn; its own is not."""
    cart = shop / "shop/cart.py"
    look = replaces(cart, "RATE = 19", "RATE = 20", call("search", pattern="RATE"))
    with Runs(model, shop, [PLAN, look, EDIT, EDIT, DONE]) as runs:
        end = runs.run(FIX)
        (read,) = [name for name in runs.of(StepStarted)[0].reads if name.startswith("file:shop/cart.py")]
        assert end.reason == "done"
        changed = runs.of(Changed)
        assert [(one.path, one.by) for one in changed] == [
            ("shop/cart.py", "user"),
            ("shop/cart.py", "agent"),
        ]
        assert read in changed[0].stale
        assert "-RATE = 19\n+RATE = 20" in changed[0].diff
        assert runs.agent.conversation.residency(read)[0] == 0
        (note,) = notes(runs)
        assert note.startswith("Changed meanwhile, not by you:\n--- shop/cart.py")
        kinds = [type(event) for event in runs.events]
        # The turn in which the user edited is the second; the note is there before the third is over.
        turns = [at for at, kind in enumerate(kinds) if kind is Turned]
        assert turns[1] < kinds.index(Noted) < turns[2]
        # The edit was refused once, with the file as it is; then it was made on that.
        refused, made = [event for event in runs.of(Returned) if event.tool == "edit"]
        assert not refused.ok
        assert "has been changed since it was read" in refused.result
        assert "RATE = 20" in refused.result
        assert made.ok
    assert "RATE = 20" in cart.read_text()
    assert "in prices:" in cart.read_text()


def test_an_edit_on_a_file_that_changed_a_moment_before(model: Model, shop: Path) -> None:
    """Nothing is overwritten: not even if the user's edit came between the call and what it does."""
    cart = shop / "shop/cart.py"
    lines = [PLAN, replaces(cart, "RATE = 19", "RATE = 20", EDIT), EDIT, DONE]
    with Runs(model, shop, lines) as runs:
        assert runs.run(FIX).reason == "done"
        refused, made, _ = runs.of(Returned)
        assert (refused.ok, made.ok) == (False, True)
        assert "RATE = 20" in refused.result
        read = [one.name for one in runs.agent.session.segments if one.name.startswith("file:shop/cart.py")]
        assert any("RATE = 20" in runs.text_of(name) for name in read)
    assert "RATE = 20" in cart.read_text()
    assert "in prices:" in cart.read_text()


def test_a_write_over_what_the_user_made_meanwhile(model: Model, shop: Path) -> None:
    new = shop / "shop/new.py"

    def line(sampling: object) -> str:
        new.write_text("user = 1\n")
        return call("write", path="shop/new.py", content="agent = 1\n")

    with Runs(model, shop, [PLAN, line, DONE]) as runs:
        runs.run(FIX)
        first = runs.of(Returned)[0]
        assert not first.ok
        assert "user = 1" in first.result
    assert new.read_text() == "user = 1\n"


def test_a_command_that_rewrites_what_a_segment_holds(model: Model, shop: Path) -> None:
    """It is told as the command's before the next turn, and the segment with the old text is gone."""
    command = call("shell", command="sed -i 's/RATE = 19/RATE = 21/' shop/cart.py && echo more > new.txt")
    lines = [PLAN, command, "Now the edit:\n" + EDIT, EDIT, DONE, "It is 21."]
    with Runs(model, shop, lines, mode="auto") as runs:
        assert runs.run(FIX).reason == "done"
        (read,) = [name for name in runs.of(StepStarted)[0].reads if name.startswith("file:shop/cart.py")]
        by = {(one.path, one.by) for one in runs.of(Changed)}
        assert by == {("shop/cart.py", "shell"), ("shop/cart.py", "agent"), ("new.txt", "shell")}
        assert runs.agent.conversation.residency(read)[0] == 0
        told = next(note for note in notes(runs) if "shop/cart.py" in note)
        assert told.startswith("Changed meanwhile, by a command that you ran:")
        assert "+RATE = 21" in told
        turns = [
            event.number for event in runs.events[: runs.events.index(_noted(runs, told))] if _turn(event)
        ]
        assert turns == [1, 2]
        # A user's edit afterwards is the user's.
        (shop / "shop/cart.py").write_text("RATE = 22\n")
        assert runs.run(QUESTION).reason == "done"
        assert [one.by for one in runs.of(Changed)][-1] == "user"


def _noted(runs: Runs, note: str) -> Noted:
    return next(event for event in runs.of(Noted) if event.note == note)


def _turn(event: object) -> bool:
    return isinstance(event, Turned)


def test_another_branch_is_one_note(model: Model, shop: Path) -> None:
    git(shop, "init", "-q", "-b", "main")
    commit_all(shop)
    git(shop, "checkout", "-q", "-b", "other")
    for number in range(500):
        (shop / f"shop/part{number}.py").write_text(f"PART = {number}\n")
    (shop / "shop/cart.py").write_text(SHOP["shop/cart.py"].replace("RATE = 19", "RATE = 7"))
    commit_all(shop)
    git(shop, "checkout", "-q", "main")
    with Runs(model, shop, ["It is 19.", "It is 7."]) as runs:
        runs.run(QUESTION)
        (old,) = held(runs, "shop/cart.py")
        before = list(runs.agent.session.tokens)
        git(shop, "checkout", "-q", "other")
        runs.run(QUESTION)
        (note,) = notes(runs)
        assert "other" in note
        assert "501 files differ" in note
        assert len(note) <= 1_200
        assert len(runs.of(Changed)) == 501
        assert runs.agent.conversation.residency(old)[0] == 0
        assert any("RATE = 7" in runs.text_of(name) for name in held(runs, "shop/cart.py"))
        assert list(runs.agent.session.tokens)[: len(before)] == before


def test_agents_md_in_the_middle_of_a_session(model: Model, shop: Path) -> None:
    """What it says now is appended; what was said at the start stays as it was, token for token."""
    rules = shop / "AGENTS.md"
    rules.write_text("Use tabs.\n")
    with Runs(model, shop, ["It is 19.", "It is 19."]) as runs:
        runs.run(QUESTION)
        before = list(runs.agent.session.tokens)
        rules.write_text("Use four spaces.\n")
        runs.run(QUESTION)
        assert "Use tabs." in runs.text_of("system")
        assert list(runs.agent.session.tokens)[: len(before)] == before
        (told,) = [note for note in notes(runs) if "instructions have changed" in note]
        assert "Use four spaces." in told
        assert all(event.reused >= len(before) for event in runs.of(Turned)[1:])


def test_a_file_that_git_ignores_is_followed_too(model: Model, shop: Path) -> None:
    """The watcher does not see it; it was read, so it is compared."""
    make_repository(shop, {".gitignore": "*.log\n", "run.log": "all is well\n"})
    read = call("read", path="run.log")
    lines = [PLAN, read, replaces(shop / "run.log", "well", "lost", EDIT), DONE]
    with Runs(model, shop, lines) as runs:
        assert runs.run(FIX).reason == "done"
        assert ("run.log", "user") in [(one.path, one.by) for one in runs.of(Changed)]
        assert held(runs, "run.log") == []
        assert any("+all is lost" in note for note in notes(runs))
