"""``pace run`` and ``pace watch`` in processes of their own, with the real agent and a tiny model.

Only what the model says is scripted; all else is what a user has.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_runs import EDIT, FIX, PLAN, SHOP, call, make_repository
from command_line import PATIENCE, environment, start
from session_pair import TALKER

from pace_agent.events import EVENTS, Turned
from pace_agent.sessions.events import read_events
from pace_agent.sessions.log import SessionFolder, session_path
from pace_local.testing import tiny_model

SLEEP = call("shell", command="sleep 600")

PACE = """
import functools, json, os, sys
import pace_agent
from pace_agent.agent import Agent
from pace_agent.cli import main
from pace_local.testing import Script

pace_agent.Agent = functools.partial(Agent, writer=Script(json.loads(os.environ["SCRIPT"])))
sys.exit(main())
"""
"""``pace`` with a script in the place of what the model says."""

pytestmark = pytest.mark.usefixtures("own_home")


class Pace:
    """A repository, and ``pace`` on it."""

    def __init__(self, root: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._model = model
        self._monkeypatch = monkeypatch

    def words(self, command: str, *words: str) -> list[str]:
        place = ["--repo", str(self.root), "--model", str(self._model)]
        return [command, *place, "--budget", "4096", *words]

    def run(self, lines: Sequence[str], *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """``pace run`` to its end."""
        return subprocess.run(
            [sys.executable, "-c", PACE, *self.words("run", *words)],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            env=environment(SCRIPT=json.dumps(list(lines))),
        )

    @contextmanager
    def started(self, lines: Sequence[str], *words: str) -> Iterator[subprocess.Popen[str]]:
        """``pace`` as it is begun at a terminal; ended at the end, if it still runs."""
        self._monkeypatch.setenv("SCRIPT", json.dumps(list(lines)))
        with start(PACE, *self.words(*words)) as process:
            try:
                yield process
            finally:
                process.kill()

    def text(self, name: str = "shop/cart.py") -> str:
        return (self.root / name).read_text(encoding="utf-8")


@pytest.fixture
def pace(tmp_path: Path, tiny_models: Path, monkeypatch: pytest.MonkeyPatch) -> Pace:
    model = tiny_model(dataclasses.replace(TALKER, n_ctx_train=16_384), tiny_models)
    return Pace(make_repository(tmp_path / "shop", SHOP), model, monkeypatch)


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """What a process says on stderr up to a line that holds a text."""
    assert process.stderr is not None
    said = ""
    with _ended_after(process, 120):
        while text not in (line := process.stderr.readline()):
            said += line
            assert line, f"it ended, or said nothing for long:\n{said}"
    return said + line


@contextmanager
def _ended_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """A process that takes too long is ended, so that whoever reads what it says does not wait for ever."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def last_object(out: str) -> Mapping[str, Any]:
    """The one JSON object that is all of an output."""
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    document: Mapping[str, Any] = json.loads(out)
    return document


def test_a_session_goes_on_from_run_to_run_in_all_forms_of_output(pace: Pace, tmp_path: Path) -> None:
    """A task from stdin as text; then a question as JSON; then the limit of turns as lines of JSON."""
    answer = tmp_path / "answer.txt"
    done = call("done", result="total adds all: ✓")
    first = pace.run([PLAN, EDIT, done], "--mode", "accept-edits", "-o", str(answer), stdin=FIX)
    assert first.returncode == 0, first.stderr
    assert first.stdout == answer.read_text(encoding="utf-8") == "total adds all: ✓\n"
    assert pace.text() == SHOP["shop/cart.py"].replace("prices[1:]", "prices")
    said = first.stderr.splitlines()
    (started,) = [line for line in said if line.startswith("session ")]
    assert "tools style, mode accept-edits, pace_focus with a budget of 4,096 tokens" in started
    assert "  changed shop/cart.py +1 -1" in said
    assert said[-1].startswith("done  (")

    question = "With or without tax?"
    second = pace.run([PLAN, question], "--continue", "--output-format", "json", "-p", "Correct total again")
    assert second.returncode == 1, second.stderr
    document = last_object(second.stdout)
    assert (document["reason"], document["exit_code"], document["result"]) == ("question", 1, question)
    assert started.split()[1] == f"{document['session']}"
    assert "gone on with" in second.stderr

    read = call("read", path="README.md")
    words = ["--resume", document["session"], "--max-turns", "2", "-p", "Correct total in shop/cart.py"]
    third = pace.run([PLAN, read, read], *words, "--output-format", "stream-json")
    assert third.returncode == 3, third.stderr
    events = [json.loads(line) for line in third.stdout.splitlines()]
    assert {event["type"] for event in events} <= set(EVENTS)
    assert events[0] == {
        "type": "started",
        "session": document["session"],
        "repository": str(pace.root),
        "model": document["model"],
        "style": "tools",
        "mode": "ask",
        "policy": "pace_focus",
        "budget": 4096,
        "position_cap": 8192,
        "resumed": True,
    }
    # Each process goes on behind all that those before it have read and written.
    logged = [event for _, event in read_events(session_path(document["session"]) / "events.jsonl")]
    turned = [event for event in logged if isinstance(event, Turned)]
    assert len(turned) == 3 + 2 + 2
    for before, after in itertools.pairwise(turned):
        assert after.reused >= before.session_tokens
    (prompted,) = [event for event in events if event["type"] == "prompted"]
    assert prompted["number"] == 3
    assert [event["tool"] for event in events if event["type"] == "called"] == ["read"]
    assert (events[-1]["type"], events[-1]["reason"], events[-1]["turns"]) == ("ended", "turn_limit", 2)


