"""Input files: which ones can be read, and what their text is.

A file is text if it is UTF-8 (with or without a byte order mark) or UTF-16 with its byte order
mark. Everything else raises :class:`FileError`: nothing is guessed, because a wrongly decoded file
gives wrong answers without a sign of why.
"""

from __future__ import annotations

import codecs
import difflib
import os
import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pace_local.errors import FileError

MAX_FILE_BYTES = 16 * 1024 * 1024

_MARKS = {
    "utf-8": b"",
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
_GLOB_CHARACTERS = frozenset("*?[")


@dataclass(frozen=True)
class SourceText:
    """The text of one input file, with what is needed to write it back unchanged."""

    path: str
    """The path as the caller gave it."""
    text: str
    """The decoded text, line ends as in the file, without the byte order mark."""
    encoding: str
    """``utf-8``, ``utf-8-sig``, ``utf-16-le`` or ``utf-16-be``; all but the first have a byte order mark."""
    newline: str
    """The most frequent line end (``\\n``, ``\\r\\n`` or ``\\r``), empty if the text has none."""

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to read: no characters, or white space alone."""
        return not self.text.strip()

    def to_bytes(self) -> bytes:
        """The bytes of the file, byte order mark included."""
        codec = "utf-8" if self.encoding == "utf-8-sig" else self.encoding
        return _MARKS[self.encoding] + self.text.encode(codec)


def expand(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Check the files of a command line before any of them is read.

    Patterns are the shell's work: a path is taken as it stands. A file that is named twice, also by
    another path to it, is kept once, where it came first.

    Args:
        paths: the paths as given.

    Returns:
        The paths to read, in the order given.

    Raises:
        FileError: a path is missing, a directory, or not a regular file.
    """
    kept: dict[tuple[int, int], str] = {}
    for path in paths:
        status = _regular_file(path)
        kept.setdefault((status.st_dev, status.st_ino), os.fspath(path))
    return list(kept.values())


def read_text(path: str | os.PathLike[str], *, max_bytes: int = MAX_FILE_BYTES) -> SourceText:
    """Read one text file whole.

    An empty file is text like any other; ``is_blank`` tells the caller that there is nothing in it.

    Args:
        path: the file.
        max_bytes: the largest size that is read, in bytes.

    Raises:
        FileError: the file is missing, unreadable, a directory, a pipe or a device, larger than
            ``max_bytes``, binary, or in another encoding. Never blocks on a pipe.
    """
    return decode_text(path, _read_bytes(path, max_bytes))


def decode_text(path: str | os.PathLike[str], data: bytes) -> SourceText:
    """The text of a file whose content is at hand.

    Args:
        path: of the file, for messages.
        data: all that it holds.

    Raises:
        FileError: it is binary, or in another encoding.
    """
    shown = _shown(path)
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise FileError(f"{shown} is UTF-32 text; save it as UTF-8")
    encoding = next((name for name, mark in _MARKS.items() if mark and data.startswith(mark)), "utf-8")
    mark = len(_MARKS[encoding])
    wide = encoding.startswith("utf-16")
    zero = -1 if wide else data.find(0)
    if zero >= 0:
        raise FileError(
            f"{shown} is a binary file (NUL byte at offset {zero}); give text files only"
            " (UTF-16 text needs its byte order mark)"
        )
    try:
        text = data[mark:].decode(encoding if wide else "utf-8")
    except UnicodeDecodeError as error:
        raise FileError(_undecodable(shown, data, mark + error.start, wide)) from None
    if wide and "\0" in text:
        raise FileError(f"{shown} is a binary file (NUL character in UTF-16 text); give text files only")
    return SourceText(os.fspath(path), text, encoding, _newline(text))


def _read_bytes(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    _regular_file(path)
    # The path may have become a pipe since it was checked: O_NONBLOCK keeps the open from waiting
    # for a writer, and the descriptor itself is checked again.
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        with open(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            _refuse_special(path, status)
            if status.st_size > max_bytes:
                raise FileError(_too_large(path, status.st_size, max_bytes))
            # The size of a file that grows, or of one that the kernel makes up, is not to be relied on.
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise FileError(_unreadable(path, error)) from None
    if len(data) > max_bytes:
        raise FileError(_too_large(path, len(data), max_bytes))
    return data


def _regular_file(path: str | os.PathLike[str]) -> os.stat_result:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise FileError(_unreadable(path, error)) from None
    _refuse_special(path, status)
    return status


def _refuse_special(path: str | os.PathLike[str], status: os.stat_result) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise FileError(f"{_shown(path)} is a directory; name its files, {_glob_for(path)}")
    if stat.S_ISFIFO(mode):
        raise FileError(f"{_shown(path)} is a pipe; write its output to a file and give that")
    kind = "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise FileError(f"{_shown(path)} is {kind}; give text files only")


def _glob_for(path: str | os.PathLike[str]) -> str:
    """A pattern that the user can type in place of a directory: its most frequent suffix."""
    try:
        with os.scandir(path) as entries:
            suffixes = Counter(
                suffix for entry in entries if entry.is_file() and (suffix := os.path.splitext(entry.name)[1])
            )
    except OSError:
        suffixes = Counter()
    suffix = min(suffixes, key=lambda name: (-suffixes[name], name), default="")
    pattern = _shown(Path(path) / ("*" + suffix))[1:-1]  # without quotes: the shell is to expand it
    return f"for example {pattern}"


def _unreadable(path: str | os.PathLike[str], error: OSError | ValueError) -> str:
    shown = _shown(path)
    if isinstance(error, FileNotFoundError):
        text = os.fspath(path)
        if _GLOB_CHARACTERS & set(text):
            return f"no file matches {shown}; check it, and leave it unquoted for the shell to expand"
        return f"no such file: {shown}{_nearest(Path(text))}"
    if isinstance(error, NotADirectoryError):
        return f"no such file: {shown}; a part of that path is a file, not a directory"
    if isinstance(error, OSError):
        return f"cannot read {shown}: {error.strerror or error}"
    return f"cannot read {shown}: not a possible path ({error})"


def _nearest(path: Path) -> str:
    if not path.name:
        return "; give the path of a file"
    try:
        names = sorted(entry.name for entry in os.scandir(path.parent))
    except OSError:
        return f"; there is no directory {_shown(path.parent)}"
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {_shown(path.parent / close[0])}?" if close else "; check the path"


def _undecodable(shown: str, data: bytes, offset: int, wide: bool) -> str:
    if wide:
        return f"{shown} is not UTF-16 text, as its first bytes say: bad at offset {offset}; save it as UTF-8"
    line = data.count(b"\n", 0, offset) + 1
    return (
        f"{shown} is not UTF-8 text: byte 0x{data[offset]:02X} at offset {offset} (line {line});"
        " convert it, for example with iconv -f latin1 -t utf-8"
    )


def _too_large(path: str | os.PathLike[str], size: int, max_bytes: int) -> str:
    return (
        f"{_shown(path)} has {_size(size)}, more than the {_size(max_bytes)} that are read of one file;"
        " split it or give the part that matters"
    )


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count} bytes"


def _shown(path: str | os.PathLike[str]) -> str:
    """The path in quotes, on one line whatever its name holds."""
    return repr(os.fspath(path))


def _newline(text: str) -> str:
    pairs = text.count("\r\n")
    counts = {"\n": text.count("\n") - pairs, "\r\n": pairs, "\r": text.count("\r") - pairs}
    most = max(counts, key=lambda end: counts[end])
    return most if counts[most] else ""
