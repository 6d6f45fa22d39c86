from __future__ import annotations

from pathlib import Path

import pytest

from pace_local.errors import ModelError
from pace_local.models import REGISTRY, Store, find_model, resolve_model
from pace_local.models.testing import gguf_bytes, tiny_model


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "models")


@pytest.fixture
def own(tmp_path) -> Path:
    path = tmp_path / "own.gguf"
    path.write_bytes(gguf_bytes("qwen3", fields={"qwen3.context_length": 99}))
    return path


def test_any_path_is_a_reference(own, store):
    for reference in (own, str(own)):
        resolved = resolve_model(reference, store)
        assert resolved.path == own
        assert resolved.header.architecture == "qwen3"
        assert resolved.header.context_length == 99
        assert resolved.info is None
    assert not store.folder.exists()


def test_a_relative_path_becomes_absolute(own, store, monkeypatch):
    monkeypatch.chdir(own.parent)
    assert resolve_model("own.gguf", store).path == own
    assert resolve_model("./own.gguf", store).path == own


def test_a_file_without_an_ending_is_found(own, store, monkeypatch):
    monkeypatch.chdir(own.parent)
    own.rename(own.with_name("blob"))
    assert resolve_model("blob", store).path == own.with_name("blob")


def test_home_is_expanded(own, store, monkeypatch):
    monkeypatch.setenv("HOME", str(own.parent))
    monkeypatch.setenv("USERPROFILE", str(own.parent))
    assert resolve_model("~/own.gguf", store).path == own


def test_a_name_wins_over_a_file_of_that_name(own, store, monkeypatch):
    monkeypatch.chdir(own.parent)
    own.rename(own.with_name("qwen3-8b"))
    with pytest.raises(ModelError, match="pace models pull qwen3-8b"):
        find_model("qwen3-8b", store)
    assert resolve_model("./qwen3-8b", store).info is None
    assert resolve_model(Path("qwen3-8b"), store).info is None


def test_a_path_that_is_not_there(store, tmp_path):
    with pytest.raises(ModelError, match=r"none\.gguf does not exist"):
        resolve_model(str(tmp_path / "none.gguf"), store)
    with pytest.raises(ModelError, match=r"none\.gguf does not exist"):
        resolve_model("none.gguf", store)


def test_finding_a_path_does_not_read_it(store, tmp_path):
    assert find_model(tmp_path / "none.gguf", store) == tmp_path / "none.gguf"


def test_a_directory(store, own):
    with pytest.raises(ModelError, match=r"is a directory; it holds own\.gguf;"):
        resolve_model(str(own.parent), store)


def test_an_unknown_name(store):
    with pytest.raises(ModelError, match=r"'qwen2.5-coder'; did you mean qwen2.5-coder-.*path to any GGUF"):
        resolve_model("qwen2.5-coder", store)


def test_a_named_model_that_is_here(store, monkeypatch):
    """The right bytes are not at hand here, so the registry is made to expect others."""
    content = gguf_bytes("llama")
    info = tiny_model(content, ())
    monkeypatch.setitem(REGISTRY, "tiny", info)
    store.folder.mkdir()
    store.path(info).write_bytes(content)
    resolved = resolve_model("TINY", store)
    assert resolved.info is info
    assert resolved.header.architecture == "llama"
    assert resolved.path == find_model("TINY", store) == store.path(info)
