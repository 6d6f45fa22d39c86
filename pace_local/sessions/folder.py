"""Where sessions lie, and what is in the folder of one.

::

    NAME/
        pace-session.jsonl        the log; without it the folder is no session
        pace-session.jsonl.cut-1  what was cut off the log because it was damaged
        lock                      held by the process that has the session
        kv/                       blocks of keys and values
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from pace_local.errors import ConfigError, FileError
from pace_local.sessions.lock import SessionLock
from pace_local.sessions.log_file import failure

SESSIONS_DIR_VARIABLE = "PACE_SESSIONS_DIR"

LOG = "pace-session.jsonl"
LOCK = "lock"
KV = "kv"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_PART = re.compile(rf"{re.escape(LOG)}(\.new|\.cut-[0-9]+)?|{LOCK}|{KV}")


def sessions_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Where named sessions lie: ``PACE_SESSIONS_DIR``, or ``sessions`` in this package's data folder."""
    chosen = environ.get(SESSIONS_DIR_VARIABLE, "")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_data_path("pace-local", appauthor=False) / "sessions"


def session_folder(reference: str | os.PathLike[str]) -> Path:
    """The folder of a session, which may not be there.

    Args:
        reference: a name, for a folder under :func:`sessions_root`; or a path: a string with a separator in
            it, or a path object.

    Raises:
        ConfigError: for what is neither.
    """
    text = os.fspath(reference)
    if "\0" in text:
        raise ConfigError(f"{text!r} is no name of a session: it has a zero character in it")
    if not isinstance(reference, str) or os.sep in text or (os.altsep or os.sep) in text:
        return Path(text).expanduser().absolute()
    if not _NAME.fullmatch(text):
        raise ConfigError(
            f"{text!r} is no name of a session; use up to 100 letters (a to z), digits, - _ and . "
            "that do not begin with - or ., or a path with a separator"
        )
    return sessions_root() / text


def log_path(folder: Path) -> Path:
    """The log of the session in a folder."""
    return folder / LOG


def lock_path(folder: Path) -> Path:
    """The lock file of the session in a folder."""
    return folder / LOCK


def kv_folder(folder: Path) -> Path:
    """The folder of blocks of keys and values of the session in a folder."""
    return folder / KV


def make_folder(folder: Path) -> None:
    """Make the folder of a new session, for its user alone; one that is there already must be empty.

    Raises:
        FileError: if something else is there.
        StorageError: if it cannot be made.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            # An empty one, or one whose session was killed before it began.
            if log_path(folder).exists():
                raise FileError(
                    f"there is a session in {folder} already; open it, or give another name"
                ) from None
            if not folder.is_dir() or not set(os.listdir(folder)) <= {LOCK}:
                raise FileError(f"{folder} is there already and is no session; give another name") from None
    except OSError as error:
        raise failure("make", Path(error.filename or folder), error) from error


def remove_session(path: Path) -> None:
    """Delete a session: its log, its blocks and its folder. Files of others are never deleted.

    Raises:
        FileError: if there is no session, or something else is in its folder too; nothing is deleted then.
        SessionInUseError: if a process has it.
        StorageError: if it may not be deleted.
    """
    _check_removable(path)
    try:
        with SessionLock(lock_path(path)):
            _check_removable(path)
            # The log goes last, so that what a kill leaves is still a session that can be deleted.
            for name in sorted(os.listdir(path), key=lambda name: (name == LOCK, name == LOG)):
                part = path / name
                if part.is_dir() and not part.is_symlink():
                    shutil.rmtree(part)
                elif name != LOCK or os.name == "posix":
                    part.unlink()
        if os.name != "posix":  # there a file cannot be deleted while it is open
            lock_path(path).unlink(missing_ok=True)
        if path.is_symlink():
            path.resolve().rmdir()
            path.unlink()
        else:
            path.rmdir()
    except OSError as error:
        raise failure("delete", path, error) from error


def _check_removable(path: Path) -> None:
    try:
        names = set(os.listdir(path))
    except FileNotFoundError:
        raise FileError(
            f"there is no session in {path}; `pace sessions list` shows those with a name"
        ) from None
    except NotADirectoryError:
        raise FileError(f"{path} is no folder, and so no session") from None
    except OSError as error:
        raise failure("read", path, error) from error
    if LOG not in names and not (names <= {LOCK} and path.parent == sessions_root()):
        raise FileError(f"{path} is no session: it has no {LOG}")
    others = sorted(name for name in names if not _PART.fullmatch(name))
    if others:
        raise FileError(f"{path} also holds {others[0]!r}, which is no part of a session; move it away first")
