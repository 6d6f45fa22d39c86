"""The finding that all of this rests on, once, with a real model: what the plan reads is kept, and used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from pace_local import Model, Plan, Session, Step
from pace_local.events import Finished

SPEC = "Orders API v2. The discount RATE is 53 percent. MAX_ITEMS is 17. Orders are kept in a list."
SETTINGS = {"budget": 512, "headroom": 256, "position_cap": 1024, "check": True}


@pytest.fixture(scope="module")
def model(small_models: Mapping[str, Path]) -> Iterator[Model]:
    with Model.load(small_models["qwen2.5-coder-0.5b"]) as model:
        yield model


def read_filler(session: Session, tokens: int) -> None:
    """Code that has nothing to do with the question."""
    goal, number = session.session_length + tokens, 0
    while session.session_length < goal:
        lines = [f"def convert_{number + i}(value):\n    return value * {number + i}\n" for i in range(25)]
        session.append("\n".join(lines), kind="file")
        number += 25


def resident_share(session: Session, name: str) -> float:
    segment = session.segments.named(name)
    return np.count_nonzero(session.residents.segment == segment.id) / len(segment)


@pytest.mark.model
@pytest.mark.slow
def test_a_fact_from_far_back_is_used_where_the_plan_reads_it(model: Model) -> None:
    with Session(model, policy="pace", **SETTINGS) as session:  # type: ignore[arg-type]
        session.append(SPEC, name="spec", kind="file")
        session.plan = Plan([Step("answer", reads=["spec"])])
        read_filler(session, 3000)
        stats = session.stats
        assert stats.session_tokens > 3000
        assert stats.renumberings_in_session > 0
        assert (stats.residency, resident_share(session, "spec")) == (1.0, 1.0)
        (read,) = stats.reads
        assert read.farthest is not None
        assert read.farthest < 1024
        (*_, finished) = session.generate(
            "What is the discount RATE of the orders API, in percent?", max_tokens=32
        )
        assert isinstance(finished, Finished)
        assert "53" in finished.answer
        assert "17" not in finished.answer
    with Session(model, policy="streaming", **SETTINGS) as session:  # type: ignore[arg-type]
        session.append(SPEC, name="spec", kind="file")
        session.plan = Plan([Step("answer", reads=["spec"])])
        read_filler(session, 800)
        assert (session.stats.residency, resident_share(session, "spec")) == (0.0, 0.0)
