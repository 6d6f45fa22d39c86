"""A worker process and its client: told, listened to, crashed, started again, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from agent_runs import DONE, EDIT, FIX, PLAN, QUESTION, SHOP, call, make_repository
from session_pair import TALKER

from pace_agent.events import (
    AgentEvent,
    Asked,
    Called,
    Changed,
    Decided,
    Ended,
    Noted,
    Output,
    Prompted,
    Returned,
    Started,
    Turned,
    Undone,
)
from pace_agent.sessions.events import EVENTS, read_events
from pace_agent.sessions.log import delete, session_path
from pace_agent.sessions.places import LOG
from pace_agent.worker.client import Worker
from pace_agent.worker.protocol import (
    Cancel,
    Command,
    Died,
    Evict,
    GiveAnswer,
    Inspect,
    Message,
    Note,
    Pin,
    Problem,
    Prompt,
    Quit,
    Ready,
    Recall,
    Reply,
    RunCommand,
    SegmentText,
    SetMode,
    SetPlan,
    Undo,
    View,
    line_of,
)
from pace_local.errors import ConfigError, StorageError
from pace_local.testing import tiny_model

PROGRAM = [sys.executable, str(Path(__file__).parent / "agent_worker_program.py")]
PATIENCE = 25
"""Seconds after which what should have come long ago is given up."""

ANSWER = "It is 19."
LONG = "".join(f"{number:05} some text to read\n" for number in range(10_000))
"""Takes a tiny model many seconds to read."""

pytestmark = pytest.mark.usefixtures("own_home")


class Driven:
    """A worker on a small repository, and all that it said."""

    def __init__(
        self, root: Path, model: Path, script: Sequence[Any], *options: str, kept: Sequence[str]
    ) -> None:
        self.root = root
        self.said: list[Message] = []
        words = ["--repo", str(root), "--model", str(model), "--budget", "4096", *options]
        environ = {**os.environ, "SCRIPT": json.dumps(script)}
        self.worker = Worker(words, kept=kept, program=PROGRAM, environ=environ)
        self.worker.start()

    def send(self, *commands: Command) -> None:
        for command in commands:
            assert self.worker.send(command)

    def until(self, kind: type[Any], is_it: Callable[[Any], bool] = lambda _message: True) -> Any:
        """The next message of a kind."""
        for message in self.worker.messages(PATIENCE):
            self.said.append(message)
            if isinstance(message, kind) and is_it(message):
                return message
        last = [line_of(each)[:300] for each in self.said if each.type not in ("memory", "memory_view")]
        raise AssertionError(f"no {kind} came, but {last[-12:]}")

    def ready(self) -> Ready:
        found = self.until(Ready)
        assert isinstance(found, Ready)
        return found

    def reply(self, command: Command) -> Reply:
        """Send a command that has an id, and wait for its reply."""
        self.send(command)
        found = self.until(Reply, lambda message: message.id == command.id)  # type: ignore[attr-defined]
        assert isinstance(found, Reply)
        return found

    def of(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.said if isinstance(message, kind)]

    @property
    def cart(self) -> str:
        return (self.root / "shop/cart.py").read_text()


Start = Callable[..., Driven]


@pytest.fixture
def start(tmp_path: Path, tiny_models: Path) -> Iterator[Start]:
    started: list[Driven] = []

    def make(script: Sequence[Any], *options: str, kept: Sequence[str] = ()) -> Driven:
        root = tmp_path / "shop"
        if not root.exists():
            make_repository(root, SHOP)
        driven = Driven(root, tiny_model(TALKER, tiny_models), script, *options, kept=kept)
        started.append(driven)
        return driven

    yield make
    for each in started:
        each.worker.close()
        assert not each.worker.is_running


def test_a_prompt_that_asks_for_a_permission(start: Start) -> None:
    """It waits for the right answer; meanwhile the session can be looked at and changed."""
    driven = start([PLAN, EDIT, DONE])
    ready = driven.ready()
    started = driven.of(Started)[0]
    assert (started.session, started.mode) == (ready.session, "ask")
    assert driven.worker.session == ready.session
    driven.send(Prompt(FIX, id=1))
    asked = driven.until(Asked)
    assert "prices[1:]" in driven.cart
    assert "prices[1:]" in asked.diff
    system = driven.reply(Inspect("system", id="look"))
    assert system.ok
    assert [one.segment for one in driven.of(SegmentText)] == ["system"]
    assert driven.reply(Pin("repository", id=3)).ok
    view = driven.until(
        View, lambda message: any(row.pinned and row.name == "repository" for row in message.view.segments)
    )
    assert 0 < view.view.resident_tokens <= view.view.budget == 4096
    refused = driven.reply(Evict("repository", id=4))
    assert not refused.ok
    assert "pinned" in refused.message
    unknown = driven.reply(Recall("nothing", id=5))
    assert (unknown.ok, "nothing" in unknown.message) == (False, True)
    driven.send(GiveAnswer(asked.id + 1, "once"))
    assert str(asked.id + 1) in driven.until(Problem).message
    assert "prices[1:]" in driven.cart
    driven.send(GiveAnswer(asked.id, "once"))
    assert driven.until(Decided).allowed
    end = driven.until(Ended)
    assert (end.reason, end.result) == ("done", "total adds all")
    assert "prices[1:]" not in driven.cart
    driven.send(Undo(id=6))
    assert driven.until(Undone).number == 1
    assert "prices[1:]" in driven.cart
    assert [one for one in driven.of(Reply) if one.id == 1] == [Reply(1, True)]


def test_a_no_with_a_message_and_a_cancel_while_it_asks(start: Start) -> None:
    driven = start([PLAN, EDIT, PLAN, EDIT, DONE, ANSWER])
    driven.send(Prompt(FIX))  # before it is ready: it is done when it is
    driven.until(Asked)
    driven.send(Cancel())
    assert driven.until(Ended).reason == "cancelled"
    driven.send(Prompt(FIX))
    driven.send(GiveAnswer(driven.until(Asked).id, "no", "use sum"))
    decided = driven.until(Decided)
    assert (decided.allowed, decided.by, decided.reason) == (False, "user", "use sum")
    driven.until(Ended)
    assert "prices[1:]" in driven.cart
    driven.send(Prompt(QUESTION))
    assert driven.until(Ended).result == ANSWER


def test_commands_while_a_run_goes_on(start: Start) -> None:
    """Mode, note and cancel at once; what touches the session between turns; prompts and undo behind it."""
    sleep = call("shell", command="echo begun; sleep 60")
    driven = start([PLAN, EDIT, sleep, ANSWER, ANSWER])
    driven.ready()
    driven.send(Prompt(FIX, id="first"))
    asked = driven.until(Asked)
    assert driven.reply(SetMode("accept-edits", id="mode")).ok
    assert driven.reply(Note("the shop closes at five", id="note")).ok
    driven.send(Prompt(QUESTION, id="second"), Undo(id="third"))
    driven.send(GiveAnswer(asked.id, "once"))
    driven.until(Output, lambda event: "begun" in event.written)
    driven.send(Inspect("system", id="look"))
    driven.send(Cancel(id="cancel"))
    first = driven.until(Ended)
    assert first.reason == "cancelled"
    assert first.seconds < 30
    assert driven.until(Ended).result == ANSWER
    assert driven.until(Undone).number == 2
    third = driven.until(Reply, lambda reply: reply.id == "third")
    assert third.ok
    order = [reply.id for reply in driven.of(Reply)]
    assert order.index("cancel") < order.index("second") < order.index("third")
    assert "look" in order
    names = [row.name for row in driven.until(View).view.segments]
    assert names[0] == "system"
    driven.send(Prompt(QUESTION))
    driven.until(Prompted)
    driven.until(Ended)
    notes = [message.note for message in driven.said if message.type == "noted"]  # type: ignore[attr-defined]
    assert "the shop closes at five" in notes
    assert "The mode is accept-edits now." in notes


def test_a_command_of_the_user_s(start: Start) -> None:
    driven = start([ANSWER])
    driven.ready()
    driven.send(RunCommand("echo one; sleep 60; echo two"))
    assert driven.until(Output).written == "one\n"
    driven.send(Cancel())
    assert not driven.until(Returned).ok
    assert driven.reply(RunCommand("echo three", id="b")).ok
    assert not driven.reply(RunCommand("", id="c")).ok
    driven.send(Prompt(QUESTION))
    assert "The user ran `echo three`" in driven.until(Noted, lambda note: "three" in note.note).note
    assert driven.until(Ended).reason == "done"


def test_a_cancel_right_behind_its_prompt(start: Start) -> None:
    """It is not lost, though the run has not begun; the prompt after it is done."""
    driven = start([ANSWER, ANSWER])
    driven.send(Prompt(QUESTION), Cancel(), Prompt(QUESTION))
    assert [driven.until(Ended).reason, driven.until(Ended).reason] == ["cancelled", "done"]


def test_a_plan_of_the_users(start: Start) -> None:
    driven = start([EDIT, DONE], "--mode", "accept-edits")
    driven.ready()
    assert not driven.reply(SetPlan((), id=1)).ok
    assert driven.reply(SetPlan((("correct total", ("shop/cart.py",)),), id=2)).ok
    driven.send(Prompt(FIX))
    assert driven.until(Ended).reason == "done"
    planned = [message for message in driven.said if message.type == "planned"]
    assert {event.by for event in planned if event.reason != "progress"} == {"user"}  # type: ignore[attr-defined]


def test_segments_evicted_and_recalled_by_the_user_are_no_plan_miss(start: Start) -> None:
    driven = start([PLAN, EDIT, DONE])
    driven.ready()
    driven.send(Prompt(FIX))
    asked = driven.until(Asked)
    assert driven.reply(Evict("repository", id=1)).ok
    gone = driven.until(View, lambda message: row_of(message, "repository").resident == 0)
    assert (row_of(gone, "repository").why, row_of(gone, "repository").first_position) == ("evicted", None)
    assert driven.reply(Recall("repository", id=2)).ok
    back = row_of(
        driven.until(View, lambda message: row_of(message, "repository").resident > 0), "repository"
    )
    assert back.resident == back.tokens
    driven.send(GiveAnswer(asked.id, "once"))
    end = driven.until(Ended)
    assert (end.reason, end.misses) == ("done", 0)


def row_of(message: View, name: str) -> Any:
    return next(row for row in message.view.segments if row.name == name)


def test_views_come_at_most_four_times_a_second(start: Start) -> None:
    driven = start([PLAN, EDIT, "word " * 400 + DONE], "--mode", "accept-edits")
    driven.ready()
    began = time.monotonic()
    driven.send(Prompt(FIX))
    driven.until(Ended)
    last = driven.until(View, lambda message: row_of(message, "system").pinned)
    seconds = time.monotonic() - began
    assert 1 <= len(driven.of(View)) <= 4 * seconds + 3
    assert sum(run.tokens for run in last.view.residents) == last.view.resident_tokens


@pytest.mark.parametrize("act", ["abort", "kill"])
def test_a_crash_loses_no_completed_turn(start: Start, act: str) -> None:
    """The client says how it ended and what was printed last; the session goes on where it was."""
    driven = start([ANSWER, {"do": act}], "--mode", "ask")
    ready = driven.ready()
    driven.send(Prompt(QUESTION))
    assert driven.until(Ended).result == ANSWER
    turned = driven.of(Turned)[-1]
    assert driven.reply(SetMode("plan", id=1)).ok
    driven.send(Prompt("What is the name of the shop?"))
    died = driven.until(Died)
    assert (died.code, died.signal, died.is_expected) == (
        None,
        "SIGABRT" if act == "abort" else "SIGKILL",
        False,
    )
    if act == "abort":
        assert any("Fatal Python error: Aborted" in line for line in died.log)
        assert "ended by SIGABRT" in died.words
    assert not driven.worker.send(Cancel())  # nobody is there
    driven.worker.restart()
    again = driven.ready()
    assert again.session == ready.session
    resumed = driven.of(Started)[-1]
    assert (resumed.session, resumed.resumed) == (ready.session, True)
    driven.send(Prompt(QUESTION))
    prompted = driven.until(Prompted)
    assert prompted.number == 3  # the one that it died of was read, and counts
    end = driven.until(Ended)
    assert end.result == ANSWER
    after = driven.of(Turned)[-1]
    assert after.reused >= turned.session_tokens
    assert after.decoded < turned.session_tokens
    notes = [message.note for message in driven.said if message.type == "noted"]  # type: ignore[attr-defined]
    assert notes[-1] == "The mode is plan now."  # what the user had chosen is not forgotten
    kinds = [event.type for _at, event in read_events(session_path(ready.session) / EVENTS)]
    assert kinds.count("ended") == 2


def test_a_disk_that_is_full_ends_the_run_and_no_more(start: Start) -> None:
    """Regression: a run that could not be logged had no end, and a screen waited for it for ever."""
    driven = start(["There is nothing to plan.", ANSWER, ANSWER, ANSWER, ANSWER])
    driven.ready()
    process = psutil.Process(driven.worker.pid)
    limits = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (0, limits[1]))  # nothing can be written, as on a full disk
    driven.send(Prompt(QUESTION))
    ended = driven.until(Ended)
    assert (ended.reason, "cannot" in ended.result) == ("failed", True)
    driven.send(RunCommand("echo one"))
    assert "cannot" in driven.until(Problem).message
    assert len(driven.of(Returned)) == len(driven.of(Called))
    process.rlimit(psutil.RLIMIT_FSIZE, limits)
    driven.send(Prompt(QUESTION))
    assert driven.until(Ended).reason == "done"


def test_a_prompt_that_is_refused_has_an_end(start: Start) -> None:
    driven = start([ANSWER])
    driven.ready()
    driven.send(Prompt(" \n"))
    ended = driven.until(Ended)
    assert (ended.reason, "empty" in ended.result) == ("failed", True)


def test_a_change_is_asked_about_whole_however_long_it_is(start: Start, tmp_path: Path) -> None:
    """Regression: a long one was asked about with a notice in its place."""
    # What was seen of it says all that it holds, so that nothing unseen would be lost.
    steps = [f"echo step {number} of the deployment" for number in range(20)]
    make_repository(tmp_path / "shop", {**SHOP, "deploy.sh": "".join(f"{line}\n" for line in 40 * steps)})
    write = call("write", path="deploy.sh", content="\n".join(["echo done", *steps]))
    driven = start(["There is nothing to plan.", call("read", path="deploy.sh"), write, DONE])
    driven.ready()
    driven.send(Prompt("Shorten deploy.sh"))
    asked = driven.until(Asked)
    changed = [line for line in asked.diff.splitlines()[3:] if not line.startswith(" ")]
    assert sorted(changed) == sorted(["+echo done", *(f"-{line}" for line in 39 * steps)])
    driven.send(GiveAnswer(asked.id, "once"))
    driven.until(Ended)
    assert "780 lines" in driven.of(Changed)[-1].diff


def test_a_fault_in_python_is_told_and_ends_it(start: Start) -> None:
    driven = start([{"do": "fail"}])
    driven.ready()
    driven.send(Prompt(QUESTION))
    problem = driven.until(Problem)
    assert problem.fatal
    assert "IndexError" in problem.message
    died = driven.until(Died)
    assert (died.code, died.signal) == (1, "")
    assert any("IndexError" in line for line in died.log)


def test_what_libraries_print_never_gets_into_the_protocol(start: Start) -> None:
    """On either descriptor, by C, Python or a child, and a child cannot take what is sent to the worker."""
    driven = start([{"do": "print", "say": ANSWER}, ANSWER])
    ready = driven.ready()
    log = session_path(ready.session) / LOG
    assert Path(ready.log) == log
    driven.send(Prompt(QUESTION), Prompt(QUESTION))
    assert [driven.until(Ended).result, driven.until(Ended).result] == [ANSWER, ANSWER]
    assert driven.of(Problem) == []
    driven.send(Quit())
    died = driven.until(Died)
    assert (died.code, died.is_expected) == (0, True)
    printed = log.read_text().splitlines()
    wanted = ["printed on 1", "printed on 2", "put by C", "printed by Python", "printed by a child"]
    assert [line for line in printed if line in wanted] == wanted
    assert list(died.log[-5:]) == wanted
    assert log.stat().st_mode & 0o777 == 0o600
    delete(ready.session)  # the log is a part of the session
    assert not log.exists()


def test_large_events_both_ways(start: Start) -> None:
    """Neither side waits for the other, though both write more than a pipe holds before they read."""
    big = "x" * (5 << 20)
    driven = start([ANSWER])
    driven.ready()
    for number in range(4):
        driven.send(Note(f"{big}{number}", id=number), Inspect(f"{big}{number}", id=-number - 1))
    time.sleep(0.5)  # nobody takes what comes meanwhile
    replies = [driven.until(Reply) for _ in range(8)]
    assert [reply.ok for reply in replies if reply.id >= 0] == [True] * 4
    assert all(len(reply.message) > len(big) for reply in replies if reply.id < 0)


def test_a_client_that_does_not_listen_does_not_hold_up_the_agent(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a terminal is stopped: it goes on, and a cancel is still heeded."""
    monkeypatch.setenv("PACE_MAX_TOKENS", "50000")
    release = threading.Event()
    heard: list[dict[str, Any]] = []

    def listen(received: dict[str, Any]) -> None:
        heard.append(received)
        if received["type"] == "prompted":
            release.wait(PATIENCE)

    driven = start(["word " * 10_000])
    driven.ready()
    driven.worker._listener = listen
    driven.send(Prompt(QUESTION))
    log = session_path(driven.worker.session) / EVENTS
    deadline = time.monotonic() + PATIENCE
    while log.stat().st_size < 160_000 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert log.stat().st_size >= 160_000  # far more than a pipe holds, and none of it was taken
    assert heard[-1]["type"] == "prompted"
    release.set()
    driven.send(Cancel())
    ended: list[str] = []
    while not ended and time.monotonic() < deadline:
        time.sleep(0.05)
        ended = [received["reason"] for received in heard if received["type"] == "ended"]
    assert ended == ["cancelled"]


