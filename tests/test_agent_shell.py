from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_agent.errors import ToolError
from pace_agent.shell.output import Output, settled
from pace_agent.shell.running import Ending, Shell, clean_environment, shell_program
from pace_local.errors import ConfigError

PATIENCE = 30.0
"""Seconds after which a test gives up on what should have happened at once."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    return path


@pytest.fixture
def shell(folder: Path, tmp_path: Path) -> Iterator[Shell]:
    with Shell(folder, tmp_path / "output", environ={**os.environ, "SHELL": "/bin/sh"}) as opened:
        yield opened


def is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if is_written(path):
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path} did not come")


def is_gone(number: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if psutil.Process(number).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def reach_limit_when(is_due: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a time limit of :data:`PATIENCE` seconds be reached once something is so."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (PATIENCE if is_due() else 0.0))
    monkeypatch.setattr("pace_agent.shell.running.time", clock)


def test_a_command_runs_in_the_folder(shell: Shell, folder: Path) -> None:
    result = shell.run("pwd; echo out; echo err >&2; cd /; exit 3")
    assert result.text == f"{folder}\nout\nerr\n"
    assert (result.ending, result.exit_code, result.signal) == (Ending.EXIT, 3, None)
    assert (result.output_bytes, result.output_file, result.background) == (len(result.text), None, ())
    assert not result.is_success
    assert result.summary.startswith("exit code 3 after ")
    assert shell.run("pwd").text == f"{folder}\n"
    assert shell.run("true").is_success


def test_there_is_no_input_and_no_terminal(shell: Shell) -> None:
    result = shell.run(
        "cat; read x || echo none; (: < /dev/tty) 2>/dev/null || echo no terminal", time_limit=PATIENCE
    )
    assert result.text == "none\nno terminal\n"


def test_a_signal_is_named(shell: Shell) -> None:
    result = shell.run("kill -SEGV $$")
    assert (result.exit_code, result.signal) == (None, "SIGSEGV")
    assert "SIGSEGV" in result.summary


def test_an_endless_command_ends_at_the_time_limit(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[bytes] = []
    reach_limit_when(lambda: b"begun\n" in b"".join(pieces), monkeypatch)
    result = shell.run(
        "echo begun; while :; do sleep 0.05; done", time_limit=PATIENCE, on_output=pieces.append
    )
    assert result.ending is Ending.TIME_LIMIT
    assert result.text == "begun\n"
    assert result.seconds >= PATIENCE
    assert "time limit" in result.summary


def test_what_ignores_to_be_ended_is_killed_with_all_that_it_started(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("one", "two", "three")
    reach_limit_when(lambda: all(is_written(folder / name) for name in names), monkeypatch)
    stubborn = "trap '' TERM INT HUP; echo $$ > {}; while :; do sleep 0.05; done"
    command = f"""
        sh -c '{stubborn.format("one")}' &
        (sh -c '{stubborn.format("two")}' &)
        {stubborn.format("three")}
    """.replace("trap ''", 'trap ""')
    result = shell.run(command, time_limit=PATIENCE)
    assert result.ending is Ending.TIME_LIMIT
    for name in names:
        assert is_gone(int(wait_for(folder / name))), name


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds them by their environment")
def test_what_left_the_group_and_the_session_is_killed_too(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach_limit_when(lambda: is_written(folder / "pid"), monkeypatch)
    (folder / "daemon.py").write_text(
        "import os, signal, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open('pid', 'w').write(f'{os.getpid()}\\n')\n"
        "time.sleep(600)\n"
    )
    result = shell.run(f"'{sys.executable}' daemon.py; sleep 600", time_limit=PATIENCE)
    assert result.ending is Ending.TIME_LIMIT
    assert is_gone(int(wait_for(folder / "pid")))


@pytest.mark.parametrize(
    "command", ["sleep 600", "trap '' TERM; sleep 600", "yes > /dev/null", "sleep 600 | cat"]
)
def test_another_thread_can_cancel(shell: Shell, folder: Path, command: str) -> None:
    cancel = threading.Event()
    asked: list[float] = []

    def ask() -> None:
        wait_for(folder / "begun")
        asked.append(time.monotonic())
        cancel.set()

    thread = threading.Thread(target=ask)
    thread.start()
    result = shell.run(f"echo $$ > begun; {command}", time_limit=PATIENCE, cancel=cancel)
    thread.join()
    assert result.ending is Ending.CANCELLED
    assert time.monotonic() - asked[0] < PATIENCE / 2
    assert "cancelled" in result.summary
    assert is_gone(int((folder / "begun").read_text()))


def test_a_cancel_before_the_start_counts(shell: Shell, folder: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    assert shell.run("sleep 600", cancel=cancel).ending is Ending.CANCELLED


def test_a_background_process_does_not_hold_the_command_up(shell: Shell, folder: Path) -> None:
    result = shell.run("sleep 600 & echo $! > pid; echo done", time_limit=PATIENCE)
    number = int(wait_for(folder / "pid"))
    assert (result.ending, result.text) == (Ending.EXIT, "done\n")
    assert result.background == (number,)
    assert f"still running in the background: {number}" in result.summary
    assert psutil.pid_exists(number)
    shell.close()
    assert is_gone(number)


def test_a_background_process_can_go_on_writing(shell: Shell, folder: Path) -> None:
    """What it wrote after its command's end was passed on, for as long as it wrote."""
    pieces: list[bytes] = []
    result = shell.run(
        "(while [ ! -e go ]; do sleep 0.02; done; seq 1 30000 && echo written > late) & echo done",
        time_limit=PATIENCE,
        on_output=pieces.append,
    )
    (folder / "go").touch()
    assert wait_for(folder / "late") == "written\n"
    assert result.text == "done\n"
    assert b"".join(pieces) == b"done\n"


