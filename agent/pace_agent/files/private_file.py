"""Small JSON files that are their user's alone, replaced in one step, and read with suspicion."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from pace_local.errors import StorageError
from pace_local.sessions.log_file import sync_folder

_LOCK_SECONDS = 10.0


class UnusableFileError(Exception):
    """A file is broken, or another user could have written it; the message says which."""


def read_private(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no file.

    Raises:
        UnusableFileError: if it cannot be read, is no JSON object, or somebody else may change it.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
                raise UnusableFileError(
                    f"{path} can be changed by other users; run chmod 600 on it, or delete it"
                )
            content = json.loads(file.read().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UnusableFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UnusableFileError(f"{path} is not valid JSON; delete it, or put it right") from None
    if not isinstance(content, dict):
        raise UnusableFileError(f"{path} holds no JSON object; delete it, or put it right")
    return content


def write_private(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file by ``content`` in one step, readable by its user alone; makes its folder.

    Raises:
        StorageError: if it cannot be written; the old file is as it was.
    """
    data = (json.dumps(content, indent=1) + "\n").encode("utf-8")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        put_private(path, data)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def put_private(path: Path, data: bytes, *, is_lasting: bool = True) -> None:
    """Give a file a content in one step, readable by its user alone; it is on the device when this returns.

    Args:
        path: in a folder that is there.
        data: the whole content.
        is_lasting: False for what need not outlive a power cut: nothing waits for the device then.

    Raises:
        OSError: if it cannot be written; what was there is as it was.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(draft, flags, 0o600)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR)
            file.write(data)
            file.flush()
            if is_lasting:
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    if is_lasting:
        sync_folder(path.parent)


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """While inside, no other process of this package changes the file.

    Raises:
        StorageError: if another one does so for too long, or there can be no lock.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with filelock.FileLock(path.with_name(f"{path.name}.lock"), timeout=_LOCK_SECONDS, mode=0o600):
            yield
    except filelock.Timeout:
        raise StorageError(f"{path} is in use by another process; try again") from None
    except OSError as error:
        raise StorageError(f"cannot lock {path}: {error.strerror or error}") from error
