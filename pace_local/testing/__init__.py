"""What tests of programs that use this package need: tiny models, scripts, and slow, exact references."""

from __future__ import annotations

from pace_local.testing.archs import ARCHS, Arch
from pace_local.testing.gguf import tiny_model, write_tiny_gguf
from pace_local.testing.numerics import RopeSpec, rope_reference, rotate_by, rotation_tolerance
from pace_local.testing.scripted import Script
from pace_local.testing.spec import RopeScaling, TinySpec, kv_shape_spec

__all__ = [
    "ARCHS",
    "Arch",
    "RopeScaling",
    "RopeSpec",
    "Script",
    "TinySpec",
    "kv_shape_spec",
    "rope_reference",
    "rotate_by",
    "rotation_tolerance",
    "tiny_model",
    "write_tiny_gguf",
]