def test_what_nobody_allows_ends_with_its_own_code(pace: Pace) -> None:
    ended = pace.run([PLAN, EDIT], "--no-save", "--output-format", "json", "-p", FIX)
    assert ended.returncode == 4, ended.stderr
    document = last_object(ended.stdout)
    assert (document["reason"], document["session"], document["changed"]) == ("refused", "", [])
    assert "--mode accept-edits or auto allows more" in ended.stderr
    assert pace.text() == SHOP["shop/cart.py"]


def test_a_session_of_another_repository_is_refused_at_start(pace: Pace, tmp_path: Path) -> None:
    with SessionFolder.create("elsewhere", tmp_path):
        pass
    ended = pace.run([], "--resume", "elsewhere", "--output-format", "json", "-p", FIX)
    assert ended.returncode == 2
    document = last_object(ended.stdout)
    assert document["exit_code"] == 2
    assert "session 'elsewhere' is about" in document["error"]
    assert ended.stderr.splitlines()[-1] == f"pace: {document['error']}"


def test_the_time_limit_stops_a_command_that_runs(pace: Pace) -> None:
    for limit in (4, 16, 64):  # in the shortest, a busy machine may not come to the command
        words = ["--mode", "auto", "--time-limit", str(limit), "--output-format", "json", "-p", FIX]
        ended = pace.run([PLAN, SLEEP], *words)
        assert ended.returncode == 124, ended.stderr
        document = last_object(ended.stdout)
        assert document["reason"] == "time"
        assert limit <= document["seconds"] < 600
        if "  shell sleep 600" in ended.stderr.splitlines():
            break
    else:
        pytest.fail(ended.stderr)


def test_ctrl_c_stops_a_command_that_runs(pace: Pace) -> None:
    words = ["--mode", "auto", "--output-format", "json", "-p", FIX]
    command = call("shell", command="touch begun; sleep 600")
    with pace.started([PLAN, command], "run", *words) as process:
        until = time.monotonic() + 120
        while not (pace.root / "begun").exists() and time.monotonic() < until:
            time.sleep(0.05)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert time.monotonic() - began < 60
    assert last_object(out)["reason"] == "cancelled"
    assert "  shell touch begun; sleep 600" in err.splitlines()
    assert "Traceback" not in err


def save(path: Path, text: str) -> None:
    """Save as editors do: a new file takes the old one's place."""
    draft = path.with_name(f".{path.name}.swp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def test_comments_are_done_and_answered_as_they_are_saved(pace: Pace) -> None:
    cart = pace.root / "shop/cart.py"
    before = pace.text()
    lines = [PLAN, EDIT, call("done", result="it adds all"), "It is 19, as RATE says."]
    with pace.started(lines, "watch") as process:
        wait_for(process, "watching ")

        loop = "    for price in prices[1:]:\n"
        save(cart, before.replace(loop, f"    # leave no price out, fix it AI!\n{loop}"))
        said = wait_for(process, "done  (")
        assert "shop/cart.py:9 does: leave no price out, fix it" in said
        fixed = before.replace("prices[1:]", "prices")
        until = time.monotonic() + 60
        while pace.text() != fixed and time.monotonic() < until:
            time.sleep(0.05)
        assert pace.text() == fixed  # the comment is gone, all else is byte for byte as it was

        asks = "RATE = 19  # what is the rate AI?\n"
        save(cart, fixed.replace("RATE = 19\n", asks))
        said = wait_for(process, "done  (")
        assert "shop/cart.py:3 answers: what is the rate" in said
        assert "  changed " not in said  # by the agent
        while pace.text() != fixed and time.monotonic() < until:
            time.sleep(0.05)
        assert pace.text() == fixed

        time.sleep(1)  # its own writes start nothing: the script has no further answer
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert out == "it adds all\nIt is 19, as RATE says.\n"
        assert err.splitlines()[-1] == "pace: cancelled"
