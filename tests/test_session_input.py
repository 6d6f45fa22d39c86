"""What a caller gets wrong is said in one line that shows the value and what to do, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_pair import TALKER, tiny_session

from pace_local import Model, Plan, Sampling, Session, SessionConfig, Step
from pace_local.errors import ConfigError, InputError, ModelError, PlanError
from pace_local.policies import POLICIES
from pace_local.testing import TinySpec, tiny_model


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def message_of(kind: type[InputError], act: Callable[[], object]) -> str:
    with pytest.raises(kind) as raised:
        act()
    text = str(raised.value)
    assert "\n" not in text
    assert raised.value.exit_code == 2
    return text


# Settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"budget": 10}, ["budget 10", "at least 64"]),
        ({"budget": 96, "headroom": 16, "position_cap": 100}, ["position cap 100", "112", "raise the cap"]),
        ({"headroom": 4}, ["headroom 4", "16 to 8192"]),
        ({"policy": "h2p"}, ["policy 'h2p' is not one of", ", ".join(POLICIES)]),
        ({"policy_options": {"sink": 1}}, ["policy 'pace' has no parameter 'sink'", "it has sinks"]),
        ({"policy_options": {"sinks": -1}}, ["sinks -1", "from 0 to"]),
        ({"policy_options": {"sinks": 1862}}, ["sinks 1862", "from 0 to 1861"]),
        ({"policy_options": [("sinks", 1)]}, ["policy options are [('sinks', 1)]", "names and values"]),
        (
            {"policy": "hybrid", "policy_options": {"window": 1800, "pool_size": 62}},
            ["window 1800 + pool size 62 = 1862", "1861 tokens"],
        ),
        ({"evict_every": 0}, ["evict every 0", "1 to 1048576"]),
        ({"bugdet": 100}, ["unknown setting 'bugdet'", "budget"]),
        ({"value_type": "q8_0", "flash_attn": False}, ["value type 'q8_0'", "flash attention", "f16"]),
        ({"key_type": "q4_0"}, ["key type 'q4_0'", "f16, f32, bf16, q8_0"]),
        ({"reference_type": "bf16"}, ["reference type 'bf16'", "f16 or f32"]),
        ({"recent": 2000}, ["recent 2000", "half of the budget"]),
        ({"soft_target": 1.5}, ["soft target 1.5", "0.25 to 1"]),
        ({"threads": 0}, ["threads 0", "1 "]),
        ({"budget": 40_000, "position_cap": 50_000}, ["budget 40000", "32768", "lower the budget"]),
    ],
)
def test_settings(model: Model, settings: dict[str, Any], says: list[str]) -> None:
    text = message_of(ConfigError, lambda: Session(model, **settings))
    for part in says:
        assert part in text


def test_a_type_that_does_not_fit_the_heads(model: Model) -> None:
    """Heads of 8 have no whole block of 32 values."""
    text = message_of(ConfigError, lambda: Session(model, budget=96, key_type="q8_0"))
    assert "block size 32 does not divide" in text
    assert "change the types of keys and values" in text


def test_settings_of_a_config_and_on_top_of_it(model: Model) -> None:
    config = SessionConfig(budget=96, headroom=16, position_cap=160, threads=1)
    with Session(model, config=config, policy="streaming") as session:
        assert (session.config.budget, session.policy.name) == (96, "streaming")
        assert config.policy == "pace"


# Texts


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_empty_texts(model: Model, text: str) -> None:
    with tiny_session(model) as session:
        assert "'spec' is empty" in message_of(ConfigError, lambda: session.append(text, name="spec"))
        assert "'file' is empty" in message_of(ConfigError, lambda: session.append(text, kind="file"))
        assert "the prompt is empty" in message_of(ConfigError, lambda: session.generate(text))
        assert session.session_length == 0


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "﻿x", "­", "\U0010ffff", "🙂" * 50])
def test_odd_texts_are_read(model: Model, text: str) -> None:
    with tiny_session(model, budget=400, position_cap=500) as session:
        segment = session.append(text)
        assert b"".join(map(model.piece, session.tokens_of(segment))) == text.encode(errors="surrogatepass")
        session.check()


def test_what_generate_refuses_it_refuses_at_once(model: Model) -> None:
    """Before the loop over the events begins."""
    with tiny_session(model) as session:
        refused = {
            "max_tokens 0": lambda: session.generate("hi", max_tokens=0),
            "nothing to answer; give a prompt": lambda: session.generate(),
            "a stop text is empty": lambda: session.generate("hi", stop=["x", ""]),
        }
        for says, act in refused.items():
            assert says in message_of(ConfigError, act)
        assert session.session_length == 0


@pytest.mark.parametrize("kind", ["framing", "picture", ""])
def test_kinds(model: Model, kind: str) -> None:
    """Text of the caller's own as framing would have been dropped at the next eviction."""
    with tiny_session(model) as session:
        text = message_of(ConfigError, lambda: session.append("some text", kind=kind))  # type: ignore[arg-type]
        assert f"segment kind {kind!r} is not one of system, user, file" in text
        assert "framing," not in text
        assert session.session_length == 0


def test_a_grammar_that_cannot_be_used(model: Model) -> None:
    with tiny_session(model) as session:
        schema = Sampling(json_schema='{"type": "picture"}')
        message_of(ConfigError, lambda: list(session.generate("hi", sampling=schema)))
        assert session.session_length == 0
        assert [event.type for event in session.generate("hi", max_tokens=1)][-1] == "finished"


