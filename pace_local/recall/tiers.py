"""Which blocks are in memory, which on disk, and which of them go when there is no more room.

Nothing here reads or writes files, and nothing waits: the store calls it under its lock.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pace_local.recall.order import DropOrder
from pace_local.recall.piece import Bytes, Piece, TokenIndex, Where

_LEAST_HEAP = 64


@dataclass(frozen=True)
class Limits:
    """How much the tiers hold, in bytes.

    Blocks that wait for being written are in memory too. So that the budget holds with them, as much of it
    as may wait (at most half of it) is left free for them. Where the budget is smaller than what may wait,
    what waits goes beyond it: the most that is ever in memory is the greater of both numbers, and one block
    that alone is larger than what may wait.
    """

    host: int
    disk: int
    in_flight: int

    @property
    def most(self) -> int:
        """In memory, all together."""
        return max(self.host, self.in_flight)

    @property
    def settled(self) -> int:
        """In memory without waiting for being written."""
        return min(self.host, self.most - min(self.in_flight, self.most // 2))

    @property
    def waiting(self) -> int:
        """In memory until they are written."""
        return self.most - self.settled


@dataclass(eq=False)
class Block:
    """A piece with its bytes and where they are."""

    id: int
    segment: int
    token_index: TokenIndex
    n_bytes: int
    is_kept: bool
    data: Bytes | None = None
    """Its bytes, while they are in memory."""
    used: int = 0
    """Grows with each use of any block."""
    file_bytes: int = 0
    """Of its file, once the writer has made room for one; 0 where there is none."""
    is_on_disk: bool = False
    is_settled: bool = False
    """Whether it is in memory and counts there, without waiting for the writer."""
    is_waiting: bool = False
    """Whether the writer has yet to write it, or is at it."""
    is_gone: bool = False

    @property
    def where(self) -> Where:
        """As :class:`Piece` has it."""
        if self.is_gone:
            return "gone"
        if self.is_waiting:
            return "writing"
        if self.data is None:
            return "disk"
        return "both" if self.is_on_disk else "host"

    def cut(self, token_index: int) -> bool:
        """Forget this token and later ones, if there are earlier ones and no file says otherwise."""
        count = int(np.searchsorted(self.token_index, token_index))
        if count == 0 or self.is_on_disk or self.is_waiting or self.is_gone:
            return False
        self.token_index = self.token_index[:count]
        return True

    def piece(self) -> Piece:
        """For callers."""
        return Piece(self.id, self.segment, self.token_index, self.n_bytes, self.where)


class Tiers:
    """All blocks of a store, by id, by segment and by last token.

    In memory a block is either *settled* or *waiting* for the writer. Only settled ones make room for
    others: those that are on disk too are freed, others are handed to the writer, or lost where it has too
    much to do.

    Args:
        limits: how much fits.
        next_use: of a segment, how many steps away it is needed.
    """

    def __init__(self, limits: Limits, next_use: Callable[[int], float]) -> None:
        self.limits = limits
        self.blocks: dict[int, Block] = {}
        self._by_segment: dict[int, dict[int, Block]] = {}
        self._last_tokens: list[tuple[int, int]] = []
        """Heap of the last token, negative, and id of each block, and of some that are gone."""
        self._uses = 0

        def steps(block: int) -> float:
            return next_use(self.blocks[block].segment)

        def used(block: int) -> int:
            return self.blocks[block].used

        self._settled = DropOrder(steps, used)
        self._droppable = DropOrder(steps, used)
        """Blocks on disk that are not kept."""
        self.queue: OrderedDict[int, Block] = OrderedDict()
        """For the writer, in order."""
        self.at_work: Block | None = None
        """The one that the writer is at."""
        self.unsaved: dict[int, Block] = {}
        """Kept blocks that could not be written; they stay in memory until they are."""

        self._copies = DropOrder(steps, used)
        """Settled blocks that are on disk too."""

        self.settled_bytes = self.waiting_bytes = self.disk_bytes = self.kept_bytes = 0
        self.dropped_pieces = self.dropped_bytes = 0
        self.lost: list[int] = []
        """Segments that lost a block since the store last looked."""

    def clear(self) -> None:
        """Remove all blocks."""
        for block in list(self.blocks.values()):
            self.remove(block)

    def of_segment(self, segment: int) -> Iterator[Block]:
        """In order of their ids."""
        return iter(list(self._by_segment.get(segment, {}).values()))

    def from_token(self, token_index: int) -> Iterator[Block]:
        """Those that hold this token or a later one and cannot be cut behind earlier ones, which others are.

        Each must be removed before the next is asked for.
        """
        while self._last_tokens and -self._last_tokens[0][0] >= token_index:
            block = self.blocks.get(self._last_tokens[0][1])
            if block is None:
                heapq.heappop(self._last_tokens)
            elif block.cut(token_index):
                heapq.heapreplace(self._last_tokens, (-int(block.token_index[-1]), block.id))
            else:
                yield block

    def covers(self, segment: int, token_index: TokenIndex) -> bool:
        """Whether the blocks of a segment hold all these tokens."""
        held = [block.token_index for block in self._by_segment.get(segment, {}).values()]
        return bool(held) and bool(np.isin(token_index, np.concatenate(held)).all())

    def touch(self, block: Block) -> None:
        """Note that a block was used."""
        self._uses += 1
        block.used = self._uses

    def add(self, block: Block) -> None:
        """Add a block that is on disk, or nowhere yet."""
        self.touch(block)
        self.blocks[block.id] = block
        self._by_segment.setdefault(block.segment, {})[block.id] = block
        heapq.heappush(self._last_tokens, (-int(block.token_index[-1]), block.id))
        if len(self._last_tokens) > _LEAST_HEAP + 2 * len(self.blocks):
            self._last_tokens = [(-int(one.token_index[-1]), one.id) for one in self.blocks.values()]
            heapq.heapify(self._last_tokens)
        if block.is_on_disk:
            self.disk_bytes += block.file_bytes
            self._sort_on_disk(block)

    def settle(self, block: Block) -> None:
        """Take a block into memory, and make room for it: at others' cost, or it goes itself."""
        self._enter(block)
        if block.n_bytes > self.limits.settled and not self._leave(block):
            self.lose(block)  # there is no room for it, whoever else goes
        self._make_room()

    def _make_room(self) -> None:
        while self.settled_bytes > self.limits.settled and (victim := self._settled.pick()) is not None:
            if self._leave(self.blocks[victim]):
                continue
            # Rather than losing it, one that is needed sooner but is on disk too must be read again.
            copy = self._copies.pick()
            if copy is None:
                self.lose(self.blocks[victim])
            else:
                self._settled.add(victim)
                self._free(self.blocks[copy])

    def admit_copy(self, block: Block) -> None:
        """Let a block that is on disk stay in memory, if no other is lost by that."""
        self._enter(block)
        if block.n_bytes > self.limits.settled:
            self._free(block)
        while self.settled_bytes > self.limits.settled and (victim := self._settled.pick()) is not None:
            if not self._leave(self.blocks[victim]):
                self._settled.add(victim)
                self._free(block)  # all is as it was before then: within the limit

    def _enter(self, block: Block) -> None:
        block.is_settled = True
        self.settled_bytes += block.n_bytes
        if block.id not in self.unsaved:
            self._settled.add(block.id)
        if block.is_on_disk:
            self._copies.add(block.id)

    def _leave(self, block: Block) -> bool:
        """Move a settled block out, unless it would be lost by that; whether it is."""
        if block.is_on_disk:
            self._free(block)
        elif self.can_wait(block):
            self._unsettle(block)
            self.wait(block)
        else:
            return False
        return True

    def _free(self, block: Block) -> None:
        self._unsettle(block)
        block.data = None

    def _unsettle(self, block: Block) -> None:
        block.is_settled = False
        self.settled_bytes -= block.n_bytes
        self._settled.discard(block.id)
        self._copies.discard(block.id)

    def has_room_to_wait(self, n_bytes: int) -> bool:
        """Whether so many bytes more may wait for the writer; one block always may."""
        return not self.waiting_bytes or self.waiting_bytes + n_bytes <= self.limits.waiting

    def can_wait(self, block: Block) -> bool:
        """Whether the writer can be given a block to make room in memory."""
        return block.n_bytes <= self.limits.disk and self.has_room_to_wait(block.n_bytes)

    def wait(self, block: Block) -> None:
        """Hand a block that is in memory, and not settled, to the writer."""
        self.unsaved.pop(block.id, None)
        block.is_waiting = True
        self.waiting_bytes += block.n_bytes
        self.queue[block.id] = block

    def retry(self, block: Block) -> None:
        """Hand a settled block to the writer."""
        self._unsettle(block)
        self.wait(block)

    def next_to_write(self) -> Block:
        """Take the first block of the queue; :meth:`done` must follow."""
        self.at_work = self.queue.popitem(last=False)[1]
        return self.at_work

    def done(self, block: Block) -> None:
        """The writer is done with a block.

        If it is on disk, it stays in memory as :meth:`admit_copy` says. If not, it does if there is room; for
        one that is to be kept others make room.
        """
        self._stop_waiting(block)
        if block.is_gone:
            return
        if block.is_on_disk:
            self.admit_copy(block)
        elif block.is_kept:
            self.unsaved[block.id] = block
            self._enter(block)
            self._make_room()
            if self.settled_bytes > self.limits.settled:
                self.lose(block)
        elif self.settled_bytes + block.n_bytes > self.limits.settled:
            self.lose(block)
        else:
            self._enter(block)

    def _stop_waiting(self, block: Block) -> None:
        if block is self.at_work:
            self.at_work = None
        self.waiting_bytes -= block.n_bytes
        block.is_waiting = False
        if block.is_gone:
            block.data = None

    def reserve(self, block: Block, file_bytes: int) -> tuple[bool, list[Block]]:
        """Make room on disk for a block that the writer is at.

        Returns:
            Whether there is room now, and blocks whose files must be deleted. There is none if the block is
            gone, does not fit beside those that are kept, or is itself the one that is needed last.
        """
        if block.is_gone or (not block.is_kept and self.kept_bytes + file_bytes > self.limits.disk):
            return False, []
        block.file_bytes = file_bytes
        self.disk_bytes += file_bytes
        self._sort_on_disk(block)
        removed = self.trim_disk()
        has_room = block.file_bytes > 0
        return has_room, [one for one in removed if one is not block]

    def _sort_on_disk(self, block: Block) -> None:
        if block.is_kept:
            self.kept_bytes += block.file_bytes
        else:
            self._droppable.add(block.id)

    def trim_disk(self) -> list[Block]:
        """Take blocks off the disk until its budget holds, or only kept ones are left.

        Returns:
            Those that were taken off. Files of theirs must be deleted.
        """
        removed = []
        while self.disk_bytes > self.limits.disk and (victim := self._droppable.pick()) is not None:
            removed.append(self.blocks[victim])
            self.leave_disk(removed[-1])
        return removed

    def leave_disk(self, block: Block) -> None:
        """Note that a block has no file any more; one without a copy in memory is lost."""
        self.disk_bytes -= block.file_bytes
        if block.is_kept:
            self.kept_bytes -= block.file_bytes
        block.file_bytes, block.is_on_disk = 0, False
        self._droppable.discard(block.id)
        self._copies.discard(block.id)
        if block.data is None and not block.is_gone:
            self.lose(block)

    def set_kept(self, block: Block, is_kept: bool) -> None:
        """Let budgets remove a block from the disk, or no longer."""
        if is_kept == block.is_kept:
            return
        block.is_kept = is_kept
        if not is_kept and self.unsaved.pop(block.id, None) is not None:
            self._settled.add(block.id)
        if block.file_bytes:
            self._droppable.discard(block.id)
            if not is_kept:
                self.kept_bytes -= block.file_bytes
            self._sort_on_disk(block)

    def lose(self, block: Block) -> None:
        """Remove a block for want of room, or because it is broken."""
        self.dropped_pieces += 1
        self.dropped_bytes += block.n_bytes
        self.lost.append(block.segment)
        self.remove(block)

    def remove(self, block: Block) -> bool:
        """Forget a block; whether it had a file, which must be deleted."""
        had_file = block.is_on_disk
        if block.is_settled:
            self._unsettle(block)
        self._droppable.discard(block.id)
        self.unsaved.pop(block.id, None)
        del self.blocks[block.id]
        of_segment = self._by_segment[block.segment]
        del of_segment[block.id]
        if not of_segment:
            del self._by_segment[block.segment]
        block.is_gone = True
        if had_file:
            self.leave_disk(block)
        if block is self.at_work:  # its bytes and its room are the writer's until it is done
            return had_file
        if self.queue.pop(block.id, None) is not None:
            self._stop_waiting(block)
        block.data = None
        return had_file
