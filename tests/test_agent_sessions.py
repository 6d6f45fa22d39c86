"""Sessions of an agent: taking back, keeping, going on, being killed; and who may do what from where."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from agent_runs import DONE, EDIT, FIX, PLAN, QUESTION, SHOP, Runs, call, make_repository, plan
from session_pair import TALKER

import pace_agent.assembly
import pace_agent.briefing
from pace_agent import Agent, AgentConfig
from pace_agent.errors import StaleError
from pace_agent.events import (
    AgentEvent,
    Changed,
    Ended,
    Memory,
    Noted,
    Planned,
    Prompted,
    Returned,
    Started,
    StepStarted,
    Turned,
    Undone,
    Warned,
    Wrote,
)
from pace_agent.plugins import plugin_tools
from pace_agent.safety.permissions import Mode
from pace_agent.sessions.log import SessionFolder, list_sessions
from pace_agent.sessions.places import AGENTS_DIR_VARIABLE, SESSION
from pace_agent.tool_type import Tool, tool
from pace_local import Model, Session
from pace_local.errors import ConfigError, FileError
from pace_local.sessions.lock import SessionInUseError
from pace_local.testing import Script, TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop", SHOP)


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sessions of a test lie."""
    monkeypatch.setenv(AGENTS_DIR_VARIABLE, str(tmp_path / "agents"))
    return tmp_path / "agents"


def memory_of(session: Session) -> tuple[list[int], list[int], int, list[tuple[str, str, int, int]]]:
    """All tokens, which of them are resident, the next position, and the segments."""
    segments = [(one.name, one.kind, one.start, one.end) for one in session.segments]
    return list(session.tokens), session.residents.token_index.tolist(), session.next_position, segments


def notes(runs: Runs) -> list[str]:
    return [event.note for event in runs.of(Noted)]


# Taking back


def test_undo_takes_back_files_conversation_and_cache_twice_in_a_row(model: Model, shop: Path) -> None:
    make = call("write", path="docs/new/notes.md", content="# Notes\n")
    write = call("write", path="README.md", content="x")  # first refused: the file has not been read
    lines = ["It is 19.", PLAN, EDIT, make, DONE, PLAN, write, write, DONE]
    with Runs(model, shop, [*lines, "It is 19.", PLAN, EDIT, DONE]) as runs:
        agent = runs.agent
        runs.run(QUESTION)
        first = memory_of(agent.session)
        assert runs.run(FIX).changed == ("shop/cart.py", "docs/new/notes.md")
        second = memory_of(agent.session)
        (shop / "shop/cart.py").chmod(0o640)
        assert runs.run("Write README.md anew, as x").reason == "done"
        assert memory_of(agent.session) != second

        assert agent.undo() == Undone(3, ("README.md",), ())
        assert memory_of(agent.session) == second
        assert (shop / "README.md").read_text() == SHOP["README.md"]
        assert "in prices:" in (shop / "shop/cart.py").read_text()
        assert agent.undo() == Undone(2, ("shop/cart.py",), ("docs/new/notes.md",))
        assert memory_of(agent.session) == first
        agent.session.check()
        assert (shop / "shop/cart.py").read_text() == SHOP["shop/cart.py"]
        assert not (shop / "docs").exists()
        assert [event.number for event in runs.of(Undone)] == [3, 2]
        assert runs.of(Warned) == []

        # It goes on from there, and what was taken back can be done again.
        assert runs.run(QUESTION).result == "It is 19."
        assert runs.run(FIX).changed == ("shop/cart.py",)
        assert [event.number for event in runs.of(Prompted)] == [1, 2, 3, 2, 3]


def test_undo_after_a_user_s_own_edit_takes_nothing_back(model: Model, shop: Path) -> None:
    make = call("write", path="new.py", content="NEW = 1\n")
    with Runs(model, shop, [PLAN, EDIT, make, DONE]) as runs:
        runs.run(FIX)
        with (shop / "shop/cart.py").open("a") as file:
            file.write("# mine\n")
        files = {path: path.read_bytes() for path in shop.rglob("*.py")}
        before = memory_of(runs.agent.session)
        with pytest.raises(StaleError, match=r"cart\.py.*nothing was undone"):
            runs.agent.undo()
        assert {path: path.read_bytes() for path in shop.rglob("*.py")} == files
        assert memory_of(runs.agent.session) == before
        (shop / "shop/cart.py").write_bytes(files[shop / "shop/cart.py"].removesuffix(b"# mine\n"))
        assert runs.agent.undo().removed == ("new.py",)


