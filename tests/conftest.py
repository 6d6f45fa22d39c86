"""Fixtures that every test file shares."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import pace_agent
import pace_local
import pace_tui
from pace_agent.settings.config import KEYS
from pace_local import Model, _native
from pace_local.models import resolve_model
from pace_local.testing import TinySpec, tiny_model

# Tiny models gain nothing from a second thread, and lose much on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes says nothing on a shared machine.
settings.register_profile("pace", deadline=None)
settings.load_profile("pace")

REAL_MODELS = ("smollm2-135m", "qwen2.5-coder-0.5b")


@pytest.fixture(scope="session", autouse=True)
def no_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither settings nor instructions of whoever runs the tests; their models stay in reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
        yield


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither settings nor sessions of whoever runs the tests; children find the packages."""
    for name in (
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
        *("PACE_AGENTS_DIR", "PACE_SESSIONS_DIR"),
    ):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for key in KEYS:
        monkeypatch.delenv(f"PACE_{key.upper()}", raising=False)
    homes = [str(Path(each.__file__).parent.parent) for each in (pace_agent, pace_tui, pace_local)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(homes))


@pytest.fixture(scope="session")
def llama() -> Any:
    """The low-level bindings on this project's own library."""
    return _native.llama


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for tiny models; each is written once a run."""
    return tmp_path_factory.mktemp("models")


class _Pulled(Mapping[str, Path]):
    def __getitem__(self, name: str) -> Path:
        if name not in REAL_MODELS:
            raise KeyError(name)
        return resolve_model(name).path

    def __iter__(self) -> Iterator[str]:
        return iter(REAL_MODELS)

    def __len__(self) -> int:
        return len(REAL_MODELS)


@pytest.fixture(scope="session")
def small_models() -> Mapping[str, Path]:
    """Paths of the small real models by name, fetched when first asked for."""
    return _Pulled()


@pytest.fixture(scope="session")
def load_tiny(tiny_models: Path) -> Iterator[Callable[[TinySpec], Model]]:
    """Loads a tiny model of a spec, once a run."""
    loaded: dict[TinySpec, Model] = {}

    def load(spec: TinySpec) -> Model:
        if spec not in loaded:
            loaded[spec] = Model.load(tiny_model(spec, tiny_models))
        return loaded[spec]

    yield load
    for model in loaded.values():
        model.close()
