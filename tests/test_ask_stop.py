"""Time limits and interrupts: heard at once, whatever the command is at; what was written stays."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import PACE, PATIENCE, QUESTION, SMALL, run, start, write_project

from pace_local import Session, asking
from pace_local.asking import Asking
from pace_local.errors import CancelledError, TimeLimitError
from pace_local.terminal import Stop
from pace_local.testing import TinySpec, tiny_model

ask_command = importlib.import_module("pace_local.commands.ask")

ENDLESS = ("--max-tokens", "1000000000")


@pytest.fixture(scope="module")
def tiny(tiny_models) -> Path:
    return tiny_model(TinySpec(n_layer=2, head_dim=16, n_ff=32), tiny_models)


@pytest.fixture(scope="module")
def long_files(tmp_path_factory) -> list[str]:
    """Text for a minute."""
    folder = tmp_path_factory.mktemp("long")
    files = write_project(folder)
    text = Path(files[1]).read_text()
    Path(files[1]).write_text(text * 40)
    return files


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a process still says, once it has ended by itself."""
    try:
        return process.communicate(timeout=PATIENCE)
    finally:
        process.kill()


# Time limits


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_time_limit_ends_an_endless_answer(form, tiny):
    shown = run(
        "ask", "-p", "x", "--model", tiny, *SMALL, *ENDLESS, "--time-limit", 1, "--output-format", form
    )
    assert shown.code == 124
    assert shown.err.splitlines()[-1] == "pace: the time limit of 1 s was reached"
    if form == "json":
        assert shown.document["exit_code"] == 124
        assert shown.document["error"] == "the time limit of 1 s was reached"
    elif form == "stream-json":
        error = {"type": "error", "message": "the time limit of 1 s was reached", "exit_code": 124}
        assert shown.events[-1] == error


def test_a_time_limit_while_files_are_read(tiny, long_files):
    shown = run("ask", "-p", QUESTION, "--model", tiny, *SMALL, *long_files, "--time-limit", 1.5)
    assert shown.code == 124
    assert shown.out == ""
    assert shown.err.splitlines()[-1] == "pace: the time limit of 1.5 s was reached"


def test_a_time_limit_that_is_not_reached(tiny):
    assert run("ask", "-p", "x", "--model", tiny, *SMALL, "--time-limit", 3600).code == 0


# Interrupts


def test_an_interrupt_while_the_answer_is_written(tiny):
    process = start(PACE, "ask", "-p", "x", "--model", tiny, *SMALL, *ENDLESS)
    first = process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    out, err = ended(process)
    assert process.returncode == 130
    assert (first + out).endswith("\n")
    assert err.splitlines()[-1] == "pace: cancelled"
    assert "Traceback" not in err


def test_an_interrupted_answer_as_json_holds_what_was_written(tiny):
    process = start(
        PACE, "ask", "-p", "x", "--model", tiny, *SMALL, *ENDLESS, "--output-format", "stream-json"
    )
    written = ""
    for line in process.stdout:
        event = json.loads(line)
        if event["type"] == "text":
            written = event["written"]
            break
    assert written
    process.send_signal(signal.SIGINT)
    out, _ = ended(process)
    assert process.returncode == 130
    *_, finished, error = (json.loads(line) for line in out.splitlines())
    assert error == {"type": "error", "message": "cancelled", "exit_code": 130}
    assert (finished["type"], finished["reason"]) == ("finished", "cancelled")
    assert finished["answer"].startswith(written)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupt_while_files_are_read(number, tiny, long_files):
    arguments = ("ask", "-p", QUESTION, "--model", tiny, *SMALL, "--output-format", "stream-json")
    process = start(PACE, *arguments, *long_files)
    for line in process.stdout:
        if json.loads(line)["type"] == "evicted":
            break
    process.send_signal(number)
    out, err = ended(process)
    assert process.returncode == 130
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert kinds[-1] == "error"
    assert "finished" not in kinds
    assert err.splitlines()[-1] == "pace: cancelled"
    assert "Traceback" not in err


