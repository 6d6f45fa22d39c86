"""The llama.cpp architectures that the tiny model maker knows, and how they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Arch:
    """What the maker must know of a llama.cpp architecture."""

    pairing: Literal["norm", "neox"] | None
    """Which dimensions its RoPE pairs; None if it has no RoPE."""

    memory: Literal["kv", "iswa", "recurrent", "hybrid", "none"] = "kv"
    """The kind of memory that llama.cpp gives it."""

    norm: Literal["rms", "layer"] = "rms"
    """Root-mean-square norm, or layer norm with a bias."""

    ffn: Literal["gated", "packed", "plain"] = "gated"
    """Gate beside up, gate packed into up, or no gate."""

    qkv_bias: bool = False
    """The query, key and value projections have biases."""

    qkv_fused: bool = False
    """The three projections are one tensor."""

    qk_norm: bool = False
    """Queries and keys are normalised per head, before RoPE."""

    free_heads: bool = False
    """n_head * head_dim may differ from n_embd."""

    rotary_share: float | None = None
    """Share of a head that rotates by default; None if llama.cpp insists on the whole head."""


ARCHS: dict[str, Arch] = {
    "llama": Arch("norm", free_heads=True),
    "qwen2": Arch("neox", qkv_bias=True),
    "qwen3": Arch("neox", qk_norm=True, free_heads=True),
    "phi3": Arch("neox", qkv_fused=True, ffn="packed", rotary_share=1.0),
    "stablelm": Arch("neox", norm="layer", rotary_share=0.5),
    "chatglm": Arch("norm", qkv_bias=True, qkv_fused=True, ffn="packed", rotary_share=0.5),
    "smollm3": Arch("norm", free_heads=True),
    "gemma3": Arch("neox", memory="iswa", qk_norm=True, free_heads=True),
    "qwen2vl": Arch("neox", qkv_bias=True),
    "mamba": Arch(None, memory="recurrent"),
    "lfm2": Arch("neox", memory="hybrid", qk_norm=True),
    "bert": Arch(None, memory="none", norm="layer", ffn="plain", qkv_bias=True),
}
