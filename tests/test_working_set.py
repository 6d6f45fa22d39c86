"""What was evicted comes back as it was, within the budget, and every way of coming back is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_pair import TALKER
from working_set_views import (
    CACHES,
    SPECS,
    TALK,
    WIDE,
    Hearing,
    chatter,
    check_rotations,
    is_whole,
    plain_rows,
    ranks_of,
    read_specs,
    resident_names,
    working_session,
    working_set_of,
)

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import ConfigError, PlanError
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def hearing() -> Hearing:
    return Hearing()


def evict_all(session: Session) -> None:
    """All that was read so far but for the system prompt."""
    chatter(session, 8)
    assert resident_names(session) & set(SPECS) == set()


def reads(*names: str) -> Plan:
    return Plan([Step("use them", reads=names)])


# Back as it was


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
@pytest.mark.parametrize("cache", CACHES)
def test_it_comes_back_as_it_was(
    load_tiny: Callable[[TinySpec], Model], hearing: Hearing, cache: str, policy: str
) -> None:
    with working_session(load_tiny(WIDE), hearing, policy=policy, **CACHES[cache]) as session:
        read_specs(session)
        before = {name: plain_rows(session, name) for name in SPECS}
        evict_all(session)
        for name in ("spec:stock", "spec:orders", "spec:mail"):
            session.recall(name)
            check_rotations(session, WIDE)
        assert {name: plain_rows(session, name) for name in SPECS} == before
        assert hearing.recalled() == [(f"spec:{name}", "spliced") for name in ("stock", "orders", "mail")]
        index = session.residents.token_index
        assert np.all(np.diff(index) > 0), "in the order of the session"
        (first, *_) = hearing.of(events.Recalled)
        assert first.reason == "asked for"
        assert first.tokens == len(ranks_of(session, "spec:stock"))


def test_nothing_is_decoded_for_it(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with working_session(model) as session:
        read_specs(session)
        evict_all(session)
        monkeypatch.setattr(session.engine, "decode", None)
        session.recall("spec:stock")
        assert is_whole(session, "spec:stock")


def test_what_is_resident_is_left_alone(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_specs(session)
        before = session.residents.position.tolist()
        session.recall("spec:mail")
        assert session.residents.position.tolist() == before
        assert hearing.recalled() == []


def test_only_what_is_missing_is_loaded(model: Model, hearing: Hearing) -> None:
    """Of a text that lost some tokens the others stay as they are."""
    with working_session(model, hearing, policy="pace") as session:
        segment = session.append(TALK * 6, kind="file", name="spec")
        n = len(segment)
        rows = plain_rows(session, "spec")
        while is_whole(session, "spec"):
            chatter(session, 1)
        ranks = ranks_of(session, "spec")
        assert 0 < len(ranks) < n, "else there is nothing to see here"
        stays = session.residents.stay[ranks].tolist()
        session.recall("spec")
        (event,) = hearing.of(events.Recalled)
        assert (event.means, event.tokens) == ("spliced", n + 7 - len(ranks))
        assert set(stays) <= set(session.residents.stay.tolist())
        assert plain_rows(session, "spec") == rows


def test_the_role_markers_come_back_with_it(model: Model) -> None:
    with working_session(model) as session:
        read_specs(session)
        evict_all(session)
        session.recall("spec:stock")
        segment = session.segments.named("spec:stock")
        tokens = np.array(session.tokens)[session.residents.token_index]
        ranks = ranks_of(session, "spec:stock")
        text = session.model.text_of(tokens[ranks].tolist())
        assert text == f"<|im_start|>user\n{SPECS['spec:stock']}<|im_end|>\n"
        assert len(ranks) == len(segment) + 7


def test_answers_come_back(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        list(session.generate("go on", name="the answer", max_tokens=30))
        session.append("well done")
        rows = plain_rows(session, "the answer")
        chatter(session, 8)
        assert not is_whole(session, "the answer")
        session.recall("the answer")
        assert plain_rows(session, "the answer") == rows
        assert hearing.recalled() == [("the answer", "spliced")]


def test_parts_that_left_one_after_the_other_come_back_together(model: Model, hearing: Hearing) -> None:
    """Longer than the budget's half, it was evicted from the front while it was being read."""
    with working_session(model, hearing, policy="pace") as session:
        session.append(TALK * 14, kind="file", name="long")
        for _ in range(8):
            session.append("x" * 9)
        store = working_set_of(session).store
        segment = session.segments.named("long")
        assert len(session.residents.segment[session.residents.segment == segment.id]) < len(segment)
        covered = np.unique(np.concatenate([p.token_index for p in store.pieces_of(segment.id)]))
        assert np.isin(np.arange(segment.start, segment.end), covered).all()
        if working_set_of(session).fits_alone(len(segment) + 7):
            session.recall("long")
            assert is_whole(session, "long")
            assert hearing.recalled() == [("long", "spliced")]


