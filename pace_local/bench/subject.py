"""The models that are measured: real ones, and random ones with the KV shape of a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from pace_local.model import Model
from pace_local.models import REGISTRY, GgufHeader, Progress, Say, Store, inspect_gguf, resolve_model
from pace_local.models.store import hash_file
from pace_local.testing import kv_shape_spec, tiny_model

SHAPE_PREFIX = "shape:"


def default_cache_dir() -> Path:
    """Where models with random weights are kept."""
    return platformdirs.user_cache_path("pace-local", appauthor=False) / "bench"


class EndlessModel(Model):
    """A model whose answers go on for as long as they are asked to, once ``endless`` is set.

    Every token has a text then, so that an answer gives an event a token and blocks have exact lengths.
    """

    endless = False

    def is_end(self, token: int) -> bool:
        """Never, once ``endless`` is set; the native side is asked all the same, for the sake of its time."""
        return super().is_end(token) and not self.endless

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """As of any model; a space for what has no text."""
        piece = super().piece(token, special=special)
        return piece or b" " if self.endless else piece


@dataclass(frozen=True)
class Subject:
    """A model file, identified."""

    name: str
    header: GgufHeader
    sha256: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.header.path

    @property
    def suffix(self) -> str:
        """Ending of its rows' names: billions of parameters with one decimal, such as ``05b`` or ``15b``."""
        return f"{self._parameters / 1e9:.1f}b".replace(".", "")

    @property
    def _parameters(self) -> int:
        """As its makers count them: files that hold a tied output matrix twice have more elements."""
        own = self.header
        for info in REGISTRY.values():
            same_shape = (info.architecture, info.kv) == (own.architecture, own.kv)
            if same_shape and info.parameters <= own.parameters <= 1.5 * info.parameters:
                return info.parameters
        return own.parameters

    @contextmanager
    def loaded(self) -> Iterator[EndlessModel]:
        """The model, for as long as the context lasts.

        Raises:
            ModelError: if it cannot be loaded.
        """
        with EndlessModel.load(self.path) as model:
            assert isinstance(model, EndlessModel)
            yield model

    def identity(self) -> dict[str, str]:
        """Name and hash, as a report has them."""
        return {"name": self.name, "sha256": self.sha256}


def find_subject(reference: str, cache_dir: Path, *, progress: Progress, say: Say) -> Subject:
    """Identify a model, after fetching or making it if it is not here.

    Args:
        reference: a registry name, a path, or ``shape:NAME`` for random weights with the KV shape of NAME.
        cache_dir: where models with random weights are kept.
        progress: of a download or a hash.
        say: takes lines for people.

    Raises:
        ModelError, ConfigError, StorageError: if there is no such model, or it cannot be had.
    """
    if reference.startswith(SHAPE_PREFIX):
        path = tiny_model(kv_shape_spec(reference.removeprefix(SHAPE_PREFIX)), cache_dir)
        return Subject(reference, inspect_gguf(path), hash_file(path))
    model = resolve_model(reference, progress=progress, say=say)
    stored = Store().find(model.info, progress) if model.info is not None else None
    digest = (
        stored.sha256 if stored is not None else hash_file(model.path, progress, f"hashing {model.path.name}")
    )
    name = model.info.name if model.info is not None else model.path.stem
    return Subject(name, model.header, digest)