def test_a_command_that_closes_its_output_runs_on(shell: Shell, folder: Path) -> None:
    result = shell.run("echo a; exec >&- 2>&-; sleep 0.3; : > late; exit 4", time_limit=PATIENCE)
    assert (result.text, result.exit_code) == ("a\n", 4)
    assert (folder / "late").exists()


def test_long_output_is_cut_in_the_middle_and_kept_in_a_file(folder: Path, tmp_path: Path) -> None:
    shell = Shell(folder, tmp_path / "output", shown=1000)
    result = shell.run("seq 1 100000")
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    assert result.output_file is not None
    assert result.output_file.read_text() == whole
    assert result.output_bytes == len(whole)
    assert result.output_file.stat().st_mode & 0o777 == 0o600
    assert result.output_file.parent.stat().st_mode & 0o777 == 0o700
    head, gap, tail = result.text.partition(
        f"… {len(whole):,} bytes in all; all of it is in {result.output_file} …\n"
    )
    assert gap
    assert whole.startswith(head)
    assert whole.endswith("\n" + tail)
    assert 900 < len(head) + len(tail) <= 1000


def test_endless_output_ends_the_command(folder: Path, tmp_path: Path) -> None:
    shell = Shell(folder, tmp_path / "output", shown=1000, kept=200_000)
    result = shell.run("yes", time_limit=PATIENCE)
    assert result.ending is Ending.OUTPUT_LIMIT
    assert result.output_file is not None
    assert result.output_file.stat().st_size == 200_000
    assert "the first 200,000 bytes are in" in result.text
    assert len(result.text) < 1500


