"""Figures of a turn, and events as plain values."""

from __future__ import annotations

import json
from collections.abc import Callable

import psutil
import pytest
from session_pair import TALKER, tiny_session

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import NativeError
from pace_local.stats import ReadStats, TurnStats
from pace_local.testing import TinySpec

TEXT = "return the self and other "
ROOMY = {"budget": 1000, "position_cap": 4000, "headroom": 100}


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def test_a_fresh_session(model: Model) -> None:
    with tiny_session(model) as session:
        stats = session.stats
        assert (stats.session_tokens, stats.residents, stats.next_position, stats.highest_position) == (
            0,
            0,
            0,
            -1,
        )
        assert (stats.prompt_tokens, stats.generated_tokens, stats.evicted, stats.renumberings) == (
            0,
            0,
            0,
            0,
        )
        assert stats.reads == ()
        assert stats.residency is None


def test_a_turn_is_all_that_was_read_since_the_last_answer_and_the_answer(model: Model) -> None:
    with tiny_session(model) as session:
        session.append(TEXT * 3)
        first = session.stats
        assert (first.prompt_tokens, first.generated_tokens) == (session.session_length, 0)
        session.append(TEXT * 5)
        assert session.stats.prompt_tokens == session.session_length
        (*_, finished) = session.generate("go on", max_tokens=30)
        assert isinstance(finished, events.Finished)
        turn = session.stats
        assert finished.stats.prompt_tokens == turn.prompt_tokens == session.session_length - 30
        assert turn.generated_tokens == 30
        assert turn.evicted == turn.evicted_in_session > 0
        assert turn.evictions > 0
        assert min(turn.prompt_seconds, turn.generated_seconds, turn.planning_seconds) > 0
        # the next turn begins with what is read next
        length, closing = session.session_length, 2
        session.append("more")
        after = session.stats
        assert (after.prompt_tokens, after.generated_tokens) == (session.session_length - length, 0)
        assert after.prompt_tokens == closing + 5 + len(model.tokenize("more")) + 2
        assert after.evicted_in_session == turn.evicted_in_session + after.evicted
        assert after.renumberings_in_session == turn.renumberings_in_session + after.renumberings


def test_renumberings_take_time_and_are_counted(model: Model) -> None:
    with tiny_session(model) as session:
        while not session.stats.renumberings:
            session.append(TEXT)
        assert session.stats.renumbering_seconds > 0
        assert session.stats.highest_position < session.config.position_cap
        assert session.stats.next_position == session.next_position < session.stats.highest_position


def test_what_the_plan_reads(model: Model) -> None:
    with tiny_session(model, **ROOMY) as session:
        spec, other = (session.append(TEXT, kind="file", name=name) for name in ("spec", "other"))
        session.plan = Plan([Step("a", reads=["spec"]), Step("b", reads=["other", "spec"]), Step("c")])
        near = session.next_position - spec.end + 1
        assert session.stats.reads[0] == ReadStats(
            "spec", step=0, tokens=len(spec), resident=len(spec), nearest=near, farthest=near + len(spec) - 1
        )
        assert session.stats.reads[1].name == other.name
        assert session.stats.reads[1].step == 1
        assert session.stats.residency == 1.0
        session.step_done()
        assert [(read.name, read.step) for read in session.stats.reads] == [("other", 0), ("spec", 0)]
        session.step_done()
        assert session.stats.residency is None


@pytest.mark.parametrize(("policy", "far"), [("plan", 500), ("pace", 0)])
def test_what_is_kept_far_away_and_what_is_kept_near(model: Model, policy: str, far: int) -> None:
    """The figure that the whole project is about: both keep the spec, and only one keeps it near."""
    with tiny_session(model, policy=policy) as session:
        spec = session.append("RATE is 53", name="spec", kind="file")
        session.plan = Plan([Step("use it", reads=["spec"])])
        for _ in range(30):
            session.append(TEXT * 2, kind="file")
        (read,) = session.stats.reads
        assert read.resident == read.tokens == len(spec)
        assert session.stats.residency == 1.0
        assert read.nearest is not None
        assert read.farthest is not None
        assert read.farthest - read.nearest == len(spec) - 1
        if policy == "plan":
            assert read.nearest == session.session_length - spec.end + 1 > far
        else:
            assert read.farthest < session.config.position_cap


def test_what_is_gone(model: Model) -> None:
    with tiny_session(model, policy="streaming") as session:
        session.append("RATE is 53", name="spec", kind="file")
        session.plan = Plan([Step("use it", reads=["spec"])])
        session.append(TEXT * 12)
        (read,) = session.stats.reads
        assert (read.resident, read.nearest, read.farthest) == (0, None, None)
        assert session.stats.residency == 0.0
        assert f"reads spec: 0 of {read.tokens} tokens resident, gone" in session.stats.lines()[-1]


