"""What the native layer says of a context before anything is changed: support, sizes, struct layouts."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from native_cache import CACHES, FACTORS, SPECS, cached, random_tokens
from raw_llama import Loaded, loaded

from pace_local import _native
from pace_local.errors import NativeError, NativeLoadError
from pace_local.testing import ARCHS, Arch, RopeScaling, TinySpec
from pace_local.testing.gguf import add_metadata
from pace_local.testing.tensors import Tensor, tiny_tensors

REFUSED: dict[str, tuple[TinySpec, dict[str, Any], str]] = {
    "recurrent": (TinySpec(arch="mamba"), {}, "the model is recurrent"),
    "hybrid": (TinySpec(arch="lfm2"), {}, "the model is a hybrid: a part of its state is recurrent"),
    "iSWA": (TinySpec(arch="gemma3"), {}, r"sliding-window and full attention \(iSWA\)"),
    "M-RoPE": (TinySpec(arch="qwen2vl"), {}, r"several positions for each token \(M-RoPE\)"),
    "no cache": (TinySpec(arch="bert"), {}, "the model has no KV cache"),
    "streams": (
        TinySpec(),
        {"n_seq": 2, "unified": False},
        "several streams; make the context with kv_unified",
    ),
    "not causal": (TinySpec(causal=False), {}, "attention is not causal"),
    "4-bit keys": (TinySpec(), {"context": {"type_k": 2}}, "F16, BF16, F32 or Q8_0 only"),
}
"""Properties that stop us -> a context that has one, and what must be said."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_handled_is_refused_up_front(name: str, llama: Any, tiny_models: Path) -> None:
    """Recurrent, sliding-window and M-RoPE models met an assertion in the middle of a session."""
    spec, options, reason = REFUSED[name]
    with loaded(llama, tiny_models, spec, **options) as model:
        before = state(model)
        capabilities = _native.query(model.context)
        assert not capabilities.supported
        with pytest.raises(NativeError, match=reason) as error:
            _native.NativeCache(model.context)
        assert error.value.status == "UNSUPPORTED"
        assert str(error.value) == capabilities.reason
        assert "\n" not in capabilities.reason
        assert state(model) == before, "nothing was changed"
        model.decode([40, 77])


