"""The screen in a real terminal, with a real process behind it: as a user has it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from agent_runs import DONE, EDIT, PLAN, SHOP, call, make_repository
from session_pair import TALKER
from tmux_terminal import PATIENCE, Terminal

from pace_local.testing import tiny_model

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

FIX = "Fix total in shop/cart.py: it leaves out the first price"
SLEEP = call("shell", command="touch begun; sleep 600")
READY = "Say what to do."


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop", SHOP)


@pytest.fixture
def start(tmp_path: Path, tiny_models: Path, shop: Path) -> Iterator[Callable[..., Terminal]]:
    """A terminal in which the screen is opened, with a script in the model's place."""
    opened: list[Terminal] = []
    homes = {name: str(tmp_path / name) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    environ = {**homes, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "TEXTUAL": ""}

    def run(lines: list[str] | None, *options: str, editor: str = "") -> Terminal:
        if lines is not None:
            script = tmp_path / "script.json"
            script.write_text(json.dumps(lines))
            model = str(tiny_model(TALKER, tiny_models))
            options = ("--model", model, "--style", "tools", "--script", str(script), *options)
        terminal = Terminal(tmp_path, {**environ, "VISUAL": editor})
        opened.append(terminal)
        terminal.before = (terminal.state, _settings(terminal))
        program = [sys.executable, "-m", "pace_tui.cli"]
        terminal.run(*program, "--repo", str(shop), "--budget", "4096", *options)
        terminal.wait_for(READY)
        terminal.wait_for("begun:")
        return terminal

    yield run
    for terminal in opened:
        terminal.close()


def _settings(terminal: Terminal) -> str:
    """What the terminal's driver is set to, its size apart."""
    return subprocess.run(
        ["stty", "-g", "-F", terminal.device], capture_output=True, text=True, check=True
    ).stdout


def _processes(terminal: Terminal) -> list[psutil.Process]:
    """The screen, and all that it has started."""
    return psutil.Process(terminal.shell).children(recursive=True)


def _worker(terminal: Terminal) -> psutil.Process:
    return next(each for each in _processes(terminal) if "pace_agent.worker" in each.cmdline())


def _is_as_before(terminal: Terminal, code: int = 0) -> None:
    """The shell has its terminal back and the screen's exit code, and nothing is left running."""
    terminal.wait_for("ready>")
    end = time.monotonic() + PATIENCE
    while _processes(terminal) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _processes(terminal)
    assert (terminal.state, _settings(terminal)) == terminal.before
    _send(terminal, "echo code $?")
    terminal.wait_for(f"\ncode {code}\n")


def _send(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.wait_for(text[:30])
    terminal.press("Enter")


def _allow(terminal: Terminal) -> None:
    """Answer yes; again if it was in the time in which a key does not count, whose begin is not seen."""
    terminal.wait_for("y once")
    end = time.monotonic() + PATIENCE
    while "y once" in terminal.text:
        assert time.monotonic() < end
        time.sleep(0.6)
        terminal.press("y")
        again = time.monotonic() + 5
        while "y once" in terminal.text and time.monotonic() < again:
            time.sleep(0.05)


def test_a_session_from_the_first_key_to_the_last(
    start: Callable[..., Terminal], shop: Path, tmp_path: Path
) -> None:
    terminal = start([PLAN, EDIT, DONE, "There is nothing to plan.", SLEEP, *[PLAN, EDIT, DONE] * 2])
    cart = shop / "shop" / "cart.py"
    _send(terminal, FIX)
    assert "prices[1:]" in terminal.wait_for("edit would change")
    assert "prices[1:]" in cart.read_text()
    _allow(terminal)
    assert "total adds all" in terminal.wait_for("✓ done")
    assert "prices[1:]" not in cart.read_text()

    _send(terminal, "Wait for a while")
    _allow(terminal)
    end = time.monotonic() + PATIENCE
    while not (shop / "begun").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    sleeping = [each for each in _processes(terminal) if each.name() == "sleep"]
    assert sleeping
    terminal.press("Escape")
    terminal.wait_for("interrupted")
    assert not any(each.is_running() for each in sleeping)

    _send(terminal, "/undo")
    terminal.wait_for("prompt 2 was taken back")
    _send(terminal, "/undo")
    terminal.wait_for("prompt 1 was taken back")
    assert "prices[1:]" in cart.read_text()

    terminal.resize(52, 20)
    terminal.wait_for(lambda text: READY in text and len(text.splitlines()) <= 20)
    terminal.resize(200, 50)
    terminal.wait_for("Memory")

    worker = _worker(terminal)
    worker.send_signal(signal.SIGSEGV)
    terminal.wait_for("SIGSEGV")
    terminal.wait_for("gone on with")
    assert _worker(terminal).pid != worker.pid

    _send(terminal, FIX)
    _allow(terminal)
    terminal.wait_for(lambda text: text.count("total adds all") >= 2)
    assert "prices[1:]" not in cart.read_text()
    terminal.press("C-c")
    terminal.wait_for("again quits")
    terminal.press("C-c")
    _is_as_before(terminal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_screen_that_is_told_to_end_gives_the_terminal_back(
    start: Callable[..., Terminal], number: signal.Signals
) -> None:
    terminal = start([PLAN])
    screen = next(each for each in _processes(terminal) if "pace_tui.cli" in each.cmdline())
    screen.send_signal(number)
    _is_as_before(terminal, 128 + number)


def test_a_screen_whose_terminal_is_lent_to_an_editor_is_told_to_end(
    start: Callable[..., Terminal], tmp_path: Path
) -> None:
    """Regression: it waited for the editor, and what was received meanwhile for the screen."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho editing $1\nsleep 600\n")
    editor.chmod(0o700)
    terminal = start([PLAN], editor=str(editor))
    screen = next(each for each in _processes(terminal) if "pace_tui.cli" in each.cmdline())
    terminal.press("C-g")
    terminal.wait_for("editing /")
    terminal.press("C-c")  # it is the editor's, and ends that alone
    terminal.wait_for("the prompt is as it was")
    terminal.press("C-g")
    terminal.wait_for("editing /")
    began = time.monotonic()
    screen.send_signal(signal.SIGTERM)
    _is_as_before(terminal, 128 + signal.SIGTERM)
    assert time.monotonic() - began < 60  # and not when the editor ends


def test_it_quits_though_the_model_hears_nothing(start: Callable[..., Terminal]) -> None:
    terminal = start([PLAN])
    worker = _worker(terminal)
    worker.suspend()
    terminal.press("C-q")
    _is_as_before(terminal)


def test_it_can_be_put_into_the_background(start: Callable[..., Terminal]) -> None:
    terminal = start(["It is 19."])
    terminal.press("C-z")
    terminal.wait_for("ready>")
    assert terminal.state == terminal.before[0]
    terminal.run("fg")
    terminal.wait_for(READY)
    _send(terminal, "What is RATE in shop/cart.py?")
    terminal.wait_for("It is 19.")
    terminal.press("C-q")
    _is_as_before(terminal)


@pytest.mark.model
def test_a_real_model_answers(start: Callable[..., Terminal], small_models: Mapping[str, Path]) -> None:
    terminal = start(None, "--model", str(small_models["qwen2.5-coder-0.5b"]), "--style", "guided")
    _send(terminal, "What is RATE in shop/cart.py? Answer with one number.")
    terminal.wait_for("✓ done")
    text = terminal.wait_for("tok/s")
    answer = text.rpartition("▌ What is RATE")[2].partition("✓ done")[0]
    assert "19" in answer
    terminal.press("C-q")
    _is_as_before(terminal)