def test_an_interrupt_while_the_model_is_loaded(tiny):
    """Loading is held up in its first call of the native progress callback."""
    script = (
        "import sys, time\n"
        "from pace_local import cli\n"
        "from pace_local.model import Model\n"
        "load = Model.load\n"
        "def slowly(path, *, gpu_layers, progress):\n"
        "    def wait(share):\n"
        "        print('loading', flush=True)\n"
        "        while progress(share): time.sleep(0.01)\n"
        "        return False\n"
        "    return load(path, gpu_layers=gpu_layers, progress=wait)\n"
        "Model.load = slowly\n"
        "sys.exit(cli.main())"
    )
    process = start(script, "ask", "-p", "x", "--model", tiny, *SMALL)
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    out, err = ended(process)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "pace: cancelled"
    assert "Traceback" not in err


# Between two turns


@pytest.fixture
def at_hand(monkeypatch) -> Stop:
    """Work runs here, and its stop is in the hands of the test."""
    stop = Stop()

    def run_here(work: Callable[[Stop], int], _seconds: float | None) -> int:
        code = work(stop)
        stop.raise_if_asked()
        return code

    monkeypatch.setattr(ask_command, "run_stoppable", run_here)
    return stop


def test_a_request_between_two_texts_is_not_lost(at_hand, tiny, tmp_path, monkeypatch):
    """A session that does nothing has nothing to cancel: all the other files were read first."""
    read = []
    append = Session.append

    def ask_after_the_first(session, *arguments, **settings):
        segment = append(session, *arguments, **settings)
        read.append(segment.name)
        if len(read) == 3:
            at_hand.request(CancelledError("cancelled"))
        return segment

    monkeypatch.setattr(Session, "append", ask_after_the_first)
    shown = run("ask", "-p", QUESTION, "--model", tiny, *SMALL, *write_project(tmp_path))
    assert shown.code == 130
    assert len(read) == 3


def test_a_request_while_files_are_cut_is_heard(at_hand, tiny, tmp_path, monkeypatch):
    """For large files that takes many seconds, before a single token is decoded."""
    cut = []
    plain = asking.cut

    def cut_and_stop(source, *arguments):
        cut.append(source.path)
        excerpts = plain(source, *arguments)
        at_hand.request(CancelledError("cancelled"))
        return excerpts

    def index(excerpts):
        raise AssertionError("all was cut")

    monkeypatch.setattr(asking, "cut", cut_and_stop)
    monkeypatch.setattr(asking, "ExcerptIndex", index)
    files = write_project(tmp_path)
    shown = run("ask", "-p", QUESTION, "--model", tiny, *SMALL, *files)
    assert shown.code == 130
    assert cut == files


def test_a_request_before_the_question_is_not_lost(at_hand, tiny, monkeypatch):
    plain = Asking.answer

    def late(this, *arguments, **settings):
        at_hand.request(TimeLimitError("late"))
        return plain(this, *arguments, **settings)

    monkeypatch.setattr(Asking, "answer", late)
    shown = run("ask", "-p", "x", "--model", tiny, *SMALL, *ENDLESS)
    assert shown.code == 124
    assert shown.out == ""


def test_a_request_between_two_steps_leaves_out_the_second(at_hand, tiny, tmp_path, monkeypatch):
    (tmp_path / "plan.toml").write_text("[[step]]\nprompt = 'one'\n[[step]]\nprompt = 'two'\n")
    plain = Asking.answer

    def then_stop(this, *arguments, **settings):
        yield from plain(this, *arguments, **settings)
        at_hand.request(CancelledError("cancelled"))

    monkeypatch.setattr(Asking, "answer", then_stop)
    shown = run("ask", "--plan", tmp_path / "plan.toml", "--model", tiny, *SMALL, "--output-format", "json")
    assert shown.code == 130
    assert shown.document["error"] == "cancelled"
    first, second = shown.document["steps"]
    assert first["finish_reason"] == "length"
    assert "answer" not in second


def test_nothing_is_left_running(tiny):
    """A session that was stopped in the midst is closed all the same, and so is its model."""
    script = (
        "import sys, threading\n"
        "from pace_local import cli, engine, model\n"
        "closed = []\n"
        "for cls in (engine.Engine, model.Model):\n"
        "    def close(self, plain=cls.close, name=cls.__name__):\n"
        "        closed.append(name); plain(self)\n"
        "    cls.close = close\n"
        "code = cli.main()\n"
        "print(code, closed, [t.name for t in threading.enumerate()], file=sys.stderr)"
    )
    process = start(script, "ask", "-p", "x", "--model", tiny, *SMALL, *ENDLESS)
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, err = ended(process)
    assert err.splitlines()[-1] == "130 ['Engine', 'Model'] ['MainThread']"