@pytest.mark.parametrize("arch", ["maincoder", "hunyuan-dense"])
def test_keys_that_are_scaled_behind_their_rotation_are_refused(
    arch: str, llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moved to another position they were up to a third off, and nothing said so."""
    monkeypatch.setitem(ARCHS, arch, Arch("neox", qk_norm=True, free_heads=True))
    with loaded(llama, tmp_path, TinySpec(arch=arch)) as model:
        capabilities = _native.query(model.context)
        assert not capabilities.supported
        assert "scales its keys after rotating them" in capabilities.reason


@pytest.mark.parametrize(("n_layer", "is_rotated"), [(3, False), (32, True), (40, False)])
def test_only_the_baichuan_that_is_rotated_is_supported(
    n_layer: int, is_rotated: bool, llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 32 layers, the 7B. Keys of the 13B, which has ALiBi, were turned by a RoPE that it does not have."""
    monkeypatch.setitem(ARCHS, "baichuan", Arch("norm"))
    with loaded(llama, tmp_path, TinySpec(arch="baichuan", n_layer=n_layer)) as model:
        capabilities = _native.query(model.context)
        assert capabilities.supported == is_rotated
        assert ("does not use rotary positions" in capabilities.reason) == (not is_rotated)


def test_learned_positions_are_refused(llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """llama.cpp says that StarCoder's first version has RoPE: its keys were turned when they moved."""
    traits = Arch("norm", norm="layer", ffn="plain", qkv_bias=True, qkv_fused=True)
    monkeypatch.setitem(ARCHS, "starcoder", traits)

    def tensors(spec: TinySpec) -> Iterator[Tensor]:
        for tensor in tiny_tensors(spec):
            yield tensor
            if re.search(r"(attn_output|ffn_up|ffn_down)\.weight$", tensor.name):
                bias = np.zeros(len(tensor.values), dtype=np.float32)
                yield Tensor(tensor.name.replace("weight", "bias"), bias)
        yield Tensor("position_embd.weight", np.zeros((spec.context_length, spec.width), dtype=np.float32))

    monkeypatch.setattr("pace_local.testing.gguf.tiny_tensors", tensors)
    with loaded(llama, tmp_path, TinySpec(arch="starcoder", n_ctx_train=512)) as model:
        capabilities = _native.query(model.context)
        assert not capabilities.supported
        assert "does not use rotary positions" in capabilities.reason


def test_keys_that_are_paired_otherwise_than_upstream_says_are_refused(
    llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeepSeek-OCR pairs the halves of a head; moved keys were turned in pairs of neighbours."""
    monkeypatch.setitem(ARCHS, "deepseek2-ocr", Arch("neox"))

    def metadata(writer: gguf.GGUFWriter, spec: TinySpec) -> None:
        add_metadata(writer, spec)
        writer.add_leading_dense_block_count(spec.n_layer)
        writer.add_expert_feed_forward_length(spec.n_ff)
        writer.add_expert_shared_count(1)
        writer.add_expert_weights_scale(1.0)
        writer.add_expert_weights_norm(False)

    monkeypatch.setattr("pace_local.testing.gguf.add_metadata", metadata)
    with loaded(llama, tmp_path, TinySpec(arch="deepseek2-ocr", n_head=2, n_head_kv=2)) as model:
        capabilities = _native.query(model.context)
        assert not capabilities.supported
        assert "cannot shift the keys of this architecture" in capabilities.reason


@pytest.mark.parametrize("heads", [(2, 0, 2), (2, 2, 2)], ids=["no attention", "linear attention"])
def test_layers_without_keys_are_refused(
    heads: tuple[int, ...], llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models that are pruned layer by layer ended the process with a division by zero."""
    keys = (1, 0, 1)
    monkeypatch.setitem(ARCHS, "deci", Arch("norm", free_heads=True))

    def tensors(spec: TinySpec) -> Iterator[Tensor]:
        for tensor in tiny_tensors(spec):
            found = re.fullmatch(r"blk\.(\d+)\.(attn_\w+)\.weight", tensor.name)
            layer = int(found[1]) if found else 0
            is_linear = heads[layer] > 0 and found is not None and found[2] in ("attn_norm", "attn_output")
            if found is None or keys[layer] or is_linear:
                yield tensor

    monkeypatch.setattr("pace_local.testing.gguf.tiny_tensors", tensors)
    for name, counts in (("add_head_count", heads), ("add_head_count_kv", keys)):
        add = getattr(gguf.GGUFWriter, name)
        monkeypatch.setattr(gguf.GGUFWriter, name, lambda self, _, add=add, n=counts: add(self, list(n)))
    spec = TinySpec(arch="deci", n_layer=3, n_head=2, n_head_kv=1, head_dim=16)
    with loaded(llama, tmp_path, spec) as model:
        capabilities = _native.query(model.context)
        assert not capabilities.supported
        assert "no heads for keys and values" in capabilities.reason
        with pytest.raises(NativeError, match="no heads for keys and values"):
            _native.NativeCache(model.context)
        model.decode([40, 77])


def state(model: Loaded) -> bytes:
    size = model.llama.llama_state_get_size(model.context)
    data = (ctypes.c_uint8 * size)()
    return bytes(data[: model.llama.llama_state_get_data(model.context, data, size)])


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("spec", ["llama", "qwen3 yarn", "stablelm", "chatglm", "phi3", "smollm3"])
def test_capabilities_describe_the_context(spec: str, cache: str, llama: Any, tiny_models: Path) -> None:
    options = CACHES[cache]
    with cached(llama, tiny_models, SPECS[spec], n_seq=3, unified=True, n_ctx=256, **options) as model:
        told = _native.query(model.context)
        assert (told.supported, told.reason) == (1, "")
        assert (told.n_cells, told.n_layers, told.n_seq) == (256, model.spec.n_layer, 3)
        assert told.n_rot == model.spec.rotary_dims
        assert told.rope_type == {"norm": 0, "neox": 2}[str(model.spec.traits.pairing)]
        assert told.key_type == _native.CACHE_TYPES[options.get("cache", "f16")]
        assert told.value_type == _native.CACHE_TYPES[options.get("values", "f16")]
        assert told.flash_attn == options.get("flash", True)
        assert told.max_position == 0


def test_every_refused_type_of_references_is_named(llama: Any, tiny_models: Path) -> None:
    with loaded(llama, tiny_models, TinySpec()) as model:
        lib, pointer = llama._lib, ctypes.c_void_p()
        for kind in (2, 8, 30, -2, 1000):
            options = _native._Options(kind)
            status = lib.pace_open(model.context, ctypes.byref(options), ctypes.byref(pointer))
            assert lib.pace_status_name(status) == b"INVALID_ARGUMENT"
            assert f"not ggml type {kind}".encode() in lib.pace_last_message()
            assert pointer.value is None


LONG = TinySpec(
    arch="phi3", rope_factors=FACTORS, rope_factors_long=FACTORS[::-1],
    rope_scaling=RopeScaling("linear", 1.0, n_ctx_orig=512),
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "n_ctx", "expected"),
    [
        (LONG, 256, 512),
        (LONG, 512, 512),
        (LONG, 1024, 0),
        (TinySpec(arch="phi3"), 256, 0),
        (SPECS["llama factors"], 256, 0),
    ],
)
def test_max_position_is_where_other_frequency_factors_begin(
    spec: TinySpec, n_ctx: int, expected: int, llama: Any, tiny_models: Path
) -> None:
    """The context's size decides between short and long factors, and says nothing of where positions end."""
    with loaded(llama, tiny_models, spec, n_ctx=n_ctx) as model:
        assert _native.query(model.context).max_position == expected


@pytest.mark.parametrize("cache", CACHES)
def test_bytes_are_those_of_the_tensors(cache: str, llama: Any, tiny_models: Path) -> None:
    spec = SPECS["qwen3 yarn"]
    n = spec.n_layer * spec.n_head_kv * spec.head_dim * 768
    element = {"f16": 2.0, "f32": 4.0, "bf16": 2.0, "q8_0": 34 / 32}
    options = CACHES[cache]
    with cached(llama, tiny_models, spec, n_ctx=768, **options) as model:
        held = model.cache.bytes_held()
        assert held.keys == n * element[options.get("cache", "f16")]
        assert held.values == n * element[options.get("values", "f16")]
        assert held.references == n * element[model.reference_type]
        assert held.scratch == 0, "allocated when first used"
        model.add(random_tokens(40))
        model.renumber(range(1, 40))
        after = model.cache.bytes_held()
        assert after[:3] == held[:3]
        # some rows of all layers as F32, and what a rotation of them needs
        assert 0 < after.scratch < 40 * n / 768 * 4 * 8 + 4 * n


SIZES = [name for name, _ in _native._Sizes._fields_]


@pytest.fixture
def sizes(llama: Any) -> Any:
    """What this side knows."""
    structs = (
        _native.Capabilities, _native._Options, _native._Resident, _native._Bytes, _native._Change,
        _native._AttentionOptions, _native.Identity,
        llama.llama_model_params, llama.llama_context_params, llama.llama_batch,
    )  # fmt: skip
    return _native._Sizes(*map(ctypes.sizeof, structs))


@pytest.mark.parametrize("change", [-4, -1, 1, 8])
@pytest.mark.parametrize("name", SIZES)
def test_a_struct_of_another_size_is_an_error(name: str, change: int, sizes: Any, llama: Any) -> None:
    """A mis-sized ctypes struct silently ignored an option."""
    lib = llama._lib
    assert lib.pace_handshake(_native.API_VERSION, ctypes.byref(sizes)) == 0
    right = getattr(sizes, name)
    setattr(sizes, name, right + change)
    status = lib.pace_handshake(_native.API_VERSION, ctypes.byref(sizes))
    assert lib.pace_status_name(status) == b"MISMATCH"
    expected = f"struct {name} has {right} bytes in the library and {right + change} in the caller"
    assert lib.pace_last_message().decode() == expected


def test_another_version_of_the_interface_is_an_error(sizes: Any, llama: Any) -> None:
    lib = llama._lib
    for version in (0, _native.API_VERSION + 1, 2**32 - 1):
        status = lib.pace_handshake(version, ctypes.byref(sizes))
        assert lib.pace_status_name(status) == b"MISMATCH"
        assert str(version) in lib.pace_last_message().decode()
    assert lib.pace_status_name(lib.pace_handshake(_native.API_VERSION, None)) == b"INVALID_ARGUMENT"


def test_a_mismatch_stops_the_loading(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(ctypes.Structure):
        _fields_ = [*_native._Change._fields_, ("more", ctypes.c_int64)]

    monkeypatch.setattr(_native, "_Change", Longer)
    says = r"pace_change has 32 bytes in the library and 40.*build it anew"
    try:
        with pytest.raises(NativeLoadError, match=says):
            _native._bindings.__wrapped__()
    finally:
        monkeypatch.undo()
        _native._declare(llama._lib)


def test_every_status_has_a_name(llama: Any) -> None:
    names = [llama._lib.pace_status_name(status).decode() for status in range(-1, 14)]
    assert names == [
        "UNKNOWN", "OK", "INVALID_ARGUMENT", "UNSUPPORTED", "MISMATCH", "STALE", "BUFFER_TOO_SMALL",
        "SHARED_CELL", "NO_MEMORY", "CACHE_LOST", "INTERNAL", "NO_ROOM", "BAD_BLOCK",
        "DEVICE_FAILED", "UNKNOWN",
    ]  # fmt: skip


def test_a_folder_can_be_named_in_place_of_the_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_LIBRARY_DIR", str(tmp_path))
    (tmp_path / "LICENSE.llama.cpp").touch()
    with pytest.raises(NativeLoadError, match=r"PACE_LIBRARY_DIR is .*, which has no llama library"):
        _native.library_folder()
    (tmp_path / "libllama.so").touch()
    assert _native.library_folder() == tmp_path
