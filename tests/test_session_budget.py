"""Residents within the budget and positions below the cap, at every moment that anyone can look.

Of the table of known trouble: the next position is the greatest and one (19901, 17316); a cache full of holes
still takes tokens (15473); deltas of shifts add up (3825); instructions survive (opencode 16960); a system
prompt is never cut silently (pi 133).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from session_guard import guarded
from session_pair import TALKER, tiny_session

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import ConfigError
from pace_local.policies import POLICIES
from pace_local.testing import TinySpec

TEXT = "return the self and other "


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"none"}))
@pytest.mark.parametrize("cap", [112, 113, 200])
def test_at_every_event(model: Model, policy: str, cap: int) -> None:
    session, guard = guarded(model, policy=policy, position_cap=cap)
    with session:
        for number in range(12):
            session.append(TEXT * (number % 4 + 1), kind="file", name=f"file:{number}")
            guard.look()
            for _ in session.generate("what now?", max_tokens=25):
                guard.look()
        assert guard.heard
        bounds, closes = POLICIES[policy].bounds_positions, POLICIES[policy].closes_gaps
        assert session.bounds_positions == bounds
        assert (session.next_position < cap) == (bounds or closes)
        assert (session.stats.renumberings_in_session > 0) == bounds
        assert session.stats.position_cap == (cap if bounds else None)
        if closes:
            assert session.stats.highest_position < session.config.n_cells
        else:
            assert session.stats.highest_position >= (cap - session.config.headroom if bounds else 800)


def test_nothing_is_evicted_that_fits(model: Model) -> None:
    with tiny_session(model) as session:
        session.append("x" * (96 - 42 - 7))
        assert session.n_residents == session.session_length == 96
        assert session.stats.evictions == 0
        session.append("x")
        assert session.n_residents < 96


def test_an_eviction_leaves_room_for_a_while(model: Model) -> None:
    """Down to 1 / 1.1 of the budget: so many tokens later comes the next."""
    session, guard = guarded(model, budget=220, position_cap=2000)
    with session:
        list(session.generate(TEXT, max_tokens=400))
        tokens = [e.tokens if isinstance(e, events.Text) else -1 for e in guard.heard]
        evictions = [at for at, event in enumerate(guard.heard) if isinstance(event, events.Evicted)]
        assert len(evictions) > 5
        gaps = {tokens[later - 1] - tokens[sooner - 1] for sooner, later in itertools.pairwise(evictions)}
        assert gaps == {220 - 200 + 1}


def test_sinks_and_the_newest_tokens_are_what_streaming_keeps(model: Model) -> None:
    with tiny_session(model, policy="streaming") as session:
        session.append("x", kind="system", pinned=False)
        for _ in range(40):
            session.append("xyz")
        resident = session.residents.token_index
        assert list(resident[:4]) == [0, 1, 2, 3]
        oldest = session.segments.of_turn(session.segments.at(int(resident[4])))
        rest = resident[resident >= oldest[-1].end]
        assert list(rest) == list(range(oldest[-1].end, session.session_length)), "whole turns, without a gap"
        assert len(rest) > 60
        assert session.next_position == session.session_length


def test_bounded_keeps_what_streaming_keeps_and_plan_what_pace_keeps(model: Model) -> None:
    def residents(policy: str) -> list[int]:
        with tiny_session(model, policy=policy) as session:
            session.append(TEXT, name="spec")
            session.plan = Plan([Step("use it", reads=["spec"])])
            for _ in range(20):
                session.append(TEXT * 2, kind="file")
            assert session.stats.evicted > 300
            return list(session.residents.token_index)

    assert residents("bounded") == residents("streaming")
    assert residents("pace") == residents("plan")
    assert residents("pace") != residents("bounded")


# Pinned, and read by the plan


@pytest.fixture
def pinned(model: Model) -> Iterator[Session]:
    with tiny_session(model, budget=128, position_cap=200) as session:
        session.append("obey the rules", kind="system", name="rules")
        session.append("RATE is 53", kind="file", name="spec", pinned=True)
        yield session


def resident_text(session: Session, name: str) -> str:
    segment = session.segments.named(name)
    resident = session.residents.token_index
    inside = resident[(resident >= segment.start) & (resident < segment.end)]
    tokens = session.tokens_of(segment)
    return session.model.text_of([tokens[index - segment.start] for index in inside])


def test_pinned_segments_survive_byte_for_byte(pinned: Session) -> None:
    """opencode 16960: instructions were lost after compaction."""
    for _ in range(10):
        list(pinned.generate(TEXT * 3, max_tokens=40))
        assert resident_text(pinned, "rules") == "obey the rules"
        assert resident_text(pinned, "spec") == "RATE is 53"
    assert pinned.stats.renumberings_in_session > 2
    for name in ("rules", "spec"):
        for part in pinned.segments.of_turn(pinned.segments.named(name)):
            assert set(range(part.start, part.end)) <= set(pinned.residents.token_index.tolist())


def test_unpinned_it_goes(pinned: Session) -> None:
    pinned.pin("spec", False)
    list(pinned.generate(TEXT * 6, max_tokens=80))
    assert resident_text(pinned, "rules") == "obey the rules"
    assert resident_text(pinned, "spec") == ""


@pytest.mark.parametrize("policy", ["streaming", "pace"])
def test_many_small_pins_are_kept_with_their_role_markers(model: Model, policy: str) -> None:
    """Only content was counted, so that pinned turns of a few tokens each could not all be kept."""
    with tiny_session(model, policy=policy) as session:
        names: list[str] = []
        refused = None
        while refused is None:
            try:
                names.append(session.append("ab", kind="file", pinned=True).name)
            except ConfigError as error:
                refused = str(error)
        assert "pin less or raise the budget" in refused
        assert len(names) > 1
        for _ in range(4):
            list(session.generate(TEXT * 2, max_tokens=30))
            assert {resident_text(session, name) for name in names} == {"ab"}


def test_pinning_counts_the_default_system_prompt(model: Model) -> None:
    """The first turn was checked as if the template's own system prompt took no room."""
    with tiny_session(model) as session:
        with pytest.raises(ConfigError, match=r"'file' takes \d+ tokens"):
            session.append("x" * 35, kind="file", name="file", pinned=True)
        session.append("x" * 20, kind="file", name="file", pinned=True)
        for _ in range(4):
            list(session.generate(TEXT * 2, max_tokens=30))
            assert resident_text(session, "file") == "x" * 20
            assert "random" in resident_text(session, "system")


