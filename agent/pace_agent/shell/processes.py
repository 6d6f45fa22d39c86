"""Ends a command together with everything that it started, also what left its process group."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

MARK = "PACE_SHELL_ID"
"""A variable in the environment of a command, by which its descendants are known. It begins with the number
of the process that runs the command and a ``-``."""

_STEP = 0.02
_ROUNDS = 5


def family(process: subprocess.Popen[bytes], mark: str) -> list[psutil.Process]:
    """Every process that a command started and that still runs, itself included.

    A process is one of them if it descends from the command, is in its session, or has its mark in the
    environment; each of these can be lost, hardly all of them.
    """
    own = os.getpid()
    found: dict[int, psutil.Process] = {}
    if process.returncode is None:
        with suppress(psutil.Error):
            root = psutil.Process(process.pid)
            found[root.pid] = root
            found.update({child.pid: child for child in root.children(recursive=True)})
    for each in psutil.process_iter():
        if each.pid == own or each.pid in found or each.pid <= 1:
            continue
        if _is_marked(each, mark) or _in_session(each.pid, process.pid):
            found[each.pid] = each
    return [each for each in found.values() if _is_alive(each)]


def end_family(process: subprocess.Popen[bytes], mark: str, grace: float) -> None:
    """Ask a command and all that it started to end; after ``grace`` seconds make them. Reaps the command."""
    asked = family(process, mark)
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
    _signal_each(asked, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and (process.poll() is None or any(map(_is_alive, asked))):
        time.sleep(_STEP)
    # What was started meanwhile is found in the next round; each can only fork as long as it lives.
    for _ in range(_ROUNDS):
        left = family(process, mark)
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGKILL)
        elif not left:
            break
        _signal_each(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.2)
    with suppress(subprocess.TimeoutExpired):
        process.wait(1.0)


def kill_tree(root: int) -> None:
    """Kill a process, all that descends from it, and all that is in a session of theirs, without asking.

    Args:
        root: number of a process that this one started, in a session of its own, and has not waited for.
    """
    try:
        first = psutil.Process(root)
        first.suspend()  # it starts nothing more
        doomed = {each.pid: each for each in (first, *first.children(recursive=True))}
    except psutil.Error:
        return
    sessions = {_session_of(number) for number in doomed} - {None, _session_of(0)}
    for number in psutil.pids():
        if number not in doomed and _session_of(number) in sessions:
            with suppress(psutil.Error):
                doomed[number] = psutil.Process(number)
    _signal_each(doomed.values(), signal.SIGKILL)


def kill_left_by(owner: int) -> None:
    """Kill all commands that a process has left behind which died, and all that they started.

    Args:
        owner: number of that process.
    """
    for _ in range(_ROUNDS):  # what was started meanwhile is found in the next
        left = [
            one for one in psutil.process_iter() if _mark_of(one).startswith(f"{owner}-") and _is_alive(one)
        ]
        if not left:
            return
        _signal_each(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.2)


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _signal_each(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for each in processes:
        with suppress(psutil.Error, OSError):
            each.send_signal(number)  # checks that the number has not gone to another process


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _is_marked(process: psutil.Process, mark: str) -> bool:
    return _mark_of(process) == mark


def _mark_of(process: psutil.Process) -> str:
    try:
        return str(process.environ().get(MARK, ""))
    except (psutil.Error, OSError):
        return ""


def _in_session(number: int, session: int) -> bool:
    return _session_of(number) == session


def _session_of(number: int) -> int | None:
    try:
        return os.getsid(number)
    except OSError:
        return None
