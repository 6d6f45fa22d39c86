"""The events of a session as JSON lines, one each: written, read, and read while they are being written.

A line is the event as :func:`pace_agent.events.as_dict` has it, behind its time under ``"at"``, in seconds
since 1970. A line without an end is one that a process was writing when it was killed: it is not there.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from pace_agent.events import AgentEvent, Prompted, Undone, as_dict, from_dict
from pace_local.errors import ConfigError
from pace_local.sessions.log import OpenFile
from pace_local.sessions.log_file import File, LogFile, failure

EVENTS = "events.jsonl"
"""Name of the file in a session's folder."""

TimedEvent = tuple[float, AgentEvent]
"""When, in seconds since 1970, and what."""

_BLOCK = 1 << 16
_TYPE = re.compile(rb'\{"at": [^,"]+, "type": "(\w+)"')
"""How a line begins; those of other types need not be decoded."""
_PROMPT = re.compile(rb'\{"at": [^,"]+, "type": "(?:prompted|undone)"')
"""How a line begins that counts prompts; others need not be decoded to count them."""


class EventFile:
    """Appends events to a file that no other process writes. Safe to use from several threads.

    Half a line at its end is cut off.

    Args:
        path: made, for its user alone, if it is not there.
        clock: the time, in seconds since 1970.
        open_file: opens the file.

    Raises:
        StorageError: if it cannot be written.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.time, open_file: OpenFile = LogFile
    ) -> None:
        self.path = path
        self._clock = clock
        self._writing = threading.Lock()
        self._is_torn = False
        try:
            file = open_file(path, create=not path.exists())
            try:
                with path.open("rb") as reading:
                    end = reading.seek(0, os.SEEK_END)
                    self._size = _line_start(reading, end)
                if self._size < end:
                    file.truncate(self._size)
            except BaseException:
                file.close()
                raise
        except OSError as error:
            raise failure("write", path, error) from error
        self._file: File | None = file

    def add(self, event: AgentEvent) -> None:
        """Add an event; it is in the system's hands when this returns.

        Raises:
            StorageError: if it cannot be written. The events before are as they were, and the next one can be
                added as soon as there is room.
            ConfigError: if the file is closed.
        """
        with self._writing:
            if self._file is None:
                raise ConfigError(f"{self.path} is closed; open the session again")
            # In ASCII: no character of a text can end a line, and half a surrogate pair can be written.
            line = json.dumps({"at": self._clock(), **as_dict(event)}).encode("ascii") + b"\n"
            try:
                if self._is_torn:
                    self._file.truncate(self._size)
                self._is_torn = True
                written = 0
                while written < len(line):
                    written += self._file.write(line[written:])
                self._size += len(line)
                self._is_torn = False
            except OSError as error:
                raise failure("write", self.path, error) from error

    def close(self) -> None:
        """Close it. Safe to call twice."""
        with self._writing:
            file, self._file = self._file, None
            if file is not None:
                file.close()


def read_events(path: Path, skip: Callable[[], None] = lambda: None) -> Iterator[TimedEvent]:
    """All events of a file, oldest first; none if there is no file.

    Args:
        path: of the file.
        skip: called for each whole line that is no event: it is damaged, or of a later version.

    Raises:
        StorageError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            for line in whole_lines(file):
                event = _event(line)
                if event is None:
                    skip()
                else:
                    yield event
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure("read", path, error) from error


def count_prompts(path: Path) -> tuple[str, int]:
    """The first prompt, empty if there was none, and how many there are that were not taken back.

    Raises:
        StorageError: if the file cannot be read.
    """
    first, count = "", 0
    try:
        with path.open("rb") as file:
            for line in whole_lines(file):
                found = _event(line) if _PROMPT.match(line) else None
                event = None if found is None else found[1]
                if isinstance(event, Prompted):
                    first = event.prompt if event.number == 1 else first
                    count = event.number
                elif isinstance(event, Undone):
                    count = event.number - 1
    except OSError as error:
        raise failure("read", path, error) from error
    return first, count


class EventReader:
    """Reads a session's events while a process logs them; takes no lock, and writes nothing.

    If the file was cut, it goes on behind what is left: nothing comes twice, unless the session was deleted
    and another one began under its name. Use it as a context manager, or close it.

    Args:
        folder: of the session; :func:`pace_agent.sessions.places.session_path` gives it.
        from_start: whether the events that are there already come first.
        types: of events; lines of others are not decoded. None: all.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, from_start: bool = True, types: Iterable[str] | None = None
    ) -> None:
        self.is_gone = False
        """Whether the session's folder was not there when it was looked for last."""
        self.files = 0
        """Files so far. The second is that of another session which began under the name of the first."""
        self._folder = folder
        self._from_start = from_start
        self._types = None if types is None else frozenset(each.encode() for each in types)
        self._held: BinaryIO | None = None  # as long as it is open, no other file can have its number
        self._at = 0

    def news(self) -> Generator[TimedEvent, None, None]:
        """Events since the last time, up to the last whole line; the next time goes on where this is left."""
        path = Path(self._folder) / EVENTS
        self.is_gone = False
        try:
            status = os.stat(path)
            if self._held is None or not os.path.samestat(os.fstat(self._held.fileno()), status):
                self._at = 0 if self._held is not None or self._from_start else status.st_size
                self.close()
                self._held = path.open("rb", buffering=0)
                self.files += 1
            # A file object of its own each time: one that is kept may have read what was cut since.
            with os.fdopen(os.dup(self._held.fileno()), "rb") as file:
                self._at = _line_start(file, self._at)
                file.seek(self._at)
                for line in whole_lines(file):
                    self._at += len(line)
                    event = _event(line) if self._is_wanted(line) else None
                    if event is not None:
                        yield event
        except OSError:
            self.is_gone = not os.path.isdir(self._folder)

    def _is_wanted(self, line: bytes) -> bool:
        if self._types is None:
            return True
        found = _TYPE.match(line)
        return found is not None and found[1] in self._types

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def __enter__(self) -> EventReader:
        """The reader itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


def _wait() -> bool:
    time.sleep(0.1)
    return False


def follow(
    folder: str | os.PathLike[str], *, from_start: bool = True, pause: Callable[[], bool] = _wait
) -> Iterator[TimedEvent]:
    """Events of a session while a process logs them, as :class:`EventReader` has them.

    Ends when the folder is gone.

    Args:
        folder: of the session.
        from_start: whether the events that are there already come first.
        pause: waits a while when there is nothing new, and says whether to end; else it is looked for again
            after a tenth of a second.
    """
    with EventReader(folder, from_start=from_start) as reader:
        while True:
            yield from reader.news()
            if reader.is_gone or pause():
                return


def whole_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of a file, from where it stands up to one without an end."""
    for line in lines:
        if not line.endswith(b"\n"):
            # No further: if the file grows just now, what comes next is the rest of this line.
            return
        yield line


def _event(line: bytes) -> TimedEvent | None:
    """What a line holds; None if that is no event."""
    try:
        document = json.loads(line)
        if not isinstance(document, dict):
            return None
        at = document.pop("at", None)
        return (float(at), from_dict(document)) if type(at) in (int, float) else None
    except (ValueError, OverflowError, RecursionError, ConfigError):
        return None


def _line_start(file: BinaryIO, at: int) -> int:
    """Where the line begins that a place in a file lies in: behind the last line end before it.

    A place behind the file's end counts as its end.
    """
    while at > 0:
        start = max(0, at - _BLOCK)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0
