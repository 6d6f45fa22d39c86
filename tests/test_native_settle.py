"""pace_settle: upstream's owed shift is applied whole, whatever was aborted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_cache import SPECS, cached, random_tokens

from pace_local.errors import CacheLostError


def test_what_is_owed_is_applied_and_no_more(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"]) as model:
        model.add(random_tokens(40))
        before = model.read("key")
        assert llama.llama_memory_seq_rm(model.memory, 0, 0, 10)
        llama.llama_memory_seq_add(model.memory, 0, 10, 40, -10)
        owed = model.read("key")
        np.testing.assert_array_equal(owed, before[:, 10:])
        model.cache.abort()
        model.cache.settle()
        settled = model.read("key")
        assert (settled != owed).any(axis=(1, 2, 3)).all(), "every layer is rotated"
        model.cache.settle()
        np.testing.assert_array_equal(model.read("key"), settled)
        assert model.try_decode([1], 30) == 2, "decodes are still aborted"
        model.cache.abort_clear()
        np.testing.assert_array_equal(model.read("key"), settled)
    with cached(llama, tiny_models, SPECS["llama"]) as model:
        model.add(random_tokens(40))
        assert llama.llama_memory_seq_rm(model.memory, 0, 0, 10)
        llama.llama_memory_seq_add(model.memory, 0, 10, 40, -10)
        model.add([1])
        np.testing.assert_array_equal(model.read("key")[:, :-1], settled, "as upstream does at a decode")


def test_a_shift_that_fails_empties_the_cache(llama: Any, tiny_models: Path) -> None:
    """Some layers may have been shifted. It said neither so nor what to do, and the shift was still owed."""
    with cached(llama, tiny_models, SPECS["llama"]) as model:
        model.add(random_tokens(40))
        model.drop(30)
        model.shift(10, 5)
        model.cache.fail_next("compute")
        with pytest.raises(CacheLostError, match="decode the tokens again"):
            model.cache.settle()
        assert model.cache.count() == 0
        model.cache.settle()
        model.add(random_tokens(4))
        model.renumber()
        model.check_keys()
        model.cache.abort()
        assert model.try_decode([1], 4) == 2, "decodes are stopped again"


def test_nothing_owed(llama: Any, tiny_models: Path) -> None:
    with cached(llama, tiny_models, SPECS["llama"]) as model:
        model.cache.settle()
        model.add(random_tokens(10))
        before = model.everything()[:3]
        model.cache.settle()
        assert model.everything()[:3] == before
