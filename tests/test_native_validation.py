"""Calls that are refused: the right status, a message that shows the value, and a cache as it was."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_cache import SPECS, Cached, cached, random_tokens

from pace_local._native import RESIDENT, ROWS
from pace_local.errors import NativeError

N = 20
LAST = 2**31 - 1


@pytest.fixture(params=["all captured", "some captured"])
def model(request: pytest.FixtureRequest, llama: Any, tiny_models: Path) -> Iterator[Cached]:
    """A cache of 20 residents at positions from 5 on, in sequence 0 of 2."""
    with cached(llama, tiny_models, SPECS["qwen3"], n_ctx=256, n_seq=2, unified=True) as model:
        model.add(random_tokens(N + 3))
        model.renumber(range(3, N + 3), first=5)
        if request.param == "some captured":
            model.retain(range(0, N, 2))
            model.add(random_tokens(N // 2, seed=1))
        yield model


def refuse(model: Cached, call: Any, *, status: str = "INVALID_ARGUMENT", says: str) -> None:
    """A call raises, and changes not one byte of what the cache holds."""
    before = model.everything(n_seq=2)
    with pytest.raises(NativeError, match=says) as error:
        call()
    assert error.value.status == status
    assert "\n" not in str(error.value)
    assert model.everything(n_seq=2) == before
    model.add([7])
    model.llama.llama_memory_seq_rm(model.memory, 0, model.next_position() - 1, -1)
    assert model.everything(n_seq=2) == before, "and decoding goes on"


def change(model: Cached, name: str, ranks: Any, count: int = N, seq: int = 0, first: int = 0) -> Any:
    keep = np.array(ranks, dtype=np.uint32)
    if name == "retain":
        return model.cache.retain(keep, count, seq)
    return model.cache.renumber(keep, count, first, seq)


@pytest.mark.parametrize("name", ["retain", "renumber"])
@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (([1, 0],), "INVALID_ARGUMENT", "stay under 20; number 1 is 0"),
        (([3, 3],), "INVALID_ARGUMENT", "increase strictly .* number 1 is 3"),
        (([0, 20],), "INVALID_ARGUMENT", "stay under 20; number 1 is 20"),
        (([2**32 - 1],), "INVALID_ARGUMENT", "number 0 is 4294967295"),
        ((range(21),), "INVALID_ARGUMENT", "21 ranks of 20 residents"),
        (([0], 19), "STALE", "the caller counts 19 residents, the cache 20"),
        (([0], 21), "STALE", "the caller counts 21 residents, the cache 20"),
        (([], 0), "STALE", "the caller counts 0 residents, the cache 20"),
        (([0], N, 1), "STALE", "the caller counts 20 residents, the cache 0"),
        (([0], N, -1), "INVALID_ARGUMENT", "sequence -1 is not one of the context's 2"),
        (([0], N, 2), "INVALID_ARGUMENT", "sequence 2 is not one of the context's 2"),
        (([0], N, LAST), "INVALID_ARGUMENT", f"sequence {LAST} is not one"),
    ],
)
def test_ranks_are_checked_before_the_first_change(
    model: Cached, name: str, arguments: Any, status: str, says: str
) -> None:
    refuse(model, lambda: change(model, name, *arguments), status=status, says=says)


@pytest.mark.parametrize("first", [-1, -LAST - 1, LAST, LAST - N + 1])
def test_positions_are_checked_before_the_first_change(model: Cached, first: int) -> None:
    refuse(
        model,
        lambda: change(model, "renumber", range(N), first=first),
        says=f"first position {first} with 20 residents is out of range",
    )


def test_the_last_positions_that_there_are_can_be_used(model: Cached) -> None:
    once = (model.renumber(), model.read("key").tobytes())[1]
    model.renumber(first=LAST - N)
    assert model.cache.residents()["position"].tolist() == list(range(LAST - N, LAST))
    model.renumber()
    assert model.read("key").tobytes() == once


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ranks=st.lists(st.integers(0, N + 2), max_size=N + 3), name=st.sampled_from(["retain", "renumber"]))
def test_any_list_of_ranks_is_either_applied_or_refused(model: Cached, ranks: list[int], name: str) -> None:
    model.clear()
    model.add(random_tokens(N))
    before, tokens = model.everything(), model.tokens()
    if ranks == sorted(set(ranks)) and all(rank < N for rank in ranks):
        change(model, name, ranks)
        assert model.tokens() == [tokens[rank] for rank in ranks]
    else:
        with pytest.raises(NativeError) as error:
            change(model, name, ranks)
        assert error.value.status == "INVALID_ARGUMENT"
        assert model.everything() == before


def call(model: Cached, name: str, *arguments: Any) -> tuple[str, str]:
    """Status and message of a call of the C API."""
    lib = model.llama._lib
    status = lib.pace_status_name(getattr(lib, name)(*arguments)).decode()
    return status, lib.pace_last_message().decode()


def test_null_is_refused_where_it_means_nothing(model: Cached) -> None:
    cache, n32, n64 = model.cache._pointer, ctypes.c_uint32(), ctypes.c_uint64()
    keep, out = (ctypes.c_uint32 * N)(*range(N)), (ctypes.c_int32 * (4 * N))()
    calls: list[tuple[Any, ...]] = [
        ("pace_query", None, None),
        ("pace_query", model.context, None),
        ("pace_open", None, None, None),
        ("pace_open", model.context, None, None),
        ("pace_residents", None, 0, out, N, n32),
        ("pace_residents", cache, 0, out, N, None),
        ("pace_residents", cache, 0, None, N, n32),
        ("pace_bytes_held", None, None),
        ("pace_bytes_held", cache, None),
        ("pace_read_rows", None, 0, 0, 0, None, 0, n64),
        ("pace_read_rows", cache, 0, 0, 0, out, 0, None),
        ("pace_read_rows", cache, 0, 0, 0, None, 99, n64),
        ("pace_retain", None, 0, keep, N, N, None),
        ("pace_retain", cache, 0, None, 1, N, None),
        ("pace_renumber", None, 0, keep, N, N, 0, None),
        ("pace_renumber", cache, 0, None, 1, N, 0, None),
        ("pace_fail_next", None, 0),
    ]
    before = model.everything(n_seq=2)
    for arguments in calls:
        status, message = call(model, *arguments)
        assert (status, "NULL" in message or "no such point" in message) == ("INVALID_ARGUMENT", True), (
            arguments
        )
    assert model.everything(n_seq=2) == before
    lib = model.llama._lib
    lib.pace_close(None)
    lib.pace_abort(None)
    lib.pace_abort_clear(None)
    # what may be NULL: the report, and ranks where there are none
    assert call(model, "pace_renumber", cache, 0, keep, N, N, 0, None)[0] == "OK"
    assert call(model, "pace_retain", cache, 0, keep, N, N, None)[0] == "OK"
    assert call(model, "pace_retain", cache, 0, None, 0, N, None)[0] == "OK"
    assert model.cache.count() == 0


def test_a_buffer_that_is_too_small_is_not_written_to(model: Cached) -> None:
    cache, n32, n64 = model.cache._pointer, ctypes.c_uint32(), ctypes.c_uint64()
    width = model.spec.n_head_kv * model.spec.head_dim
    rows = np.full(N, -7, dtype=np.int32).repeat(4).view(RESIDENT)
    floats = np.full(N * width, -7, dtype=np.float32)
    for capacity in (1, N - 1):
        status, message = call(model, "pace_residents", cache, 0, rows.ctypes.data, capacity, n32)
        assert (status, n32.value) == ("BUFFER_TOO_SMALL", N)
        assert message == f"20 residents do not fit in {capacity}"
    for capacity in (0, 1, N * width - 1):
        status, message = call(model, "pace_read_rows", cache, 0, 0, 0, floats.ctypes.data, capacity, n64)
        assert (status, n64.value) == ("BUFFER_TOO_SMALL", N * width)
        assert message == f"{N * width} values do not fit in {capacity}"
    assert (rows.view(np.int32) == -7).all()
    assert (floats == -7).all()
    assert call(model, "pace_residents", cache, 0, None, 0, n32)[0] == "OK"
    assert call(model, "pace_residents", cache, 0, rows.ctypes.data, N, n32)[0] == "OK"
    assert call(model, "pace_read_rows", cache, 0, 0, 0, floats.ctypes.data, N * width, n64)[0] == "OK"
    assert (rows["token"] == model.tokens()).all()
    assert (floats.reshape(N, -1) == model.cache.read_rows("key", 0)).all()


def test_rows_that_do_not_exist_are_refused(model: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    for layer in (model.spec.n_layer, 2**31):
        refuse(
            model,
            lambda layer=layer: model.cache.read_rows("key", layer),
            says=f"layer {layer}: the cache has 4",
        )
    for kind in (-1, 3):
        monkeypatch.setitem(ROWS, "key", kind)
        with pytest.raises(NativeError, match=f"rows {kind}: keys are 0, values 1, references 2"):
            model.cache.read_rows("key", 0)
    monkeypatch.undo()
    refuse(model, lambda: model.cache.read_rows("value", 0, seq=2), says="sequence 2 is not one")
    refuse(model, lambda: model.cache.residents(seq=-1), says="sequence -1 is not one")
    model.add([1])
    residents = model.cache.residents()
    missing = residents["position"][residents["reference_position"] < 0][0]
    says = f"the token at position {missing} has no reference yet"
    refuse(model, lambda: model.cache.read_rows("reference", 0), says=says)


def test_a_message_belongs_to_the_thread_whose_call_failed(model: Cached) -> None:
    assert call(model, "pace_fail_next", model.cache._pointer, 9)[1] == "pace_fail_next: no such point: 9"
    told: list[str] = []

    def other() -> None:
        told.append(model.llama._lib.pace_last_message().decode())
        told.append(call(model, "pace_fail_next", model.cache._pointer, -1)[1])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert told == ["", "pace_fail_next: no such point: -1"]
    assert model.llama._lib.pace_last_message() == b"pace_fail_next: no such point: 9"