@pytest.mark.parametrize("way", ["quit", "close", "SIGTERM"])
def test_it_ends_while_it_reads(start: Start, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, and before it has read to the end."""
    monkeypatch.setattr("pace_agent.worker.client._END_SECONDS", PATIENCE)
    driven = start([ANSWER])
    ready = driven.ready()
    driven.send(Prompt(LONG))
    driven.until(AgentEvent, lambda event: event.type == "memory" and event.event["type"] == "progress")
    popen = driven.worker._process.popen  # type: ignore[union-attr]
    if way == "quit":
        driven.send(Quit())
    elif way == "SIGTERM":
        popen.send_signal(signal.SIGTERM)
    else:
        driven.worker.close()
    assert popen.wait(PATIENCE) == 0
    assert "turned" not in [event.type for _at, event in read_events(session_path(ready.session) / EVENTS)]
    again = start([ANSWER], kept=["--resume", ready.session])
    again.send(Prompt(QUESTION))
    assert again.until(Ended).result == ANSWER


def test_work_that_hears_nothing_is_left_behind(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that does not come back does not hold up the end, and nobody has to kill the process."""
    monkeypatch.setattr("pace_agent.worker.client._END_SECONDS", PATIENCE)
    driven = start([{"do": "hang"}])
    driven.ready()
    driven.send(Prompt(QUESTION))
    driven.until(Prompted)
    time.sleep(0.3)
    driven.worker.close()
    assert driven.worker._process.popen.returncode == 0  # type: ignore[union-attr]


def test_a_command_that_runs_does_not_outlive_it(start: Start, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    driven = start(
        [PLAN, call("shell", command=f"echo $$ > {pid}; echo begun; sleep 600")],
        "--mode",
        "auto",
        "--add-dir",
        str(tmp_path),
    )
    driven.ready()
    driven.send(Prompt(FIX))
    asked = driven.until((Asked, Output), lambda event: True)
    if isinstance(asked, Asked):
        driven.send(GiveAnswer(asked.id, "once"))
        driven.until(Output)
    driven.worker.close()
    time.sleep(0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize("way", ["kill", "close", "crash"])
def test_no_command_outlives_a_worker_that_hangs_or_crashes(start: Start, tmp_path: Path, way: str) -> None:
    """Neither one that it waits for, nor what that left behind in its session."""
    pids = tmp_path / "pids"
    command = f"(sleep 600 & echo $! >> {pids}); echo $$ >> {pids}; echo begun; sleep 600"
    driven = start([PLAN, call("shell", command=command)], "--mode", "auto", "--add-dir", str(tmp_path))
    driven.ready()
    driven.send(Prompt(FIX))
    if isinstance(asked := driven.until((Asked, Output)), Asked):
        driven.send(GiveAnswer(asked.id, "once"))
        driven.until(Output)
    commands = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    assert len(commands) == 2
    assert driven.worker.pid is not None
    if way == "crash":
        os.kill(driven.worker.pid, signal.SIGKILL)
    else:
        os.kill(driven.worker.pid, signal.SIGSTOP)
        getattr(driven.worker, way)()
    _, left = psutil.wait_procs(commands, PATIENCE)
    assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []


def test_a_start_that_fails(start: Start) -> None:
    """A message that says so, an exit code, and a client that can try again."""
    driven = start([], kept=["--resume", "nobody"])
    problem = driven.until(Problem)
    assert problem.fatal
    assert "there is no session nobody" in problem.message
    died = driven.until(Died)
    assert (died.code, died.is_expected) == (2, False)
    wrong = start([], "--nonsense")
    assert wrong.until(Problem).fatal
    assert any("--nonsense" in line for line in wrong.until(Died).log)
    with pytest.raises(StorageError, match="cannot start"):
        Worker(program=["/nonexistent/python"]).start()
    idle = Worker()
    assert not idle.send(Cancel())
    with pytest.raises(ConfigError, match="not running"):
        idle.restart()
    idle.close()
    idle.close()


def test_a_session_that_is_not_kept(start: Start) -> None:
    driven = start([ANSWER, {"do": "abort"}], kept=["--no-save"])
    ready = driven.ready()
    assert (ready.session, ready.log) == ("", "")
    driven.send(Prompt(QUESTION))
    driven.until(Ended)
    driven.send(Prompt(QUESTION))
    assert any("Aborted" in line for line in driven.until(Died).log)
    driven.worker.restart()
    driven.ready()
    driven.send(Prompt(QUESTION))
    assert driven.until(Prompted).number == 1


def test_restarting_one_that_hangs(start: Start) -> None:
    driven = start([{"do": "hang"}, ANSWER])
    ready = driven.ready()
    driven.send(Prompt(QUESTION))
    driven.until(Prompted)
    driven.worker.restart()
    assert driven.until(Died).signal == "SIGKILL"
    assert driven.until(Ready).session == ready.session


def test_importing_the_client_is_cheap() -> None:
    """A screen imports it before its first paint."""
    code = (
        "import sys, pace_agent.worker.client; "
        "print([name for name in ('numpy', 'pydantic', 'pace_local.model') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
