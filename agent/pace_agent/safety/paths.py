"""Where the agent may read and write: the repository, and folders that the user named.

A path is resolved first, symbolic links included, and judged by where it leads. Folders are then opened from
the root downwards, one by one, never through a link (``O_NOFOLLOW``): whoever replaces a folder by a link
between the check and the use gets an error, not the file behind the link. Files are read and written in the
folder that was reached so; :class:`pace_agent.files.file_state.KnownFiles` does both. Where the system has
no ``openat`` the resolved path is checked again, and used.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pace_agent.errors import RefusedError, ToolError
from pace_agent.safety.protected import HEADER_BYTES, folded, header_protection, protection

LONGEST_PATH = 4096
"""Characters of a path."""

_RELATIVE = os.open in os.supports_dir_fd
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_LINK_ERRORS = frozenset({errno.ELOOP, getattr(errno, "EMLINK", errno.ELOOP)})


@dataclass(frozen=True)
class Place:
    """A path inside a :class:`Territory`, resolved; nothing need be there."""

    path: Path
    """Without links, absolute."""

    root: Path
    """The folder of the territory that it lies in."""

    parts: tuple[str, ...]
    """From ``root`` down to the path; empty for the root itself."""

    shown: str
    """As the user would write it: from the repository, or absolute in another folder."""

    protection: str | None
    """Why it is not to be read or written; None if it may be."""


class Territory:
    """The folders that the agent's paths are confined to.

    Args:
        repository: the folder that relative paths start from.
        extra: further folders.
        named: paths that the user asked for by name; these are not protected.

    Raises:
        ToolError: if one of the folders is none, or cannot be entered.
    """

    def __init__(
        self,
        repository: str | os.PathLike[str],
        extra: Iterable[str | os.PathLike[str]] = (),
        named: Iterable[str] = (),
    ) -> None:
        self.roots = tuple(_root(folder) for folder in (repository, *extra))
        self._identities = tuple(_identity(root) for root in self.roots)
        self._named: set[tuple[Path, tuple[str, ...]]] = set()
        for path in named:
            self.allow(path)

    @property
    def repository(self) -> Path:
        """The folder that relative paths start from, resolved."""
        return self.roots[0]

    def name_of(self, path: Path) -> str:
        """A resolved path from the repository, with ``/``; absolute if it is not in there."""
        root = self.repository
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

    def allow(self, path: str) -> None:
        """Take protection off a path that the user asked for by name, and from all in it if it is a folder.

        Raises:
            RefusedError, ToolError: see :meth:`find`.
        """
        place = self.find(path)
        self._named.add((place.root, tuple(map(folded, place.parts))))

    def find(self, path: str, *, base: Path | None = None) -> Place:
        """Where a path leads.

        Args:
            path: relative, absolute, or beginning with ``~``.
            base: what a relative path starts from; None: the repository.

        Raises:
            ToolError: if it cannot be a path.
            RefusedError: if it leads outside.
        """
        _check_text(path)
        start = self.repository if base is None else base
        try:
            given = Path(path).expanduser() if path.startswith("~") else Path(path)
            # strict=False: what is not there yet is resolved as far as it is there.
            resolved = Path(os.path.realpath(start / given))
        except (OSError, ValueError, RuntimeError) as error:
            raise ToolError(f"{path!r} cannot be a path: {error}; give one in the repository") from None
        return self._place(
            resolved, path, " (a link leads there)" if _leads_away(start / given, resolved) else ""
        )

    def at(self, path: Path) -> Place:
        """The place of a path that is resolved already, and may have a name that nobody would give.

        Raises:
            RefusedError: if it is outside.
        """
        return self._place(path, str(path))

    def _place(self, resolved: Path, given: str, how: str = "") -> Place:
        inside = self._inside(resolved)
        if inside is None:
            raise RefusedError(
                f"{given!r} is outside of {self._shown_roots()}{how}; work inside, or ask for --add-dir"
            )
        root, parts = inside
        shown = os.path.join(*parts) if parts else "."
        why = None if self._is_named(root, parts) else protection(parts)
        return Place(resolved, root, parts, shown if root == self.repository else str(root / shown), why)

    def check(self, place: Place) -> None:
        """Refuse a protected path.

        Raises:
            RefusedError: if the path is protected.
        """
        if place.protection is not None:
            raise RefusedError(
                f"{place.shown!r} is protected: {place.protection}; it is used only if the user names it"
            )

    def contains(self, path: str, *, base: Path | None = None) -> bool:
        """Whether a path leads inside. Raises nothing."""
        try:
            self.find(path, base=base)
        except (RefusedError, ToolError):
            return False
        return True

    @contextmanager
    def opened(self, place: Place) -> Iterator[int]:
        """A descriptor of a regular file for reading, without having followed a link since it was resolved.

        Raises:
            RefusedError: if it is protected by its name or its beginning, or a link has come in its way.
            ToolError: if it is not there, is no regular file, or cannot be read.
        """
        self.check(place)
        with self._parent(place) as (folder, name):
            try:
                descriptor = _open(folder, name, os.O_RDONLY | _FILE)
            except OSError as error:
                raise _failure(place, error, "read") from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError(f"{place.shown!r} is no regular file; give the path of a file")
            if not self._is_named(place.root, place.parts):
                # Read at an offset, so that the descriptor stays at the beginning.
                why = header_protection(os.pread(descriptor, HEADER_BYTES, 0))
                if why is not None:
                    self.check(Place(place.path, place.root, place.parts, place.shown, why))
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, place: Place, most: int) -> bytes:
        """The content of a file, at most so many bytes.

        Raises:
            RefusedError, ToolError: see :meth:`opened`; also a ToolError if it is larger.
        """
        with self.opened(place) as descriptor, open(descriptor, "rb", closefd=False) as file:
            try:
                data = file.read(most + 1)
                size = os.fstat(descriptor).st_size
            except OSError as error:
                raise _failure(place, error, "read") from None
        if len(data) > most:
            raise ToolError(
                f"{place.shown!r} has {max(size, most + 1):,} bytes, "
                f"more than the {most:,} that are read of one file"
            )
        return data

    @contextmanager
    def held(self, place: Place, *, make: bool = False) -> Iterator[Path]:
        """A path that leads to a place and nowhere else as long as it is held, for code that takes paths.

        On Linux its folder is held open, so that no link can come in its way; elsewhere it is checked again.
        Whether it is protected is for :meth:`check` to say. In errors of the code that is run within, the
        place's own path stands for the one that is held.

        Args:
            place: what to hold.
            make: whether to make the folders that it lacks.

        Raises:
            RefusedError: if a link has come in its way.
            ToolError: if its folder is not there, or cannot be made.
        """
        with self._parent(place, make=make) as (folder, name):
            if isinstance(folder, str):
                yield Path(folder, name)
                return
            through = Path(f"/proc/self/fd/{folder}")
            held = through / name if through.is_dir() else place.path
            try:
                yield held
            except ToolError as error:
                raise type(error)(str(error).replace(str(held), str(place.path))) from error

    @contextmanager
    def _parent(self, place: Place, *, make: bool = False) -> Iterator[tuple[int | str, str]]:
        """The folder that a path lies in, opened from the root without following links, and its name."""
        *folders, name = place.parts or (".",)
        if not _RELATIVE:
            parent = place.root.joinpath(*folders)
            if make:
                parent.mkdir(parents=True, exist_ok=True)
            if Path(os.path.realpath(parent)) != parent:
                raise _became_link(place)
            yield str(parent), name
            return
        try:
            descriptor = os.open(place.root, _FOLDER)
        except OSError as error:
            raise _failure(place, error, "reach") from None
        try:
            if _identity_of(os.fstat(descriptor)) != self._identities[self.roots.index(place.root)]:
                raise RefusedError(f"the folder {place.root} has been replaced by another; start again")
            for folder in folders:
                inner = self._enter(place, descriptor, folder, make=make)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, name
        finally:
            os.close(descriptor)

    def _enter(self, place: Place, descriptor: int, folder: str, *, make: bool) -> int:
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=descriptor)
            return os.open(folder, _FOLDER, dir_fd=descriptor)
        except OSError as error:
            with suppress(OSError):
                if stat.S_ISLNK(os.stat(folder, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    raise _became_link(place) from None
            raise _failure(place, error, "reach") from None

    def _inside(self, resolved: Path) -> tuple[Path, tuple[str, ...]] | None:
        """The innermost root above a path, and the way down from it.

        Folders are compared by what they are, not by how they are spelled: on a file system that takes upper
        and lower case for the same, a path may be written in either.
        """
        below: list[str] = []
        for folder in (resolved, *resolved.parents):
            with suppress(OSError):
                identity = _identity(folder)
                if identity in self._identities:
                    return self.roots[self._identities.index(identity)], tuple(reversed(below))
            below.append(folder.name)
        return None

    def _is_named(self, root: Path, parts: tuple[str, ...]) -> bool:
        names = tuple(map(folded, parts))
        return any(root == where and named and names[: len(named)] == named for where, named in self._named)

    def _shown_roots(self) -> str:
        if len(self.roots) == 1:
            return "the repository"
        return f"the repository and {', '.join(str(root) for root in self.roots[1:])}"


def _check_text(path: str) -> None:
    if not path or len(path) > LONGEST_PATH:
        raise ToolError(f"a path of {len(path)} characters is none; give one of 1 to {LONGEST_PATH}")
    bad = next(
        (c for c in path if c < " " or c == "\x7f" or "\x80" <= c < "\xa0" or c in "\u2028\u2029"), None
    )
    if bad is not None:
        raise ToolError(f"{path!r} has the control character {bad!r} in it; give a path without")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{path!r} has characters in it that are no text; give a path without") from None


def _root(folder: str | os.PathLike[str]) -> Path:
    path = Path(os.path.realpath(os.path.expanduser(folder)))
    if not path.is_dir():
        raise ToolError(f"{os.fspath(folder)!r} is no folder; give one that is there")
    if path.parent == path:
        raise ToolError(f"{os.fspath(folder)!r} is the whole file system; give a folder in it")
    return path


def _identity(path: Path) -> tuple[int, int]:
    return _identity_of(os.stat(path))


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _leads_away(path: Path, resolved: Path) -> bool:
    return Path(os.path.normpath(path)) != resolved


def _open(folder: int | str, name: str, flags: int) -> int:
    if isinstance(folder, int):
        return os.open(name, flags, dir_fd=folder)
    return os.open(os.path.join(folder, name), flags)


def _became_link(place: Place) -> RefusedError:
    return RefusedError(f"{place.shown!r} has become a link since it was looked up; look again")


def _nearest(place: Place) -> str:
    """What a path that leads nowhere may have been meant for."""
    try:
        names = sorted(os.listdir(place.path.parent))
    except OSError:
        return "; there is no such folder either"
    close = difflib.get_close_matches(place.path.name, names, n=1)
    meant = os.path.join(os.path.dirname(place.shown), *close)
    return f"; did you mean {meant!r}?" if close else "; list its folder"


def _failure(place: Place, error: OSError, what: str) -> ToolError | RefusedError:
    if isinstance(error, FileNotFoundError):
        return ToolError(f"no such file: {place.shown!r}{_nearest(place)}")
    if isinstance(error, NotADirectoryError):
        return ToolError(f"no such file: {place.shown!r}; a part of that path is a file, not a folder")
    if isinstance(error, IsADirectoryError):
        return ToolError(f"{place.shown!r} is a folder; give the path of a file")
    if getattr(error, "errno", None) in _LINK_ERRORS:
        return _became_link(place)
    return ToolError(f"cannot {what} {place.shown!r}: {error.strerror or error}")
