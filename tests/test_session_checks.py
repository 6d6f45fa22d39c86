"""Which models and settings are refused together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pace_local import Model, SessionConfig
from pace_local.errors import ConfigError
from pace_local.policies import policy_named
from pace_local.session_checks import check_model
from pace_local.testing import TinySpec

HALF = TinySpec(arch="chatglm", n_layer=1, head_dim=64, n_head=2, n_head_kv=2)
WHOLE = TinySpec(n_layer=1, head_dim=64)
UNROTATED = TinySpec(arch="smollm3", head_dim=64)


@pytest.mark.parametrize("key_type", ["f16", "f32", "q8_0"])
@pytest.mark.parametrize("spec", [WHOLE, HALF, UNROTATED], ids=["whole", "half", "unrotated layers"])
def test_keys_that_a_shift_of_upstream_would_break_are_refused(
    spec: TinySpec, key_type: str, load_tiny: Callable[[TinySpec], Model]
) -> None:
    """Keys were wrong without an error: of layers that are not rotated, and of heads that are in part."""
    model, config = load_tiny(spec), SessionConfig(budget=96, key_type=key_type)
    check_model(model, config, policy_named("pace", {}))
    shift, says = policy_named("context_shift", {}), None
    if spec is UNROTATED:
        says = rf"context_shift.*{model.name} \(smollm3\) does not rotate; choose another policy"
    elif spec is HALF and key_type == "q8_0":
        says = "context_shift.*cannot shift q8_0 keys.*use key type f16 or f32"
    if says is None:
        check_model(model, config, shift)
        return
    with pytest.raises(ConfigError, match=says):
        check_model(model, config, shift)
