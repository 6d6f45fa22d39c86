"""Settings as plain values, and back."""

from __future__ import annotations

import dataclasses
import json

import pytest

from pace_local import SessionConfig
from pace_local.config_document import config_document, config_of
from pace_local.errors import ConfigError

OTHER = SessionConfig(
    budget=1024,
    position_cap=4096,
    headroom=128,
    policy="merge",
    policy_options={"early": 0.5, "layers": (1, 2), "names": "ab"},
    soft_target=0.5,
    recent=7,
    recall=False,
    means="reread",
    host_bytes=0,
    key_type="q8_0",
    threads=3,
    check=True,
)


@pytest.mark.parametrize("config", [SessionConfig(), OTHER])
def test_settings_come_back_through_json(config: SessionConfig) -> None:
    document = config_document(config)
    assert set(document) == {field.name for field in dataclasses.fields(config)}
    assert config_of(document) == config
    assert config_of(json.loads(json.dumps(document))) == config


def test_a_document_is_a_copy() -> None:
    options = {"early": 0.5}
    config = SessionConfig(policy="merge", policy_options=options)
    config_document(config)["policy_options"]["early"] = 1
    document = {"policy_options": {"layers": [1, 2]}}
    config_of(document)
    assert (options, document) == ({"early": 0.5}, {"policy_options": {"layers": [1, 2]}})


def test_what_is_left_out_has_its_default() -> None:
    """A document of an earlier version lacks what came later."""
    assert config_of({"budget": 512}) == SessionConfig(budget=512)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"size": 1}, "unknown setting 'size'"),
        ({"budget": 1}, "budget 1 is too small"),
        ({"policy_options": 5}, "policy options are 5"),
    ],
)
def test_wrong_settings(document: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config_of(document)
