"""Pieces as files: one file a piece, whole or not there.

A file is a line of JSON (``format``, ``id``, ``segment``, ``tokens`` as runs, ``length`` and ``crc32`` of the
block, and ``header_crc32`` of the line without that field), then the bytes of the block. Its name holds the
piece's id with leading zeros, so that names sort as ids do, and says whether the piece is kept. It is written
under another name, synchronised, renamed, and then the folder is synchronised: a reader sees a whole file or
none, also after a crash.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pace_local.errors import ConfigError, StorageError
from pace_local.recall.piece import Bytes, TokenIndex, from_ranges, to_ranges
from pace_local.recall.tiers import Block

FORMAT = 1
"""Version of the form of files; another one is refused."""

_NAME = re.compile(r"piece-(\d{12,})(\.kept)?\.kv(\.new)?")
_LONGEST_HEADER = 64 << 20
_CHUNK = 16 << 20
"""Bytes of one call to the system, so that none takes long."""


class OtherFormatError(StorageError):
    """A file of another version, which is left alone."""


@dataclass(frozen=True)
class Header:
    """What the first line of a file says."""

    id: int
    segment: int
    token_index: TokenIndex
    length: int
    """Bytes of the block."""
    crc32: int
    """Of the block."""

    def encode(self) -> bytes:
        """The line, its end included."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "id": self.id,
            "segment": self.segment,
            "tokens": to_ranges(self.token_index),
            "length": self.length,
            "crc32": self.crc32,
        }
        return _line({**fields, "header_crc32": zlib.crc32(_line(fields))})

    @classmethod
    def decode(cls, line: bytes) -> Header:
        """Read a line.

        Raises:
            StorageError: if it is not one that :meth:`encode` gives, in words that follow a file's name.
        """
        try:
            fields = json.loads(line)
            if fields["format"] != FORMAT:
                raise OtherFormatError(f"has format {fields['format']!r}; this version reads format {FORMAT}")
            numbers = [fields[name] for name in ("id", "segment", "length", "crc32")]
            if not all(type(number) is int for number in numbers) or fields["length"] < 1:
                raise StorageError("has a header with values that are no whole numbers")
            header = cls(numbers[0], numbers[1], from_ranges(fields["tokens"]), numbers[2], numbers[3])
        except (ValueError, KeyError, TypeError, RecursionError, ConfigError):
            raise StorageError("has no header that can be read") from None
        if header.encode() != line:
            raise StorageError("has a header that does not match its checksum")
        return header


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True)
class FoundFile:
    """A whole file of an earlier process."""

    header: Header
    is_kept: bool
    n_bytes: int
    """Of the file."""

    def block(self) -> Block:
        """It as a block that is on disk."""
        one = self.header
        block = Block(one.id, one.segment, one.token_index, one.length, self.is_kept)
        block.file_bytes, block.is_on_disk = self.n_bytes, True
        return block