def test_what_was_cancelled_leaves_what_it_evicted_saved(model: Model, hearing: Hearing) -> None:
    """The piece held tokens of the turn that was withdrawn and was dropped with it; what was left of the
    answer was then evicted unsaved."""
    with working_session(model, hearing, policy="pace", soft_target=0.95, recent=0) as session:
        list(session.generate("go", name="the answer", max_tokens=60))
        rows = plain_rows(session, "the answer")

        def cancels(event: events.Event) -> None:
            if isinstance(event, events.Evicted) and "the answer" in event.segments:
                session.cancel()

        hearing.act = cancels
        with pytest.raises(Exception, match="cancelled"):
            session.append(TALK * 20, kind="file")
        hearing.act = lambda event: None
        assert not is_whole(session, "the answer")
        chatter(session, 8)
        assert not len(ranks_of(session, "the answer"))
        session.recall("the answer")
        assert hearing.recalled() == [("the answer", "spliced")]
        assert plain_rows(session, "the answer")[0][: len(rows[0])] == rows[0]


# Over the budget


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
def test_more_than_fits(model: Model, hearing: Hearing, policy: str) -> None:
    """Room was made for all of it at once, and the system prompt lost."""
    with working_session(model, hearing, policy=policy) as session:
        names = [f"file:{number}" for number in range(9)]
        for number, name in enumerate(names):
            session.append(f"{chr(97 + number)}{number}" * 21, kind="file", name=name)
        hearing.heard.clear()
        session.plan = reads(*names)
        session.append("use them all")
        assert is_whole(session, "rules")
        assert session.n_residents <= session.config.budget
        over = {event.segment for event in hearing.of(events.ReadsOverBudget)}
        whole = {name for name in names if is_whole(session, name)}
        assert over
        assert whole
        assert whole | over == set(names), "what is not resident was told"
        list(session.generate(max_tokens=4))


def test_a_recall_of_what_can_never_fit_is_refused(model: Model) -> None:
    with working_session(model) as session:
        session.append("x" * 190, kind="file", name="long", isolated=False)
        before = session.residents.token_index.tolist()
        with pytest.raises(ConfigError, match=r"'long' has 190 tokens and does not fit beside what is"):
            session.recall("long")
        assert session.residents.token_index.tolist() == before
        session.append("go on")


def test_recalled_beside_what_was_pinned_later(model: Model) -> None:
    with working_session(model) as session:
        read_specs(session)
        session.append("hello")
        session.append(TALK * 9, name="kept", pinned=True)
        evict_all(session)
        for name in SPECS:
            session.recall(name)
            assert is_whole(session, "kept")
            assert is_whole(session, "rules")
            assert is_whole(session, name)


# Asked for by name, by pin, by plan


def test_wrong_names_are_refused(model: Model) -> None:
    with working_session(model) as session:
        read_specs(session)
        with pytest.raises(PlanError, match="no segment is named 'spec:stork'; did you mean 'spec:stock'"):
            session.recall("spec:stork")
        with pytest.raises(PlanError, match="no segment is named 'spec:stork'"):
            session.plan = reads("spec:stork")


def test_what_was_asked_for_stays_for_the_step(model: Model) -> None:
    with working_session(model, policy="pace") as session:
        read_specs(session)
        evict_all(session)
        session.recall("spec:stock")
        chatter(session, 8)
        assert is_whole(session, "spec:stock")
        session.step_done()
        chatter(session, 8)
        assert not is_whole(session, "spec:stock")


def asked_for(session: Session) -> list[str]:
    """What the current step reads, of the texts, in order."""
    names = [session.segments[read.segment].name for read in session.reads() if read.step == 0]
    return [name for name in names if name in SPECS]


