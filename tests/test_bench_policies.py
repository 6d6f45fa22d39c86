"""The benchmarks ``attention`` and ``policies``: that they measure what they say, on tiny models."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pace_local.bench import policies
from pace_local.bench.attention import measure_attention
from pace_local.bench.policies import Contestant, PolicySizes, measure_policies
from pace_local.bench.report import Row
from pace_local.bench.subject import Subject
from pace_local.models import inspect_gguf
from pace_local.policies import POLICIES
from pace_local.testing import TinySpec, tiny_model

SIZES = PolicySizes(session=900, text=150, answer=6, budget=192, headroom=64)


@pytest.fixture(scope="module")
def subject(tiny_models: Path) -> Subject:
    return Subject("tiny", inspect_gguf(tiny_model(TinySpec(n_layer=2), tiny_models)), "0" * 64)


def by_name(rows: list[Row]) -> dict[str, Row]:
    named = {row.name: row for row in rows}
    assert len(named) == len(rows)
    return named


def test_attention_runs(subject: Subject) -> None:
    said: list[str] = []
    rows = by_name(measure_attention(subject, samples=2, threads=1, say=said.append, residents=128))
    assert list(rows) == ["attention_decode_overhead", "attention_prompt_overhead"]
    assert [(row.limit, row.aim, row.samples) for row in rows.values()] == [(0.05, 0.025, 2), (0.1, 0.05, 2)]
    assert all(row.value > -1 for row in rows.values())
    assert len(said) == 2


def test_every_policy_has_its_rows(subject: Subject) -> None:
    said: list[str] = []
    rows = by_name(measure_policies(subject, threads=1, say=said.append, sizes=SIZES))
    for name in POLICIES:
        assert rows[f"latency_overhead.{name}"].samples == SIZES.turns == 5
        assert rows[f"kv_ratio.{name}"].value <= 1
        if name != "none":
            assert rows[f"kv_ratio.{name}"].value < 0.5
            assert rows[f"plan_ms.{name}"].limit == 2.0
            assert rows[f"plan_ms.{name}"].value > 0
    assert rows["latency_overhead.none"].value == 0
    assert rows["kv_ratio.none"].value == 1
    assert "plan_ms.none" not in rows
    assert len(said) == SIZES.turns


def test_all_sessions_hold_the_same_tokens_and_take_turns_to_begin(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    tokens: dict[str, list[int]] = {}
    turn = Contestant.turn

    def noted(self: Contestant, text: str, answer: list[int]) -> None:
        begun.append(self.name)
        turn(self, text, answer)
        tokens[self.name] = list(self.session.tokens)

    monkeypatch.setattr(policies.Contestant, "turn", noted)
    measure_policies(subject, threads=1, say=lambda _line: None, sizes=SIZES, names=("streaming", "h2o"))
    assert begun[:9] == ["none", "streaming", "h2o", "streaming", "h2o", "none", "h2o", "none", "streaming"]
    assert tokens["none"] == tokens["streaming"] == tokens["h2o"]
    assert len(tokens["none"]) >= SIZES.turns * (SIZES.text + SIZES.answer)


def test_the_baseline_holds_everything(subject: Subject) -> None:
    """Also where role markers come on top of texts and answers."""
    sizes = dataclasses.replace(SIZES, text=20, answer=2, session=600)
    rows = by_name(measure_policies(subject, threads=1, say=lambda _line: None, sizes=sizes, names=("plan",)))
    assert rows["latency_overhead.none"].samples == sizes.turns
