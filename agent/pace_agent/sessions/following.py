"""Looking on at another process's session: its events, its memory, and whether that process lives."""

from __future__ import annotations

import itertools
import os
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from pace_agent.events import AgentEvent, Ended, Memory, Missed, Prompted, Started, Turned, Undone
from pace_agent.sessions.events import EVENTS, EventReader, TimedEvent
from pace_agent.sessions.places import (
    LOCK,
    SESSION,
    VIEW,
    Head,
    agents_root,
    is_missing,
    read_head,
    session_path,
)
from pace_agent.sessions.view_file import TimedView, read_view
from pace_local.errors import FileError, PaceError
from pace_local.sessions.lock import Holder, holder_of
from pace_local.sessions.log_file import failure

_TYPES = tuple(each.type for each in (Started, Prompted, Turned, Memory, Missed, Undone, Ended))
"""Events that say something of the memory."""

_MOST_POINTS = 2_000
"""Of the history; when there are more, every other of the older half is left out."""

_MOST_NAMED = 5
"""Sessions that an error names."""


@dataclass(frozen=True)
class Point:
    """The memory after one turn. Units are tokens."""

    at: float
    """In seconds since 1970."""

    session_tokens: int
    residents: int
    next_position: int
    seconds: float
    """That the turn took."""


@dataclass
class Totals:
    """What a session's events add up to. Units are tokens where nothing else is said."""

    prompts: int = 0
    """Those that were not taken back."""

    is_running: bool = False
    """Whether a prompt was begun that has not ended; nobody may work on it any more."""

    turns: int = 0
    reused: int = 0
    """There already when a turn began, summed over turns."""

    decoded: int = 0
    decoded_again: int = 0
    generated: int = 0
    evictions: int = 0
    """How often something was evicted."""

    evicted: int = 0
    renumberings: int = 0
    recalls: int = 0
    """Segments that were brought back."""

    misses: int = 0
    """Plan misses."""

    last: Turned | None = None
    history: list[Point] = field(default_factory=list)

    def add(self, at: float, event: AgentEvent) -> None:
        """Count an event."""
        match event:
            case Prompted():
                self.prompts, self.is_running = event.number, True
            case Undone():
                self.prompts = event.number - 1
            case Started() | Ended():
                self.is_running = False
            case Missed():
                self.misses += 1
            case Memory():
                self._add_memory(event)
            case Turned():
                self._add_turn(at, event)

    def _add_memory(self, event: Memory) -> None:
        match event.event.get("type"):
            case "evicted":
                self.evictions += 1
                self.evicted += int(event.event.get("count", 0))
            case "renumbered":
                self.renumberings += 1
            case "recalled":
                self.recalls += 1

    def _add_turn(self, at: float, turn: Turned) -> None:
        self.turns += 1
        self.reused += turn.reused
        self.decoded += turn.decoded
        self.decoded_again += turn.decoded_again
        self.generated += turn.generated
        self.last = turn
        seconds = turn.reading_seconds + turn.generating_seconds
        self.history.append(Point(at, turn.session_tokens, turn.residents, turn.next_position, seconds))
        if len(self.history) > _MOST_POINTS:
            half = _MOST_POINTS // 2
            self.history[:half] = self.history[:half:2]


class SessionFollower:
    """Follows one session; holds its lock for a moment at most, and writes nothing.

    Use it as a context manager, or close it.

    Args:
        folder: of the session.

    Raises:
        FileError: if there is no session.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.head: Head = read_head(folder)
        self.started: Started | None = None
        """How the session was begun, or gone on with last."""
        self.totals = Totals()
        self.view: TimedView | None = None
        """None: nobody has written one, as versions before this one did not."""
        self.holder: Holder | None = None
        """The process that has the session; None: it has ended."""
        self._reader = EventReader(folder, types=_TYPES)
        self._view_status: tuple[int, int] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether the session was deleted."""
        return self._reader.is_gone

    @property
    def files(self) -> int:
        """Counts on when another session of the name was begun; :attr:`totals` begins anew then."""
        return self._reader.files

    def look(self, most: int | None = None) -> list[TimedEvent]:
        """Learn what is new, and return the events that say something of the memory.

        Args:
            most: so many events at a time; fewer than that: there are no more now. None: all.
        """
        self._look_at_view()  # first: then no view holds anything whose events are still to come
        files = self.files
        news: list[TimedEvent] = []
        with closing(self._reader.news()) as reading:
            for at, event in itertools.islice(reading, most):
                if self.files != files:
                    files = self._begin_anew()
                if isinstance(event, Started):
                    self.started = event
                self.totals.add(at, event)
                news.append((at, event))
        if self.files != files:  # the other session has said nothing yet
            self._begin_anew()
        self.holder = _holder(self.folder)
        return news

    def _begin_anew(self) -> int:
        """Forget what an earlier session of the name did; returns the count of files."""
        self.totals, self.started = Totals(), None
        return self.files

    def _look_at_view(self) -> None:
        try:
            status = os.stat(self.folder / VIEW)
        except OSError:
            self._view_status = self.view = None
            return
        now = (status.st_ino, status.st_mtime_ns)
        if now != self._view_status:
            self._view_status, self.view = now, read_view(self.folder)

    def close(self) -> None:
        """Stop. Safe to call twice."""
        self._reader.close()

    def __enter__(self) -> SessionFollower:
        """The follower itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


def choose_session(
    name: str | None, repository: Path, *, elsewhere: bool = True, root: Path | None = None
) -> Path:
    """The folder of the session to follow.

    Args:
        name: of the session; None: the one of the repository that is running, used last if there are several.
        repository: a folder, resolved.
        elsewhere: whether, if none of the repository is running, the one of any other will do.
        root: where sessions lie; None: :func:`~pace_agent.sessions.places.agents_root`.

    Raises:
        ConfigError: for a name that cannot be one.
        FileError: if there is none; which there are is said.
        StorageError: if the folder of sessions may not be read.
    """
    root = agents_root() if root is None else root
    if name is not None:
        path = session_path(name, root)
        if not os.path.lexists(path / SESSION):
            raise is_missing(path)
        return path
    found = _sessions(root)
    own = [path for path, about in found if about == str(repository)]
    others = [path for path, about in found if about != str(repository)] if elsewhere else []
    running = next((path for path in (*own, *others) if _holder(path) is not None), None)
    if running is None:
        raise _none_runs(repository, own)
    return running


def _sessions(root: Path) -> list[tuple[Path, str]]:
    """Folders of sessions and what they are about, the one used last first; broken ones are left out."""
    found = []
    try:
        folders = list(root.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise failure("read", root, error) from error
    for folder in folders:
        try:
            head = read_head(folder)
            found.append((os.stat(folder / EVENTS).st_mtime, head.started, folder, head.repository))
        except (PaceError, OSError):
            continue
    return [(folder, about) for _, _, folder, about in sorted(found, reverse=True)]


def _holder(folder: Path) -> Holder | None:
    try:
        return holder_of(folder / LOCK)
    except PaceError:
        return None


def _none_runs(repository: Path, own: list[Path]) -> FileError:
    if not own:
        return FileError(
            f"no session is running, and {repository} has none; `pace` or `pace run` begins one, "
            "`pace history --all` lists those that there are"
        )
    names = ", ".join(path.name for path in own[:_MOST_NAMED])
    more = f" and {len(own) - _MOST_NAMED} more" if len(own) > _MOST_NAMED else ""
    return FileError(
        f"no session is running; {repository} has {names}{more}: `pace top NAME` shows what one held last"
    )
