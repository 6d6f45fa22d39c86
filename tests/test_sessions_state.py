from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions_samples import HEADER, Facts, Story, facts_of, store, turn_record

from pace_local.errors import FileError, StorageError
from pace_local.plan import Plan, Step
from pace_local.segments import Segment
from pace_local.sessions import SessionState, StoredSegment, TurnRecord, log_path, state_of


def begun(*records: TurnRecord) -> SessionState:
    state = SessionState()
    state.take(HEADER.as_document())
    for record in records:
        state.apply(record)
    return state


def part(
    id_: int, start: int, end: int, turn: int = 0, name: str = "", pinned: bool = False
) -> StoredSegment:
    return StoredSegment(Segment(id_, name or f"s{id_}", "user", start, end, turn, pinned))


def record(n_tokens: int, tokens: int, n_segments: int, *segments: StoredSegment, **more: Any) -> TurnRecord:
    """Tokens count from 100 at the first."""
    values = {"role": "user", "prompt": None, "pending": [], "n_turns": 9, **more}
    new = range(100 + n_tokens - tokens, 100 + n_tokens)
    return TurnRecord(new, n_tokens, segments, n_segments, **values)


TWO = record(10, 10, 3, part(0, 0, 4), part(1, 4, 4), part(2, 4, 10, 1))


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 20))
def test_records_replay_to_what_the_session_held(seed: int, n: int) -> None:
    """Turns, pins, evictions, renumberings, and undoing with and without something new after it."""
    story, state = Story(seed), begun()
    for _ in range(n):
        taken = story.step()
        state.take(taken.as_document())
        assert facts_of(state) == story.facts
    assert state.n_records == n
    assert state.n_residents == len(story.facts.residents)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_the_table_of_segments_is_the_sessions(seed: int) -> None:
    story, state = Story(seed), begun()
    for _ in range(10):
        state.apply(story.step())
    table = state.segment_table()
    segments = [stored.segment for stored in story.facts.segments]
    assert list(table) == segments
    assert table.pinned == {segment.id for segment in segments if segment.pinned}
    assert [stored.segment for stored in state.pinned] == [part for part in segments if part.pinned]
    for segment in segments:
        assert table.named(segment.name) == segment


def test_stories_undo_and_grow_again() -> None:
    """The stories above are worth something: they shorten the session in every way."""
    ways = set()
    for seed in range(30):
        story, state = Story(seed), begun()
        for _ in range(20):
            before, taken = len(state.tokens), story.step()
            base = taken.n_tokens - len(taken.tokens)
            ways.add((base < before, bool(taken.tokens), taken.n_tokens > before))
            state.apply(taken)
    assert {(True, False, False), (True, True, False), (True, True, True), (False, True, True)} <= ways


def test_flags_are_in_the_table() -> None:
    segment = Segment(0, "a", "file", 0, 3, 0, pinned=True, isolated=True)
    state = begun(turn_record(segments=[StoredSegment(segment)]))
    assert list(state.segment_table()) == [segment]


# Undo


def test_an_undo_cuts_tokens_and_segments() -> None:
    state = begun(TWO)
    state.apply(record(4, 0, 2))
    assert list(state.tokens) == [100, 101, 102, 103]
    assert state.segments == [part(0, 0, 4), part(1, 4, 4)]


def test_an_undo_may_drop_the_empty_segment_at_its_end() -> None:
    state = begun(TWO)
    state.apply(record(4, 0, 1))
    assert state.segments == [part(0, 0, 4)]


def test_an_undo_in_the_midst_of_a_segment_shortens_it() -> None:
    state = begun(TWO)
    state.apply(record(6, 0, 3))
    assert state.segments == [part(0, 0, 4), part(1, 4, 4), part(2, 4, 6, 1)]
    state.apply(record(2, 0, 1, part(0, 0, 2, pinned=True)))
    assert state.segments == [part(0, 0, 2, pinned=True)]


def test_an_undo_to_nothing() -> None:
    state = begun(TWO, record(0, 0, 0))
    assert (list(state.tokens), state.segments) == ([], [])
    state.apply(TWO)
    assert facts_of(state) == facts_of(begun(TWO))


def test_a_name_is_free_again_after_an_undo() -> None:
    state = begun(TWO)
    state.apply(record(9, 5, 3, part(1, 4, 5, name="s2"), part(2, 5, 9, 1, name="s1")))
    assert [stored.segment.name for stored in state.segments] == ["s0", "s2", "s1"]
    state.apply(record(12, 3, 4, part(0, 0, 4, name="new"), part(3, 9, 12, 1, name="s0")))
    assert [stored.segment.name for stored in state.segments] == ["new", "s2", "s1", "s0"]


