"""What a tiny random model looks like: its architecture, its shapes, its rotation, its speech."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pace_local.errors import ConfigError
from pace_local.testing.archs import ARCHS, Arch
from pace_local.testing.numerics import RopeSpec
from pace_local.testing.vocab import CHAT_TEMPLATE, tiny_vocab


@dataclass(frozen=True)
class RopeScaling:
    """How a model stretches its trained context."""

    kind: Literal["linear", "yarn"]
    """``linear`` slows all pairs alike, ``yarn`` keeps the fast ones."""

    factor: float = 1.0
    """Stretch: 4 makes position 400 look like position 100 to a fully scaled pair."""

    n_ctx_orig: int = 0
    """Trained context length in tokens, for YaRN; 0 means the model's context length."""

    attn_factor: float = 1.0
    """Factor on the length of keys and queries, on top of YaRN's own."""


@dataclass(frozen=True)
class TinySpec:
    """A tiny model. Equal specs give byte-identical files.

    Raises ConfigError when llama.cpp could not load such a model.
    """

    arch: str = "llama"
    """One of ``ARCHS``: llama, qwen2, qwen3, phi3, stablelm and chatglm (half of each head rotates),
    smollm3 (every fourth layer without RoPE), gemma3 (sliding window on even layers), qwen2vl
    (M-RoPE), mamba (recurrent), lfm2 (recurrent on even layers), bert (no memory, not causal)."""

    n_layer: int = 4
    """Layers."""

    n_head: int = 4
    """Query heads."""

    n_head_kv: int = 2
    """Key and value heads; divides n_head."""

    head_dim: int = 32
    """Width of one head, for keys and values alike."""

    n_embd: int = 0
    """Width of the residual stream; 0 means n_head * head_dim."""

    n_ff: int = 128
    """Width of the feed-forward layer."""

    n_vocab: int = 0
    """Tokens; 0 means just the tokenizer's own, more adds tokens that no text contains."""

    n_ctx_train: int = 0
    """Context length in the metadata; 0 means 32,768 (512 for bert, which stores a row for each)."""

    n_rot: int = 0
    """Dimensions of a head that rotate; 0 means the architecture's share of head_dim."""

    rope_freq_base: float = 10000.0
    """Base of the RoPE frequencies."""

    rope_freq_base_swa: float = 1000.0
    """The same for sliding-window layers (gemma3)."""

    rope_scaling: RopeScaling | None = None
    """Context stretching, or None."""

    rope_factors: tuple[float, ...] | None = None
    """Frequency divisors, n_rot / 2 of them (llama, phi3), or None."""

    rope_factors_long: tuple[float, ...] | None = None
    """phi3: divisors for contexts beyond the trained one; None means the same as rope_factors."""

    n_swa: int = 64
    """Sliding window in tokens (gemma3)."""

    causal: bool = True
    """False marks the attention as non-causal in the metadata (bert is so by itself)."""

    weights: Literal["F32", "F16", "Q8_0"] = "F16"
    """Type of the matrices; vectors and convolutions are F32, as llama.cpp wants them."""

    speech: Literal["text", "bytes", "ends"] = "text"
    """What can have the highest logit: ``text`` printable ASCII, so that greedy decoding never ends
    by itself; ``bytes`` any byte, so that it is mostly not UTF-8; ``ends`` text, and now and then
    the end-of-turn token."""

    tokenizer: Literal["bpe", "spm"] = "bpe"
    """How texts are tokenized: byte-level BPE, or SentencePiece as in Llama 2; ids are the same."""

    chat_template: str | None = CHAT_TEMPLATE
    """Jinja text in the metadata; None leaves the model without one."""

    seed: int = 0
    """Seed of the weights."""

    def __post_init__(self) -> None:
        """Check all fields."""
        for name in ("n_layer", "n_head", "n_head_kv", "head_dim", "n_ff", "n_swa"):
            self._require(getattr(self, name) > 0, name, "use 1 or more")
        for name in ("n_embd", "n_vocab", "n_ctx_train", "n_rot", "seed"):
            self._require(getattr(self, name) >= 0, name, "use 0 or more")
        self._require(self.arch in ARCHS, "arch", f"use one of {', '.join(ARCHS)}")
        self._require(self.weights in ("F32", "F16", "Q8_0"), "weights", "use F32, F16 or Q8_0")
        self._require(self.speech in ("text", "bytes", "ends"), "speech", "use text, bytes or ends")
        self._require(self.tokenizer in ("bpe", "spm"), "tokenizer", "use bpe or spm")
        self._require(self.n_head % self.n_head_kv == 0, "n_head_kv", f"use a divisor of {self.n_head}")
        few = self.arch == "lfm2" and self.n_layer < 2
        self._require(not few, "n_layer", "lfm2 needs 2, its odd layers are the ones with attention")
        heads = self.n_head * self.head_dim
        self._require(self.traits.free_heads or self.width == heads, "n_embd", f"{self.arch} needs {heads}")
        size = len(tiny_vocab().tokens)
        self._require(self.n_vocab == 0 or self.n_vocab >= size, "n_vocab", f"use {size} or more")
        if self.weights == "Q8_0":
            self._require(self.width % 32 == 0, "n_embd", "Q8_0 needs a multiple of 32")
            self._require(self.n_ff % 32 == 0, "n_ff", "Q8_0 needs a multiple of 32")
        if self.traits.pairing is not None:
            self._check_rope()

    def _check_rope(self) -> None:
        dims, whole = self.rotary_dims, self.traits.rotary_share is None
        self._require(self.head_dim % 2 == 0, "head_dim", "use an even number, RoPE turns pairs")
        self._require(dims % 2 == 0, "n_rot", "use an even number, RoPE turns pairs")
        self._require(dims <= self.head_dim, "n_rot", f"use at most head_dim, {self.head_dim}")
        self._require(dims == self.head_dim or not whole, "n_rot", f"{self.arch} needs {self.head_dim}")
        for name, archs in (("rope_factors", ("llama", "phi3")), ("rope_factors_long", ("phi3",))):
            factors = getattr(self, name)
            self._require(factors is None or self.arch in archs, name, f"use {' or '.join(archs)}")
            self._require(factors is None or len(factors) == dims // 2, name, f"give {dims // 2} numbers")
        if self.rope_scaling is not None:
            self._require(self.rope_scaling.kind in ("linear", "yarn"), "rope_scaling", "use linear or yarn")
            # below 1, YaRN's length factor is defined differently by everyone who defines it at all
            least = 1.0 if self.rope_scaling.kind == "yarn" else 1e-3
            self._require(self.rope_scaling.factor >= least, "rope_scaling", f"use a factor >= {least:g}")

    def _require(self, holds: bool, name: str, advice: str) -> None:
        if not holds:
            raise ConfigError(f"TinySpec.{name} is {getattr(self, name)!r}: {advice}")

    @property
    def traits(self) -> Arch:
        """The architecture's entry in ``ARCHS``."""
        return ARCHS[self.arch]

    @property
    def width(self) -> int:
        """Width of the residual stream."""
        return self.n_embd or self.n_head * self.head_dim

    @property
    def rotary_dims(self) -> int:
        """Dimensions of a head that rotate."""
        return self.n_rot or 2 * int(self.head_dim / 2 * (self.traits.rotary_share or 1.0))

    @property
    def vocab_size(self) -> int:
        """Tokens in the model."""
        return self.n_vocab or len(tiny_vocab().tokens)

    @property
    def context_length(self) -> int:
        """Trained context length in the metadata, in tokens."""
        return self.n_ctx_train or (512 if self.arch == "bert" else 32768)

    def has_keys(self, layer: int) -> bool:
        """Whether a layer caches keys and values: attention layers of models that have a cache."""
        if self.traits.memory in ("recurrent", "none"):
            return False
        return self.traits.memory != "hybrid" or layer % 2 == 1

    def slides(self, layer: int) -> bool:
        """Whether a layer attends to a sliding window only."""
        return self.traits.memory == "iswa" and layer % 2 == 0

    def rope(self, layer: int, n_ctx: int = 0) -> RopeSpec | None:
        """The rotation of a layer's cached keys, or None if they are not rotated.

        ``n_ctx`` is the context length in use, in tokens; it matters to phi3's long factors only.
        """
        if self.traits.pairing is None or not self.has_keys(layer):
            return None
        if self.arch == "smollm3" and layer % 4 == 3:
            return None
        scaling = self.rope_scaling or RopeScaling("linear")
        n_ctx_orig = scaling.n_ctx_orig or self.context_length
        long = self.rope_factors_long is not None and n_ctx > n_ctx_orig
        yarn = scaling.kind == "yarn"
        return RopeSpec(
            n_rot=self.rotary_dims,
            pairing=self.traits.pairing,
            freq_base=self.rope_freq_base_swa if self.slides(layer) else self.rope_freq_base,
            freq_scale=1.0 if self.slides(layer) else 1.0 / scaling.factor,
            ext_factor=1.0 if yarn else 0.0,
            attn_factor=scaling.attn_factor,
            n_ctx_orig=n_ctx_orig,
            freq_factors=self.rope_factors_long if long else self.rope_factors,
        )


KV_SHAPES: dict[str, TinySpec] = {
    "qwen3-8b": TinySpec(
        arch="qwen3", n_layer=36, n_head=8, n_head_kv=8, head_dim=128, n_embd=64, n_ff=64,
        n_ctx_train=40960, rope_freq_base=1e6,
    ),
    "qwen2.5-coder-0.5b": TinySpec(
        arch="qwen2", n_layer=24, n_head=2, n_head_kv=2, head_dim=64, n_ff=64, rope_freq_base=1e6
    ),
    "qwen2.5-coder-1.5b": TinySpec(
        arch="qwen2", n_layer=28, n_head=2, n_head_kv=2, head_dim=128, n_ff=64, rope_freq_base=1e6
    ),
}  # fmt: skip


def kv_shape_spec(name: str) -> TinySpec:
    """A model with the KV cache of a real one and as little else as llama.cpp allows.

    Same layers, KV heads, head width, key norm and RoPE, so that cache operations cost the same;
    few query heads, a thin residual stream and a small vocabulary, so that nothing else costs much.

    Args:
        name: A name of the model registry: a key of ``KV_SHAPES``.

    Raises:
        ConfigError: There is no such shape.
    """
    if name not in KV_SHAPES:
        raise ConfigError(f"no KV shape named {name!r}: use one of {', '.join(KV_SHAPES)}")
    return KV_SHAPES[name]
