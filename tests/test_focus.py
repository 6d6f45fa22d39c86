"""A step starts with exactly what it reads, each by the means that it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from session_pair import TALKER
from working_set_views import (
    COPIES,
    FORM,
    SPECS,
    TALK,
    Hearing,
    chatter,
    is_whole,
    plain_rows,
    ranks_of,
    read_specs,
    resident_names,
    working_session,
    working_set_of,
)

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import CancelledError
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def hearing() -> Hearing:
    return Hearing()


def plan_reads(session: Session, *names: str, text: str = "do it") -> None:
    session.plan = Plan([Step(text, reads=names)])


def read_copies(session: Session, isolated: bool | None = None) -> None:
    for name, text in COPIES.items():
        session.append(text, name=name, isolated=isolated)


def answered(session: Session) -> None:
    """An answer, so that nothing waits for one; and what no step reads."""
    list(session.generate("go on", max_tokens=5))


def started(hearing: Hearing) -> events.Focused:
    return hearing.of(events.Focused)[-1]


def look_at_start(session: Session, hearing: Hearing) -> list[list[int]]:
    """Token indices of the residents each time a step has started."""
    seen: list[list[int]] = []

    def look(event: events.Event) -> None:
        if isinstance(event, events.Focused):
            session.check()
            seen.append(session.residents.token_index.tolist())

    hearing.act = look
    return seen


def exactly(session: Session, names: Iterable[str], sinks: int = 4) -> list[int]:
    """Sinks, the system prompt and these segments, with their role markers."""
    units = [working_set_of(session).unit(session.segments.named(name).id) for name in ("rules", *names)]
    return sorted({*range(sinks), *np.concatenate(units).tolist()})


# Exactly what it reads


@pytest.mark.parametrize("names", [(), ("spec:stock",), ("spec:mail", "spec:orders"), tuple(SPECS)])
def test_residents_are_sinks_pins_and_reads(model: Model, hearing: Hearing, names: tuple[str, ...]) -> None:
    with working_session(model, hearing) as session:
        seen = look_at_start(session, hearing)
        read_specs(session)
        chatter(session, 8)
        answered(session)
        plan_reads(session, *names)
        session.append("use it", name="a text", isolated=False)
        assert seen == [exactly(session, names)]
        event = started(hearing)
        assert (event.step, event.residents) == ("do it", len(seen[0]))
        in_order = [name for name in SPECS if name in names]
        computed = in_order[1:]
        assert event.reads == {name: "together" if name in computed else "spliced" for name in names}
        assert hearing.recalled() == [(name, event.reads[name]) for name in in_order]
        markers = 7
        new = markers + len(session.segments.named("a text"))
        assert session.n_residents == len(seen[0]) + new


def test_a_question_without_an_answer_stays(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        seen = look_at_start(session, hearing)
        read_specs(session)
        answered(session)
        session.append("what is the rate?")
        question = session.segments[session._prompt or 0].name
        plan_reads(session, "spec:stock")
        list(session.generate(max_tokens=4))
        assert seen == [exactly(session, ["spec:stock", question])]


def test_an_answered_question_goes(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        seen = look_at_start(session, hearing)
        read_specs(session)
        answered(session)
        assert session._prompt is not None
        plan_reads(session, "spec:stock")
        list(session.generate("what is the rate?", max_tokens=4))
        assert seen == [exactly(session, ["spec:stock"])]


def test_pinned_segments_stay(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        seen = look_at_start(session, hearing)
        read_specs(session)
        session.pin("spec:mail")
        answered(session)
        plan_reads(session, "spec:stock")
        session.append("x")
        assert seen == [exactly(session, ["spec:stock", "spec:mail"])]


def test_a_step_starts_once(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_specs(session)
        answered(session)
        plan_reads(session, "spec:stock")
        for number in range(3):
            session.append(f"a file of the step {number}", kind="file", name=f"file:{number}")
            if not number:
                session.append("use it")
            list(session.generate("go on", max_tokens=3))
        assert len(hearing.of(events.Focused)) == 1
        assert {"file:1", "file:2"} <= resident_names(session)


def test_a_text_that_is_only_read_starts_no_step(model: Model, hearing: Hearing) -> None:
    """It may be what the step is to read; the question comes after it."""
    with working_session(model, hearing) as session:
        read_specs(session)
        answered(session)
        plan_reads(session, "spec:stock")
        session.append("a file", kind="file")
        session.append("RATE is 54", name="spec:new")
        session.append("another", kind="tool", isolated=False)
        assert not hearing.of(events.Focused)
        session.append("use it")
        assert len(hearing.of(events.Focused)) == 1


def test_a_plan_with_the_same_step_does_not_start_it_again(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_specs(session)
        plan_reads(session, "spec:stock")
        answered(session)
        session.plan = Plan([*session.plan, Step("and then", reads=["spec:mail"])])
        answered(session)
        assert len(hearing.of(events.Focused)) == 1


def test_step_done_starts_the_next(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        seen = look_at_start(session, hearing)
        read_specs(session)
        answered(session)
        session.plan = Plan([Step("first", reads=["spec:stock"]), Step("second", reads=["spec:orders"])])
        answered(session)
        session.step_done()
        assert len(seen) == 1, "only when something is read or written"
        answered(session)
        assert seen[1] == exactly(session, ["spec:orders"])
        assert [event.step for event in hearing.of(events.Focused)] == ["first", "second"]
        session.step_done()
        answered(session)
        assert len(seen) == 2, "the plan is at its end"


def test_without_a_plan_it_keeps_what_pace_keeps(model: Model, hearing: Hearing) -> None:
    seen = []
    for policy in ("pace", "pace_focus"):
        with working_session(model, hearing, policy=policy, isolate=False) as session:
            read_specs(session)
            chatter(session, 9)
            answered(session)
            seen.append((session.residents.token_index.tolist(), session.residents.position.tolist()))
    assert seen[0] == seen[1]
    assert not hearing.of(events.Focused)


# By what means


def test_kept(model: Model, hearing: Hearing, monkeypatch: pytest.MonkeyPatch) -> None:
    with working_session(model, hearing) as session:
        read_specs(session)
        answered(session)
        rows = plain_rows(session, "spec:stock")
        stays = session.residents.stay[ranks_of(session, "spec:stock")].tolist()
        plan_reads(session, "spec:stock")
        answered(session)
        assert started(hearing).reads == {"spec:stock": "kept"}
        assert hearing.recalled() == []
        assert plain_rows(session, "spec:stock") == rows
        assert session.residents.stay[ranks_of(session, "spec:stock")].tolist() == stays


def test_spliced(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_specs(session)
        rows = plain_rows(session, "spec:stock")
        chatter(session, 8)
        answered(session)
        plan_reads(session, "spec:stock")
        answered(session)
        (event,) = hearing.of(events.Recalled)
        assert (event.means, event.reason) == ("spliced", "it was saved")
        assert plain_rows(session, "spec:stock") == rows


def test_recomputed_since_it_was_not_saved(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing, host_bytes=0, disk_bytes=0) as session:
        read_specs(session)
        rows = plain_rows(session, "spec:stock")
        chatter(session, 8)
        answered(session)
        plan_reads(session, "spec:stock")
        answered(session)
        (event,) = hearing.of(events.Recalled)
        assert (event.means, event.reason) == ("recomputed", "it was not saved, or what was saved is gone")
        assert started(hearing).reads == {"spec:stock": "recomputed"}
        assert plain_rows(session, "spec:stock") == rows


def test_recomputed_since_near_copies_were_resident(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_copies(session, isolated=False)
        among = plain_rows(session, "copy:mail")
        answered(session)
        plan_reads(session, "copy:mail")
        answered(session)
        (event,) = hearing.of(events.Recalled)
        assert event.means == "recomputed"
        assert event.reason == "texts like it were resident when it was first read"
        anew = plain_rows(session, "copy:mail")
        assert anew != among
        plan_reads(session, "copy:mail", text="again")
        answered(session)
        assert started(hearing).reads == {"copy:mail": "kept"}, "once is enough"
        assert plain_rows(session, "copy:mail") == anew
    with working_session(model) as fresh:
        fresh.append(COPIES["copy:mail"], name="copy:mail")
        assert plain_rows(fresh, "copy:mail") == anew


def test_the_first_of_near_copies_is_not_crowded(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_copies(session, isolated=False)
        crowded = {session.segments[i].name for i in session._memory.focus.crowded}
        assert crowded == {"copy:stock", "copy:mail"}
        chatter(session, 9)
        session.append(COPIES["copy:orders"], name="later", isolated=False)
        crowded = {session.segments[i].name for i in session._memory.focus.crowded}
        assert "later" not in crowded, "the copies had left by then"


def test_what_is_read_in_isolation_is_never_crowded(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_copies(session)
        assert not session._memory.focus.crowded
        answered(session)
        plan_reads(session, "copy:mail")
        answered(session)
        assert started(hearing).reads == {"copy:mail": "kept"}


def test_reread(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing, means="reread") as session:
        read_specs(session)
        old = session.segments.named("spec:stock")
        answered(session)
        plan_reads(session, "spec:stock")
        session.append("use it")
        new = session.segments.named("spec:stock")
        assert new.id > old.id
        assert session.tokens_of(new) == session.tokens_of(old)
        assert not new.isolated
        assert started(hearing).reads == {"spec:stock": "reread"}
        assert np.count_nonzero(session.residents.segment == old.id) == 0
        assert np.count_nonzero(session.residents.segment == new.id) == len(new)
        planned = [read.segment for read in session.reads() if read.segment != session._prompt]
        assert planned == [new.id]


def test_reread_leaves_the_question_alone(model: Model, hearing: Hearing) -> None:
    """It was read a second time, and the first, which had gone, was still taken for what is asked."""
    with working_session(model, hearing, means="reread") as session:
        read_specs(session)
        question = session.append("what is the rate?")
        plan_reads(session, "spec:stock")
        list(session.generate(max_tokens=4))
        for read in session.reads():
            if read.step == 0:
                segment = session.segments[read.segment]
                assert np.count_nonzero(session.residents.segment == segment.id) == len(segment)
        asked = [s for s in session.segments if session.text_of(s) == "what is the rate?"]
        assert len(asked) == 1 or session._prompt != question.id


@pytest.mark.parametrize("means", ["together", "recomputed", "spliced", "reread"])
def test_the_setting_decides(model: Model, hearing: Hearing, means: str) -> None:
    with working_session(model, hearing, means=means) as session:
        read_specs(session)
        chatter(session, 8)
        answered(session)
        plan_reads(session, "spec:stock", "spec:mail")
        answered(session)
        first = "spliced" if means == "together" else means  # it was saved as it is by itself
        assert started(hearing).reads == {"spec:stock": first, "spec:mail": means}
        assert set(hearing.recalled()) == {("spec:stock", first), ("spec:mail", means)}
        assert is_whole(session, "spec:stock")
        assert is_whole(session, "spec:mail")


# Too much, and failures


@pytest.mark.parametrize("alike", [False, True])
def test_reads_that_exceed_the_budget(model: Model, hearing: Hearing, alike: bool) -> None:
    """They were read together whatever their length, and the system prompt lost."""
    with working_session(model, hearing) as session:
        names = [f"file:{number}" for number in range(8)]
        for number, name in enumerate(names):
            text = FORM.format(name, number) if alike else f"{chr(97 + number)}{number}" * 22
            session.append(text, kind="file", name=name)
        answered(session)
        hearing.heard.clear()
        plan_reads(session, *names)
        session.append("use them")
        assert is_whole(session, "rules")
        assert session.n_residents <= session.config.budget
        over = {event.segment for event in hearing.of(events.ReadsOverBudget)}
        whole = {name for name in names if is_whole(session, name)}
        assert whole
        assert over
        assert whole | over == set(names), "what is not resident was told"
        list(session.generate(max_tokens=5))


def test_a_read_too_long_to_be_computed_again_is_told(model: Model, hearing: Hearing) -> None:
    """It was silently left out, and the event said that it was recomputed."""
    with working_session(model, hearing, host_bytes=0, disk_bytes=0) as session:
        session.append("x" * 200, kind="file", name="long")
        answered(session)
        hearing.heard.clear()
        plan_reads(session, "long")
        session.append("use it")
        if not is_whole(session, "long"):
            assert "long" in {event.segment for event in hearing.of(events.ReadsOverBudget)}


@pytest.mark.parametrize("at", [1, 2, 3])
def test_cancelled_while_a_step_starts(model: Model, at: int) -> None:
    hearing = Hearing()
    with working_session(model, hearing, means="recomputed") as session:
        read_specs(session)
        answered(session)
        tokens, segments = list(session.tokens), list(session.segments)
        plan_reads(session, "spec:stock", "spec:mail")
        hearing.heard.clear()
        hearing.act = lambda event: session.cancel() if len(hearing.heard) == at else None
        with pytest.raises(CancelledError):
            session.append("use it")
        hearing.act = lambda event: None
        assert list(session.tokens) == tokens
        assert [s.name for s in session.segments] == [s.name for s in segments]
        session.check()
        assert is_whole(session, "rules")
        session.append("use it")
        assert is_whole(session, "spec:stock")
        assert is_whole(session, "spec:mail")


def test_the_events_of_a_step_are_plain_values(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_specs(session)
        chatter(session, 8)
        answered(session)
        plan_reads(session, "spec:stock", text=TALK)
        answered(session)
        for kind in (events.Focused, events.Recalled, events.Isolated):
            for event in hearing.of(kind):
                values = events.as_dict(event)
                assert values["type"] == event.type
                assert event.text == ""
                assert values["seconds"] >= 0
        assert started(hearing).step == TALK


def test_what_is_pinned_comes_back_when_a_step_starts(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_specs(session)
        plan_reads(session, "spec:stock")
        answered(session)
        assert not is_whole(session, "spec:orders")
        session.pin("spec:orders")
        plan_reads(session, "spec:mail")
        list(session.generate("go on", max_tokens=1))
        assert is_whole(session, "spec:orders")
        assert is_whole(session, "spec:mail")
        session.check()


def test_the_end_of_the_last_answer_leaves_with_it(model: Model) -> None:
    """A step that began with a prompt had an end-of-turn marker of no turn before it."""
    with working_session(model) as session:
        read_specs(session)
        answered(session)
        plan_reads(session, "spec:stock")
        list(session.generate("write it", max_tokens=1))
        residents = session.residents
        turns = {segment.turn for segment in session.segments if segment.kind == "answer"} - {
            list(session.segments)[-1].turn
        }
        assert turns
        assert not np.isin(residents.turn, list(turns)).any()
