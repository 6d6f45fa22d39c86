"""Runs a shell command in the repository: with a time limit, cancellable, nothing left behind."""

from __future__ import annotations

import os
import secrets
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pace_agent.errors import ToolError
from pace_agent.shell.output import Output, check_shown
from pace_agent.shell.processes import MARK, end_family, family
from pace_agent.shell.words import names
from pace_local.errors import ConfigError

_STEP = 0.05
"""Seconds between two looks at a command that runs."""

_LINGER = 0.3
"""Seconds in which the rest of the output may come after a command has ended."""

_GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL at the time limit."""

_CANCEL_GRACE = 0.15
"""The same when the user waits."""

_LONGEST_TIME = 24 * 3600.0
_BOURNE_SHELLS = names("bash zsh ksh mksh dash ash sh")
_OWN_SECRETS = names(
    "HF_TOKEN HUGGING_FACE_HUB_TOKEN HUGGINGFACE_TOKEN HUGGINGFACEHUB_API_TOKEN HF_TOKEN_PATH"
)
"""Variables that this program itself reads to fetch models."""

_SETTINGS = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
}
"""So that nothing waits for a terminal that is not there."""

_DROPPED = frozenset({"CDPATH", "GOMP_SPINCOUNT", "BASH_ENV", "ENV", "OLDPWD"})
"""What would change where a command leads or what it starts with, or is meant for this process."""


class Ending(str, Enum):
    """How a command ended."""

    EXIT = "exit"
    TIME_LIMIT = "time limit"
    CANCELLED = "cancelled"
    OUTPUT_LIMIT = "output limit"


@dataclass(frozen=True)
class ShellResult:
    """What came of a shell command."""

    command: str
    ending: Ending
    exit_code: int | None
    """None if a signal ended it."""

    signal: str | None
    """The name of the signal that ended it, such as ``"SIGKILL"``."""

    text: str
    """Its output and errors in the order in which they came, harmless to show, cut in the middle if long."""

    output_bytes: int
    output_file: Path | None
    """Where all of its output is, if ``text`` was cut."""

    seconds: float
    background: tuple[int, ...] = ()
    """Numbers of processes that it left running."""

    @property
    def is_success(self) -> bool:
        """Whether it ended by itself, with exit code 0."""
        return self.ending is Ending.EXIT and self.exit_code == 0

    @property
    def summary(self) -> str:
        """One line on how it ended."""
        if self.ending is Ending.TIME_LIMIT:
            how = f"ended at the time limit, after {self.seconds:.1f} s"
        elif self.ending is Ending.CANCELLED:
            how = f"cancelled after {self.seconds:.1f} s"
        elif self.ending is Ending.OUTPUT_LIMIT:
            how = f"ended after {self.output_bytes:,} bytes of output"
        elif self.signal is not None:
            how = f"ended by {self.signal} after {self.seconds:.1f} s"
        else:
            how = f"exit code {self.exit_code} after {self.seconds:.1f} s"
        if self.background:
            how += f"; still running in the background: {', '.join(map(str, self.background))}"
        return how


class Shell:
    """Runs commands in one folder, one after another.

    Args:
        folder: where every command starts, whatever the one before did.
        output_folder: where long output is kept; made when needed, for its user alone.
        shown: characters of output to show, 200 or more.
        kept: bytes of output to keep in a file; a command that writes more is ended.
        environ: the environment to start from.
        secrets_held: values that the agent holds and that no command is given, under whatever name.

    Raises:
        ConfigError, ToolError: if a number is out of range.
    """

    def __init__(
        self,
        folder: Path,
        output_folder: Path,
        *,
        shown: int = 8_000,
        kept: int = 64 * 2**20,
        environ: Mapping[str, str] | None = None,
        secrets_held: Iterable[str] = (),
    ) -> None:
        check_shown(shown)
        if not 4 * shown <= kept <= 2**40:
            raise ConfigError(
                f"{kept} bytes of output are out of range; use {4 * shown} (4 a character) to 2**40"
            )
        self.folder = Path(os.path.realpath(folder))
        self.output_folder = output_folder
        self._shown = shown
        self._kept = kept
        self._environ = clean_environment(os.environ if environ is None else environ, secrets_held)
        self.program = shell_program(self._environ)
        self._left: list[tuple[subprocess.Popen[bytes], str]] = []
        self._lock = threading.Lock()

    def run(
        self,
        command: str,
        *,
        time_limit: float = 120.0,
        cancel: threading.Event | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> ShellResult:
        """Run one command and wait for it.

        Args:
            command: as for the shell.
            time_limit: seconds, after which it is ended.
            cancel: ends it when set, from any thread.
            on_output: is given each piece of output, raw, in another thread, until this returns; what it
                raises is dropped.

        Raises:
            ConfigError: if the time limit is out of range.
            ToolError: if the command cannot be started.
        """
        if not 0 < time_limit <= _LONGEST_TIME:
            raise ConfigError(
                f"a time limit of {time_limit} s is out of range; use more than 0, at most 86400"
            )
        if "\0" in command:
            raise ToolError("a command cannot have a zero character in it; leave it out")
        name = secrets.token_hex(8)
        mark = f"{os.getpid()}-{name}"
        output = Output(self.output_folder / f"output-{name}.txt", shown=self._shown, most=self._kept)
        started = time.monotonic()
        process = self._start(command, mark)
        is_over = threading.Event()
        reader = threading.Thread(
            target=_drain, args=(process, output, on_output, is_over), name="shell output", daemon=True
        )
        reader.start()
        try:
            ending = _watch(process, output, started + time_limit, cancel)
            if ending is not Ending.EXIT:
                end_family(process, mark, _CANCEL_GRACE if ending is Ending.CANCELLED else _GRACE)
        except BaseException:  # Ctrl-C in the thread that waits
            end_family(process, mark, _CANCEL_GRACE)
            is_over.set()
            output.close()
            raise
        reader.join(_LINGER)
        # A process that keeps the pipe open is in the background; its output from now on goes nowhere, but is
        # read on, so that the pipe's end does not end it.
        left = [each.pid for each in family(process, mark)] if ending is Ending.EXIT else []
        if left:
            with self._lock:
                self._left.append((process, mark))
        is_over.set()
        text = output.text()
        output.close()
        code = process.returncode
        return ShellResult(
            command,
            ending,
            None if code is None or code < 0 else code,
            _signal_name(code),
            text,
            output.size,
            output.file,
            time.monotonic() - started,
            tuple(sorted(left)),
        )

    def close(self) -> None:
        """End what commands left running in the background. Safe to call twice."""
        with self._lock:
            left, self._left = self._left, []
        for process, mark in left:
            end_family(process, mark, _CANCEL_GRACE)

    def __enter__(self) -> Shell:
        """The shell itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Like :meth:`close`."""
        self.close()

    def _start(self, command: str, mark: str) -> subprocess.Popen[bytes]:
        environment = {**self._environ, MARK: mark, "PWD": str(self.folder)}
        try:
            return subprocess.Popen(
                [self.program, "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
                start_new_session=True,  # a group of its own, and no terminal to ask questions on
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            if not self.folder.is_dir():
                reason = f"the folder {self.folder} is gone"
            raise ToolError(f"the command cannot be started: {reason}") from None


def shell_program(environ: Mapping[str, str]) -> str:
    """The user's shell, if the permissions understand its commands; else bash, else ``/bin/sh``."""
    chosen = environ.get("SHELL", "")
    if os.path.basename(chosen) in _BOURNE_SHELLS and os.path.isabs(chosen) and os.access(chosen, os.X_OK):
        return chosen
    return shutil.which("bash", path=environ.get("PATH")) or "/bin/sh"


