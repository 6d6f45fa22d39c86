"""Which model a machine has room for: all of a real one's layers, fewer of them, or none."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path

from pace_local.bench.gpu.full_shape import FULL_SHAPES, full_model, full_model_path, weight_bytes
from pace_local.bench.gpu.peak import accelerators
from pace_local.bench.subject import SHAPE_PREFIX, Subject, find_subject
from pace_local.errors import ConfigError, StorageError
from pace_local.models import KvShape, Progress, Say, available_memory, format_bytes, inspect_gguf
from pace_local.models.store import hash_file
from pace_local.testing import TinySpec, tiny_model

TINY = "tiny"
TINY_SPEC = TinySpec(arch="qwen3")

DISK_RESERVE = 1_000_000_000
"""Bytes of disk that stay free, the file's header among them."""
MEMORY_RESERVE = 2_000_000_000
"""Bytes beside weights and KV state: buffers of decoding for two contexts, and the device's own context."""
_CELLS = 2 * (2048 + 512)
"""Two sessions at once, as ``flat`` has them."""


@dataclass(frozen=True)
class Chosen:
    """A model that can be made here."""

    shape: str
    """As ``--shape`` names it."""
    layers: int
    """Of the real model's; 0 where the shape has them all by itself."""
    remark: str
    """What a reader must know of it."""

    @property
    def name(self) -> str:
        """As a report has it."""
        return f"{self.shape}, {self.layers} layers, random weights" if self.layers else self.shape


def default_shape() -> str:
    """The full shape where there is a device for it, the KV shape with thin weights where there is none."""
    return "qwen3-8b" if accelerators() else f"{SHAPE_PREFIX}qwen3-8b"


def needed_memory(spec: TinySpec) -> int:
    """Bytes of memory, on the device where there is one: weights, KV state of two sessions, and buffers."""
    kv = KvShape(spec.n_layer, spec.n_head_kv, spec.head_dim)
    state = kv.bytes_per_token() + kv.key_bytes()
    return weight_bytes(spec) + _CELLS * state + MEMORY_RESERVE


def layers_that_fit(spec: TinySpec, disk: int, memory: int) -> int:
    """The most layers of a model for which there is room; 0: not even one fits.

    Args:
        spec: with all its layers.
        disk: free bytes.
        memory: free bytes, of the device where there is one.
    """
    for layers in range(spec.n_layer, 0, -1):
        fewer = dataclasses.replace(spec, n_layer=layers)
        if weight_bytes(fewer) + DISK_RESERVE <= disk and needed_memory(fewer) <= memory:
            return layers
    return 0


def choose(shape: str | None, layers: int | None, cache_dir: Path) -> Chosen:
    """The model to make.

    Args:
        shape: a key of ``FULL_SHAPES``, ``tiny``, or ``shape:NAME``; None: what suits this machine.
        layers: of a full shape; None: as many as there is room for.
        cache_dir: where it is made.

    Raises:
        ConfigError: for an unknown shape, or a number of layers that it does not have.
        StorageError: if there is no room for a single layer.
    """
    name = shape or default_shape()
    spec = FULL_SHAPES.get(name)
    if spec is None:
        if name != TINY and not name.startswith(SHAPE_PREFIX):
            known = ", ".join([*FULL_SHAPES, TINY])
            raise ConfigError(f"--shape {name!r} is not one of {known}, or {SHAPE_PREFIX}NAME")
        if layers is not None:
            raise ConfigError(f"--layers {layers} needs a full shape; {name!r} has its own")
        return Chosen(name, 0, "no device: thin weights with the KV shape" if shape is None else "")
    if layers is not None:
        if not 1 <= layers <= spec.n_layer:
            raise ConfigError(f"--layers {layers} is out of range; {name} has 1 to {spec.n_layer}")
        return Chosen(name, layers, "" if layers == spec.n_layer else f"{layers} of {spec.n_layer} layers")
    is_made = full_model_path(spec, cache_dir).is_file()
    disk = weight_bytes(spec) + DISK_RESERVE if is_made else free_disk(cache_dir)
    memory = free_memory()
    fits = layers_that_fit(spec, disk, memory)
    needs = (
        f"all {spec.n_layer} layers of {name} need {format_bytes(weight_bytes(spec) + DISK_RESERVE)} of disk "
        f"and {format_bytes(needed_memory(spec))} of memory; {format_bytes(disk)} and {format_bytes(memory)} "
        "are free"
    )
    if not fits:
        raise StorageError(f"no room for one layer: {needs}; give another --cache-dir or --shape {TINY}")
    return Chosen(name, fits, "" if fits == spec.n_layer else f"{fits} of {spec.n_layer} layers: {needs}")


def make_subject(chosen: Chosen, cache_dir: Path, *, progress: Progress, say: Say) -> Subject:
    """Make the model's file, unless it is there, and identify it.

    Raises:
        StorageError, ConfigError, ModelError: if it cannot be made.
    """
    if chosen.layers:
        spec = dataclasses.replace(FULL_SHAPES[chosen.shape], n_layer=chosen.layers)
        path = full_model(spec, cache_dir, progress)
    elif chosen.shape == TINY:
        path = tiny_model(TINY_SPEC, cache_dir)
    else:
        return find_subject(chosen.shape, cache_dir, progress=progress, say=say)
    return Subject(chosen.name, inspect_gguf(path), hash_file(path, progress, f"hashing {path.name}"))


def free_disk(folder: Path) -> int:
    """Free bytes where a folder is or would be.

    Raises:
        StorageError: if that cannot be told.
    """
    for existing in (folder.absolute(), *folder.absolute().parents):
        if existing.exists():
            try:
                return shutil.disk_usage(existing).free
            except OSError as error:
                raise StorageError(f"cannot look at {existing}: {error.strerror or error}") from error
    raise StorageError(f"{folder} is on no disk; choose another --cache-dir")


def free_memory() -> int:
    """Free bytes of all devices other than the CPU together; of this machine, where there are none."""
    return sum(device.free for device in accelerators()) or available_memory()
