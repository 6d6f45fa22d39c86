"""What holds for every policy in a session: bounded positions as asked, evictions when asked, attention.

Hard budget, determinism and the rules of what stays are looked at after every operation of
``test_session_machine.py``, for all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from score_reference import BY_AGE
from session_guard import guarded
from session_pair import TALKER, Scripted, tiny_session
from session_settings import OPTIONS

from pace_local import Model, Session, events
from pace_local.errors import ContextFullError
from pace_local.policies import POLICIES, Observation, policy_named
from pace_local.testing import TinySpec

TEXT = "return the self and other "

each_policy = pytest.mark.parametrize("policy", sorted(POLICIES))
each_that_evicts = pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"none"}))


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def test_random_sessions_try_every_policy() -> None:
    assert OPTIONS.keys() == POLICIES.keys()
    for name, sets in OPTIONS.items():
        assert {} in sets
        for options in sets:
            policy_named(name, options).check_target(64)


# Positions: off, on, or as the policy has it


@each_policy
@pytest.mark.parametrize("asked", [None, False, True])
def test_positions_are_bounded_as_asked(model: Model, policy: str, asked: bool | None) -> None:
    kind = POLICIES[policy]
    bound = kind.bounds_positions if asked is None else asked
    session, guard = guarded(model, policy=policy, bound_positions=asked)
    with session:
        for _ in range(10):
            try:
                list(session.generate(TEXT, max_tokens=25))
            except ContextFullError:
                assert policy == "none"
        guard.look()
        renumbered = bound and kind.evicts and not kind.closes_gaps
        assert session.bounds_positions == bound
        assert session.stats.position_cap == (session.config.position_cap if bound else None)
        assert (session.stats.renumberings_in_session > 0) == renumbered
        has_grown = kind.evicts and not bound and not kind.closes_gaps
        assert (session.next_position == session.session_length) == (has_grown or policy == "none")


@each_that_evicts
@pytest.mark.parametrize("bound", [False, True])
def test_what_is_kept_is_near_exactly_if_positions_are_bounded(
    model: Model, policy: str, bound: bool
) -> None:
    """The question of the first document, asked of every policy: the same token, resident, near or far."""
    with tiny_session(model, policy=policy, bound_positions=bound) as session:
        session.append("be brief", kind="system")
        spec = session.append("RATE is 53", kind="file", name="spec", pinned=True)
        for _ in range(20):
            session.append(TEXT * 2, kind="file")
        residents = session.residents
        held = residents.position[residents.segment == spec.id]
        assert len(held) == len(spec)
        distance = session.next_position - int(held[-1])
        if bound or POLICIES[policy].closes_gaps:
            assert distance < session.config.position_cap
        else:
            assert distance == session.session_length - spec.end + 1 > 500


@pytest.mark.parametrize("policy", BY_AGE)
def test_where_tokens_sit_does_not_change_which_stay(model: Model, policy: str) -> None:
    """True of policies that do not look at attention."""

    def kept(bound: bool) -> list[int]:
        with tiny_session(model, policy=policy, bound_positions=bound) as session:
            for number in range(20):
                session.append(TEXT * (number % 3 + 1), kind="file")
            return list(session.residents.token_index)

    assert kept(bound=True) == kept(bound=False)


# When evictions come


def answering(model: Model, length: int = 300, **settings: Any) -> list[tuple[int, int]]:
    """Tokens of the session, and residents that were left, at each eviction of a long answer."""
    seen: list[tuple[int, int]] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Evicted):
            assert session.last_eviction is not None
            seen.append((session.last_eviction.session_length, event.residents))

    sizes = {"budget": 160, "position_cap": 400, "soft_target": 0.5, "listener": listen, **settings}
    with tiny_session(model, **sizes) as session:
        list(session.generate("go on", max_tokens=length))
    return seen


@each_that_evicts
@pytest.mark.parametrize("every", [1, 30])
def test_every_so_many_tokens(model: Model, policy: str, every: int) -> None:
    """As soon as so many have come in, and there are more than the target: neither sooner nor later."""
    evictions = answering(model, 40 * every if every == 1 else 200, policy=policy, evict_every=every)
    assert len(evictions) > 3 or POLICIES[policy].closes_gaps
    for (sooner, left), (later, _) in itertools.pairwise(evictions):
        assert left <= 80
        assert later - sooner == max(every, 80 - left + 1)


@pytest.mark.parametrize("policy", ["streaming", "context_shift", "h2o_grace", "pace"])
def test_later_than_at_the_budget_is_never(model: Model, policy: str) -> None:
    evictions = answering(model, policy=policy, evict_every=None)
    assert len(evictions) > 2
    assert answering(model, policy=policy, evict_every=2**20) == evictions
    for (sooner, left), (later, _) in itertools.pairwise(evictions):
        assert later - sooner == 160 - left + 1


@pytest.mark.parametrize("every", [1, 20, 48, None])
def test_prompts_too(model: Model, every: int | None) -> None:
    """They are looked at after each micro-batch, here of 16 tokens."""
    session, guard = guarded(model, budget=160, position_cap=400, soft_target=0.5, evict_every=every)
    with session:
        session.append("x", kind="system")
        guard.heard.clear()
        session.append("z" * 640, kind="file")
        assert [event.done for event in guard.heard if isinstance(event, events.Progress)] == list(
            range(16, 641, 16)
        )
        batches, left, evictions = 0, 0, 0
        for event in guard.heard:
            if isinstance(event, events.Evicted):
                if evictions:
                    to_budget = 160 - left + 1
                    tokens = to_budget if every is None else min(to_budget, max(every, 80 - left + 1))
                    assert batches == -(-tokens // 16)
                batches, left, evictions = 0, event.residents, evictions + 1
            batches += isinstance(event, events.Progress)
        assert evictions > 4


def test_not_before_there_is_more_than_the_target(model: Model) -> None:
    evictions = answering(model, 60, evict_every=5)
    assert evictions[0][0] == 81


@each_that_evicts
def test_never_more_than_the_budget_however_rarely(model: Model, policy: str) -> None:
    session, guard = guarded(model, policy=policy, evict_every=2**20)
    with session:
        for number in range(5):
            session.append(TEXT * (number + 1), kind="file")
            for _ in session.generate("what now?", max_tokens=25):
                pass
        guard.look()
        assert session.stats.evicted_in_session > 200


# Attention


class Witness(Scripted):
    """A sampler that reads the native sums before it says its first token: the prompt has just been read."""

    def __init__(self, session: Session, rows: int, tokens: list[int]) -> None:
        super().__init__(tokens)
        self._session, self._rows = session, rows
        self.mass: dict[int, float] = {}
        """Token index to mass from the prompt's last rows."""

    def sample(self, ctx: object, index: int = -1) -> int:
        if not self.mass:
            mass = native(self._session, "queries", self._rows)
            self.mass = dict(zip(self._session.residents.token_index.tolist(), mass.tolist(), strict=True))
        return super().sample(ctx, index)


