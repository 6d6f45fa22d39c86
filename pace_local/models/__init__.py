"""Models by name: a registry, a local store, and several ways to fetch and check a file."""

from __future__ import annotations

from pace_local.models.choose import (
    MODEL_VARIABLE,
    Choice,
    Device,
    available_memory,
    config_path,
    configured_model,
    default_model,
    selected_model,
)
from pace_local.models.fingerprint import fingerprint
from pace_local.models.gguf_file import GgufHeader, inspect_gguf
from pace_local.models.progress import Progress, ProgressLine, Say, format_bytes
from pace_local.models.pull import pull
from pace_local.models.registry import REGISTRY, HubFile, KvShape, ModelInfo, WheelPart, WheelSet, model_info
from pace_local.models.resolve import ResolvedModel, find_model, resolve_model
from pace_local.models.store import MODELS_DIR_VARIABLE, Store, StoredModel, models_folder

__all__ = [
    "MODELS_DIR_VARIABLE",
    "MODEL_VARIABLE",
    "REGISTRY",
    "Choice",
    "Device",
    "GgufHeader",
    "HubFile",
    "KvShape",
    "ModelInfo",
    "Progress",
    "ProgressLine",
    "ResolvedModel",
    "Say",
    "Store",
    "StoredModel",
    "WheelPart",
    "WheelSet",
    "available_memory",
    "config_path",
    "configured_model",
    "default_model",
    "find_model",
    "fingerprint",
    "format_bytes",
    "inspect_gguf",
    "model_info",
    "models_folder",
    "pull",
    "resolve_model",
    "selected_model",
]