# Names


def test_a_plan_that_names_what_is_not_there(model: Model) -> None:
    with tiny_session(model) as session:
        session.append("x", name="spec:orders", kind="file")
        old = session.plan = Plan([Step("use it", reads=["spec:orders"])])

        def assign(*names: str) -> None:
            session.plan = Plan([Step("use it", reads=names)])

        text = message_of(PlanError, lambda: assign("spec:orders", "spec:ordesr"))
        assert text == "no segment is named 'spec:ordesr'; did you mean 'spec:orders'?"
        assert "did you mean" not in message_of(PlanError, lambda: assign("zzz"))
        assert session.plan is old
        assert "did you mean" in message_of(PlanError, lambda: session.pin("spec:order"))


def test_a_name_that_is_taken_gets_a_number(model: Model) -> None:
    with tiny_session(model) as session:
        names = [session.append("x", name=name, kind="file").name for name in ("a", "a", "a#2", "a", "a")]
        assert names == ["a", "a#2", "a#2#2", "a#3", "a#4"]


def test_pinning_too_much(model: Model) -> None:
    with tiny_session(model) as session:
        session.append("x" * 40, name="large", kind="file")
        text = message_of(ConfigError, lambda: session.pin("large"))
        assert text == (
            "'large' takes 47 tokens with its role markers, pinned segments 42, and at most 71 can be pinned "
            "in a budget of 96; pin less or raise the budget"
        )
        assert not session.segments.named("large").pinned
        session.pin("large", False)


# Models whose memory cannot be managed


@pytest.mark.parametrize(
    ("arch", "reason"),
    [("mamba", "recurrent"), ("lfm2", "hybrid"), ("gemma3", "sliding-window"), ("qwen2vl", "M-RoPE"),
     ("bert", "no KV cache")],
)  # fmt: skip
def test_unsupported_memory(load_tiny: Callable[[TinySpec], Model], arch: str, reason: str) -> None:
    model = load_tiny(TinySpec(arch=arch))
    text = message_of(ModelError, lambda: Session(model, budget=96, position_cap=200, headroom=16))
    assert model.path.name in text
    assert "cannot be used" in text
    assert reason in text


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3", "phi3", "stablelm", "chatglm", "smollm3"])
def test_supported_memory(load_tiny: Callable[[TinySpec], Model], arch: str) -> None:
    with tiny_session(load_tiny(TinySpec(arch=arch, n_layer=2))) as session:
        for _ in range(5):
            list(session.generate("return the self and other " * 2, max_tokens=20))
        assert session.stats.renumberings_in_session > 0


def test_rope_factors_that_change_with_the_context(load_tiny: Callable[[TinySpec], Model]) -> None:
    """phi3 with long factors: a key rotated beyond the trained context is rotated by others."""
    factors, long = (1.0,) * 16, (4.0,) * 16
    model = load_tiny(
        TinySpec(arch="phi3", n_layer=1, n_ctx_train=256, rope_factors=factors, rope_factors_long=long)
    )
    text = message_of(
        ConfigError, lambda: Session(model, budget=96, headroom=16, position_cap=200, policy="plan")
    )
    assert "at position 256" in text
    assert "a cap of at most 256" in text
    with tiny_session(model, position_cap=200) as session:
        session.append("some text")
    with tiny_session(model, position_cap=400) as session:
        assert session.config.position_cap == 256


def test_positions_stay_in_the_trained_context(load_tiny: Callable[[TinySpec], Model]) -> None:
    """With default settings a model of a small context went to position 8,191."""
    model = load_tiny(TinySpec(n_layer=1, n_ctx_train=192))
    with Session(model, budget=96, headroom=16, threads=1, check=True) as session:
        assert session.config.position_cap == 192
        while session.session_length < 600:
            session.append("return the self and other " * 2)
        assert session._cache.counters.renumberings > 1
        assert session._cache.counters.highest_position < 192
    with Session(model, budget=180, headroom=16, threads=1) as session:
        assert session.config.position_cap == 196, "not below budget + headroom"
    with Session(model, budget=96, headroom=16, threads=1, policy="streaming") as session:
        assert session.config.position_cap == 8192, "it is not in use"


@pytest.mark.parametrize("way", ["missing", "truncated", "not a GGUF", "empty", "directory", "unknown"])
def test_files_that_are_no_model(tmp_path: Path, way: str) -> None:
    path = tmp_path / "m.gguf"
    whole = tiny_model(TALKER, tmp_path).read_bytes()
    if way == "directory":
        path.mkdir()
    elif way == "unknown":
        path.write_bytes(whole.replace(b"llama", b"lmama"))
    elif way != "missing":
        path.write_bytes({"truncated": whole[:-200], "not a GGUF": b"PK\x03\x04" * 20, "empty": b""}[way])
    text = message_of(ModelError, lambda: Model.load(path))
    says = {
        "missing": "does not exist",
        "truncated": "cut short",
        "not a GGUF": "not a GGUF",
        "empty": "is empty",
        "directory": "is a directory",
        "unknown": "unknown model architecture: 'lmama'",
    }
    assert says[way] in text
    assert str(path) in text
