"""The store of saved blocks: what is where, what goes first, and that nothing wrong is ever read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recall_stores import Faults, block, by_table, file_size, small_store, tokens

from pace_local.errors import ConfigError, StorageError
from pace_local.recall import Store


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in set(threading.enumerate()) - before]
    assert not left


def where(store: Store, segment: int) -> list[str]:
    return [piece.where for piece in store.pieces_of(segment)]


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_block_comes_back_as_it_was(tmp_path: Path) -> None:
    with small_store(tmp_path / "kv") as store:
        piece = store.put(3, tokens(10), block(1))
        assert (piece.id, piece.segment, piece.n_bytes, piece.where) == (0, 3, 100, "host")
        assert piece.token_index.tolist() == [10, 11, 12, 13]
        assert store.get(piece.id).tolist() == block(1).tolist()
        assert store.put(3, [20, 25], b"abc").id == 1
        assert store.get(1).tobytes() == b"abc"
        assert [one.id for one in store.pieces_of(3)] == [0, 1]
        assert store.pieces_of(4) == []
        assert not (tmp_path / "kv").exists()  # nothing was needed there yet
        assert store.stats.host_bytes == 103
        assert store.stats.pieces == 2


def test_what_is_given_cannot_be_changed_and_is_not_copied() -> None:
    data = block(1)
    with small_store(None) as store:
        piece = store.put(0, tokens(0), data)
        got = store.get(piece.id)
        assert np.shares_memory(got, data)
        with pytest.raises(ValueError, match="read-only"):
            got[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            piece.token_index[0] = 1


def test_the_callers_token_indices_are_copied() -> None:
    mine = tokens(5)
    with small_store(None) as store:
        store.put(0, mine, block(1))
        mine[:] = 0
        assert store.pieces_of(0)[0].token_index.tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("index", "data", "message"),
    [
        ([], b"x", r"shape \(0,\)"),
        ([[1, 2]], b"x", r"shape \(1, 2\)"),
        ([1.5], b"x", "float64"),
        ([2, 1], b"x", "strictly increase"),
        ([1, 1], b"x", "strictly increase"),
        ([-1, 1], b"x", "0 or more"),
        ([1], b"", "one or more contiguous bytes"),
        ([1], np.zeros(4, np.uint16), "one or more contiguous bytes"),
        ([1], np.zeros((2, 2), np.uint8), "one or more contiguous bytes"),
        ([1], np.zeros(8, np.uint8)[::2], "one or more contiguous bytes"),
    ],
)
def test_bad_blocks_are_refused(index: Any, data: Any, message: str) -> None:
    with small_store(None) as store:
        with pytest.raises(ConfigError, match=message):
            store.put(0, index, data)
        assert store.stats.pieces == 0


@pytest.mark.parametrize("name", ["host_bytes", "disk_bytes", "in_flight_bytes"])
@pytest.mark.parametrize("value", [-1, 1.5, True, None])
def test_bad_budgets_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"budget is {value!r}; use a whole number of bytes"):
        small_store(None, **{name: value})


def test_pieces_are_told_one_by_one_and_all_in_order() -> None:
    with small_store(None) as store:
        assert store.pieces() == []
        for segment in (3, 1, 3):
            store.put(segment, [10 + segment], b"abc")
        assert [(piece.id, piece.segment) for piece in store.pieces()] == [(0, 3), (1, 1), (2, 3)]
        assert store.segments() == {1, 3}
        one = store.piece(1)
        assert (one.id, one.segment, one.n_bytes, one.where) == (1, 1, 3, "host")
        assert one.token_index.tolist() == [11]
        store.remove(1)
        assert [piece.id for piece in store.pieces()] == [0, 2]
        assert store.segments() == {3}
        for missing in (1, 3, -1):
            with pytest.raises(StorageError, match=f"piece {missing} is not stored"):
                store.piece(missing)


def test_covers_looks_at_all_pieces_of_a_segment() -> None:
    with small_store(None) as store:
        store.put(1, [0, 1, 5], b"a")
        store.put(1, [2, 3], b"b")
        store.put(2, [4], b"c")
        assert store.covers(1, [0, 2, 5])
        assert not store.covers(1, [0, 4])
        assert not store.covers(3, [0])


def test_a_full_memory_spills_to_disk_and_nothing_is_lost(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for at in range(12):
            store.put(at, tokens(4 * at), block(at))
            store.settle()
        assert store.stats.host_bytes == 600  # 1,000 less what may wait
        assert [where(store, at) for at in range(12)] == [["disk"]] * 6 + [["host"]] * 6
        assert all(store.get(at).tolist() == block(at).tolist() for at in range(12))
        assert store.stats.dropped_pieces == 0
        assert store.stats.read_pieces == 6
        assert store.stats.read_bytes == 600
        assert (
            store.stats.disk_bytes
            == store.stats.written_bytes
            == sum(path.stat().st_size for path in tmp_path.iterdir())
        )


def test_what_is_needed_last_goes_first_then_what_was_used_longest_ago() -> None:
    steps = {0: 3.0, 1: 0.0, 2: 9.0, 3: 3.0, 4: 3.0, 5: 1.0}
    with small_store(None, next_use=by_table(steps)) as store:
        for at in range(6):
            store.put(at, tokens(4 * at), block(at))
        store.get(0)
        order = []
        for new in range(6, 12):
            steps[new] = -1.0  # the new ones are needed at once
            store.put(new, tokens(4 * new), block(new))
            store.settle()
            order += [at for at in range(6) if where(store, at) == ["disk"] and at not in order]
        assert order == [2, 3, 4, 0, 5, 1]


def test_a_changed_plan_changes_the_order() -> None:
    steps = {at: float(at) for at in range(6)}
    with small_store(None, next_use=by_table(steps)) as store:
        for at in range(6):
            store.put(at, tokens(4 * at), block(at))
        steps.update({0: 7.0, 5: 0.0})  # further away and nearer than they were
        steps[6] = -1.0
        store.put(6, tokens(24), block(6))
        store.settle()
        assert where(store, 0) == ["disk"]
        assert where(store, 5) == ["host"]


def test_a_full_disk_drops_what_is_needed_last(tmp_path: Path) -> None:
    steps = {0: 1.0, 1: 5.0, 2: 2.0, 3: 3.0}
    dropped: list[int] = []
    room = 3 * file_size(100, segment=9, start=99)
    with small_store(
        tmp_path, host_bytes=0, disk_bytes=room, next_use=by_table(steps), on_drop=dropped.append
    ) as store:
        for at in range(4):
            store.put(at, tokens(4 * at), block(at))
            store.settle()
            assert store.stats.disk_bytes <= room
        assert dropped == [1]
        assert store.stats.dropped_pieces == 1
        assert store.stats.dropped_bytes == 100
        assert store.pieces_of(1) == []
        assert len(files_of(tmp_path)) == 3
        # A new one that is needed last of all goes itself.
        store.put(8, tokens(40), block(8))
        store.settle()
        assert dropped == [1, 8]
        assert [where(store, at) for at in (0, 2, 3)] == [["disk"]] * 3
        with pytest.raises(StorageError, match=r"piece 4 is not stored \(any more\)"):
            store.get(4)


def test_a_block_larger_than_the_disk_pushes_nothing_out(tmp_path: Path) -> None:
    with small_store(tmp_path, host_bytes=0, disk_bytes=1000) as store:
        store.put(0, tokens(0), block(0))
        store.settle()
        assert store.put(1, tokens(4), block(1, 2000)).where == "gone"
        store.put(2, tokens(8), block(2, 950))  # fits but for its header
        store.settle()
        assert where(store, 0) == ["disk"]
        assert store.stats.pieces == 1
        assert store.stats.dropped_pieces == 2


def test_without_disk_what_is_needed_last_is_lost() -> None:
    dropped: list[int] = []
    with small_store(None, disk_bytes=0, on_drop=dropped.append) as store:
        for at in range(8):
            assert store.put(at, tokens(4 * at), block(at)).where == "host"
        assert dropped == [0, 1]
        assert store.stats.host_bytes == 600
        with pytest.raises(ConfigError, match="disk budget of 0"):
            store.put(9, tokens(40), block(9), keep=True)
        with pytest.raises(ConfigError, match="disk budget of 0"):
            store.keep(5)
        assert threading.active_count() == 1 or not any(
            thread.name.startswith("recall") for thread in threading.enumerate()
        )


def test_without_any_room_a_block_is_gone_at_once() -> None:
    with small_store(None, host_bytes=0, disk_bytes=0) as store:
        assert store.put(0, tokens(0), block(0)).where == "gone"
        assert store.stats.dropped_pieces == 1
        assert not store.covers(0, tokens(0))


def test_what_would_wait_too_long_is_dropped_and_counted_not_waited_for(tmp_path: Path) -> None:
    faults, dropped = Faults(), list[int]()
    with small_store(tmp_path, host_bytes=0, files=faults, on_drop=dropped.append) as store:
        faults.gate.clear()
        places = [store.put(at, tokens(4 * at), block(at)).where for at in range(6)]
        assert places == ["writing"] * 4 + ["gone"] * 2
        assert dropped == [4, 5]
        stats = store.stats
        assert (stats.host_bytes, stats.waiting_bytes) == (400, 400)
        assert [store.get(at).tolist() for at in range(4)] == [block(at).tolist() for at in range(4)]
        faults.gate.set()
        store.flush()
        assert [where(store, at) for at in range(4)] == [["disk"]] * 4


def test_a_block_larger_than_what_may_wait_goes_through_alone(tmp_path: Path) -> None:
    faults = Faults()
    with small_store(tmp_path, host_bytes=0, files=faults) as store:
        faults.gate.clear()
        assert store.put(0, tokens(0), block(0, 900)).where == "writing"
        assert store.put(1, tokens(4), block(1, 10)).where == "gone"
        faults.gate.set()
        store.flush()
        assert store.get(0).tolist() == block(0, 900).tolist()


def test_a_copy_in_memory_goes_before_a_block_is_lost(tmp_path: Path) -> None:
    """The kept piece is needed sooner, but is on disk too; the others would be lost."""
    faults = Faults()
    with small_store(tmp_path, files=faults, next_use=by_table({0: 1.0})) as store:
        kept = store.put(0, tokens(0), block(0), keep=True)
        store.flush()
        for at in range(1, 6):
            store.put(at, tokens(4 * at), block(at))
        assert where(store, 0) == ["both"]
        faults.gate.clear()
        for at in range(6, 10):
            store.put(at, tokens(4 * at), block(at))
        assert where(store, 0) == ["both"]
        store.put(10, tokens(40), block(10))
        assert where(store, 0) == ["disk"]
        assert store.stats.dropped_pieces == 0
        faults.gate.set()
        store.flush()
        assert store.get(kept.id).tolist() == block(0).tolist()


def test_a_kept_piece_waits_for_its_turn_and_is_never_dropped(tmp_path: Path) -> None:
    faults = Faults()
    with small_store(tmp_path, files=faults) as store:
        faults.gate.clear()
        for at in range(4):
            assert store.put(at, tokens(4 * at), block(at), keep=True).where == "writing"
        fifth = threading.Thread(target=store.put, args=(4, tokens(16), block(4)), kwargs={"keep": True})
        fifth.start()
        fifth.join(0.2)
        assert fifth.is_alive()
        assert store.stats.waiting_bytes == 400
        faults.gate.set()
        fifth.join(60)
        assert not fifth.is_alive()
        store.flush()
        assert [where(store, at) for at in range(5)] == [["both"]] * 5
        assert store.stats.kept_bytes == store.stats.disk_bytes > 500
        assert all(".kept." in name for name in files_of(tmp_path))


def test_a_kept_put_that_waits_is_refused_when_the_store_closes(tmp_path: Path) -> None:
    faults, raised = Faults(), list[StorageError]()
    store = small_store(tmp_path, files=faults)
    faults.gate.clear()
    store.put(0, tokens(0), block(0, 400), keep=True)

    def put() -> None:
        try:
            store.put(1, tokens(4), block(1), keep=True)
        except StorageError as error:
            raised.append(error)

    waiting = threading.Thread(target=put)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    closing = threading.Thread(target=store.close)
    closing.start()
    waiting.join(60)
    assert "the store is closed" in str(raised[0])
    faults.gate.set()
    closing.join(60)
    assert files_of(tmp_path) == ["piece-000000000000.kept.kv"]


def test_budgets_do_not_remove_what_is_kept_until_it_is_released(tmp_path: Path) -> None:
    room = 2 * file_size(100, segment=9, start=99)
    with small_store(tmp_path, host_bytes=0, disk_bytes=room) as store:
        for at in range(3):
            store.put(at, tokens(4 * at), block(at), keep=True)
        store.flush()
        assert [where(store, at) for at in range(3)] == [["disk"]] * 3  # beyond the budget
        store.put(3, tokens(12), block(3))
        store.settle()
        assert store.pieces_of(3) == []
        store.release(1)
        assert [where(store, at) for at in range(3)] == [["disk"], [], ["disk"]]
        store.release(0)
        assert files_of(tmp_path) == ["piece-000000000000.kv", "piece-000000000002.kept.kv"]
        assert store.kept_ids() == {2}
        assert store.get(0).tolist() == block(0).tolist()
        store.put(4, tokens(16), block(4))
        store.settle()
        assert [where(store, at) for at in (0, 2, 4)] == [[], ["disk"], ["disk"]]
        store.release(77)  # gone long ago
        assert store.stats.kept_bytes == (tmp_path / "piece-000000000002.kept.kv").stat().st_size


def test_a_piece_can_be_kept_afterwards(tmp_path: Path) -> None:
    with small_store(tmp_path, host_bytes=400) as store:
        for at in range(4):
            store.put(at, tokens(4 * at), block(at))
            store.settle()
        assert [where(store, at) for at in range(4)] == [["disk"], ["disk"], ["host"], ["host"]]
        store.keep(0)
        store.keep(3)
        store.flush()
        assert where(store, 3) == ["both"]
        assert files_of(tmp_path) == [
            "piece-000000000000.kept.kv",
            "piece-000000000001.kv",
            "piece-000000000003.kept.kv",
        ]
        assert store.get(0).tolist() == block(0).tolist()
        with pytest.raises(StorageError, match="piece 9 is not stored"):
            store.keep(9)


def test_prefetch_brings_pieces_into_memory_and_leaves_them_on_disk(tmp_path: Path) -> None:
    steps: dict[int, float] = {}
    with small_store(tmp_path, next_use=by_table(steps)) as store:
        for at in range(8):
            store.put(at, tokens(4 * at), block(at))
            store.settle()
        assert where(store, 0) == where(store, 1) == ["disk"]
        steps.update({0: 0.0, 1: 0.0})
        store.prefetch([0, 1, 55])
        store.settle()
        assert where(store, 0) == where(store, 1) == ["both"]
        assert store.stats.host_bytes == 600
        (tmp_path / "piece-000000000000.kv").unlink()  # shows that it is read from memory
        assert store.get(0).tolist() == block(0).tolist()
        assert store.stats.read_pieces == 2
        assert store.stats.dropped_pieces == 0


def test_prefetch_loses_nothing_for_want_of_room(tmp_path: Path) -> None:
    faults = Faults()
    with small_store(tmp_path, files=faults) as store:
        for at in range(7):
            store.put(at, tokens(4 * at), block(at))
            store.settle()
        faults.gate.clear()
        for at in range(7, 11):  # as much waits now as may
            store.put(at, tokens(4 * at), block(at))
        store.prefetch([0])
        wait_for_reads(store)
        assert where(store, 0) == ["disk"]
        assert store.stats.host_bytes == 1000
        assert store.stats.dropped_pieces == 0
        faults.gate.set()


def wait_for_reads(store: Store) -> None:
    with store._changed:
        while store._disk.is_reading:
            store._changed.wait(60)


def test_withdrawn_tokens_take_their_pieces_along(tmp_path: Path) -> None:
    with small_store(tmp_path, host_bytes=200) as store:
        store.put(0, [0, 1, 2], block(0))
        store.put(1, [3, 9], block(1))
        store.put(2, [5, 6], block(2), keep=True)
        store.flush()
        store.put(3, [7, 8], block(3))
        store.settle()
        store.forget_from(6)
        assert [len(store.pieces_of(at)) for at in range(4)] == [1, 0, 0, 0]
        assert len(files_of(tmp_path)) <= 1
        assert not any("000002" in name or "000001" in name for name in files_of(tmp_path))
        assert store.stats.dropped_pieces == 0
        assert store.stats.kept_bytes == 0
        store.put(4, [6], block(4))
        assert [piece.id for piece in store.pieces_of(4)] == [4]
        store.forget_from(0)
        assert store.stats.pieces == store.stats.host_bytes == store.stats.disk_bytes == 0
        assert files_of(tmp_path) == []


def test_a_piece_that_is_withdrawn_while_it_is_written_leaves_no_file(tmp_path: Path) -> None:
    faults = Faults()
    with small_store(tmp_path, host_bytes=0, files=faults) as store:
        faults.gate.clear()
        store.put(0, tokens(0), block(0))
        store.put(1, tokens(4), block(1))
        assert faults.begun.wait(60)
        store.forget_from(0)
        assert store.stats.pieces == 0
        assert store.stats.host_bytes == 100  # the writer still holds one
        faults.gate.set()
        store.flush()
        assert files_of(tmp_path) == []
        assert store.stats.host_bytes == store.stats.disk_bytes == 0
        assert faults.drafts == [0]


def test_a_segment_and_a_piece_can_be_dropped(tmp_path: Path) -> None:
    dropped: list[int] = []
    with small_store(tmp_path, on_drop=dropped.append) as store:
        first = store.put(0, [0], block(0), keep=True)
        store.put(0, [1], block(1))
        second = store.put(1, [2], block(2), keep=True)
        store.flush()
        store.drop(0)
        store.drop(44)
        assert store.pieces_of(0) == []
        with pytest.raises(StorageError, match="not stored"):
            store.get(first.id)
        store.remove(second.id)
        store.remove(second.id)
        assert files_of(tmp_path) == []
        assert dropped == []


def test_a_temporary_folder_is_removed() -> None:
    faults = Faults()
    folders: list[Path] = []

    def files(folder: Path) -> Any:
        folders.append(folder)
        return faults(folder)

    store = small_store(None, host_bytes=0, files=files)
    assert not folders
    store.put(0, tokens(0), block(0))
    store.flush()
    assert "piece-000000000000.kv" in files_of(folders[0])
    faults.begun.clear()
    faults.gate.clear()
    for at in range(1, 4):
        store.put(at, tokens(4 * at), block(at))
    assert faults.begun.wait(60)
    threading.Timer(0.05, faults.gate.set).start()
    store.close()
    store.close()
    assert not folders[0].exists()
    assert faults.drafts == [0, 1]  # nobody would read the others
    for act in (lambda: store.put(0, [0], b"x"), lambda: store.get(0), store.flush, store.settle):
        with pytest.raises(StorageError, match="the store is closed"):
            act()
    assert store.stats.pieces == 0


def test_a_constructor_refuses_a_folder_with_pieces(tmp_path: Path) -> None:
    with small_store(tmp_path, host_bytes=0) as store:
        store.put(0, tokens(0), block(0))
    with pytest.raises(StorageError, match="holds pieces of another store"):
        small_store(tmp_path)


def test_a_fault_of_the_caller_in_a_thread_of_ours_is_reported_not_hung_on(tmp_path: Path) -> None:
    def raising(segment: int) -> float:
        if threading.current_thread().name == "recall-writer":
            raise RuntimeError("the plan is broken")
        return 0.0

    store = small_store(tmp_path, host_bytes=0, next_use=raising)
    store.put(0, tokens(0), block(0))
    with pytest.raises(StorageError, match="the plan is broken"):
        store.flush()
    with pytest.raises(StorageError, match="the plan is broken"):
        store.put(1, tokens(4), block(1))
    store.close()


def test_a_segment_of_ten_thousand_costs_what_one_of_ten_does() -> None:
    calls = 0

    def counting(segment: int) -> float:
        nonlocal calls
        calls += 1
        return float(segment % 97) + shift

    shift, worst = 0.0, 0
    with small_store(None, host_bytes=5_000 * 8, disk_bytes=0, in_flight_bytes=0, next_use=counting) as store:
        for at in range(10_000):
            calls = 0
            store.put(at, [at], b"12345678")
            worst = max(worst, calls)
            if at % 1000 == 0:
                shift += 1.0  # all keys change at once
            if store.covers(at, [at]) and at % 7 == 0:
                store.get(at)
        assert store.stats.pieces == 5_000
        assert worst <= 48
        calls = 0
        store.forget_from(9_990)
        assert calls == 0
        assert all(store.pieces_of(at) == [] for at in range(9_990, 10_000))
