"""What commands share: choosing a model, a line of progress, stopping on request."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from pace_local import _native
from pace_local.errors import CancelledError, ConfigError, PaceError, TimeLimitError
from pace_local.models import (
    Device,
    Progress,
    ProgressLine,
    ResolvedModel,
    available_memory,
    resolve_model,
    selected_model,
)

T = TypeVar("T")


def accelerators() -> list[Device]:
    """Devices other than the CPU that the native library can use here."""
    return [
        Device(device.name, device.total, unified=device.kind == "integrated gpu")
        for device in _native.devices()
        if device.kind in ("gpu", "integrated gpu") and device.total
    ]


def say(line: str) -> None:
    """One line for a person, on stderr."""
    print(line, file=sys.stderr, flush=True)


class Stop:
    """A request to stop, from Ctrl-C or a time limit, that running work looks at."""

    def __init__(self) -> None:
        self._reason: PaceError | None = None
        self._actions: list[Callable[[], None]] = []
        # A second Ctrl-C can come while the main thread is still in the first one's request.
        self._lock = threading.RLock()

    def request(self, reason: PaceError) -> None:
        """Ask to stop; the first reason counts."""
        with self._lock:
            if self._reason is None:
                self._reason = reason
            # Under the lock, so that no action runs after its ``calling`` has ended.
            for action in list(self._actions):
                action()

    @property
    def reason(self) -> PaceError | None:
        """Why to stop, if anybody asked."""
        return self._reason

    def raise_if_asked(self) -> None:
        """Raise the reason, if anybody asked to stop."""
        if self._reason is not None:
            raise self._reason

    def watching(self, progress: Progress) -> Progress:
        """A progress that raises the reason, if anybody asked to stop, before it is shown."""

        def show(done: int, total: int, what: str) -> None:
            self.raise_if_asked()
            progress(done, total, what)

        return show

    @contextmanager
    def calling(self, action: Callable[[], None]) -> Iterator[None]:
        """While inside, a request also calls an action, from another thread."""
        with self._lock:
            self._actions.append(action)
        try:
            yield
        finally:
            with self._lock:
                self._actions.remove(action)


def prepare_model(
    flag: str | None,
    stop: Stop,
    *,
    quiet: bool = False,
    tell: Callable[[str], None] | None = None,
    watch: Callable[[int, int, str], None] | None = None,
) -> ResolvedModel:
    """Choose a model, say which and why, and fetch it if it is not here.

    Args:
        flag: a model that was named; None: as settings or the machine have it.
        stop: a request to stop.
        quiet: whether nothing is said.
        tell: takes lines for a person; None: stderr.
        watch: takes bytes done, bytes in all, and what is fetched; None: a line of progress on stderr.

    Raises:
        ModelError, StorageError, ConfigError: if that fails.
        CancelledError, TimeLimitError: if it was asked to stop; what was fetched is kept.
    """
    choice = selected_model(flag, accelerators() if not flag else [], available_memory())
    line = ProgressLine()
    say_line = tell or ((lambda _line: None) if quiet else line.say)
    show = watch or ((lambda _done, _total, _what: None) if quiet else line)
    say_line(f"model: {choice.reason}")

    try:
        return resolve_model(choice.reference, progress=stop.watching(show), say=say_line)
    finally:
        line.close()


def check_prompt(prompt: str) -> None:
    """Refuse a prompt of the command line that is no text.

    Raises:
        ConfigError: if it is not UTF-8.
    """
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"the prompt {prompt!r} is not UTF-8 text; convert it") from None


def stdin_text() -> str:
    """All of stdin, as a prompt.

    Raises:
        ConfigError: if it is closed, or not UTF-8.
    """
    if sys.stdin is None:
        raise ConfigError("stdin is closed; give -p PROMPT")
    try:
        # The bytes, whatever encoding Python has guessed for them.
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"the prompt on stdin is not UTF-8 text: byte 0x{error.object[error.start]:02X} at offset "
            f"{error.start}; convert it"
        ) from None


def check_time_limit(seconds: float | None) -> None:
    """Refuse a ``--time-limit`` that no timer can have.

    Raises:
        ConfigError: with the range.
    """
    if seconds is not None and not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ConfigError(
            f"--time-limit {seconds:g} is out of range; use more than 0 seconds and at most "
            f"{threading.TIMEOUT_MAX:.0f}"
        )


def run_stoppable(work: Callable[[Stop], T], seconds: float | None = None) -> T:
    """Run work in a thread, so that Ctrl-C reaches it while native code runs.

    The first Ctrl-C, or the time limit, asks it to stop; a second Ctrl-C ends the process at once.
    SIGTERM counts as Ctrl-C. Call it in the main thread.

    Raises:
        CancelledError, TimeLimitError: if it was stopped, whatever error of ours that led to in the work.
        Whatever the work raises.
    """
    stop = Stop()
    result: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            result.append(work(stop))
        except BaseException as error:  # to be raised in the main thread
            failure.append(error)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if stop.reason is not None:
            os._exit(CancelledError.exit_code)
        stop.request(CancelledError("cancelled"))

    thread = threading.Thread(target=body, name="work", daemon=True)
    timer = None
    # A shell makes its background jobs ignore Ctrl-C, which is meant for those in the foreground.
    heeded = [
        number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        if seconds is not None:
            reason = TimeLimitError(f"the time limit of {seconds:g} s was reached")
            timer = threading.Timer(seconds, stop.request, [reason])
            timer.daemon = True
            timer.start()
        thread.start()
        while thread.is_alive():
            thread.join(0.2)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if timer is not None:
            timer.cancel()
    if failure:
        if stop.reason is not None and isinstance(failure[0], PaceError):
            raise stop.reason
        raise failure[0]
    stop.raise_if_asked()
    return result[0]
