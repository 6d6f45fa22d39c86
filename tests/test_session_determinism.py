"""Same session, same policy: same tokens, same evictions, same events, times apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from session_driver import SessionDriver
from session_pair import QUICK, tiny_session

from pace_local import Model, Plan, Sampling, Step, events
from pace_local.policies import POLICIES
from pace_local.testing import TinySpec

TEXT = "return the self and other "


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(QUICK)


def timeless(event: events.Event) -> tuple[object, ...]:
    """All of an event but what depends on the clock and on the rest of the process."""
    values = dataclasses.asdict(event)
    stats = values.pop("stats", {})
    values = {k: v for k, v in values.items() if not k.endswith("seconds")}
    figures = {
        k: v for k, v in stats.items() if not k.endswith("seconds") and "host" not in k and "device" not in k
    }
    return type(event).__name__, values, figures


Outcome = tuple[list[tuple[object, ...]], list[int], list[int]]
"""Events, tokens, residents."""


def run(model: Model, policy: str, sampling: Sampling) -> Outcome:
    heard: list[events.Event] = []
    with tiny_session(model, policy=policy, listener=heard.append, budget=200 if policy == "none" else 96,
                      position_cap=400 if policy == "none" else 160) as session:  # fmt: skip
        session.append("the RATE is 53", name="spec", kind="file")
        session.plan = Plan([Step("use it", reads=["spec"])])
        for number in range(1 if policy == "none" else 5):
            session.append(TEXT * (number + 1), kind="file")
            list(session.generate("what now?", max_tokens=40, sampling=sampling))
        tokens = [token for segment in session.segments for token in session.tokens_of(segment)]
        return [timeless(event) for event in heard], tokens, session.residents.token_index.tolist()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_two_greedy_runs_are_the_same(model: Model, policy: str) -> None:
    first, second = (run(model, policy, Sampling()) for _ in range(2))
    assert first == second
    kinds = {event[0] for event in first[0]}
    assert ("Evicted" in kinds) == POLICIES[policy].evicts
    assert ("Renumbered" in kinds) == POLICIES[policy].bounds_positions


def test_random_sessions_would_find_a_policy_that_rolls_dice(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are done twice and compared after every operation."""
    dice = np.random.default_rng(0)
    settings = {"policy": "truncate", "budget": 96, "headroom": 16, "position_cap": 160}

    def play() -> None:
        driver = SessionDriver(model, check=True, **settings)
        try:
            for number in range(4):
                driver.append(TEXT * (number + 1), None, name=f"file:{number}", kind="file")
            driver.plan([("file:1",)])
            driver.generate("what now?", None, None, None, max_tokens=20)
            driver.repeat()
        finally:
            driver.close()

    play()
    monkeypatch.setattr(POLICIES["truncate"], "score", lambda policy, view: dice.random(len(view)))
    with pytest.raises(AssertionError, match="operation 2 had another outcome"):
        play()


def test_the_same_seed_draws_the_same_answer_and_another_another(model: Model) -> None:
    drawn = [run(model, "pace", Sampling(temperature=1.0, seed=seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0][1] != drawn[2][1]
    assert drawn[0][1] != run(model, "pace", Sampling())[1]


def test_checking_and_listening_change_nothing(model: Model) -> None:
    def answer(check: bool, listens: bool) -> list[str]:
        listener = (lambda event: None) if listens else None
        with tiny_session(model, check=check, listener=listener) as session:
            for _ in range(4):
                list(session.generate(TEXT * 3, max_tokens=40))
            return [session.text_of(segment) for segment in session.segments]

    assert answer(check=True, listens=True) == answer(check=False, listens=False)


def test_a_model_serves_several_sessions_that_know_nothing_of_each_other(model: Model) -> None:
    with tiny_session(model) as one, tiny_session(model) as two, tiny_session(model) as alone:
        for turn in range(3):
            for session in (one, two):
                session.append(TEXT * (turn + 1), kind="file")
            streams = [one.generate("go on", max_tokens=30), two.generate("go on", max_tokens=30)]
            both = [[event.text for event in pair] for pair in zip(*streams, strict=True)]
            alone.append(TEXT * (turn + 1), kind="file")
            assert [pair[0] for pair in both] == [
                event.text for event in alone.generate("go on", max_tokens=30)
            ]
            assert all(left == right for left, right in both)