def test_what_was_asked_for_last_comes_first(model: Model) -> None:
    """Where not all of it fits, what the user wanted hours ago drove out what he wants now."""
    with working_session(model, policy="pace") as session:
        read_specs(session)
        evict_all(session)
        for name in (*SPECS, "spec:orders"):
            session.recall(name)
        assert asked_for(session) == ["spec:orders", "spec:mail", "spec:stock"]


@pytest.mark.parametrize("by_generate", [False, True])
def test_without_a_plan_what_was_asked_for_stays_for_one_answer(model: Model, by_generate: bool) -> None:
    """In plain chat no step ever ends: every recall of an afternoon held its place for good."""
    with working_session(model, policy="pace") as session:
        read_specs(session, ["spec:stock"])
        for plan, left in ((Plan([Step("now")]), ["spec:stock"]), (Plan(), [])):
            session.plan = plan
            session.recall("spec:stock")
            session.append("and")
            assert asked_for(session) == ["spec:stock"]
            if by_generate:
                list(session.generate("use it", max_tokens=2))
            else:
                session.write([5], prompt="use it")
            assert asked_for(session) == left


def test_a_pin_of_what_was_evicted_can_be_recalled_and_stays(model: Model) -> None:
    with working_session(model) as session:
        read_specs(session)
        evict_all(session)
        session.pin("spec:stock")
        session.recall("spec:stock")
        session.plan = Plan()
        chatter(session, 8)
        assert is_whole(session, "spec:stock")


def test_pace_splices_what_a_step_misses(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing, policy="pace") as session:
        read_specs(session)
        rows = plain_rows(session, "spec:mail")
        evict_all(session)
        session.plan = Plan([Step("now", reads=["spec:mail"]), Step("later", reads=["spec:stock"])])
        assert hearing.recalled() == [], "only when something is read or written"
        session.append("use it")
        assert hearing.recalled() == [("spec:mail", "spliced")]
        assert hearing.of(events.Recalled)[0].reason == "a step reads it"
        assert plain_rows(session, "spec:mail") == rows
        assert not is_whole(session, "spec:stock")
        session.step_done()
        list(session.generate("next", max_tokens=2))
        assert hearing.recalled()[1:] == [("spec:stock", "spliced")]


@pytest.mark.parametrize("recall", [None, False, True])
def test_the_setting_decides(model: Model, hearing: Hearing, recall: bool | None) -> None:
    with working_session(model, hearing, policy="streaming", recall=recall) as session:
        read_specs(session)
        evict_all(session)
        assert bool(working_set_of(session).store.stats.pieces) == bool(recall)
        session.plan = reads("spec:stock")
        session.append("use it")
        assert hearing.recalled() == ([("spec:stock", "spliced")] if recall else [])


def test_a_policy_that_merges_cannot_recall(model: Model) -> None:
    for setting in ("recall", "isolate"):
        settings: dict[str, Any] = {setting: True}
        with pytest.raises(ConfigError, match="policy 'merge' merges what it evicts"):
            working_session(model, policy="merge", **settings)


@pytest.mark.parametrize("save_parts", [False, True])
def test_parts_are_saved_if_asked_for(model: Model, save_parts: bool) -> None:
    """By default what has lost tokens unsaved is not worth saving."""
    with working_session(model, policy="pace", save_parts=save_parts) as session:
        segment = session.append(TALK * 8, name="spec", kind="file")
        working_set_of(session).saves_leaving = False
        while is_whole(session, "spec"):
            session.append("xxx")
        working_set_of(session).saves_leaving = True
        left = len(ranks_of(session, "spec"))
        assert left
        chatter(session, 8)
        pieces = working_set_of(session).store.pieces_of(segment.id)
        assert [len(piece.token_index) for piece in pieces] == ([left] if save_parts else [])


# What cannot be had any more


def lose_by_budget(session: Session) -> None:
    assert not working_set_of(session).store.stats.pieces


def lose_by_drop(session: Session) -> None:
    working_set_of(session).store.drop(session.segments.named("spec:stock").id)


