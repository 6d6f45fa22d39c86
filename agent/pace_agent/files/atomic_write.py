"""Writing a file so that whoever looks sees the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from pace_agent.errors import ToolError
from pace_local.sessions.log_file import sync_folder

_DRAFT = ".pace-draft-"
_NEW_FILE_MODE = 0o666


def is_draft(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a file while :func:`write_atomically` writes it; watchers leave it out."""
    return os.path.basename(os.fspath(path)).startswith(_DRAFT)


def write_atomically(
    path: Path, data: bytes, *, mode: int | None = None, before: Callable[[], None] = lambda: None
) -> None:
    """Write a file by way of a draft in the same folder, which is renamed once the device has it.

    Mode, owner and extended attributes of a file that is there are kept. A file with several hard links, or
    one whose owner or folder lets no draft take its place, is written over instead, which is not atomic.

    Args:
        path: of the file, no symbolic link; its folder is there.
        data: the whole content.
        mode: permissions that the file gets; None: those that it has, or a new file's.
        before: called at the last moment before the change; what it raises keeps the file as it is.

    Raises:
        ToolError: if the file cannot be written; it is then as before, unless the device failed during a
            writing over.
    """
    try:
        try:
            old: os.stat_result | None = os.lstat(path)
        except FileNotFoundError:
            old = None
        if old is None or old.st_nlink == 1:
            draft = _draft(path, data, mode, old)
            if draft is not None:
                _take_place(draft, path, before)
                return
        before()
        _write_over(path, data, mode)
    except OSError as error:
        raise ToolError(
            f"cannot write {str(path)!r}: {error.strerror or error}; the file is not changed"
        ) from error


def _draft(path: Path, data: bytes, mode: int | None, old: os.stat_result | None) -> Path | None:
    """The draft, whole on the device; None if none can take the file's place."""
    draft = path.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(draft, flags, _NEW_FILE_MODE if old is None and mode is None else 0o600)
    except PermissionError:
        if old is None:
            raise
        return None
    try:
        try:
            _write_all(descriptor, data)
            if old is not None and not _is_like(draft, path, old):
                draft.unlink()
                return None
            if mode is not None:
                os.chmod(draft, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    return draft


def _is_like(draft: Path, path: Path, old: os.stat_result) -> bool:
    """Give the draft owner, mode and attributes of the file; False if the system does not allow it."""
    new = os.lstat(draft)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.chown(draft, old.st_uid, old.st_gid)
        except PermissionError:
            return False
    shutil.copystat(path, draft)
    os.utime(draft)  # the times are those of a new content
    return True


def _take_place(draft: Path, path: Path, before: Callable[[], None]) -> None:
    try:
        before()
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.parent)


def _write_over(path: Path, data: bytes, mode: int | None) -> None:
    descriptor = os.open(
        path, os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if mode is not None:
        os.chmod(path, mode)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def check_writable(path: Path) -> None:
    """Refuse what should not be written, before anything is done.

    Args:
        path: of the file, no symbolic link.

    Raises:
        ToolError: it is read-only, or no regular file, or a part of its path is a file.
    """
    shown = repr(str(path))
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        folder = next(one for one in path.parents if one.exists())
        if not folder.stat().st_mode & 0o222 or not os.access(folder, os.W_OK | os.X_OK):
            raise ToolError(f"cannot make {shown}: the folder {str(folder)!r} is read-only") from None
        return
    except NotADirectoryError:
        raise ToolError(f"cannot make {shown}: a part of that path is a file, not a folder") from None
    except OSError as error:
        raise ToolError(f"cannot write {shown}: {error.strerror or error}") from error
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{shown} is a folder; name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{shown} is no regular file; only those can be edited")
    # The superuser may write what is read-only, but whoever made it so did not mean it to be edited.
    if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise ToolError(f"{shown} is read-only; ask the user to make it writable, or leave it as it is")


def real_path(path: str | os.PathLike[str]) -> Path:
    """The path with all symbolic links followed: what a write through it changes.

    Raises:
        ToolError: if links go round in a circle, or it is no possible path.
    """
    try:
        real = Path(os.path.realpath(path))
        if os.path.islink(real):
            raise ToolError(f"{os.fspath(path)!r} is a symbolic link that leads to itself")
    except ValueError as error:
        raise ToolError(f"{os.fspath(path)!r} is not a possible path: {error}") from None
    return real
