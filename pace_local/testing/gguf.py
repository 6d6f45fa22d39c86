"""Writes tiny models with random weights as GGUF files that llama.cpp loads and decodes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import quantize

from pace_local.errors import StorageError
from pace_local.testing.spec import TinySpec
from pace_local.testing.tensors import CONV_WIDTH, SSM_STATE, Tensor, tiny_tensors
from pace_local.testing.vocab import tiny_vocab

_FILE_TYPES = {
    "F32": gguf.LlamaFileType.ALL_F32,
    "F16": gguf.LlamaFileType.MOSTLY_F16,
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
}


def tiny_model(spec: TinySpec, directory: Path) -> Path:
    """The file of a tiny model, written into ``directory`` unless it is there already.

    Its name holds a hash of the spec and of the maker's own source, so a directory can be kept
    between runs and shared by processes.

    Raises:
        StorageError: The file cannot be written.
    """
    key = hashlib.sha256(f"{_maker_hash()} {spec!r}".encode()).hexdigest()[:16]
    path = directory / f"tiny-{spec.arch}-{key}.gguf"
    return path if path.is_file() else write_tiny_gguf(path, spec)


def write_tiny_gguf(path: Path, spec: TinySpec) -> Path:
    """Write a tiny model to ``path``, whole or not at all, replacing what is there; return ``path``.

    Raises:
        StorageError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".tiny-") as scratch:
            whole = Path(scratch) / path.name
            _write(whole, spec)
            os.replace(whole, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write {path}: {reason}; choose another directory") from error
    return path


@cache
def _maker_hash() -> str:
    folder = Path(__file__).parent
    names = ("archs.py", "gguf.py", "numerics.py", "spec.py", "tensors.py", "vocab.py")
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()


def _write(path: Path, spec: TinySpec) -> None:
    writer = gguf.GGUFWriter(path, spec.arch)
    add_metadata(writer, spec)
    for tensor in tiny_tensors(spec):
        _add_tensor(writer, tensor, spec)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def add_metadata(writer: gguf.GGUFWriter, spec: TinySpec) -> None:
    """Add all that a file says of its model but for the tensors."""
    _add_shapes(writer, spec)
    if spec.traits.pairing is not None:
        _add_rope(writer, spec)
    _add_vocab(writer, spec)


def _add_shapes(writer: gguf.GGUFWriter, spec: TinySpec) -> None:
    # without the architecture: llama.cpp guesses token attributes from some names
    writer.add_name("tiny random model")
    writer.add_file_type(_FILE_TYPES[spec.weights])
    writer.add_context_length(spec.context_length)
    writer.add_embedding_length(spec.width)
    writer.add_block_count(spec.n_layer)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_layer_norm_eps(1e-6)
    if not spec.causal or spec.arch == "bert":
        writer.add_causal_attention(False)
    if spec.arch == "mamba":
        writer.add_ssm_conv_kernel(CONV_WIDTH)
        writer.add_ssm_inner_size(2 * spec.width)
        writer.add_ssm_state_size(SSM_STATE)
        writer.add_ssm_time_step_rank(max(1, spec.width // 16))
        return
    writer.add_feed_forward_length(spec.n_ff)
    writer.add_head_count(spec.n_head)
    writer.add_key_length(spec.head_dim)
    writer.add_value_length(spec.head_dim)
    if spec.arch == "lfm2":
        writer.add_shortconv_l_cache(CONV_WIDTH)
        writer.add_head_count_kv([spec.n_head_kv * spec.has_keys(layer) for layer in range(spec.n_layer)])
    else:
        writer.add_head_count_kv(spec.n_head_kv)
    if spec.arch == "gemma3":
        writer.add_sliding_window(spec.n_swa)
        writer.add_sliding_window_pattern([spec.slides(layer) for layer in range(spec.n_layer)])


def _add_rope(writer: gguf.GGUFWriter, spec: TinySpec) -> None:
    writer.add_rope_dimension_count(spec.rotary_dims)
    writer.add_rope_freq_base(spec.rope_freq_base)
    if spec.arch == "gemma3":
        writer.add_rope_freq_base_swa(spec.rope_freq_base_swa)
    if spec.arch == "qwen2vl":
        # time, height and width; text gives all three the same position
        third = spec.rotary_dims // 2 // 3
        writer.add_rope_dimension_sections([spec.rotary_dims // 2 - 2 * third, third, third, 0])
    scaling = spec.rope_scaling
    if scaling is None:
        return
    writer.add_rope_scaling_type(gguf.RopeScalingType(scaling.kind))
    writer.add_rope_scaling_factor(scaling.factor)
    writer.add_rope_scaling_attn_factors(scaling.attn_factor)
    if scaling.n_ctx_orig:
        writer.add_rope_scaling_orig_ctx_len(scaling.n_ctx_orig)


def _add_vocab(writer: gguf.GGUFWriter, spec: TinySpec) -> None:
    vocab = tiny_vocab()
    fill = [f"<|unused_{i}|>" for i in range(spec.vocab_size - len(vocab.tokens))]
    n_words = len(vocab.tokens) - len(vocab.special)
    kinds = [gguf.TokenType.NORMAL] * n_words
    if spec.tokenizer == "bpe":
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list([*vocab.tokens, *fill])
        writer.add_token_merges(vocab.merges)
    else:
        writer.add_tokenizer_model("llama")
        writer.add_token_list([*vocab.spm_tokens(), *fill])
        writer.add_token_scores([-float(token) for token in range(spec.vocab_size)])
        writer.add_unk_token_id(vocab.end_of_text)
        kinds[: vocab.n_bytes] = [gguf.TokenType.BYTE] * vocab.n_bytes
        kinds[ord(" ")] = gguf.TokenType.NORMAL
    writer.add_token_types(
        kinds + [gguf.TokenType.CONTROL] * len(vocab.special) + [gguf.TokenType.UNUSED] * len(fill)
    )
    writer.add_bos_token_id(vocab.end_of_text)
    writer.add_pad_token_id(vocab.end_of_text)
    writer.add_eos_token_id(vocab.turn_end)
    writer.add_eot_token_id(vocab.turn_end)
    writer.add_add_bos_token(False)
    if spec.arch == "bert":
        writer.add_token_type_count(2)
    if spec.chat_template is not None:
        writer.add_chat_template(spec.chat_template)


def _add_tensor(writer: gguf.GGUFWriter, tensor: Tensor, spec: TinySpec) -> None:
    if tensor.exact or spec.weights == "F32":
        writer.add_tensor(tensor.name, np.ascontiguousarray(tensor.values))
    elif spec.weights == "Q8_0" and tensor.values.shape[1] % 32 == 0:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(tensor.name, quantize(tensor.values, kind), raw_dtype=kind)
    else:
        writer.add_tensor(tensor.name, tensor.values.astype(np.float16))