@pytest.mark.parametrize(
    ("types", "key_bytes", "value_bytes", "reference_bytes"),
    [
        ({}, 2, 2, 2),
        ({"key_type": "f32"}, 4, 2, 4),
        ({"reference_type": "f32", "value_type": "f32"}, 2, 4, 4),
    ],
)
def test_bytes_are_those_of_the_caches_shape(
    model: Model, types: dict[str, str], key_bytes: int, value_bytes: int, reference_bytes: int
) -> None:
    with tiny_session(model, **ROOMY, **types) as session:
        cells = session.engine.capabilities.n_cells
        assert 1100 <= cells < 1100 + 256
        row = TALKER.n_layer * TALKER.n_head_kv * TALKER.head_dim
        stats = session.stats
        assert stats.key_bytes == cells * row * key_bytes
        assert stats.value_bytes == cells * row * value_bytes
        assert stats.reference_bytes == pytest.approx(cells * row * reference_bytes, rel=0.01)
        assert stats.kv_bytes == stats.key_bytes + stats.value_bytes + stats.reference_bytes
        assert stats.host_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)


def test_kv_bytes_do_not_grow_with_the_session(model: Model) -> None:
    with tiny_session(model) as session:
        session.append(TEXT)
        before = session.stats
        for _ in range(10):
            session.append(TEXT * 3)
        after = session.stats
        assert (after.kv_bytes, after.budget) == (before.kv_bytes, before.budget)


def test_figures_survive_a_failure(model: Model) -> None:
    with tiny_session(model, recall=False) as session:
        session.append(TEXT)
        before = session.stats
        assert session.engine.cache is not None
        session.engine.cache.fail_next("plan")
        with pytest.raises(NativeError):
            session.append(TEXT * 10)
        after = session.stats
        assert (after.session_tokens, after.residents) == (before.session_tokens, before.residents)
        assert after.evicted_in_session == 0


def test_lines_for_people(model: Model) -> None:
    with tiny_session(model) as session:
        session.append("RATE is 53", name="spec", kind="file")
        session.plan = Plan([Step("use it", reads=["spec"]), Step("again", reads=["system"])])
        list(session.generate("go on", max_tokens=20))
        lines = session.stats.lines()
        assert all("\n" not in line for line in lines)
        text = "\n".join(lines)
        for part in (
            "resident",
            "of 96",
            "cap 160",
            "policy pace",
            "wrote 20 in",
            "reads spec: 9 of 9 tokens",
        ):
            assert part in text, part
        assert "reads system" not in text, "it is of a later step"
    with tiny_session(model, policy="plan") as session:
        assert "unbounded" in session.stats.lines()[0]


def test_stats_and_events_are_plain_values(model: Model) -> None:
    with tiny_session(model) as session:
        session.append("RATE is 53", name="spec", kind="file")
        session.plan = Plan([Step("use it", reads=["spec"])])
        stream = list(session.generate(TEXT * 8, max_tokens=60))
        values = [json.loads(json.dumps(events.as_dict(event))) for event in stream]
        assert {value["type"] for value in values} >= {
            "progress",
            "text",
            "evicted",
            "renumbered",
            "finished",
        }
        assert all(value["type"] == event.type for value, event in zip(values, stream, strict=True))
        evicted = next(value for value in values if value["type"] == "evicted")
        assert sum(evicted["segments"].values()) == evicted["count"]
        stats = json.loads(json.dumps(session.stats.as_dict()))
        assert stats["residency"] == session.stats.residency
        assert stats["kv_bytes"] == session.stats.kv_bytes
        assert stats["reads"][0]["name"] == "spec"
        assert values[-1]["stats"]["kv_bytes"] == stats["kv_bytes"]
        assert isinstance(session.stats, TurnStats)


def test_progress_goes_up_to_the_whole_text(model: Model) -> None:
    heard: list[events.Event] = []
    with tiny_session(model, listener=heard.append) as session:
        session.append("x", kind="system")
        heard.clear()
        segment = session.append(TEXT * 5)
        progress = [event for event in heard if isinstance(event, events.Progress)]
        assert [event.done for event in progress] == [*range(16, len(segment), 16), len(segment)]
        assert {event.total for event in progress} == {len(segment)}


def test_a_listener_hears_what_the_loop_sees_and_at_once(model: Model) -> None:
    """While a long prompt was read, nobody was told of its progress, and the last piece was never told."""
    heard: list[events.Event] = []
    lengths: list[int] = []
    session: Session

    def listen(event: events.Event) -> None:
        heard.append(event)
        lengths.append(session.session_length)

    with tiny_session(model) as quiet, tiny_session(model, listener=listen) as session:
        stream = list(session.generate(TEXT * 8, max_tokens=30, stop=["zzzz"]))
        assert stream == heard
        assert lengths == sorted(lengths)
        assert len(set(lengths)) > 30, "each was told as it happened"
        expected = list(quiet.generate(TEXT * 8, max_tokens=30, stop=["zzzz"]))
        assert [event.text for event in expected] == [event.text for event in stream]
