"""Stopping a decode from another thread, which never stops a renumbering."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from native_cache import CACHES, SPECS, Cached, cached, random_tokens

from pace_local.testing import TinySpec

ABORTED = 2


class Watch:
    """Runs a function in another thread when a decode has come to some node of its graph, and waits for it.

    So the other thread acts in the middle of a decode, always at the same place.
    """

    def __init__(self, llama: Any) -> None:
        self.reached, self.done = threading.Event(), threading.Event()
        self.left = 0
        self.callback = llama.ggml_backend_sched_eval_callback(self._see)
        self.context = {"cb_eval": self.callback, "cb_eval_user_data": None}

    def _see(self, _tensor: Any, asking: bool, _data: Any) -> bool:
        if asking and self.left > 0:
            self.left -= 1
            if self.left == 0:
                self.reached.set()
                assert self.done.wait(60)
        return True

    def act(self, after_nodes: int, action: Any) -> threading.Thread:
        """Get ready; the thread ends after the action."""
        self.reached.clear()
        self.done.clear()
        self.left = after_nodes

        def wait_and_act() -> None:
            assert self.reached.wait(60)
            action()
            self.done.set()

        thread = threading.Thread(target=wait_and_act)
        thread.start()
        return thread


@pytest.fixture
def watch(llama: Any) -> Watch:
    return Watch(llama)


@pytest.fixture
def model(llama: Any, tiny_models: Path, watch: Watch) -> Iterator[Cached]:
    options: dict[str, Any] = {"n_ctx": 1024, "n_ubatch": 64, "context": watch.context}
    with cached(llama, tiny_models, SPECS["llama"], **options) as model:
        yield model


@pytest.mark.parametrize("after_nodes", [1, 40, 100, 500])
def test_an_abort_from_another_thread_ends_a_decode(
    after_nodes: int, model: Cached, watch: Watch, llama: Any, tiny_models: Path
) -> None:
    """Cancel was ignored during prompt processing; here it ends, and all that was there before stays."""
    model.add(random_tokens(50))
    model.renumber(first=10)
    before = model.everything()
    thread = watch.act(after_nodes, model.cache.abort)
    assert model.try_decode(random_tokens(600, seed=1), 60) == ABORTED
    thread.join()
    # upstream takes out the micro-batch that was aborted, and leaves those before it
    n_whole = model.cache.count() - 50
    assert 0 <= n_whole < 600
    assert n_whole % 64 == 0
    assert (n_whole > 0) == (after_nodes == 500)
    model.llama.llama_memory_seq_rm(model.memory, 0, 60, -1)
    assert model.everything() == before
    assert model.try_decode([1], 60) == ABORTED, "until it is cleared"
    assert model.everything() == before
    model.cache.abort_clear()
    model.add([65])
    once = model.output(-1).tobytes()
    with cached(llama, tiny_models, SPECS["llama"], n_ctx=1024, n_ubatch=64) as other:
        other.add(random_tokens(50))
        other.renumber(first=10)
        other.add([65])
        assert other.output(-1).tobytes() == once, "the aborted decode left no trace"


@pytest.mark.parametrize("cache", CACHES)
def test_a_requested_abort_does_not_stop_a_renumber(cache: str, llama: Any, tiny_models: Path) -> None:
    """Also where upstream owes a shift, which is rotated by the same graph."""
    keys = []
    for aborted in (False, True):
        with cached(llama, tiny_models, SPECS["qwen3"], **CACHES[cache]) as model:
            model.add(random_tokens(60))
            model.renumber(first=8)
            model.llama.llama_memory_seq_add(model.memory, 0, 30, -1, 100)
            if aborted:
                model.cache.abort()
            model.renumber(range(3, 60), first=300)
            model.check_keys()
            keys.append(model.everything())
            if aborted:
                assert model.try_decode([1], model.next_position()) == ABORTED
                model.cache.abort_clear()
            model.add([1])
    assert keys[0] == keys[1]


def test_an_abort_while_rows_are_moved_waits_for_the_next_decode(llama: Any, tiny_models: Path) -> None:
    """Another thread aborts and clears all the time; whatever it hits, no renumbering is cut short."""
    spec = TinySpec(n_layer=8, n_head_kv=4)
    with cached(llama, tiny_models, spec, n_ctx=1024) as model:
        model.add(random_tokens(500))
        model.renumber()
        start = model.read("key").tobytes()
        stop, n_aborts = threading.Event(), 0

        def abort_all_the_time() -> None:
            nonlocal n_aborts
            while not stop.is_set():
                model.cache.abort()
                n_aborts += 1
                model.cache.abort_clear()

        thread = threading.Thread(target=abort_all_the_time)
        thread.start()
        try:
            for first in range(1, 60):
                model.renumber(first=first)
            model.renumber()
        finally:
            stop.set()
            thread.join()
        assert n_aborts > 0
        assert model.read("key").tobytes() == start
        model.add([1])


def test_closing_takes_the_abort_away(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"]) as model:
        model.cache.abort()
        assert model.try_decode([1], 0) == ABORTED
        model.cache.close()
        assert model.try_decode([1], 0) == 0
        model.cache = type(model.cache)(model.context)
        assert model.try_decode([2], 1) == 0, "a new one starts without a request"


def test_an_abort_while_the_cache_closes_touches_nothing_that_is_freed(llama: Any, tiny_models: Path) -> None:
    """As of a signal handler that cancels: it was given the pointer that was being freed."""
    with cached(llama, tiny_models, SPECS["llama"]) as model:
        lib, given = model.cache._lib, []

        class Closing:
            pace_abort = staticmethod(given.append)

            @staticmethod
            def pace_close(pointer: Any) -> None:
                model.cache.abort()
                lib.pace_close(pointer)

        model.cache._lib = Closing
        model.cache.close()
        assert given == [None]
        model.cache.close()


def test_an_abort_before_a_decode_refuses_it_whole(model: Cached) -> None:
    model.add(random_tokens(10))
    before = model.everything()
    model.cache.abort()
    model.cache.abort()
    assert model.try_decode(random_tokens(200), 10) == ABORTED
    assert model.everything() == before
    model.cache.abort_clear()
    model.add(random_tokens(200))
    assert model.cache.count() == 210
