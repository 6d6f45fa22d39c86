"""The disk tier: a thread that writes blocks to files, one that reads them ahead, and what went wrong."""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from pace_local.errors import StorageError
from pace_local.recall.piece import Bytes, StoreStats
from pace_local.recall.piece_files import Header, PieceFiles
from pace_local.recall.temporary import TemporaryFolder
from pace_local.recall.tiers import Block, Tiers


class Disk:
    """Files of blocks, written and read by threads that are started when there is something to do.

    Args:
        tiers: what is where; it is used under the lock alone.
        changed: the lock, and the news for whoever waits.
        folder: where files are, made when first needed; None: a temporary folder.
        make_files: makes the layer that writes and reads files.
        report: called without the lock when blocks may have been lost.
    """

    def __init__(
        self,
        tiers: Tiers,
        changed: threading.Condition,
        folder: Path | None,
        make_files: Callable[[Path], PieceFiles],
        report: Callable[[], None],
    ) -> None:
        self._tiers = tiers
        self._changed = changed
        self._make_files = make_files
        self._report = report
        self.files = make_files(folder) if folder is not None else None
        self._is_temporary = folder is None
        self._temporary: TemporaryFolder | None = None

        self._is_closed = False
        self._writer: threading.Thread | None = None
        self._reader: threading.Thread | None = None
        self._to_read: dict[int, None] = {}
        self._is_reading = False
        self.failed: dict[int, str] = {}
        """Of pieces whose writing failed since the last flush: what the system said."""
        self.stopped_by: BaseException | None = None
        """What ended a thread of ours: a fault in what the caller gave us, or in us."""
        self._is_unsynced = False
        """Whether names were removed or changed since the folder was synchronised."""
        self.written_pieces = self.written_bytes = self.write_failures = 0
        self.read_pieces = self.read_bytes = self.broken_pieces = 0

    # Under the lock.

    @property
    def is_writing(self) -> bool:
        """Whether a block waits for being written."""
        return bool(self._tiers.queue) or self._tiers.at_work is not None

    @property
    def is_reading(self) -> bool:
        """Whether a block waits for being read ahead."""
        return bool(self._to_read) or self._is_reading

    def stats(self) -> StoreStats:
        """What is where, and what was written and read."""
        tiers = self._tiers
        return StoreStats(
            host_bytes=tiers.settled_bytes + tiers.waiting_bytes,
            waiting_bytes=tiers.waiting_bytes,
            disk_bytes=tiers.disk_bytes,
            kept_bytes=tiers.kept_bytes,
            pieces=len(tiers.blocks),
            dropped_pieces=tiers.dropped_pieces,
            dropped_bytes=tiers.dropped_bytes,
            written_pieces=self.written_pieces,
            written_bytes=self.written_bytes,
            read_pieces=self.read_pieces,
            read_bytes=self.read_bytes,
            write_failures=self.write_failures,
            broken_pieces=self.broken_pieces,
        )

    def wake(self) -> None:
        """Let the writer begin, if there is something to write."""
        if self._tiers.queue:
            self._writer = self._writer or self._start(self._write_all, "recall-writer")
            self._changed.notify_all()

    def read_ahead(self, blocks: Iterable[int]) -> None:
        """Let the reader bring blocks into memory."""
        self._to_read.update(dict.fromkeys(blocks))
        if self._to_read:
            self._reader = self._reader or self._start(self._read_all, "recall-reader")
            self._changed.notify_all()

    def mark(self, block: Block, is_kept: bool) -> None:
        """Let budgets remove a block from the disk, or no longer.

        Raises:
            StorageError: if its file cannot be renamed.
        """
        if block.is_on_disk and block.is_kept != is_kept:
            assert self.files is not None
            try:
                self.files.mark(block.id, is_kept)
            except OSError as error:
                path = self.files.path(block.id, not is_kept)
                raise StorageError(f"{path} cannot be renamed: {error.strerror or error}") from None
            self._is_unsynced = True
        self._tiers.set_kept(block, is_kept)

    def remove_file(self, block: Block) -> None:
        """Delete a block's file.

        Raises:
            StorageError: if it cannot be deleted.
        """
        assert self.files is not None
        self._is_unsynced = True
        try:
            self.files.remove(block.id, block.is_kept)
        except OSError as error:
            path = self.files.path(block.id, block.is_kept)
            raise StorageError(f"{path} cannot be deleted: {error.strerror or error}") from None

    def opened(self, block: Block) -> Callable[[], Bytes | StorageError]:
        """Open a block's file; what is returned reads it without the lock, and forgets it if it is broken."""
        assert self.files is not None
        files, path = self.files, self.files.path(block.id, block.is_kept)
        try:
            file = files.open(block.id, block.is_kept)
        except FileNotFoundError:
            gone = self._forget_broken(block, "is gone", path)
            return lambda: gone
        except OSError as error:  # of this moment, such as too many open files
            problem = StorageError(f"{path} cannot be opened: {error.strerror or error}")
            return lambda: problem

        def read() -> Bytes | StorageError:
            try:
                with file:
                    data = files.read(file, block.id)
            except StorageError as error:
                with self._changed:
                    return self._forget_broken(block, str(error), path)
            except OSError as error:  # of this moment too: a network or a device that is away for a while
                return StorageError(f"{path} cannot be read: {error.strerror or error}")
            with self._changed:
                self.read_pieces += 1
                self.read_bytes += len(data)
            return data

        return read

    def _forget_broken(self, block: Block, what: str, path: Path) -> StorageError:
        if not block.is_gone:
            self.broken_pieces += 1
            self._tiers.lose(block)
            with contextlib.suppress(StorageError):
                self.remove_file(block)
        return StorageError(f"{path} {what}; decode the text of segment {block.segment} again")

    def close(self) -> None:
        """End the threads. What waits for being written to the caller's folder is written first."""
        with self._changed:
            self._is_closed = True
            self._to_read.clear()
            if self._is_temporary:
                for block in list(self._tiers.queue.values()):
                    self._tiers.remove(block)
            self._changed.notify_all()
        for thread in (self._writer, self._reader):
            if thread is not None and thread is not threading.current_thread():
                thread.join()
        if self._temporary is not None:
            self._temporary.close()

    # Without the lock.

    def sync_names(self) -> None:
        """Wait until the device has all names of files, or has forgotten them.

        Raises:
            OSError: as the system does.
        """
        with self._changed:
            files, is_unsynced, self._is_unsynced = self.files, self._is_unsynced, False
        if not is_unsynced or files is None:
            return
        try:
            files.sync()
        except OSError:
            self._is_unsynced = True
            raise

    def _start(self, body: Callable[[], None], name: str) -> threading.Thread:
        def run() -> None:
            try:
                body()
            except BaseException as error:
                with self._changed:
                    self.stopped_by = error
                    self._changed.notify_all()

        # A session that is never closed must not keep the process alive.
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not self._tiers.queue and not self._is_closed:
                    self._changed.wait()
                if not self._tiers.queue:
                    return
                block = self._tiers.next_to_write()
            try:
                self._write(block)
            except OSError as error:
                self._note_failure(block, error.strerror or str(error))
            with self._changed:
                self._tiers.done(block)
                self._changed.notify_all()
            self._report()

    def _write(self, block: Block) -> None:
        """Write a block, unless it is withdrawn, or is itself the one that the disk has no room for."""
        data = block.data
        assert data is not None
        header = Header(block.id, block.segment, block.token_index, len(data), zlib.crc32(data.data))
        line = header.encode()
        files = self._prepared()
        with self._changed:
            has_room, removed = self._tiers.reserve(block, len(line) + len(data))
            self._is_unsynced |= len(removed) > 0
        problem: OSError | None = None
        for one in removed:
            try:
                files.remove(one.id, one.is_kept)
            except OSError as error:
                problem = error if problem is None else problem
        if problem is not None:
            raise problem
        if not has_room:
            return
        files.write_draft(header, line, data)
        with self._changed:
            # Since no lock was held, it may have been withdrawn, or its room on disk given to another.
            if block.is_gone or not block.file_bytes:
                self._tiers.leave_disk(block)
                files.remove_draft(block.id)
                return
            files.commit(block.id, block.is_kept)
            block.is_on_disk = True
        files.sync()
        with self._changed:
            self.failed.pop(block.id, None)
            self.written_pieces += 1
            self.written_bytes += len(line) + len(data)

    def _prepared(self) -> PieceFiles:
        """The files, with a folder."""
        if self.files is None:
            self._temporary = TemporaryFolder()
            self.files = self._make_files(self._temporary.path)
        self.files.make_folder()
        return self.files

    def _note_failure(self, block: Block, what: str) -> None:
        with self._changed:
            self.write_failures += 1
            if not block.is_gone:
                self.failed[block.id] = what
            if block.is_on_disk:
                with contextlib.suppress(StorageError):
                    self.remove_file(block)
            self._tiers.leave_disk(block)
            if self.files is not None:
                self.files.remove_draft(block.id)

    def _read_all(self) -> None:
        while True:
            with self._changed:
                self._is_reading = False
                self._changed.notify_all()
                while not self._to_read and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
                self._is_reading = True
                piece_id = next(iter(self._to_read))
                del self._to_read[piece_id]
                block = self._tiers.blocks.get(piece_id)
                if block is None or block.data is not None or block.n_bytes > self._tiers.limits.settled:
                    continue
                read = self.opened(block)
            data = read()
            if not isinstance(data, StorageError):
                data.flags.writeable = False
                with self._changed:
                    if not block.is_gone and block.data is None:
                        block.data = data
                        self._tiers.touch(block)
                        self._tiers.admit_copy(block)
                        self.wake()
            self._report()