def test_what_commands_changed_is_not_taken_back_and_that_is_said(model: Model, shop: Path) -> None:
    """The agent knows afterwards how the files are: what was restored is read as it is."""
    command = "sed -i s/19/21/ shop/cart.py"
    lines = [
        "It is 19.",
        PLAN,
        call("shell", command="ls"),
        call("shell", command=command),
        DONE,
        "It is 21.",
    ]
    with Runs(model, shop, lines, mode="auto") as runs:
        runs.run(QUESTION)
        runs.run("Set RATE in shop/cart.py to 21")
        assert runs.agent.undo() == Undone(2, (), ())
        (warned,) = runs.of(Warned)
        assert warned.message == f"what these commands changed is not taken back: {command}"
        assert "RATE = 21" in (shop / "shop/cart.py").read_text()
        runs.run(QUESTION)
        assert any("shop/cart.py" in note for note in notes(runs))
        files = [one.name for one in runs.agent.session.segments if one.name.startswith("file:shop/cart.py")]
        resident = [name for name in files if runs.agent.conversation.residency(name)[0]]
        assert resident
        assert all("RATE = 19" not in runs.text_of(name) for name in resident)


def test_undo_reaches_through_a_command_that_changed_the_agent_s_file(
    model: Model, shop: Path, agents: Path
) -> None:
    """After a formatter it took nothing back and blamed the user, as it does after the user's own command."""
    command = "sed -i s/19/21/ shop/cart.py"
    lines = [PLAN, EDIT, call("shell", command=command), DONE]
    with Runs(model, shop, lines, session="one", mode="auto") as runs:
        runs.run(FIX)
        assert "RATE = 21" in (shop / "shop/cart.py").read_text()
    with Runs(model, shop, [PLAN, EDIT, DONE], session="one", resume=True) as runs:
        assert runs.agent.undo().restored == ("shop/cart.py",)
        assert (shop / "shop/cart.py").read_text() == SHOP["shop/cart.py"]
        (warned,) = runs.of(Warned)
        assert warned.message == f"what these commands changed is not taken back: {command}"
        runs.run(FIX)
        runs.agent.run_command(command)
        with pytest.raises(StaleError, match=r"cart\.py.*nothing was undone"):
            runs.agent.undo()


def test_what_was_told_with_a_prompt_that_is_taken_back_is_told_again(model: Model, shop: Path) -> None:
    with Runs(model, shop, ["It is 19."] * 3) as runs:
        runs.run(QUESTION)
        runs.agent.note("The user likes short answers.")
        runs.agent.mode = Mode.PLAN
        (shop / "AGENTS.md").write_text("Use tabs.\n")
        runs.run(QUESTION)
        runs.agent.undo()
        told = notes(runs)
        runs.run(QUESTION)
        again = notes(runs)[len(told) :]
        for text in ("short answers", "The mode is plan now.", "Use tabs."):
            assert any(text in note for note in told), text
            assert sum(text in note for note in again) == 1, text


# Keeping


