"""Where agents' sessions lie, and what is in the folder of one.

::

    NAME/
        session.json    the repository, and when the session began; without it the folder is none
        events.jsonl    every event, see pace_agent.sessions.events
        state.json      what an agent needs to go on
        memory.json     what the model's memory holds, for who looks on, see pace_agent.sessions.view_file
        journal/        changes of files, see pace_agent.sessions.journal
        output/         long outputs of commands
        kv/             the library's session, which makes it
        worker.log      what libraries print in the process that has the session
        lock            held by the process that has the session
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from pace_agent.files.private_file import UnusableFileError, read_private, write_private
from pace_agent.sessions.events import EVENTS
from pace_local.errors import ConfigError, FileError
from pace_local.sessions.log_file import failure

AGENTS_DIR_VARIABLE = "PACE_AGENTS_DIR"

SESSION = "session.json"
STATE = "state.json"
VIEW = "memory.json"
JOURNAL = "journal"
OUTPUT = "output"
KV = "kv"
LOG = "worker.log"
LOCK = "lock"

_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_LONGEST_SLUG = 40
_MOST_AT_A_TIME = 1_000
_DRAFT = r"(\.[0-9a-f]{8}\.new)?"
"""What the name of a file ends in that was not yet whole when its writer was killed."""
_PART = re.compile(
    rf"({re.escape(SESSION)}|{re.escape(STATE)}|{re.escape(VIEW)}){_DRAFT}"
    rf"|{re.escape(EVENTS)}|{JOURNAL}|{OUTPUT}|{KV}|{re.escape(LOG)}|{LOCK}"
)


@dataclass(frozen=True)
class Head:
    """What is known of a session from its beginning on."""

    repository: str
    """Its folder, resolved."""

    started: float
    """In seconds since 1970."""


def agents_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Where agents' sessions lie: ``PACE_AGENTS_DIR``, or ``agents`` in this package's data folder.

    Raises:
        ConfigError: if the variable begins with the home folder of a user that there is not.
    """
    chosen = environ.get(AGENTS_DIR_VARIABLE, "")
    if chosen:
        try:
            return Path(chosen).expanduser().absolute()
        except RuntimeError:
            raise ConfigError(
                f"{AGENTS_DIR_VARIABLE} is {chosen!r}, and no such home folder is known; give another folder"
            ) from None
    return platformdirs.user_data_path("pace-local", appauthor=False) / "agents"


def session_path(name: str, root: Path | None = None) -> Path:
    """The folder of a session, which may not be there.

    Args:
        name: of the session.
        root: where sessions lie; None: :func:`agents_root`.

    Raises:
        ConfigError: for a name that cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no name of a session; use up to 100 letters (a to z), digits, - _ and . "
            "that do not begin with - or ."
        )
    return (agents_root() if root is None else root) / name


def new_folder(root: Path, name: str | None, head: Head) -> Path:
    """Make the folder of a session that is about to begin, for its user alone.

    Args:
        root: where sessions lie; made if it is not there.
        name: None: one of the time, in UTC, and of the repository, so that names sort by age.
        head: of the session.

    Raises:
        ConfigError: for a name that cannot be one.
        FileError: if there is a session of this name, or something else.
        StorageError: if it cannot be made.
    """
    wanted = [session_path(name, root)] if name is not None else [root / each for each in _names(head)]
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in wanted:
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                if name is None:
                    continue
                _check_abandoned(path)
            return path
    except OSError as error:
        raise failure("make", Path(error.filename or root), error) from error
    raise FileError(f"{root} holds {_MOST_AT_A_TIME:,} sessions of one second; give a name")


def _names(head: Head) -> list[str]:
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", Path(head.repository).name).strip("-")[:_LONGEST_SLUG].rstrip("-")
    stem = time.strftime("%Y-%m-%d-%H%M%S", time.gmtime(head.started)) + (f"-{slug}" if slug else "")
    return [stem, *(f"{stem}-{number}" for number in range(2, _MOST_AT_A_TIME + 1))]


def _check_abandoned(path: Path) -> None:
    """Refuse a folder unless it is of a session that was killed before it began."""
    if os.path.lexists(path / SESSION):
        raise is_taken(path)
    events = path / EVENTS
    is_empty = path.is_dir() and set(os.listdir(path)) <= {LOCK, EVENTS, JOURNAL, OUTPUT}
    if not is_empty or (events.exists() and events.stat().st_size):
        raise FileError(f"{path} is there already and is no session; give another name")


def is_taken(path: Path) -> FileError:
    """The error for a name that a session has."""
    return FileError(f"there is a session {path.name} already; go on with it, or give another name")


def is_missing(path: Path) -> FileError:
    """The error for a name that no session has."""
    return FileError(
        f"there is no session {path.name} in {path.parent}; `pace history --all` lists those that there are"
    )


def write_head(folder: Path, head: Head) -> None:
    """Make a folder that of a session.

    Raises:
        StorageError: if that cannot be written.
    """
    write_private(
        folder / SESSION, {"format": _FORMAT, "repository": head.repository, "started": head.started}
    )


def read_head(folder: Path) -> Head:
    """What is known of a session.

    Raises:
        FileError: if there is no session in the folder, or it cannot be read.
    """
    path = folder / SESSION
    content = read_object(path)
    if not content:
        raise is_missing(folder)
    version, repository = content.get("format"), content.get("repository")
    started: Any = content.get("started")
    if version != _FORMAT:
        raise FileError(f"{path} is of format {version!r}, not {_FORMAT}; use the version that made it")
    if not isinstance(repository, str) or type(started) not in (int, float) or not math.isfinite(started):
        raise FileError(f"{path} says no repository and time; delete the session")
    return Head(repository, float(started))


def read_object(path: Path) -> dict[str, Any]:
    """The object in a session's file; empty if there is no file.

    Raises:
        FileError: if it cannot be read, is no JSON object, or others could have written it.
    """
    try:
        return read_private(path)
    except UnusableFileError as error:
        raise FileError(str(error)) from None


def check_parts(folder: Path) -> list[str]:
    """Names of all that is in a session's folder.

    Raises:
        FileError: if one of them is no part of a session.
        OSError: if the folder cannot be read.
    """
    found = sorted(os.listdir(folder))
    others = [each for each in found if not _PART.fullmatch(each)]
    if others:
        raise FileError(
            f"{folder} also holds {others[0]!r}, which is no part of a session; move it away first"
        )
    return found