def lose_by_wrong_tokens(session: Session) -> None:
    """The piece of another text under its name."""
    store = working_set_of(session).store
    own, other = session.segments.named("spec:stock"), session.segments.named("spec:mail")
    data, index = (
        store.get(store.pieces_of(other.id)[-1].id),
        store.pieces_of(own.id)[-1].token_index,
    )
    store.drop(own.id)
    n = len(store.pieces_of(other.id)[-1].token_index)
    store.put(own.id, np.resize(index, n) if n <= len(index) else np.arange(index[0], index[0] + n), data)


LOSSES: dict[str, tuple[dict[str, Any], Callable[[Session], None]]] = {
    "no room was given": ({"host_bytes": 0, "disk_bytes": 0}, lose_by_budget),
    "dropped": ({}, lose_by_drop),
    "of another text": ({}, lose_by_wrong_tokens),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("by_plan", [False, True])
def test_what_is_lost_is_computed_again(model: Model, hearing: Hearing, loss: str, by_plan: bool) -> None:
    settings, lose = LOSSES[loss]
    with working_session(model, hearing, **settings) as session:
        read_specs(session)
        rows = plain_rows(session, "spec:stock")
        evict_all(session)
        lose(session)
        hearing.heard.clear()
        if by_plan:
            session.plan = reads("spec:stock")
            session.append("use it")
        else:
            session.recall("spec:stock")
        assert ("spec:stock", "recomputed") in hearing.recalled()
        assert plain_rows(session, "spec:stock") == rows, "it was read in isolation, then as now"
        assert session.segments.named("spec:stock").isolated
        session.plan = Plan()
        chatter(session, 8)
        session.recall("spec:stock")
        means = "recomputed" if loss == "no room was given" else "spliced"
        assert hearing.recalled()[-1] == ("spec:stock", means)
        assert plain_rows(session, "spec:stock") == rows


def test_a_broken_file_is_computed_again(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing, host_bytes=0, disk_bytes=1 << 24) as session:
        read_specs(session)
        rows = plain_rows(session, "spec:stock")
        evict_all(session)
        store = working_set_of(session).store
        store.settle()
        (piece,) = store.pieces_of(session.segments.named("spec:stock").id)
        assert piece.where == "disk"
        files = store._disk.files
        assert files is not None
        (path,) = [p for p in Path(files.folder).iterdir() if f"{piece.id}" in p.name.split(".")[0]]
        content = bytearray(path.read_bytes())
        content[-20] ^= 1
        path.write_bytes(content)
        session.recall("spec:stock")
        assert hearing.recalled() == [("spec:stock", "recomputed")]
        assert hearing.of(events.Recalled)[0].reason == "asked for, and not saved"
        assert plain_rows(session, "spec:stock") == rows
        assert store.stats.broken_pieces == 1


def test_from_disk(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing, host_bytes=0, disk_bytes=1 << 24) as session:
        read_specs(session)
        rows = {name: plain_rows(session, name) for name in SPECS}
        evict_all(session)
        working_set_of(session).store.settle()
        for name in SPECS:
            session.recall(name)
        assert {name: plain_rows(session, name) for name in SPECS} == rows
        assert {means for _, means in hearing.recalled()} == {"spliced"}


def test_what_the_store_drops_while_it_is_resident_is_saved_again(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing) as session:
        read_specs(session)
        for name in SPECS:
            working_set_of(session).store.drop(session.segments.named(name).id)
        evict_all(session)
        session.recall("spec:stock")
        assert hearing.recalled() == [("spec:stock", "spliced")]


def test_what_was_read_among_others_is_computed_anew_in_isolation(model: Model, hearing: Hearing) -> None:
    with working_session(model, hearing, policy="pace", host_bytes=0, disk_bytes=0) as session:
        read_specs(session)
        among = plain_rows(session, "spec:mail")
        evict_all(session)
        session.recall("spec:mail")
        assert plain_rows(session, "spec:mail") != among
        assert hearing.recalled() == [("spec:mail", "recomputed")]
        (event,) = hearing.of(events.Isolated)
        assert event.segment == "spec:mail"
        assert session.segments.named("spec:mail").isolated
    with working_session(model) as fresh:
        fresh.append(SPECS["spec:mail"], name="spec:mail", isolated=False)
        alone = plain_rows(fresh, "spec:mail")
    with working_session(model, policy="pace", host_bytes=0, disk_bytes=0) as session:
        read_specs(session)
        evict_all(session)
        session.recall("spec:mail")
        assert plain_rows(session, "spec:mail") == alone