def test_a_default_system_prompt_that_does_not_fit_is_refused(model: Model) -> None:
    """pi 133: the backend cut the system prompt silently."""
    with tiny_session(model, budget=64, recent=32) as session:
        with pytest.raises(ConfigError, match=r"the template's system prompt\S takes 42 tokens"):
            session.append("hello")
        session.append("be brief", kind="system")
        session.append("hello")


def test_pin_later(pinned: Session) -> None:
    pinned.append("also this", kind="file", name="more")
    pinned.pin("more")
    list(pinned.generate(TEXT * 4, max_tokens=60))
    assert resident_text(pinned, "more") == "also this"
    pinned.pin("more")
    with pytest.raises(
        ConfigError, match=r"'user:3' takes \d+ tokens .* pinned segments \d+, and at most 96"
    ):
        pinned.pin("user:3")


def test_what_the_nearest_step_reads_stays(model: Model) -> None:
    with tiny_session(model, budget=128, position_cap=200) as session:
        session.append("be brief", kind="system")
        for name in ("a", "b", "c"):
            session.append(TEXT, kind="file", name=name)
        session.plan = Plan([Step("use b", reads=["b"]), Step("use a", reads=["a"])])
        for _ in range(8):
            session.append(TEXT * 2, kind="file")
        assert [resident_text(session, name) for name in ("a", "b", "c")] == [TEXT, TEXT, ""]
        session.step_done()
        session.step_done()
        assert len(session.plan) == 0
        session.step_done()
        session.append(TEXT * 4, kind="file")
        assert [resident_text(session, name) for name in ("a", "b")] == ["", ""]


