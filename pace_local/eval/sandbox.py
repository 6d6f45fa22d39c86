"""Runs an answer's code and its hidden checks, each check in a process of its own.

The process is an isolated interpreter (``-I -S``: no user's packages, no environment) in an empty folder,
without standard streams. Guaranteed on Linux (x86-64, aarch64), for root too, by the kernel: no further
process or thread, no socket, no change to any file, no signal to another process, no key typed into a
terminal, no setting of the system or of another process (a seccomp filter, which needs no privileges and
names what is allowed); at most the given memory and CPU time. Everywhere: a wall-clock limit after which the
process is killed, and refusals of the same things by an audit hook of the interpreter, which stops code that
means no harm, not code that breaks out of Python. Reading files is not refused, nor what reading alone sets
off in a device or a pipe. What the system lacks is named in :attr:`Run.missing`: ``filter``, or the name of a
limit, such as ``RLIMIT_AS`` on macOS.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace_local.errors import ConfigError
from pace_local.eval.kernel_filter import filter_program

_CHILD = Path(__file__).with_name("sandbox_child.py")
_LONGEST_REPORT = 64 * 1024
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""What an interpreter may need to start at all."""


@dataclass(frozen=True)
class Limits:
    """What one check may use.

    Raises:
        ConfigError: when a limit is out of range.
    """

    seconds: float = 10.0
    """Wall-clock time, start of the interpreter included."""

    cpu_seconds: int = 2
    """CPU time."""

    memory: int = 512 * 2**20
    """Bytes of address space."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0.1 <= self.seconds <= 600:
            raise ConfigError(f"a check's time limit of {self.seconds} s is out of range; use 0.1 to 600")
        if not 1 <= self.cpu_seconds <= 600:
            raise ConfigError(f"a check's CPU limit of {self.cpu_seconds} s is out of range; use 1 to 600")
        if not 128 * 2**20 <= self.memory <= 2**40:
            raise ConfigError(
                f"a check's memory limit of {self.memory} bytes is out of range; use 128 MiB to 1 TiB"
            )


@dataclass(frozen=True)
class Outcome:
    """How one check ended; ``error`` is the first error's text, None if it passed."""

    passed: bool
    error: str | None


@dataclass(frozen=True)
class Run:
    """How all checks ended, in their order."""

    outcomes: tuple[Outcome, ...]
    missing: frozenset[str]
    """Guards that this system lacks."""


def run_checks(blocks: Sequence[str], checks: Sequence[str], limits: Limits | None = None) -> Run:
    """Run every check on an answer's code.

    Args:
        blocks: Python sources, run in order as one module named ``answer``. One that fails does not keep
            the others from running: an example of use behind the function is no part of what is asked.
        checks: Python sources; each runs once, with the module's names in scope.
        limits: for each check; None: the defaults.
    """
    limits = limits or Limits()
    outcomes, missing = [], set()
    for check in checks:
        outcome, lacking = _run_one(blocks, check, limits)
        outcomes.append(outcome)
        missing |= lacking
    return Run(tuple(outcomes), frozenset(missing))


def _run_one(blocks: Sequence[str], check: str, limits: Limits) -> tuple[Outcome, set[str]]:
    program = filter_program()
    ticket = secrets.token_hex(16)
    job = {
        "blocks": list(blocks),
        "check": check,
        "ticket": ticket,
        "filter": None if program is None else program.hex(),
        "limits": {
            "RLIMIT_CPU": limits.cpu_seconds,
            "RLIMIT_AS": limits.memory,
            "RLIMIT_FSIZE": 0,
            "RLIMIT_NPROC": 0,
            "RLIMIT_NOFILE": 64,
            "RLIMIT_CORE": 0,
        },
    }
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    with tempfile.TemporaryDirectory(prefix="pace-check-") as folder, tempfile.TemporaryFile() as given:
        given.write(json.dumps(job).encode())
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(_CHILD)],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            report = _read(process, time.monotonic() + limits.seconds)
        finally:
            _end(process)
    if report is None:
        return Outcome(False, f"time limit of {limits.seconds:g} s reached"), set()
    if len(report) >= _LONGEST_REPORT:
        return Outcome(False, "something other than a verdict was written in its place"), set()
    verdict = _verdict(report)
    if verdict.get("ticket") != ticket:
        return Outcome(False, _ended(process.returncode, limits)), set()
    return Outcome(verdict["passed"], verdict["error"]), set(verdict["missing"])


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """What the process wrote until it ended, at most so many bytes; None if the time is over."""
    assert process.stdout is not None
    report = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(report) < _LONGEST_REPORT:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return None
            piece = os.read(process.stdout.fileno(), _LONGEST_REPORT)
            if not piece:
                break
            report += piece
        else:
            return report
    try:  # a process can close its end and run on
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    return report


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and whatever it may have started, and wait for it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # all ended already; macOS says it the second way
        process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _verdict(report: bytes) -> dict[str, Any]:
    try:
        verdict = json.loads(report)
    except ValueError:
        return {}
    return verdict if isinstance(verdict, dict) else {}


def _ended(status: int, limits: Limits) -> str:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):  # the latter also from a system without memory
        return f"killed: CPU limit of {limits.cpu_seconds} s reached"
    if status < 0:
        return f"ended by signal {signal.Signals(-status).name}"
    return f"ended by itself with status {status} before the check was done"