def clean_environment(environ: Mapping[str, str], secrets_held: Iterable[str] = ()) -> dict[str, str]:
    """The environment that a command is given: the user's, without what is the agent's own."""
    held = {value for value in secrets_held if value}
    held |= {value for name, value in environ.items() if name in _OWN_SECRETS and value}
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _OWN_SECRETS
        and name not in _DROPPED
        and not name.startswith("PACE_")
        and not any(secret in value for secret in held)
    }
    return {**kept, **_SETTINGS}


def _watch(
    process: subprocess.Popen[bytes], output: Output, deadline: float, cancel: threading.Event | None
) -> Ending:
    """Wait until a command has ended, or has to be ended, and say why."""
    while process.poll() is None:
        if cancel is not None and cancel.is_set():
            return Ending.CANCELLED
        if output.is_full:
            return Ending.OUTPUT_LIMIT
        left = deadline - time.monotonic()
        if left <= 0:
            return Ending.TIME_LIMIT
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(_STEP, left))
    return Ending.EXIT


def _drain(
    process: subprocess.Popen[bytes],
    output: Output,
    on_output: Callable[[bytes], None] | None,
    is_over: threading.Event,
) -> None:
    """Read a command's output to its end, which may come long after the command's."""
    assert process.stdout is not None
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            selector.select()
            try:
                data = os.read(process.stdout.fileno(), 1 << 16)
            except OSError:
                return
            if not data:
                return
            output.add(data)
            if on_output is not None and not is_over.is_set():
                with suppress(Exception):
                    on_output(data)


def _signal_name(code: int | None) -> str | None:
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