# What does not fit


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (record(14, 2, 4, part(3, 12, 14, 1)), "tokens 10 to 11 are missing before 2 new ones"),
        (record(12, 2, 3), "segments cover 10 of 12 tokens"),
        (record(12, 2, 4, part(3, 11, 12, 1)), "segment 's3' starts at 11 and the one before it ends at 10"),
        (record(12, 2, 4, part(3, 9, 12, 1)), "segment 's3' starts at 9 and the one before it ends at 10"),
        (record(12, 2, 5, part(4, 10, 12, 1)), "segment 3 of 5 is missing"),
        (record(12, 2, 4, part(3, 10, 12, 0)), "segment 's3' is of turn 0, behind one of 1"),
        (record(10, 0, 3, part(0, 0, 4, 2)), "segment 's1' is of turn 0, behind one of 2"),
        (record(10, 0, 3, part(0, 0, 3)), "segment 's1' starts at 4 and the one before it ends at 3"),
        (record(10, 0, 3, part(0, 1, 4)), "segment 's0' starts at 1 and the one before it ends at 0"),
        (record(10, 0, 3, part(2, 4, 9, 1)), "segments cover 9 of 10 tokens"),
        (record(10, 0, 2), "segments cover 4 of 10 tokens"),
        (record(4, 0, 3), "segment 2 of 3 is missing"),
        (record(6, 0, 2), "segments cover 4 of 6 tokens"),
        (record(0, 0, 0, n_turns=0), None),
        (record(12, 2, 4, part(3, 10, 12, 1, "s0")), "two segments are named 's0'"),
        (record(10, 0, 3, part(0, 0, 4, 0, "x"), part(1, 4, 4, 0, "x")), "two segments are named 'x'"),
        (record(10, 0, 3, plan=Plan([Step("a", ["s0", "s9"])])), "the plan reads 's9', which is no segment"),
        (record(4, 0, 2, plan=Plan([Step("a", ["s2"])])), "the plan reads 's2', which is no segment"),
        (
            record(10, 0, 3, part(0, 0, 4, 0, "x"), plan=Plan([Step("a", ["s0"])])),
            "the plan reads 's0', which is no segment",
        ),
    ],
)
def test_what_does_not_fit_changes_nothing(wrong: TurnRecord, said: str | None) -> None:
    state = begun(TWO)
    before, ids = copy.deepcopy(vars(state)), dict(state._ids)
    if said is None:
        state.check(wrong)
    else:
        for act in (state.check, state.apply):
            with pytest.raises(ValueError, match=re.escape(said)):
                act(wrong)
    assert vars(state) == before
    assert state._ids == ids


def test_a_plan_may_read_what_is_new_or_was_renamed() -> None:
    state = begun(TWO)
    plan = Plan([Step("a", ["x", "s3"])])
    state.apply(record(12, 2, 4, part(0, 0, 4, 0, "x"), part(3, 10, 12, 1), plan=plan))
    assert state.plan == plan


def test_the_header_comes_first_and_once() -> None:
    state = SessionState()
    with pytest.raises(ValueError, match="the header is missing"):
        state.take(TWO.as_document())
    assert state.take(HEADER.as_document()) == HEADER
    assert state.header == HEADER
    with pytest.raises(ValueError, match="it is a second header"):
        state.take(HEADER.as_document())
    assert state.take(TWO.as_document()) == TWO


# From a folder


def test_a_folder_is_read_without_changing_it(tmp_path: Path) -> None:
    held = store(tmp_path / "s", 8)
    before = {item: item.read_bytes() for item in (tmp_path / "s").iterdir()}
    state = state_of(tmp_path / "s")
    assert facts_of(state) == held[-1]
    assert (state.header, state.problem, state.torn) == (HEADER, None, False)
    assert {item: item.read_bytes() for item in (tmp_path / "s").iterdir()} == before


def test_a_torn_folder(tmp_path: Path) -> None:
    held = store(tmp_path / "s", 8)
    path = log_path(tmp_path / "s")
    path.write_bytes(path.read_bytes()[:-3])
    state = state_of(tmp_path / "s")
    assert facts_of(state) == held[-2]
    assert state.torn
    assert state.problem == f"{path}, line 9: it was never finished; it is left out"


def test_a_damaged_folder(tmp_path: Path) -> None:
    held = store(tmp_path / "s", 8)
    path = log_path(tmp_path / "s")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"role"', b'"rule"')
    path.write_bytes(b"".join(lines))
    state = state_of(tmp_path / "s")
    assert facts_of(state) == held[3]
    assert not state.torn
    assert state.problem == f"{path}, line 5: its checksum is wrong; it and what follows are left out"


def test_folders_without_a_session(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"is no session: it has no pace-session\.jsonl"):
        state_of(tmp_path)
    log_path(tmp_path).mkdir()
    with pytest.raises(StorageError, match=r"cannot read .*: Is a directory"):
        state_of(tmp_path)


# What it costs


def test_a_record_costs_the_same_however_long_the_session_is() -> None:
    """Counted in calls of functions and methods, since seconds depend on the machine."""
    state, calls = begun(), []
    for turn in range(10_000):
        end = 5 * (turn + 1)
        segments = (part(2 * turn, end - 5, end - 4, turn), part(2 * turn + 1, end - 4, end, turn))
        taken = record(end, 5, 2 * turn + 2, *segments, n_turns=turn + 1)
        calls.append(_calls(lambda taken=taken: state.apply(taken)) if turn % 2_500 == 1 else 0)
        if not calls[-1]:
            state.apply(taken)
    counted = [count for count in calls if count]
    assert len(counted) == 4
    assert max(counted) - min(counted) <= 2, counted
    assert (len(state.segments), len(state.tokens)) == (20_000, 50_000)


def _calls(act: Callable[[], object]) -> int:
    """How many functions and methods are called by one."""
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def test_nothing_is_held_at_first() -> None:
    assert facts_of(SessionState()) == Facts()
