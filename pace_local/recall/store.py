"""The store of saved keys and values: in memory what is needed soon, on disk what is needed later."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from pace_local.errors import ConfigError, StorageError
from pace_local.recall.disk import Disk
from pace_local.recall.piece import Bytes, Piece, StoreStats, checked_data, checked_tokens
from pace_local.recall.piece_files import PieceFiles
from pace_local.recall.tiers import Block, Limits, Tiers

IN_FLIGHT_BYTES = 256 << 20
"""Bytes that may wait for being written, unless the caller says otherwise."""


class Store:
    """Blocks of bytes in two tiers, memory and disk, each with a budget. Safe to use from several threads.

    When memory is full, the block that is needed last goes to disk; when the disk is full, the block there
    that is needed last is dropped: its segment keeps its text alone. Writing never makes a caller wait,
    except for pieces that are to be kept. A crash at any instant leaves whole files only.

    Args:
        host_bytes: budget of memory. What waits for being written counts, see
            :class:`~pace_local.recall.tiers.Limits`; what :meth:`get` gives and what is being read from disk
            comes on top. 0: everything goes through to disk.
        disk_bytes: budget of files. Pieces that are kept may go beyond it. 0: no disk.
        folder: where files are, made when first needed; None: a temporary folder, removed on close. It must
            hold no pieces: :meth:`open` takes one that does.
        next_use: of a segment, how many steps away it is needed; infinity if that is not known. It is called
            from any thread, under the store's lock: it must be quick, raise nothing, and neither call the
            store nor wait for a thread that may call it.
        on_drop: called with the segment of each piece that is lost for want of room, by a failed write or a
            broken file; not of those that the caller drops. It is called from any thread, without the lock,
            and must raise nothing.
        in_flight_bytes: bytes that may wait for being written, at most (and a single larger block).
        first_id: pieces get ids from it on.
        files: makes the layer that writes and reads files.

    Raises:
        ConfigError: if a budget is no whole number of bytes from 0.
        StorageError: if the folder holds pieces.
    """

    def __init__(
        self,
        *,
        host_bytes: int,
        disk_bytes: int,
        folder: Path | None,
        next_use: Callable[[int], float] = lambda segment: math.inf,
        on_drop: Callable[[int], None] | None = None,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
        first_id: int = 0,
        files: Callable[[Path], PieceFiles] = PieceFiles,
        _has_pieces: bool = False,
    ) -> None:
        budgets = {"host": host_bytes, "disk": disk_bytes, "in-flight": in_flight_bytes}
        for name, value in budgets.items():
            if type(value) is not int or value < 0:
                raise ConfigError(f"{name} budget is {value!r}; use a whole number of bytes, 0 or more")
        if folder is not None and not _has_pieces and any(folder.glob("piece-*.kv*")):
            raise StorageError(f"{folder} holds pieces of another store; open that, or use another folder")
        self.broken: tuple[str, ...] = ()
        """What was wrong with files that :meth:`open` left out, a line a file."""

        self._changed = threading.Condition()
        """The lock, and the news for whoever waits."""
        self._tiers = Tiers(Limits(host_bytes, disk_bytes, in_flight_bytes), next_use)
        self._disk = Disk(self._tiers, self._changed, folder, files, self._tell)
        self._on_drop = on_drop
        self._next_id = first_id
        self._is_closed = False

    @classmethod
    def open(cls, folder: Path, *, verify: bool = False, first_id: int = 0, **settings: Any) -> Store:
        """A store with the pieces that an earlier process left in a folder.

        What is half-written or broken is deleted, and ``broken`` says what that was. Headers and sizes are
        checked; blocks are when they are read. Pieces that were kept still are. Where the others exceed the
        disk budget, those that are needed last go.

        Args:
            folder: where the files are; it need not exist.
            verify: whether all blocks are read and checked now.
            first_id: new pieces get greater ids than those found, from it on at least.
            settings: all others of the constructor.

        Raises:
            StorageError: if the folder cannot be read.
        """
        files = settings.get("files", PieceFiles)(folder)
        found, wrong, following = files.scan(verify=verify)
        store = cls(folder=folder, first_id=max(first_id, following), _has_pieces=True, **settings)
        store.broken = tuple(wrong)
        store._disk.broken_pieces = len(wrong)
        with store._changed:
            for one in found:
                store._tiers.add(one.block())
            for block in store._tiers.trim_disk():
                store._disk.remove_file(block)
        store._tell()
        return store

    def __enter__(self) -> Store:
        """The store itself; it is closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def put(self, segment: int, token_index: Any, data: Bytes | bytes, *, keep: bool = False) -> Piece:
        """Save a block.

        Args:
            segment: its segment.
            token_index: its tokens, strictly increasing.
            data: its bytes, which are not copied: they must not be changed afterwards.
            keep: write it to disk now too, and let no budget remove it there until it is released. Such a
                piece is never dropped: the call waits while too much waits for being written.

        Returns:
            The piece; ``where`` is ``gone`` if there was no room for it.

        Raises:
            ConfigError: if the tokens or the bytes are not of that form, or if a piece is to be kept and
                there is no disk.
            StorageError: if the store is closed.
        """
        tokens, content = checked_tokens(token_index), checked_data(data)
        if keep and not self._tiers.limits.disk:
            raise ConfigError("a piece cannot be kept with a disk budget of 0; give the store a disk budget")
        with self._changed:
            self._require_open()
            while keep and not self._tiers.has_room_to_wait(len(content)):
                self._wait()
            block = Block(self._next_id, segment, tokens, len(content), keep, content)
            self._next_id += 1
            self._tiers.add(block)
            if keep:
                self._tiers.wait(block)
            else:
                self._tiers.settle(block)
            self._disk.wake()
            piece = block.piece()
        self._tell()
        return piece

    def piece(self, piece_id: int) -> Piece:
        """One piece.

        Raises:
            StorageError: if there is no such piece (any more).
        """
        with self._changed:
            return self._block(piece_id).piece()

    def pieces(self) -> list[Piece]:
        """All pieces in order of their ids."""
        with self._changed:
            return [self._tiers.blocks[piece_id].piece() for piece_id in sorted(self._tiers.blocks)]

    def pieces_of(self, segment: int) -> list[Piece]:
        """The pieces of a segment in order of their ids."""
        with self._changed:
            return [block.piece() for block in self._tiers.of_segment(segment)]

    def segments(self) -> set[int]:
        """Segments that have pieces."""
        with self._changed:
            return {block.segment for block in self._tiers.blocks.values()}

    def kept_ids(self) -> set[int]:
        """Ids of the pieces that no budget removes from the disk until they are released."""
        with self._changed:
            return {block.id for block in self._tiers.blocks.values() if block.is_kept}

    def covers(self, segment: int, token_index: Any) -> bool:
        """Whether the pieces of a segment hold all these tokens.

        Raises:
            ConfigError: if the tokens do not strictly increase, or there are none.
        """
        tokens = checked_tokens(token_index)
        with self._changed:
            return self._tiers.covers(segment, tokens)

    def get(self, piece_id: int) -> Bytes:
        """The bytes of a piece, which must not be changed. Where it is stored stays as it is.

        Raises:
            StorageError: if there is no such piece (any more), or its file is broken, which is forgotten
                then, or cannot be read at the moment.
        """
        with self._changed:
            self._require_open()
            block = self._block(piece_id)
            self._tiers.touch(block)
            if block.data is not None:
                return block.data
            read = self._disk.opened(block)
        data = read()
        if isinstance(data, StorageError):
            self._tell()
            raise data
        data.flags.writeable = False
        return data

    def prefetch(self, segments: Iterable[int]) -> None:
        """Bring pieces of segments from disk into memory, without waiting for that.

        They stay on disk too. What would have to be lost to make room in memory stays there instead.

        Raises:
            StorageError: if the store is closed.
        """
        with self._changed:
            self._require_open()
            blocks = [block for segment in segments for block in self._tiers.of_segment(segment)]
            self._disk.read_ahead(block.id for block in blocks if block.data is None)

    def keep(self, piece_id: int) -> None:
        """Let no budget remove a piece from the disk; if it is not there, write it, as :meth:`put` does.

        Raises:
            ConfigError: if there is no disk.
            StorageError: if there is no such piece, or the file cannot be renamed.
        """
        if not self._tiers.limits.disk:
            raise ConfigError("a piece cannot be kept with a disk budget of 0; give the store a disk budget")
        with self._changed:
            self._require_open()
            block = self._block(piece_id)
            while (
                block.data is not None
                and not block.is_on_disk
                and not block.is_waiting
                and not self._tiers.has_room_to_wait(block.n_bytes)
            ):
                self._wait()
                self._block(piece_id)
            self._disk.mark(block, True)
            if not block.is_on_disk and not block.is_waiting:
                self._tiers.retry(block)
                self._disk.wake()

    def release(self, piece_id: int) -> None:
        """Let budgets remove a piece that was kept; nothing happens if it was not, or is gone.

        Raises:
            StorageError: if a file cannot be renamed or deleted.
        """
        with self._changed:
            self._require_open()
            block = self._tiers.blocks.get(piece_id)
            if block is None:
                return
            self._disk.mark(block, False)
            for one in self._tiers.trim_disk():
                self._disk.remove_file(one)
        self._tell()

    def forget_from(self, token_index: int) -> None:
        """Forget this token and all later ones: they were withdrawn.

        A piece in memory alone that also holds earlier tokens is cut behind those: its block still holds the
        others in its last rows. All other pieces with such tokens are removed; when this returns, no file of
        them is left, nor will the writer make one.

        Raises:
            StorageError: if a file cannot be deleted; all others are.
        """
        with self._changed:
            self._require_open()
            self._remove_all(self._tiers.from_token(token_index))

    def drop(self, segment: int) -> None:
        """Remove all pieces of a segment, kept ones too.

        Raises:
            StorageError: if a file cannot be deleted; all others are.
        """
        with self._changed:
            self._require_open()
            self._remove_all(self._tiers.of_segment(segment))

    def remove(self, piece_id: int) -> None:
        """Remove one piece, if it is there.

        Raises:
            StorageError: if its file cannot be deleted.
        """
        with self._changed:
            self._require_open()
            block = self._tiers.blocks.get(piece_id)
            self._remove_all(iter([] if block is None else [block]))

    def flush(self) -> None:
        """Wait until everything that was handed to the writer is on disk.

        Kept pieces that could not be written before are tried again.

        Raises:
            StorageError: if a write failed since the last flush, and was not made good since.
        """
        with self._changed:
            self._require_open()
            for block in list(self._tiers.unsaved.values()):
                while not self._tiers.has_room_to_wait(block.n_bytes):
                    self._wait()
                if block.id in self._tiers.unsaved:
                    self._tiers.retry(block)
                    self._disk.wake()
            while self._disk.is_writing:
                self._wait()
            failed, self._disk.failed = self._disk.failed, {}
        try:
            self._disk.sync_names()
        except OSError as error:
            raise StorageError(f"the store's folder cannot be written: {error.strerror or error}") from None
        if failed:
            files = self._disk.files
            where = files.folder if files is not None else "a temporary folder"
            raise StorageError(
                f"{len(failed)} of the pieces could not be written to {where}: "
                f"{next(iter(failed.values()))}; free space there, or use another folder"
            )

    def settle(self) -> None:
        """Wait until neither the writer nor the reader has anything to do, whether or not it succeeded.

        Raises:
            StorageError: if the store is closed meanwhile.
        """
        with self._changed:
            self._require_open()
            while self._disk.is_writing or self._disk.is_reading:
                self._wait()

    def close(self) -> None:
        """End the threads and forget everything; a second time does nothing.

        What waits for being written to a folder of the caller's is written first. A temporary one is removed.
        """
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
        self._disk.close()
        with self._changed:
            self._tiers.clear()

    @property
    def stats(self) -> StoreStats:
        """What the store holds now, and what it has done so far."""
        with self._changed:
            return self._disk.stats()

    # Under the lock.

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageError("the store is closed; open another one")
        if self._disk.stopped_by is not None:
            raise StorageError(f"the store stopped working: {self._disk.stopped_by!r}; open another one")

    def _wait(self) -> None:
        """Wait for news; raises if the store is closed by then."""
        self._changed.wait()
        self._require_open()

    def _block(self, piece_id: int) -> Block:
        try:
            return self._tiers.blocks[piece_id]
        except KeyError:
            raise StorageError(
                f"piece {piece_id} is not stored (any more); decode the text of its segment again"
            ) from None

    def _remove_all(self, blocks: Iterator[Block]) -> None:
        problem: StorageError | None = None
        for block in blocks:
            self._disk.failed.pop(block.id, None)
            if self._tiers.remove(block):
                try:
                    self._disk.remove_file(block)
                except StorageError as error:
                    problem = problem or error
        self._changed.notify_all()
        if problem is not None:
            raise problem

    # Without the lock.

    def _tell(self) -> None:
        """Report pieces that were lost."""
        with self._changed:
            lost, self._tiers.lost = self._tiers.lost, []
        if self._on_drop is not None:
            for segment in lost:
                self._on_drop(segment)