class PieceFiles:
    """The files of one folder. Every method raises OSError as the system does, unless it says otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, piece: int, is_kept: bool) -> Path:
        """Where a piece's file is."""
        return self.folder / f"piece-{piece:012d}{'.kept' if is_kept else ''}.kv"

    def draft(self, piece: int) -> Path:
        """Where a piece's file is while it is written."""
        return self.folder / f"piece-{piece:012d}.kv.new"

    def make_folder(self) -> None:
        """Make the folder, if there is none."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write_draft(self, header: Header, line: bytes, data: Bytes) -> None:
        """Write a file under its draft's name, and wait until the device has it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.draft(header.id), flags, 0o600)
        try:
            for part in (memoryview(line), data.data):
                self.write_all(descriptor, part)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write_all(self, descriptor: int, part: memoryview) -> None:
        """Write all of a part; other threads run meanwhile."""
        done = 0
        while done < len(part):
            done += os.write(descriptor, part[done : done + _CHUNK])

    def commit(self, piece: int, is_kept: bool) -> None:
        """Give a draft its name."""
        os.replace(self.draft(piece), self.path(piece, is_kept))

    def mark(self, piece: int, is_kept: bool) -> None:
        """Mark a file as kept, or no longer."""
        os.replace(self.path(piece, not is_kept), self.path(piece, is_kept))

    def remove(self, piece: int, is_kept: bool) -> None:
        """Delete a file, if it is there."""
        self.path(piece, is_kept).unlink(missing_ok=True)

    def remove_draft(self, piece: int) -> None:
        """Delete a draft, if it is there and can be deleted."""
        with contextlib.suppress(OSError):
            self.draft(piece).unlink(missing_ok=True)

    def sync(self) -> None:
        """Wait until the device has the folder's names."""
        if os.name == "nt":  # a folder cannot be opened there; its file system logs names itself
            return
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open(self, piece: int, is_kept: bool) -> BinaryIO:
        """Open a file for :meth:`read`. What is open can be read whatever happens to its name."""
        return self.path(piece, is_kept).open("rb", buffering=0)

    def read(self, file: BinaryIO, piece: int) -> Bytes:
        """The block of an open file; other threads run while it is read and checked.

        Raises:
            StorageError: if it is not whole, or not what it was, in words that follow a file's name.
            OSError: if it cannot be read.
        """
        header = self.read_header(file, piece)
        data = np.empty(header.length, np.uint8)
        view = data.data
        done = 0
        while done < header.length:
            count = file.readinto(view[done : done + _CHUNK])  # type: ignore[attr-defined]
            if not count:
                raise StorageError(f"ends after {done} of {header.length} bytes")
            done += count
        if zlib.crc32(data.data) != header.crc32:
            raise StorageError("does not match its checksum")
        return data

    def read_header(self, file: BinaryIO, piece: int) -> Header:
        """The header of an open file, which is read up to the block then.

        Raises:
            StorageError: if it is none, or another piece's, in words that follow a file's name.
            OSError: if it cannot be read.
        """
        line = b""
        while (end := line.find(b"\n")) < 0:
            part = file.read(max(1 << 14, len(line)))
            if not part or len(line) > _LONGEST_HEADER:
                raise StorageError("has no header that can be read")
            line += part
        file.seek(end + 1)
        header = Header.decode(line[: end + 1])
        if header.id != piece:
            raise StorageError(f"holds piece {header.id}")
        return header

    def scan(self, *, verify: bool = False) -> tuple[list[FoundFile], list[str], int]:
        """Find the files of an earlier process, and delete what is not whole.

        A file that cannot be read now, or is of another version, is left where it is.

        Args:
            verify: whether the blocks are read and checked too, and not only headers and sizes.

        Returns:
            Files in order of their ids; what is wrong with those that were left out, for people; and an id
            above all that were found, whole or not.

        Raises:
            StorageError: if the folder cannot be read.
        """
        found: list[FoundFile] = []
        wrong: list[str] = []
        following = 0
        try:
            names = sorted(os.listdir(self.folder)) if self.folder.exists() else []
        except OSError as error:
            raise StorageError(f"{self.folder} cannot be read: {error.strerror or error}") from None
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            piece, is_kept = int(match[1]), match[2] is not None
            following = max(following, piece + 1)
            try:
                if match[3]:
                    raise StorageError("was never finished")
                if found and found[-1].header.id == piece:
                    raise StorageError(f"holds piece {piece} a second time")
                found.append(self._checked(piece, is_kept, verify))
            except (OtherFormatError, OSError) as error:
                wrong.append(f"{name} {getattr(error, 'strerror', None) or error}; it is left alone")
            except StorageError as error:
                wrong.append(f"{name} {error}; it is deleted")
                with contextlib.suppress(OSError):
                    (self.folder / name).unlink()
        return found, wrong, following

    def _checked(self, piece: int, is_kept: bool, verify: bool) -> FoundFile:
        with self.open(piece, is_kept) as file:
            header = self.read_header(file, piece)
            size, expected = os.fstat(file.fileno()).st_size, file.tell() + header.length
            if size != expected:
                raise StorageError(f"has {size} bytes instead of {expected}")
            if verify:
                file.seek(0)
                self.read(file, piece)
        return FoundFile(header, is_kept, size)
