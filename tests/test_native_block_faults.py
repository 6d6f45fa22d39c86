"""Saves and loads that fail: by name, with a cache as it was, and all of it goes on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import CACHES, IDENTITY, SPECS, Cached, cached, random_tokens
from test_native_blocks import N, live
from test_native_validation import LAST, call, refuse

from pace_local._native import RESIDENT, Block
from pace_local.errors import CacheLostError, NativeError

OPTIONS = {"n_ctx": 256, "n_seq": 2, "unified": True}
GONE = list(range(8, 20))
PLACES = list(range(400, 412))


@pytest.fixture(params=["f16", "f16 transposed", "q8_0"])
def model(request: pytest.FixtureRequest, llama: Any, tiny_models: Path) -> Iterator[Cached]:
    """A cache of 18 residents in sequence 0, of which 12 were evicted, and 10 in sequence 1."""
    with cached(llama, tiny_models, SPECS["qwen3"], **OPTIONS, **CACHES[request.param]) as model:
        live(model)
        model.add(random_tokens(10, 7), seq=1)
        yield model


@pytest.fixture
def block(model: Cached) -> Block:
    block = model.save(GONE)
    model.retain(np.delete(np.arange(N), GONE))
    model.renumber()
    return block


def test_what_a_load_is_asked_for_is_checked_first(model: Cached, block: Block) -> None:
    n = len(GONE)
    for positions, rows, status, says in (
        ([17, *range(100, 111)], None, "INVALID_ARGUMENT", "position 17 has a resident already"),
        ([*range(7, 19)], None, "INVALID_ARGUMENT", "position 7 has a resident already"),
        ([*range(100, 111), 110], None, "INVALID_ARGUMENT", "increase strictly; number 11 is 110"),
        ([*range(100, 111), 5], None, "INVALID_ARGUMENT", "increase strictly; number 11 is 5"),
        ([-1, *range(100, 111)], None, "INVALID_ARGUMENT", r"0 to 2\^31 - 2 .* number 0 is -1"),
        ([-LAST - 1], [0], "INVALID_ARGUMENT", f"number 0 is {-LAST - 1}"),
        (range(100, 111), None, "INVALID_ARGUMENT", "11 rows without a list of them; the block has 12"),
        ([], None, "INVALID_ARGUMENT", "0 rows without a list of them; the block has 12"),
        ([100, 101], [3, 3], "INVALID_ARGUMENT", "stay under 12; number 1 is 3"),
        ([100, 101], [3, 2], "INVALID_ARGUMENT", "rows must increase strictly .* number 1 is 2"),
        ([100], [12], "INVALID_ARGUMENT", "stay under 12; number 0 is 12"),
        ([100], [2**32 - 1], "INVALID_ARGUMENT", "number 0 is 4294967295"),
        ([100], [0, 1], "INVALID_ARGUMENT", "2 rows and 1 positions"),
    ):
        refuse(
            model,
            lambda positions=positions, rows=rows: model.load(block, positions, rows),
            status=status,
            says=says,
        )
    for seq in (-1, 2, LAST):
        says = f"sequence {seq} is not one of the context's 2"
        refuse(
            model,
            lambda seq=seq: model.cache.load(block, np.array(PLACES), 18, IDENTITY, seq=seq),
            says=says,
        )
    for count in (0, 17, 19):
        refuse(
            model,
            lambda count=count: model.cache.load(block, np.array(PLACES), count, IDENTITY),
            status="STALE",
            says=f"the caller counts {count} residents, the cache 18",
        )
    assert model.load(block, PLACES).n_after == 18 + n


def test_what_a_save_is_asked_for_is_checked_first(model: Cached) -> None:
    for ranks, count, seq, status, says in (
        ([1, 1], N, 0, "INVALID_ARGUMENT", "stay under 30; number 1 is 1"),
        ([0, N], N, 0, "INVALID_ARGUMENT", "stay under 30; number 1 is 30"),
        (range(N + 1), N, 0, "INVALID_ARGUMENT", "31 ranks"),
        ([0], N - 1, 0, "STALE", "the caller counts 29 residents, the cache 30"),
        ([0], N, 1, "STALE", "the caller counts 30 residents, the cache 10"),
        ([0], N, 2, "INVALID_ARGUMENT", "sequence 2 is not one of the context's 2"),
        ([0], N, -1, "INVALID_ARGUMENT", "sequence -1 is not one of the context's 2"),
    ):
        refuse(
            model,
            lambda ranks=ranks, count=count, seq=seq: model.cache.save(
                np.array(ranks, dtype=np.uint32), count, IDENTITY, seq
            ),
            status=status,
            says=says,
        )


def test_a_load_of_more_than_is_free_changes_nothing(model: Cached, block: Block) -> None:
    model.add(random_tokens(256 - 18 - 10 - 11, 3))
    before = model.everything(n_seq=2)
    with pytest.raises(NativeError, match="12 rows to load, and 11 cells are free") as error:
        model.load(block, PLACES)
    assert error.value.status == "NO_ROOM"
    assert model.everything(n_seq=2) == before
    assert model.load(block, PLACES[:11], range(11)).n_after == 256 - 10
    assert model.everything(n_seq=2) != before
    model.load(block, [], [])


def test_the_last_positions_that_there_are(model: Cached, block: Block) -> None:
    far = list(range(LAST - 12, LAST))
    model.load(block, far)
    assert model.cache.residents()["position"][-12:].tolist() == far
    model.renumber()
    once = model.read("key").tobytes()
    model.place([*range(18), *far])
    model.renumber()
    assert model.read("key").tobytes() == once


POINTS = [
    ("plan", "NO_MEMORY", "no memory to plan"),
    ("allocate", "NO_MEMORY", "no device memory"),
    ("compute", "DEVICE_FAILED", "the device failed while rows were being moved"),
]


def afterwards(model: Cached, act: Callable[[], Any]) -> list[bytes]:
    """What an operation and a renumbering and a decode leave."""
    act()
    model.renumber(first=2)
    model.add([65])
    return [*model.everything(n_seq=2), model.output(-1).tobytes()]


@pytest.mark.parametrize(("point", "status", "says"), POINTS)
@pytest.mark.parametrize("cache", CACHES)
def test_a_device_that_fails_during_a_load_loses_nothing(
    llama: Any, tiny_models: Path, cache: str, point: str, status: str, says: str
) -> None:
    seen = []
    for fails in (False, True):
        with cached(llama, tiny_models, SPECS["qwen3"], **OPTIONS, **CACHES[cache]) as model:
            live(model)
            model.add(random_tokens(10, 7), seq=1)
            block = model.save(GONE)
            model.retain(np.delete(np.arange(N), GONE))
            if fails:
                before = model.everything(n_seq=2)
                for rows in (None, range(12), [2, 5, 6]):
                    model.cache.fail_next(point)
                    with pytest.raises(NativeError, match=says) as error:
                        model.load(block, PLACES if rows is None else PLACES[: len(rows)], rows)
                    assert error.value.status == status
                    assert not isinstance(error.value, CacheLostError)
                    assert model.everything(n_seq=2) == before
            seen.append(afterwards(model, lambda: model.load(block, PLACES)))  # noqa: B023
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("point", "status", "says"), POINTS)
@pytest.mark.parametrize("cache", CACHES)
def test_a_device_that_fails_during_a_save_loses_nothing(
    llama: Any, tiny_models: Path, cache: str, point: str, status: str, says: str
) -> None:
    """Nor is a reference taken for one that was not."""
    seen = []
    for fails in (False, True):
        with cached(llama, tiny_models, SPECS["qwen3"], **OPTIONS, **CACHES[cache]) as model:
            live(model)
            model.add(random_tokens(10, 7), seq=1)
            if fails:
                before = model.everything(n_seq=2)
                for ranks in (None, range(15, 25), [29]):
                    model.cache.fail_next(point)
                    with pytest.raises(NativeError, match=says) as error:
                        model.save(ranks)
                    assert error.value.status == status
                    assert not isinstance(error.value, CacheLostError)
                    assert model.everything(n_seq=2) == before
            block = model.save(range(4, 28))
            seen.append([block.tobytes(), *afterwards(model, lambda: None)])
    assert seen[0] == seen[1]


def test_null_is_refused_where_it_means_nothing(model: Cached, block: Block) -> None:
    cache, n32, n64 = model.cache._pointer, ctypes.c_uint32(), ctypes.c_uint64()
    ranks, at = (ctypes.c_uint32 * 18)(*range(18)), (ctypes.c_int32 * 12)(*PLACES)
    whose, out = ctypes.byref(IDENTITY), (ctypes.c_uint8 * 100_000)()
    data, size = block.ctypes.data, len(block)
    calls: list[tuple[Any, ...]] = [
        ("pace_place", None, 0, ranks, 12, 18, at, None),
        ("pace_place", cache, 0, None, 12, 18, at, None),
        ("pace_place", cache, 0, ranks, 12, 18, None, None),
        ("pace_save", None, 0, ranks, 18, 18, whose, out, 100_000, n64),
        ("pace_save", cache, 0, None, 18, 18, whose, out, 100_000, n64),
        ("pace_save", cache, 0, ranks, 18, 18, None, out, 100_000, n64),
        ("pace_save", cache, 0, ranks, 18, 18, whose, None, 100_000, n64),
        ("pace_save", cache, 0, ranks, 18, 18, whose, out, 100_000, None),
        ("pace_read_block", None, whose, data, size, out, 18, n32),
        ("pace_read_block", cache, None, data, size, out, 18, n32),
        ("pace_read_block", cache, whose, None, size, out, 18, n32),
        ("pace_read_block", cache, whose, None, 0, out, 18, n32),
        ("pace_read_block", cache, whose, data, size, None, 18, n32),
        ("pace_read_block", cache, whose, data, size, out, 18, None),
        ("pace_load", None, 0, whose, data, size, None, 12, at, 18, None),
        ("pace_load", cache, 0, None, data, size, None, 12, at, 18, None),
        ("pace_load", cache, 0, whose, None, size, None, 12, at, 18, None),
        ("pace_load", cache, 0, whose, data, size, None, 12, None, 18, None),
    ]
    before = model.everything(n_seq=2)
    for arguments in calls:
        status, message = call(model, *arguments)
        assert (status, "NULL" in message) == ("INVALID_ARGUMENT", True), arguments
    assert model.everything(n_seq=2) == before
    # what may be NULL: the report, rows, and lists where there is nothing to list
    assert call(model, "pace_load", cache, 0, whose, data, size, None, 12, at, 18, None)[0] == "OK"
    assert call(model, "pace_load", cache, 0, whose, data, size, ranks, 0, None, 30, None)[0] == "OK"
    assert call(model, "pace_save", cache, 0, None, 0, 30, whose, out, 128, n64)[0] == "OK"
    assert call(model, "pace_place", cache, 0, None, 0, 30, None, None)[0] == "OK"
    assert model.cache.count() == 0


def test_a_buffer_that_is_too_small_is_not_written_to(model: Cached, block: Block) -> None:
    cache, n32, n64 = model.cache._pointer, ctypes.c_uint32(), ctypes.c_uint64()
    ranks, whose = (ctypes.c_uint32 * 18)(*range(18)), ctypes.byref(IDENTITY)
    again = model.save()
    out = np.full(len(again), 0xA5, dtype=np.uint8)
    before = model.everything(n_seq=2)
    for capacity in (0, 1, 127, 128, len(again) - 1):
        arguments = (cache, 0, ranks, 18, 18, whose, out.ctypes.data, capacity, n64)
        status, message = call(model, "pace_save", *arguments)
        assert (status, n64.value) == ("BUFFER_TOO_SMALL", len(again))
        assert message == f"a block of {len(again)} bytes does not fit in {capacity}"
    assert (out == 0xA5).all()
    rows = np.full(12 * 4, -7, dtype=np.int32).view(RESIDENT)
    data = (cache, whose, block.ctypes.data, len(block))
    for capacity in (0, 1, 11):
        status, message = call(model, "pace_read_block", *data, rows.ctypes.data, capacity, n32)
        assert (status, n32.value) == ("BUFFER_TOO_SMALL", 12)
        assert message == f"12 tokens do not fit in {capacity}"
    assert (rows.view(np.int32) == -7).all()
    assert model.everything(n_seq=2) == before
    arguments = (cache, 0, ranks, 18, 18, whose, out.ctypes.data, len(again), n64)
    assert call(model, "pace_save", *arguments)[0] == "OK"
    assert out.tobytes() == again.tobytes()
