"""Random operations in any order: what the store gives is what a dictionary has, and its budgets hold.

A gate keeps the writer from finishing while it is closed, so that blocks wait for being written at many
instants, and the disk fails at some.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from recall_stores import Faults, block, by_table

from pace_local.errors import StorageError
from pace_local.recall import Store

SEGMENTS = st.integers(0, 5)


class StoreMachine(RuleBasedStateMachine):
    """A store and a dictionary of all that was put and not taken away."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.faults = Faults()
        self.steps: dict[int, float] = {}
        self.dropped: list[int] = []
        self.put_blocks: dict[int, tuple[int, list[int]]] = {}
        """Id -> segment and tokens."""
        self.contents: dict[int, tuple[int, int]] = {}
        """Id -> seed and size of its bytes."""
        self.kept: set[int] = set()
        self.failed = False
        self.in_flight = 0
        self.store: Store | None = None

    @initialize(
        host=st.sampled_from([0, 250, 1000, 2500]),
        disk=st.sampled_from([0, 700, 2000, 1 << 20]),
        in_flight=st.sampled_from([0, 300, 1000, 1 << 20]),
    )
    def make(self, host: int, disk: int, in_flight: int) -> None:
        self.host, self.disk, self.in_flight = host, disk, in_flight
        self.store = Store(
            folder=self.folder / "kv",
            host_bytes=host,
            disk_bytes=disk,
            in_flight_bytes=in_flight,
            next_use=by_table(self.steps),
            on_drop=self.dropped.append,
            files=self.faults,
        )

    @property
    def s(self) -> Store:
        assert self.store is not None
        return self.store

    @rule(segment=SEGMENTS, first=st.integers(0, 60), count=st.integers(1, 4), size=st.integers(50, 400))
    def put(self, segment: int, first: int, count: int, size: int) -> None:
        self._put(segment, list(range(first, first + count)), size, keep=False)

    @precondition(lambda self: self.store is not None and self.disk)
    @rule(segment=SEGMENTS, first=st.integers(0, 60), size=st.integers(50, 400))
    def put_kept(self, segment: int, first: int, size: int) -> None:
        self.faults.gate.set()  # it may have to wait
        self._put(segment, [first, first + 3], size, keep=True)

    def _put(self, segment: int, index: list[int], size: int, *, keep: bool) -> None:
        seed = len(self.put_blocks) + 1000 * size
        piece = self.s.put(segment, index, block(seed, size), keep=keep)
        assert piece.where != "gone" or not keep
        self.put_blocks[piece.id] = segment, index
        self.contents[piece.id] = seed, size
        if keep:
            self.kept.add(piece.id)

    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        if not self.put_blocks:
            return
        piece = data.draw(st.sampled_from(sorted(self.put_blocks)))
        # While no thread of the store works, what is there is given; else it may go in between.
        is_idle = not self.s.stats.waiting_bytes and not self.s._disk.is_reading
        is_there = self._is_there(piece)
        try:
            got = self.s.get(piece)
        except StorageError as error:
            said = str(error)
        else:
            assert got.tolist() == block(*self.contents[piece]).tolist()
            return
        assert "not stored" in said or "is gone" in said
        assert not (is_idle and is_there)
        assert not self._is_there(piece)

    def _is_there(self, piece: int) -> bool:
        return piece in {one.id for one in self.s.pieces_of(self.put_blocks[piece][0])}

    @rule(segment=SEGMENTS, steps=st.floats(0, 5) | st.just(float("inf")))
    def plan(self, segment: int, steps: float) -> None:
        self.steps[segment] = steps

    @rule(segments=st.lists(SEGMENTS, max_size=3))
    def prefetch(self, segments: list[int]) -> None:
        self.s.prefetch(segments)

    @rule(segment=SEGMENTS)
    def drop(self, segment: int) -> None:
        self.s.drop(segment)
        assert self.s.pieces_of(segment) == []
        self._forget({one for one, (owner, _) in self.put_blocks.items() if owner == segment})

    @rule(first=st.integers(0, 64))
    def forget_from(self, first: int) -> None:
        self.s.forget_from(first)
        gone = set()
        for one, (segment, index) in self.put_blocks.items():
            if index[-1] < first:
                continue
            if self._is_there(one):  # in memory alone, and cut behind what is left
                left = [token for token in index if token < first]
                assert left
                assert self.s.piece(one).token_index.tolist() == left
                self.put_blocks[one] = segment, left
            else:
                gone.add(one)
        self._forget(gone)

    def _forget(self, gone: set[int]) -> None:
        self.kept -= gone

    # What is drawn must not depend on what the threads did, or hypothesis could not run an example again.
    @precondition(lambda self: self.store is not None and self.put_blocks)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        piece = data.draw(st.sampled_from(sorted(self.put_blocks)))
        self.s.release(piece)
        self.kept.discard(piece)

    @precondition(lambda self: self.store is not None and self.disk and self.put_blocks)
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        self.faults.gate.set()
        piece = data.draw(st.sampled_from(sorted(self.put_blocks)))
        try:
            self.s.keep(piece)
        except StorageError:
            return
        self.kept.add(piece)

    @rule()
    def hold_the_writer(self) -> None:
        self.faults.gate.clear()

    @rule()
    def let_the_writer_go(self) -> None:
        self.faults.gate.set()

    @rule()
    def fill_the_disk(self) -> None:
        self.faults.disk_full()
        self.failed = True

    @rule()
    def empty_the_disk(self) -> None:
        self.faults.disk_well()

    @rule()
    def flush(self) -> None:
        self.faults.gate.set()
        said = ""
        try:
            self.s.flush()
        except StorageError as error:
            said = str(error)
        assert not said or (self.failed and "No space left" in said)
        if not self.failed:
            assert all(map(self._is_there, self.kept))
        self.s.settle()
        self._check_files()

    def _check_files(self) -> None:
        """With nothing under way, the folder holds what the store says, and no more."""
        kv = self.folder / "kv"
        sizes = {path.name: path.stat().st_size for path in kv.iterdir()} if kv.exists() else {}
        stats = self.s.stats
        assert sum(sizes.values()) == stats.disk_bytes
        assert sum(size for name, size in sizes.items() if ".kept." in name) == stats.kept_bytes
        pieces = [piece for segment in range(6) for piece in self.s.pieces_of(segment)]
        assert len(pieces) == stats.pieces
        assert {f"{piece.id:012d}" for piece in pieces if piece.where in ("disk", "both")} == {
            name[6:18] for name in sizes
        }
        assert sum(piece.n_bytes for piece in pieces if piece.where != "disk") == stats.host_bytes
        assert stats.waiting_bytes == 0
        assert stats.host_bytes <= self.host
        assert stats.dropped_pieces == len(self.dropped)

    @precondition(lambda self: self.store is not None)
    @rule()
    def open_again(self) -> None:
        self.faults.gate.set()
        self.faults.disk_well()
        self.s.settle()
        on_disk = {
            piece.id: piece
            for segment in range(6)
            for piece in self.s.pieces_of(segment)
            if piece.where in ("disk", "both")
        }
        self.s.close()
        self.dropped.clear()
        self.store = Store.open(
            self.folder / "kv",
            host_bytes=self.host,
            disk_bytes=self.disk,
            in_flight_bytes=self.in_flight,
            next_use=by_table(self.steps),
            on_drop=self.dropped.append,
            files=self.faults,
            first_id=max(self.put_blocks, default=-1) + 1,
        )
        assert self.s.broken == ()
        found = {piece.id: piece for segment in range(6) for piece in self.s.pieces_of(segment)}
        assert found == on_disk
        for piece in found.values():
            assert np.array_equal(piece.token_index, self.put_blocks[piece.id][1])
        self.kept &= set(found)

    @invariant()
    def budgets_hold(self) -> None:
        if self.store is None:
            return
        stats = self.s.stats
        largest = 400
        assert 0 <= stats.waiting_bytes <= max(self.in_flight, largest)
        assert 0 <= stats.host_bytes <= max(self.host, self.in_flight) + largest
        assert stats.host_bytes - stats.waiting_bytes <= self.host
        assert 0 <= stats.kept_bytes <= stats.disk_bytes
        assert stats.disk_bytes <= max(self.disk, stats.kept_bytes)

    @invariant()
    def covers_what_pieces_hold(self) -> None:
        if self.store is None or self.s._disk.is_writing:
            return
        for segment in range(6):
            held = {token for piece in self.s.pieces_of(segment) for token in piece.token_index.tolist()}
            if held:
                assert self.s.covers(segment, sorted(held))
            assert not self.s.covers(segment, [*sorted(held), 1000])

    def teardown(self) -> None:
        self.faults.gate.set()
        if self.store is not None:
            self.store.close()
        assert not any(thread.name.startswith("recall-") for thread in threading.enumerate())
        shutil.rmtree(self.folder)


def test_random_operations() -> None:
    run_state_machine_as_test(
        StoreMachine, settings=settings(max_examples=120, stateful_step_count=40, deadline=None)
    )