def test_a_place_that_cannot_be_written_costs_the_middle_only(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = Shell(folder, tmp_path / "file/output", shown=1000).run("seq 1 100000")
    assert result.is_success
    assert result.output_file is None
    assert "could not be kept" in result.text
    assert result.text.endswith("100000\n")


def test_output_comes_while_it_runs(shell: Shell) -> None:
    pieces: list[bytes] = []
    came = threading.Event()

    def take(piece: bytes) -> None:
        pieces.append(piece)
        came.set()
        raise RuntimeError("a screen that is gone must not stop the command")

    cancel = threading.Event()
    waiter = threading.Thread(target=lambda: (came.wait(PATIENCE), cancel.set()))
    waiter.start()
    result = shell.run("echo first; sleep 600", time_limit=PATIENCE, cancel=cancel, on_output=take)
    waiter.join()
    assert result.ending is Ending.CANCELLED
    assert b"".join(pieces) == b"first\n"


def test_control_sequences_and_broken_text_are_harmless(shell: Shell) -> None:
    result = shell.run(
        r"printf 'a\033[31mred\033[0m\033]0;title\007 \377\376 \007\b\033c\n'; printf '10%%\r20%%\rend\r\n'"
    )
    assert "\x1b" not in result.text
    assert result.text == "ared \ufffd\ufffd \nend\n"


@settings(deadline=None, max_examples=300)
@given(
    st.text(st.sampled_from("ab\n\t\r\x08\x1b[]0;m\x07\x9b\u202e\u200bé\\P"), max_size=40)
    | st.text(max_size=40)
)
def test_nothing_harmful_is_left(text: str) -> None:
    shown = settled(text)
    assert all(c.isprintable() or c in "\n\t\u3000" for c in shown)
    assert settled(shown) == shown
    assert shown.count("\n") <= text.count("\n")


@settings(deadline=None, max_examples=150)
@given(pieces=st.lists(st.text(st.sampled_from("ab\né😀\x1b"), max_size=400), max_size=12))
def test_output_is_bounded_and_whole_in_its_file(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str]
) -> None:
    path = tmp_path_factory.mktemp("output") / "folder/file"
    output = Output(path, shown=200, most=10_000)
    for piece in pieces:
        output.add(piece.encode())
    data = "".join(pieces).encode()
    text = output.text()
    output.close()
    assert output.size == len(data)
    if output.file is None:
        assert text == settled(data.decode())
        assert len(text) <= 200
    else:
        assert path.read_bytes() == data
        assert len(text) <= 200 + 100 + len(str(path))
    output.add(b"late")
    assert output.size == len(data)


def test_memory_is_bounded(tmp_path: Path) -> None:
    output = Output(tmp_path / "file", shown=1000, most=1 << 20)
    for _ in range(3000):
        output.add(b"x" * 1000)
        assert len(output._head) + sum(map(len, output._tail)) < 20_000
    assert output.is_full
    assert (tmp_path / "file").stat().st_size == 1 << 20
    output.close()


def test_what_the_agent_holds_is_not_given_away(folder: Path, tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "HF_TOKEN": "hf_secret",
        "COPY_OF_IT": "x-hf_secret",
        "MINE": "given-secret",
        "PACE_MODEL": "m",
        "CDPATH": "/",
        "KEPT": "yes",
    }
    shell = Shell(folder, tmp_path / "output", environ=environ, secrets_held=["given-secret"])
    text = shell.run("env").text
    assert "secret" not in text
    assert "PACE_MODEL" not in text
    assert "CDPATH" not in text
    assert "KEPT=yes" in text
    assert "GIT_TERMINAL_PROMPT=0" in text
    assert clean_environment({"A": "1"})["A"] == "1"


def test_the_shell_is_the_users_if_its_commands_are_understood(tmp_path: Path) -> None:
    fish = tmp_path / "fish"
    fish.write_text("#!/bin/sh\n")
    fish.chmod(0o755)
    assert shell_program({"SHELL": "/bin/sh"}) == "/bin/sh"
    assert os.path.basename(shell_program({"SHELL": str(fish), "PATH": os.environ["PATH"]})) in ("bash", "sh")
    assert os.path.basename(shell_program({"SHELL": "/nothing/bash", "PATH": ""})) in ("bash", "sh")


def test_a_command_that_cannot_start_is_an_error_of_ours(shell: Shell, folder: Path) -> None:
    with pytest.raises(ToolError, match="zero character"):
        shell.run("echo \0")
    with pytest.raises(ToolError, match="cannot be started"):
        shell.run("echo " + "x" * 50_000_000)
    folder.rmdir()
    with pytest.raises(ToolError, match="is gone"):
        shell.run("echo")


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_time_limit_out_of_range_is_refused(shell: Shell, limit: float) -> None:
    with pytest.raises(ConfigError, match="time limit"):
        shell.run("true", time_limit=limit)


def test_sizes_out_of_range_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="out of range"):
        Shell(folder, tmp_path, shown=10)
    with pytest.raises(ConfigError, match="out of range"):
        Shell(folder, tmp_path, shown=1000, kept=10)


def test_nothing_is_left_open(shell: Shell) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("counts descriptors in /proc")
    shell.run("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        shell.run("seq 1 50000")
        shell.run("sleep 600", time_limit=0.1)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "shell output"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