def test_reads_over_budget_are_said_once_and_kept_in_part(model: Model) -> None:
    session, guard = guarded(model, budget=128, position_cap=200, recent=40)
    with session:
        session.append("be brief", kind="system")
        session.append(TEXT * 5, kind="file", name="large")
        session.append(TEXT * 2, kind="file", name="small")
        session.plan = Plan([Step("use large", reads=["large"]), Step("use small", reads=["small"])])
        while not session.stats.evictions:
            session.append(TEXT, kind="file")

        def told() -> list[tuple[int, str, int, int]]:
            over = [event for event in guard.heard if isinstance(event, events.ReadsOverBudget)]
            return [(event.step, event.segment, event.kept, event.resident) for event in over]

        (large, small) = session.stats.reads
        assert told() == [(0, "large", large.resident, large.tokens)]
        assert 0 < large.resident < large.tokens
        assert small.resident == small.tokens, "whole segments come before parts"
        assert session.stats.residency == large.resident / large.tokens
        assert (TEXT * 5).startswith(resident_text(session, "large"))
        for _ in range(8):
            session.append(TEXT, kind="file")
        assert session.stats.evictions > 8
        assert len(told()) == len(set(told())) < 4, "what is the case already is not said again"


def test_a_prompt_that_the_plan_names_too_is_one_read(model: Model) -> None:
    """It was told twice that it did not fit, once for each."""
    session, guard = guarded(model, recent=40)
    with session:
        session.append("x" * 20, name="question")
        session.append("y" * 26, kind="file")
        session.plan = Plan([Step("now"), Step("later", reads=["question"])])
        session.append("z" * 10, kind="file")
        told = [event for event in guard.heard if isinstance(event, events.ReadsOverBudget)]
        assert {(event.step, event.segment) for event in told} == {(0, "question")}


def test_what_arrives_for_a_step_is_not_evicted_before_the_plan_can_name_it(model: Model) -> None:
    """A text of which the first part was gone by the time that its end was read."""
    for next_use, share in ((None, 0.0), (0, 1.0)):
        with tiny_session(model, budget=128, position_cap=400) as session:
            session.append("be brief", kind="system")
            session.append("x" * 60, kind="file", name="earlier", next_use=1)
            session.plan = Plan([Step("now"), Step("later", reads=["earlier"])])
            spec = session.append("RATE is 53" + "y" * 40, kind="file", name="spec", next_use=next_use)
            first = range(spec.start, spec.start + 10)
            resident = set(session.residents.token_index.tolist())
            assert sum(index in resident for index in first) / 10 == share
            assert session.stats.evictions > 0


def test_an_answer_that_a_step_reads_stays_while_it_is_written(model: Model) -> None:
    for next_use, stays in ((None, False), (0, True)):
        with tiny_session(model, budget=128, position_cap=400) as session:
            session.append("be brief", kind="system")
            list(session.generate("write it", name="draft", max_tokens=120, next_use=next_use))
            draft = session.segments.named("draft")
            assert (draft.start in session.residents.token_index) == stays
            session.append("x" * 150, kind="file")
            assert draft.start not in session.residents.token_index, "no step reads it any more"


def test_a_prompt_is_read_by_the_step_that_runs(model: Model) -> None:
    """The question stays resident while the answer grows past the budget."""
    with tiny_session(model) as session:
        list(session.generate("what is the RATE of it?", max_tokens=150))
        assert session.stats.evicted > 50
        assert resident_text(session, "user:1") == "what is the RATE of it?"
        list(session.generate("another", max_tokens=150))
        assert resident_text(session, "user:1") == ""


# Long


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["bounded", "pace"])
def test_twenty_thousand_tokens(model: Model, policy: str) -> None:
    """A run of 200K tokens at a tenth of its size: never over the budget, never at the cap, no cell lost."""
    session, guard = guarded(model, policy=policy, budget=256, headroom=64, position_cap=1024, check=False)
    random = np.random.default_rng(0)
    with session:
        session.append("always be brief", kind="system", name="rules")
        specs = [
            session.append(f"RATE {number} is 53", kind="file", name=f"spec:{number}") for number in range(4)
        ]
        session.plan = Plan([Step("use it", reads=[spec.name]) for spec in specs])
        while session.session_length < 20_000:
            session.append(TEXT * int(random.integers(1, 25)), kind="file")
            list(session.generate("what now?", max_tokens=int(random.integers(1, 200))))
            session.check()
            guard.heard.clear()
        assert session.stats.renumberings_in_session > 20
        assert guard.most_cells < session.engine.capabilities.n_cells
        assert resident_text(session, "rules") == "always be brief"
        kept = [resident_text(session, spec.name) == session.text_of(spec) for spec in specs]
        assert kept == [policy == "pace"] * 4
        assert session.stats.session_tokens == session.session_length