def native(session: Session, part: str, n: int = 0) -> npt.NDArray[np.float64]:
    assert session.engine.cache is not None
    return session.engine.cache.attention(part, n)


OBSERVING = {name: policy_named(name).observes for name in POLICIES}


@pytest.mark.parametrize("policy", sorted(name for name, asked in OBSERVING.items() if asked))
@pytest.mark.parametrize("answer", [20, 90])
def test_what_the_policy_sees_is_what_was_measured(
    model: Model, monkeypatch: pytest.MonkeyPatch, policy: str, answer: int
) -> None:
    observation = OBSERVING[policy]
    assert observation is not None
    check_attention(model, monkeypatch, observation, answer, policy=policy)


@pytest.mark.parametrize("policy", ["streaming", "pace", "context_shift"])
def test_any_policy_can_watch(model: Model, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    check_attention(model, monkeypatch, Observation(), 90, policy=policy, observe=True)


def check_attention(
    model: Model, monkeypatch: pytest.MonkeyPatch, observation: Observation, answer: int, **settings: Any
) -> None:
    rows = observation.queries or 32
    with tiny_session(model, budget=128, position_cap=400, **settings) as session:
        session.append("RATE is 53", kind="file")
        witness = Witness(session, rows, model.tokenize("a") * answer)
        monkeypatch.setattr(session.engine, "sampler", lambda sampling: witness)
        stream = session.generate("what is the RATE?", max_tokens=answer)
        seen = None
        for _ in stream:
            seen = session.cache_view().attention
            assert seen is not None
            assert np.array_equal(seen.total, native(session, "total"))
            assert np.array_equal(seen.window, native(session, "steps", observation.window))
        assert seen is not None
        assert (session.stats.evictions > 0) == (answer == 90)
        n_prompt = session.segments[len(session.segments) - 1].start
        index = session.residents.token_index
        was_there = index < n_prompt
        assert np.isnan(seen.prompt[~was_there]).all()
        assert seen.prompt[was_there].tolist() == [witness.mass[i] for i in index[was_there].tolist()]
        assert witness.mass.keys() == set(range(n_prompt))
        # Weights of a row sum to 1 in each head of each layer, unless some are not counted or have faded.
        if not observation.min_distance and observation.decay == 1:
            n_rows = sum(witness.mass.values()) / (TALKER.n_head * TALKER.n_layer)
            assert n_rows == pytest.approx(round(n_rows), rel=1e-3)
            assert rows <= round(n_rows) < rows + session.config.headroom


def test_a_sum_has_every_row_in_it(model: Model) -> None:
    with tiny_session(model, policy="h2o") as session:
        session.append("x" * 30)
        total = native(session, "total").sum() / (TALKER.n_head * TALKER.n_layer)
        assert total == pytest.approx(session.session_length, rel=1e-3)


def test_while_a_prompt_is_read_its_last_rows_count(model: Model) -> None:
    """An eviction in the middle of a prompt goes by what has been read of it."""
    with tiny_session(model, policy="snapkv") as session:
        session.append("x" * 200, kind="file")
        last = session.last_eviction
        assert last is not None
        mass = session.residents.prompt_mass
        index = session.residents.token_index
        assert np.array_equal(np.isnan(mass), index >= last.session_length)
        assert not np.isnan(mass[index < last.session_length]).any()


@pytest.mark.parametrize("observe", [False, True])
def test_nothing_is_measured_that_nobody_asked_for(model: Model, observe: bool) -> None:
    with tiny_session(model, policy="pace", observe=observe) as session:
        session.append(TEXT)
        assert (session.cache_view().attention is not None) == observe
        assert session.engine.cache is not None
        assert (session.engine.cache.bytes_held().attention > 0) == observe


@each_policy
def test_watching_changes_nothing(model: Model, policy: str) -> None:
    def outcome(observe: bool) -> tuple[list[list[int]], list[int]]:
        settings = {"budget": 400, "position_cap": 500} if policy == "none" else {}
        with tiny_session(model, policy=policy, observe=observe, **settings) as session:
            for _ in range(3):
                list(session.generate(TEXT, max_tokens=40))
            tokens = [session.tokens_of(segment) for segment in session.segments]
            return tokens, session.residents.token_index.tolist()

    assert outcome(observe=True) == outcome(observe=False)
