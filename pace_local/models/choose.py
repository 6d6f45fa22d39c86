"""Which model to use when nobody says, and who may say.

The order is: the command's flag, the environment, the user's config file, then what this machine can run
well. Choosing is a pure function of devices and memory, so that it can be tested without either.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import psutil

from pace_local.errors import ConfigError
from pace_local.models.progress import format_bytes
from pace_local.models.registry import REGISTRY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MODEL_VARIABLE = "PACE_MODEL"

_GB = 1_000_000_000
# A "24 GB" card reports as little as 22.2 GiB to a program: error correction and the driver take their part.
_NOMINAL = 0.9
_GPU_TIERS = ((24, "qwen3-8b"), (12, "qwen3-8b-q8_0"), (8, "qwen3-8b-q4_k_m"))
_CPU_SPARE = 4 * _GB
_CPU_MODEL, _CPU_SMALL_MODEL = "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"


@dataclass(frozen=True)
class Device:
    """An accelerator that models can run on."""

    name: str
    """What its driver calls it."""
    total_bytes: int
    """Its memory, in bytes."""
    unified: bool = False
    """Whether that memory is the machine's own, shared with everything else that runs."""

    @property
    def usable_bytes(self) -> int:
        """Memory to count on for a model: half of it where the rest of the system lives in it too."""
        return self.total_bytes // 2 if self.unified else self.total_bytes


@dataclass(frozen=True)
class Choice:
    """A model reference and where it comes from."""

    reference: str
    """A registry name or a path."""
    origin: str
    """``"flag"``, ``"environment"``, ``"config"`` or ``"default"``."""
    reason: str
    """One line for people: the model, why, and how to choose another."""


def available_memory() -> int:
    """Bytes of this machine's memory that a program can have now without swapping."""
    return int(psutil.virtual_memory().available)


def config_path() -> Path:
    """The user's config file, whether or not it exists."""
    return platformdirs.user_config_path("pace-local", appauthor=False) / "config.toml"


def default_model(devices: Sequence[Device], memory_bytes: int) -> Choice:
    """What this machine can run well.

    Args:
        devices: its accelerators; the one with the most usable memory counts.
        memory_bytes: host memory to spare, in bytes, for a machine without a sufficient accelerator.
    """
    best = max(devices, key=lambda device: device.usable_bytes, default=None)
    name = None
    if best is not None:
        tiers = (name for gb, name in _GPU_TIERS if best.usable_bytes >= gb * _GB * _NOMINAL)
        name = next(tiers, None)
    if best is not None and name is not None:
        shared = ", shared with the system" if best.unified else ""
        why = f"{best.name} with {format_bytes(best.total_bytes)}{shared}"
    else:
        name = _CPU_MODEL if memory_bytes >= _CPU_SPARE else _CPU_SMALL_MODEL
        why = f"CPU with {format_bytes(memory_bytes)} of memory to spare"
    info = REGISTRY[name]
    what = f"{name} ({info.quantisation}, {format_bytes(info.size_bytes)})"
    reason = f"{what}, chosen for {why}; --model changes it"
    return Choice(name, "default", reason)


def configured_model(path: Path) -> str | None:
    """The config file's ``model``, or ``None``.

    Raises:
        ConfigError: the file is not TOML, or ``model`` is no text.
    """
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    model = content.get("model")
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise ConfigError(f"{path}: model = {model!r} is no model; give a name or a path in quotes")
    return model


def selected_model(
    flag: str | None,
    devices: Sequence[Device],
    memory_bytes: int,
    *,
    environ: Mapping[str, str] = os.environ,
    config: Path | None = None,
) -> Choice:
    """The model to use: the flag's, else ``PACE_MODEL``, else the config file's, else the machine's default.

    Args:
        flag: value of the command's ``--model``, if given.
        devices: see :func:`default_model`.
        memory_bytes: see :func:`default_model`.
        environ: the environment.
        config: the config file; the user's own by default.

    Raises:
        ConfigError: the config file is needed and cannot be used.
    """
    if flag:
        return Choice(flag, "flag", f"{flag}, chosen by --model")
    if variable := environ.get(MODEL_VARIABLE, "").strip():
        return Choice(variable, "environment", f"{variable}, chosen by {MODEL_VARIABLE}; --model changes it")
    path = config if config is not None else config_path()
    if configured := configured_model(path):
        return Choice(configured, "config", f"{configured}, chosen by {path}; --model changes it")
    return default_model(devices, memory_bytes)
