"""From what a person calls a model to a file that can be loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pace_local.errors import ModelError
from pace_local.models.gguf_file import GgufHeader, inspect_gguf
from pace_local.models.progress import Progress, Say, no_progress
from pace_local.models.pull import log_line, pull
from pace_local.models.registry import REGISTRY, ModelInfo, unknown_model
from pace_local.models.store import Store


@dataclass(frozen=True)
class ResolvedModel:
    """A model file that is there, whole, and a GGUF."""

    path: Path
    """Absolute path of the file."""
    header: GgufHeader
    """What the file says of itself."""
    info: ModelInfo | None
    """Its registry entry; ``None`` for a path of the user's own."""


def resolve_model(
    reference: str | os.PathLike[str],
    store: Store | None = None,
    *,
    progress: Progress = no_progress,
    say: Say = log_line,
) -> ResolvedModel:
    """The file that ``reference`` means, pulled if it has to be, with its header read and checked.

    Args:
        reference: a registry name, or the path of any GGUF. A name wins over a file of the same name in
            the current folder; write ``./NAME`` for the file.
        store: where named models are; the user's store by default.
        progress: shows how far a pull or a hash is.
        say: shows what a person should know of a pull.

    Raises:
        ModelError: no such model, or no usable GGUF.
        StorageError: the pull failed, or the stored file is not what it should be.
    """
    target = _meant(reference)
    if isinstance(target, Path):
        return ResolvedModel(target, inspect_gguf(target), None)
    path = pull(target, store, progress=progress, say=say).path
    return ResolvedModel(path, inspect_gguf(path), target)


def find_model(
    reference: str | os.PathLike[str], store: Store | None = None, *, progress: Progress = no_progress
) -> Path:
    """The path that ``reference`` means, without fetching anything.

    For a path of the user's own, nothing is checked; :func:`inspect_gguf` does that.

    Args:
        reference: as for :func:`resolve_model`.
        store: where named models are; the user's store by default.
        progress: shows how far a hash is, should the stored file have changed.

    Raises:
        ModelError: no such model, or it has not been pulled.
        StorageError: the stored file is not what it should be.
    """
    target = _meant(reference)
    if isinstance(target, Path):
        return target
    stored = (store or Store()).find(target, progress)
    if stored is None:
        raise ModelError(f"{target.name} is not on this machine; run `pace models pull {target.name}`")
    return stored.path


def _meant(reference: str | os.PathLike[str]) -> Path | ModelInfo:
    text = os.fspath(reference)
    named = isinstance(reference, str)
    if named and (info := REGISTRY.get(text.lower())) is not None:
        return info
    path = Path(text).expanduser().absolute()
    if named and not _looks_like_path(text) and not path.exists():
        raise unknown_model(text)
    return path


def _looks_like_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep}
    return text.lower().endswith(".gguf") or text.startswith("~") or any(mark in text for mark in separators)