def test_a_session_is_kept_closed_and_gone_on_with(model: Model, shop: Path, agents: Path) -> None:
    """Nothing is decoded again, what it has read it knows, and a change made meanwhile is told."""
    with Runs(model, shop, [PLAN, call("read", path="README.md"), EDIT, DONE], session="one") as runs:
        runs.run(FIX)
        assert runs.agent.session_name == "one"
        before = memory_of(runs.agent.session)
        counters = runs.agent.session.counters
        segments = [one.name for one in runs.agent.session.segments]
        residents = {name for name in segments if runs.agent.conversation.residency(name)[0]}
    for path in [agents / "one", *(agents / "one").rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path

    with Runs(model, shop, ["It has tax."], session="one", resume=True) as runs:
        assert runs.of(Started)[0].resumed
        assert memory_of(runs.agent.session) == before
        assert runs.agent.session.counters.prompt_tokens == counters.prompt_tokens
        assert runs.of(Memory) == []  # nothing was read, brought back or computed again
        (shop / "README.md").write_text("# Shop\n\nCarts without tax.\n")
        assert runs.run("What does README.md say about carts?").reason == "done"
        (turned,) = runs.of(Turned)
        assert turned.reused == len(before[0])
        # What was there before it was closed comes back as it is, if the question needs it elsewhere.
        back = [one.event for one in runs.of(Memory) if one.event["type"] == "recalled"]
        assert {one["means"] for one in back if one["segment"] in residents} <= {"spliced"}
        assert any("README.md" in note for note in notes(runs))
        (readme,) = [one.name for one in runs.agent.session.segments if "README.md:1" in one.name][:1]
        assert runs.agent.conversation.residency(readme)[0] == 0
        after = memory_of(runs.agent.session)

    # An edit of what was read in an earlier process needs no further reading; its undo reaches files alone.
    edit = call("edit", path="shop/cart.py", search="RATE = 19", replacement="RATE = 20")
    with Runs(model, shop, [PLAN, edit, DONE], session="one", resume=True) as runs:
        assert memory_of(runs.agent.session) == after
        assert runs.run("Set RATE in shop/cart.py to 20").reason == "done"
        assert [event.ok for event in runs.of(Returned)] == [True, True]
        assert not any(event.reads == {} for event in runs.of(StepStarted))
        assert [event.number for event in runs.of(Prompted)] == [3]
        runs.agent.undo()
        runs.agent.undo()
        assert runs.agent.undo().restored == ("shop/cart.py",)
        assert (shop / "shop/cart.py").read_text() == SHOP["shop/cart.py"]
        with pytest.raises(ConfigError, match="no prompt"):
            runs.agent.undo()


def test_what_changed_while_a_session_was_closed_is_told(
    model: Model, shop: Path, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pinned instructions still said what AGENTS.md no longer says; mode and date were not told."""
    (shop / "AGENTS.md").write_text("Use tabs.\n")
    with Runs(model, shop, ["It is 19."], session="one") as runs:
        runs.run(QUESTION)
        assert notes(runs) == []
        runs.agent.note("Never told, for want of a prompt.")
        runs.agent.run_command("echo kept")
    (shop / "AGENTS.md").write_text("Use spaces, never tabs.\n")
    monkeypatch.setattr(pace_agent.briefing, "today", lambda: "Today is another day.")
    with Runs(model, shop, ["It is 19."] * 2, session="one", resume=True, mode="plan") as runs:
        runs.run(QUESTION)
        told = notes(runs)
        for text in ("Use spaces, never tabs.", "The mode is plan now.", "Today is another day."):
            assert sum(text in note for note in told) == 1, text
        assert sum("Never told" in note or "echo kept" in note for note in told) == 2
        runs.run(QUESTION)
        assert len(notes(runs)) == len(told)
    with Runs(model, shop, ["It is 19."], session="one", resume=True, mode="plan", budget=2048) as runs:
        runs.run(QUESTION)
        assert notes(runs) == []  # all is known by now


def test_what_commands_changed_is_said_also_in_a_session_that_was_opened_again(
    model: Model, shop: Path, agents: Path
) -> None:
    command = "sed -i s/19/20/ README.md; touch made"
    with Runs(
        model, shop, [PLAN, EDIT, call("shell", command=command), DONE], session="one", mode="auto"
    ) as runs:
        runs.run(FIX)
    with Runs(model, shop, [], session="one", resume=True) as runs:
        assert runs.agent.undo().restored == ("shop/cart.py",)
        (warned,) = runs.of(Warned)
        assert warned.message == f"what these commands changed is not taken back: {command}"


def test_one_session_has_one_process_and_one_repository_may_have_two(
    model: Model, shop: Path, agents: Path, tmp_path: Path
) -> None:
    with (
        Runs(model, shop, [PLAN, EDIT, DONE], session="one") as one,
        Runs(model, shop, ["It is 19.", PLAN, EDIT, DONE], session="two") as two,
    ):
        with pytest.raises(SessionInUseError, match="one") as caught:
            Agent(model, shop, session="one", resume=True)
        assert str(os.getpid()) in str(caught.value)
        two.run(QUESTION)
        one.run(FIX)
        two.run("Correct the loop in shop/cart.py")
        # To each, the other's edits are a user's.
        assert [event.by for event in one.of(Changed)] == ["agent"]
        assert [event.by for event in two.of(Changed)] == ["user"]
        assert one.agent.undo().restored == ("shop/cart.py",)
    other = make_repository(tmp_path / "other", {"a.py": "A = 1\n"})
    with pytest.raises(ConfigError, match=r"is about .*shop, not .*other"):
        Agent(model, other, session="one", resume=True)


def test_a_session_that_is_not_kept_leaves_nothing(
    model: Model, shop: Path, agents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with Runs(
        model, shop, [PLAN, EDIT, call("shell", command="seq 9999"), DONE], session="", mode="auto"
    ) as runs:
        runs.run(FIX)
        assert runs.agent.session_name == ""
        runs.agent.undo()
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not agents.exists()


def test_what_cannot_begin_leaves_nothing(model: Model, shop: Path, agents: Path) -> None:
    with pytest.raises(ConfigError, match="budget"):
        Agent(model, shop, config=AgentConfig(budget=256, style="tools"), writer=Script([]))
    assert list(agents.iterdir()) == []


def test_a_session_that_was_killed_before_it_began_does_not_hide_the_one_before(
    model: Model, shop: Path, agents: Path
) -> None:
    """A kill while the style is tried out left what ``--continue`` took each time, and failed at."""
    with Runs(model, shop, ["It is 19."], session="good") as runs:
        runs.run(QUESTION)
    with SessionFolder.create("dead", shop):
        assert SESSION in os.listdir(agents / "dead")
        os.utime(agents / "dead/events.jsonl", (2**33, 2**33))
        assert [each.problem for each in list_sessions(shop)] == ["", ""]  # it may yet begin
    dead, good = list_sessions(shop)
    assert (dead.name, "was ended before it began" in dead.problem, good.problem) == ("dead", True, "")
    with Runs(model, shop, ["It is 19."], session=None, resume=True) as runs:
        assert runs.agent.session_name == "good"
        assert runs.run(QUESTION).result == "It is 19."
    with pytest.raises(FileError, match="dead was ended before it began; `pace history delete dead`"):
        Agent(model, shop, session="dead", resume=True)


_VICTIM = """
import os, sys, time
from pathlib import Path
from agent_runs import Runs, call, plan
from pace_local import Model

model_path, shop = sys.argv[1:]
with Model.load(Path(model_path)) as model:
    lines = [
        "It is 19.",
        plan(("correct total", ["shop/cart.py"])),
        call("edit", path="shop/cart.py", search="prices[1:]", replacement="prices"),
        call("shell", command="echo ready; sleep 60"),
    ]
    with Runs(model, Path(shop), lines, session="killed", mode="auto") as runs:
        runs.run("What is RATE in shop/cart.py?")
        runs.listen(lambda event: event.type == "output" and print(event.written, flush=True))
        runs.run("Fix total in shop/cart.py: it leaves out the first price")
"""


def test_a_session_that_was_killed_in_the_middle_of_a_run(model: Model, shop: Path, agents: Path) -> None:
    """It can be gone on with: what was read is there, and what was changed can be taken back."""
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(model.path), str(shop)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert victim.stdout is not None
    with victim.stdout:
        assert "ready" in victim.stdout.readline()
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    assert "in prices:" in (shop / "shop/cart.py").read_text()
    with Runs(model, shop, ["It is 19."], session="killed", resume=True) as runs:
        session = runs.agent.session
        session.check()
        assert "prompt:2" in session.segments
        assert "in prices:" in (shop / "shop/cart.py").read_text()
        assert runs.agent.undo() == Undone(2, ("shop/cart.py",), ())
        assert (shop / "shop/cart.py").read_text() == SHOP["shop/cart.py"]
        assert runs.run(QUESTION).result == "It is 19."
        assert any("The user took back prompt 2" in note for note in notes(runs))
        assert runs.of(Prompted)[0].number == 2
        names = [one.name for one in session.segments]
        assert len(set(names)) == len(names)


# From outside


def test_a_plan_of_the_user_s_and_notes_before_a_run(model: Model, shop: Path) -> None:
    with Runs(model, shop, [EDIT, DONE, call("done", result="nothing to say")]) as runs:
        runs.agent.set_plan([("correct total", ["shop/cart.py"]), ("look at the readme", ["README.md"])])
        assert [step.text for step in runs.agent.plan] == ["correct total", "look at the readme"]
        runs.agent.note("The first price counts.")
        assert runs.run(FIX).result == "total adds all\nnothing to say"
        assert notes(runs) == ["The first price counts."]
        assert [event.step for event in runs.of(StepStarted)] == ["correct total", "look at the readme"]
        assert any("README.md" in name for name in runs.of(StepStarted)[1].reads)
        assert "model" not in [event.by for event in runs.of(Planned)]
        with pytest.raises(ConfigError, match="a plan needs steps"):
            runs.agent.set_plan([])


def test_the_mode_notes_and_the_plan_can_change_between_steps(model: Model, shop: Path) -> None:
    """They count from the next turn on, and are appended behind what is there."""
    readme = call("edit", path="README.md", search="tax", replacement="taxes")
    steps = plan(("correct total", ["shop/cart.py"]), ("this is never done", ["README.md"]))
    with Runs(model, shop, [steps, EDIT, DONE, readme, DONE]) as runs:
        for event in runs.agent.run(FIX):
            if isinstance(event, Changed):
                before = list(runs.agent.session.tokens)
                runs.agent.mode = Mode.PLAN
                runs.agent.note("No more edits.")
                runs.agent.set_plan([("correct total", ["shop/cart.py"]), ("mind the readme", ["README.md"])])
        assert list(runs.agent.session.tokens)[: len(before)] == before
        assert notes(runs) == ["The mode is plan now.", "No more edits."]
        assert [event.step for event in runs.of(StepStarted)] == ["correct total", "mind the readme"]
        assert isinstance(event, Ended)
        assert event.reason == "refused"
        assert "mode plan" in event.result
    assert (shop / "README.md").read_text() == SHOP["README.md"]


@tool("read", name="price_of")
def price_of(article: str, count: int = 1) -> str:
    """Say what an article costs.

    Args:
        article: its name
        count: how many
    """
    if article == "moon":
        raise LookupError("not for sale")
    return f"{count} {article}: {count * 3} euros\n" + "and so on\n" * (20_000 if article == "all" else 0)


def test_a_tool_of_the_user_s(model: Model, shop: Path) -> None:
    """It is called with checked arguments; its failure is told; its result is cut to what fits."""
    lines = [
        PLAN,
        call("price_of", article="pear", count=2),
        call("price_of", article="moon"),
        call("price_of", article="pear", count="many"),
        call("price_of", article="all"),
        DONE,
    ]
    with Runs(model, shop, lines, tools=[price_of]) as runs:
        assert runs.run(FIX).reason == "done"
        assert "price_of" in runs.text_of("system")
        pear, moon, many, everything, _ = runs.of(Returned)
        assert (pear.ok, pear.result) == (True, "2 pear: 6 euros\n")
        assert (moon.ok, moon.result) == (False, "Error: price_of failed with LookupError: not for sale")
        assert not many.ok
        assert "count" in many.result
        assert everything.ok
        assert "lines left out" in everything.result
        assert len(model.tokenize(everything.result)) <= 4096 // 4
    with pytest.raises(ConfigError, match=r"two tools of the name 'price_of'"):
        Runs(model, shop, [], tools=[price_of, price_of])


def test_tools_of_plug_ins(model: Model, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be loaded is named in a warning; the others work."""
    found = [
        EntryPoint("prices", f"{__name__}:price_of", "pace_agent.tools"),
        EntryPoint("made", f"{__name__}:make_tools", "pace_agent.tools"),
        EntryPoint("broken", "no_such_module_anywhere:tool", "pace_agent.tools"),
        EntryPoint("odd", f"{__name__}:FIX", "pace_agent.tools"),
    ]
    monkeypatch.setattr(
        pace_agent.assembly, "plugin_tools", lambda bench, warn: plugin_tools(bench, warn, found)
    )
    lines = [PLAN, call("price_of", article="fig"), call("root"), DONE]
    with Runs(model, shop, lines) as runs:
        assert runs.run(FIX).reason == "done"
        assert [event.result for event in runs.of(Returned)][:2] == ["1 fig: 3 euros\n", str(shop)]
        assert [event.message.split(" (")[0] for event in runs.of(Warned)] == [
            "the plug-in 'broken'",
            "the plug-in 'odd'",
        ]


def make_tools(bench: object) -> list[Tool]:
    @tool("read")
    def root() -> str:
        """Say where the repository is."""
        return str(bench.territory.repository)  # type: ignore[attr-defined]

    return [root]


@pytest.mark.parametrize("kind", [Prompted, StepStarted, Wrote, Returned, Turned])
def test_a_listener_that_raises(model: Model, shop: Path, kind: type[AgentEvent]) -> None:
    """Its error comes out of the run, which is over; the next one works."""
    has_raised: list[bool] = []

    def listener(event: AgentEvent) -> None:
        if isinstance(event, kind) and not has_raised:
            has_raised.append(True)
            raise LookupError("a listener's own")

    with Runs(model, shop, [PLAN, "I edit.\n" + EDIT, DONE, "It is 19.", "It is 19."]) as runs:
        runs.listen(listener)
        with pytest.raises(LookupError, match="a listener's own"):
            runs.run(FIX)
        runs.agent.session.check()
        end = runs.run(QUESTION)
        assert end.reason in ("done", "failed"), end
        assert end.is_success or "script" in end.result


def test_leaving_a_run_early_ends_it(model: Model, shop: Path) -> None:
    lines = [PLAN, "I think about it for long. " * 30 + EDIT, "It is 19."]
    with Runs(model, shop, lines) as runs:
        for event in runs.agent.run(FIX):
            if isinstance(event, Wrote):
                break
        assert "prices[1:]" in (shop / "shop/cart.py").read_text()
        runs.agent.session.check()
        assert runs.run(QUESTION).result == "It is 19."
        other = runs.agent.run("And then?")
        next(other)
        with pytest.raises(ConfigError, match="a run is going on"):
            runs.agent.run(QUESTION)
        with pytest.raises(ConfigError, match="a run is going on"):
            runs.agent.undo()


@pytest.mark.parametrize("at", ["reading", "shell", "writing"])
def test_closing_from_another_thread(model: Model, shop: Path, agents: Path, at: str) -> None:
    """The run is cancelled and waited for: the session is whole on the disk, and no thread is left."""
    long = "a line of text\n" * 800
    lines = {
        "reading": ["never said"],
        "shell": [PLAN, call("shell", command="sleep 600")],
        "writing": [PLAN, "I think. " * 100],
    }[at]
    kind = {"reading": "memory", "shell": "called", "writing": "wrote"}[at]
    threads = set(threading.enumerate())
    runs = Runs(model, shop, lines, session="closed", mode="auto")
    reached = threading.Event()
    runs.listen(lambda event: reached.set() if event.type == kind and _is_reading(event, at) else None)
    ends: list[Ended] = []
    worker = threading.Thread(target=lambda: ends.append(runs.run(long if at == "reading" else FIX)))
    worker.start()
    assert reached.wait(60)
    runs.agent.close()
    worker.join(60)
    assert not worker.is_alive()
    assert [end.reason for end in ends] == ["cancelled"]
    assert set(threading.enumerate()) <= threads
    with pytest.raises(ConfigError, match="closed"):
        runs.agent.run(QUESTION)
    with Runs(model, shop, ["It is 19."], session="closed", resume=True) as again:
        again.agent.session.check()
        assert again.run(QUESTION).reason == "done"


def _is_reading(event: AgentEvent, at: str) -> bool:
    return at != "reading" or event.event["type"] == "progress"  # type: ignore[attr-defined]


def test_closing_from_a_listener_and_in_the_loop(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, EDIT, DONE]) as runs:
        runs.listen(lambda event: runs.agent.close() if isinstance(event, StepStarted) else None)
        assert runs.run(FIX).reason == "cancelled"
        with pytest.raises(ConfigError, match="closed"):
            runs.agent.run(FIX)
    with Runs(model, shop, [PLAN, EDIT, DONE]) as runs:
        for event in runs.agent.run(FIX):
            if isinstance(event, StepStarted):
                runs.agent.close()
    assert "prices[1:]" in (shop / "shop/cart.py").read_text()
