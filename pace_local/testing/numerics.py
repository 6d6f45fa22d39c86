"""A slow rotary embedding in float64, to compare cached keys with.

A key row of one head is cut into pairs. Pair ``i`` of ``n_rot / 2`` turns by an angle proportional
to the position, ``p * freq_base ** (-2 i / n_rot) / freq_factor[i]``, and slower when the context was
stretched. Because the angle is linear in the position, turning by ``p`` and then by ``q - p`` is
turning by ``q``; that identity is what renumbering rests on, and what these functions check.

Sources: RoFormer (arXiv 2104.09864), position interpolation (2306.15595), YaRN (2309.00071, its
"NTK-by-parts" ramp and its attention temperature).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pace_local.errors import InputError

Float64Array: TypeAlias = NDArray[np.float64]

F32_HALF_ULP = 2.0**-24
F16_HALF_ULP = 2.0**-11
F16_SMALLEST = 2.0**-24


@dataclass(frozen=True)
class RopeSpec:
    """How one layer rotates its keys."""

    n_rot: int
    """Leading dimensions of each head that rotate; the rest pass through unchanged. Even."""

    pairing: Literal["norm", "neox"]
    """Which dimensions form pair ``i``: ``norm`` 2i and 2i + 1, ``neox`` i and i + n_rot / 2."""

    freq_base: float = 10000.0
    """Base of the geometric series of frequencies."""

    freq_scale: float = 1.0
    """Factor on every position, 1 / (context stretch); 1 leaves positions alone."""

    ext_factor: float = 0.0
    """YaRN: how far fast pairs are kept at their trained speed, 0 (off, plain scaling) to 1."""

    attn_factor: float = 1.0
    """Factor on the length of the rotated part; YaRN multiplies it by 1 + ln(1 / freq_scale) / 10."""

    beta_fast: float = 32.0
    """YaRN: pairs that turn more often than this over the trained context keep their speed."""

    beta_slow: float = 1.0
    """YaRN: pairs that turn less often than this over the trained context are scaled fully."""

    n_ctx_orig: int = 0
    """YaRN: the trained context length, in tokens."""

    freq_factors: tuple[float, ...] | None = None
    """Divisors of the ``n_rot / 2`` frequencies (Llama 3, LongRoPE); None means all 1."""

    @property
    def magnitude(self) -> float:
        """Length of a rotated part over its length before: what a first rotation multiplies by."""
        if self.ext_factor == 0.0:
            return self.attn_factor
        return self.attn_factor * (1.0 + 0.1 * math.log(1.0 / self.freq_scale))


def rope_reference(x: ArrayLike, positions: ArrayLike, rope: RopeSpec) -> Float64Array:
    """Rotate fresh keys to their positions, as the model does before they are cached.

    Args:
        x: Keys before rotation, shape ``(n_tokens, n_heads, head_dim)``, head_dim >= n_rot.
        positions: One position per token, shape ``(n_tokens,)``, or a single one for all.
        rope: The layer's rotation.

    Returns:
        A new array of the same shape, the rotated part scaled by ``rope.magnitude``.

    Raises:
        InputError: The array has another number of axes, or heads narrower than n_rot.
    """
    return _turn(x, positions, rope, rope.magnitude)


def rotate_by(k: ArrayLike, delta: ArrayLike, rope: RopeSpec) -> Float64Array:
    """Move cached keys by a difference of positions, as a renumber must: lengths do not change.

    Args:
        k: Cached keys, already rotated once, shape ``(n_tokens, n_heads, head_dim)``.
        delta: New position minus old position per token, shape ``(n_tokens,)``, or one for all.
        rope: The layer's rotation.

    Returns:
        A new array of the same shape; every head's norm is that of ``k``, with any scaling.

    Raises:
        InputError: The array has another number of axes, or heads narrower than n_rot.
    """
    return _turn(k, delta, rope, 1.0)


def rotation_tolerance(
    k: ArrayLike, turn: ArrayLike, rope: RopeSpec, *, cache: Literal["f32", "f16"]
) -> Float64Array:
    """What rounding explains when keys are turned once and stored once.

    A backend computes its angles in F32 by repeated multiplication, so that a large angle is off by
    some units in its last place; and the cache rounds what it stores. Both are bounded here as the
    length of the error over each pair, so bounds add up: turned and stored twice, allow the sum.

    Args:
        k: Keys, shape ``(n_tokens, n_heads, head_dim)``; only their lengths matter.
        turn: Positions (or differences) that were applied, shape ``(n_tokens,)``, or one for all;
            0 bounds a store alone.
        rope: The layer's rotation.
        cache: Type of the cache that the turned keys were stored in.

    Returns:
        The largest difference from exact arithmetic per element, shape of ``k``.

    Raises:
        InputError: The array has another number of axes, or heads narrower than n_rot.
    """
    keys = np.abs(_float_copy(k, rope))
    first, second = _pair_indices(rope)
    length = keys.copy()
    length[..., first] = length[..., second] = np.hypot(keys[..., first], keys[..., second])
    # i multiplications by a constant that is rounded too, a division and a blend; then cosine and sum
    angle = np.abs(_angles(turn, rope, len(keys)))[:, None, :]
    slack = angle * (3.0 * np.arange(rope.n_rot // 2) + 8.0) * F32_HALF_ULP + 8.0 * F32_HALF_ULP
    bound: Float64Array = length * (F32_HALF_ULP if cache == "f32" else F16_HALF_ULP)
    if cache == "f16":
        bound = np.maximum(bound, F16_SMALLEST)
    bound[..., first] += length[..., first] * slack
    bound[..., second] += length[..., second] * slack
    return bound


def _turn(x: ArrayLike, turn: ArrayLike, rope: RopeSpec, magnitude: float) -> Float64Array:
    keys = _float_copy(x, rope)
    angle = _angles(turn, rope, len(keys))[:, None, :]
    cos, sin = np.cos(angle) * magnitude, np.sin(angle) * magnitude
    first, second = _pair_indices(rope)
    a, b = keys[..., first], keys[..., second]
    keys[..., first], keys[..., second] = a * cos - b * sin, a * sin + b * cos
    return keys


def _float_copy(x: ArrayLike, rope: RopeSpec) -> Float64Array:
    keys: Float64Array = np.array(x, dtype=np.float64)
    if keys.ndim != 3 or keys.shape[2] < rope.n_rot:
        wanted = f"(n_tokens, n_heads, head_dim) with head_dim >= {rope.n_rot}"
        raise InputError(f"keys have shape {keys.shape}: give {wanted}")
    return keys


def _pair_indices(rope: RopeSpec) -> tuple[slice, slice]:
    if rope.pairing == "norm":
        return slice(0, rope.n_rot, 2), slice(1, rope.n_rot, 2)
    half = rope.n_rot // 2
    return slice(0, half), slice(half, rope.n_rot)


def _angles(turn: ArrayLike, rope: RopeSpec, n_tokens: int) -> Float64Array:
    """Angles in radians, shape ``(n_tokens, n_rot / 2)``."""
    steps = np.broadcast_to(np.asarray(turn, dtype=np.float64), (n_tokens,))
    pair = np.arange(rope.n_rot // 2, dtype=np.float64)
    speed = rope.freq_base ** (-2.0 * pair / rope.n_rot)
    if rope.freq_factors is not None:
        speed = speed / np.asarray(rope.freq_factors, dtype=np.float64)
    scaled = speed * rope.freq_scale
    if rope.ext_factor != 0.0:
        keep = _yarn_ramp(pair, rope) * rope.ext_factor
        scaled = scaled * (1.0 - keep) + speed * keep
    return steps[:, None] * scaled


def _yarn_ramp(pair: Float64Array, rope: RopeSpec) -> Float64Array:
    """1 for pairs fast enough to keep their speed, 0 for the slow ones, a line between."""

    def pair_with_turns(turns: float) -> float:
        wavelength = rope.n_ctx_orig / (2.0 * math.pi * turns)
        return rope.n_rot * math.log(wavelength) / (2.0 * math.log(rope.freq_base))

    low = max(0.0, math.floor(pair_with_turns(rope.beta_fast)))
    high = min(rope.n_rot - 1.0, math.ceil(pair_with_turns(rope.beta_slow)))
    return 1.0 - np.clip((pair - low) / max(0.001, high - low), 0.0, 1.0)
