from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions_samples import HEADER, Story, turn_record

from pace_local.plan import Plan, Step
from pace_local.segments import KINDS, Segment
from pace_local.sessions import Header, StoredSegment, TurnRecord, encode_runs, record_of

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FREE = st.dictionaries(st.text(), PLAIN.filter(lambda value: "inf" not in repr(value)), max_size=3)
TOKEN = st.integers(0, 2**31 - 1)


@st.composite
def records(draw: st.DrawFn) -> TurnRecord:
    tokens = draw(st.lists(TOKEN, max_size=20))
    n_tokens = len(tokens) + draw(st.integers(0, 5))
    n_turns = draw(st.integers(1, 9))
    ids = sorted(draw(st.sets(st.integers(0, 30), max_size=5)))
    segments = []
    for id_ in ids:
        start, end = sorted(draw(st.tuples(st.integers(0, n_tokens), st.integers(0, n_tokens))))
        segment = Segment(
            id_,
            draw(st.text(min_size=1)),
            draw(st.sampled_from(KINDS)),  # type: ignore[arg-type]
            start,
            end,
            draw(st.integers(0, n_turns - 1)),
            draw(st.booleans()),
        )
        segments.append(StoredSegment(segment, draw(FREE)))
    index = sorted(draw(st.sets(st.integers(0, n_tokens - 1)))) if n_tokens else []
    n_segments = 31
    return TurnRecord(
        tokens=tokens,
        n_tokens=n_tokens,
        segments=segments,
        n_segments=n_segments,
        role=draw(st.none() | st.text()),
        prompt=draw(st.none() | st.integers(0, n_segments - 1)),
        pending=draw(st.lists(TOKEN, max_size=3)),
        n_turns=n_turns,
        plan=Plan(
            Step(text, reads, prompt)
            for text, reads, prompt in draw(
                st.lists(st.tuples(st.text(), st.lists(st.text()), st.none() | st.text()), max_size=3)
            )
        ),
        residents=encode_runs(index, range(len(index))),
        counters=draw(
            st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False))
        ),
        policy_state=draw(FREE),
        evictions=draw(st.sampled_from([(), (((0, 2), (5, 1)),), (((3, 1),), ())])),
        events=draw(st.lists(FREE, max_size=2)),
    )


@settings(deadline=None)
@given(records())
def test_records_come_back(record: TurnRecord) -> None:
    document = json.loads(json.dumps(record.as_document(), allow_nan=False))
    assert record_of(document) == record


def test_the_header_comes_back() -> None:
    assert record_of(json.loads(json.dumps(HEADER.as_document()))) == HEADER


def test_a_story_comes_back() -> None:
    story = Story(3)
    for _ in range(20):
        record = story.step()
        assert record_of(json.loads(json.dumps(record.as_document()))) == record


def test_every_field_is_stored() -> None:
    """A field that somebody adds must not be forgotten."""
    document = turn_record().as_document()
    assert {"type", *document} == {"type", *(field.name for field in dataclasses.fields(TurnRecord))}
    segment = StoredSegment(Segment(0, "a", "user", 0, 1, 0), {"x": 1}).as_document()
    assert set(segment) == {"extra", *(field.name for field in dataclasses.fields(Segment))}


def test_every_flag_of_a_segment_comes_back() -> None:
    flags = [field.name for field in dataclasses.fields(Segment) if field.default is False]
    assert "pinned" in flags
    for flag in flags:
        stored = StoredSegment(Segment(0, "a", "user", 0, 1, 0, **{flag: True}))
        assert StoredSegment.from_document(stored.as_document()) == stored
        document = {name: value for name, value in stored.as_document().items() if name != flag}
        assert getattr(StoredSegment.from_document(document).segment, flag) is False


def test_sequences_are_made_immutable() -> None:
    record = turn_record(pending=[5], residents=[(0, 0, 3)], evictions=[[(0, 1)]])
    assert (record.tokens, record.pending, record.residents) == ((0, 1, 2), (5,), ((0, 0, 3),))
    assert record.evictions == (((0, 1),),)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_name": ""}, "'model_name' is empty"),
        ({"model_fingerprint": "xyz"}, "'model_fingerprint' is 'xyz', not hexadecimal digits"),
        ({"model_fingerprint": ""}, "'model_fingerprint' is '', not hexadecimal digits"),
        ({"created": "yesterday"}, "'created' is 'yesterday', not a time such as"),
        ({"created": "2026-01-31T12:00:00"}, "'created' is '2026-01-31T12:00:00', not a time such as"),
        ({"build": {"patch": 5}}, "'build' is {'patch': 5}; its values must be strings"),
    ],
)
def test_a_header_that_is_wrong(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        dataclasses.replace(HEADER, **change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": None}, "None is no JSON object"),
        ({"model": {"name": "a"}}, "'path' is None; it must be of type str"),
        ({"config": []}, "'config' is []; it must be of type dict"),
        ({"format": -1}, "'format' is -1; it must be 0 or more"),
        ({"format": True}, "'format' is True; it must be of type int"),
        ({"created": 5}, "'created' is 5; it must be of type str"),
    ],
)
def test_a_header_document_that_is_wrong(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        Header.from_document({**HEADER.as_document(), **change})


def part(
    id_: int = 0, name: str = "a", kind: Any = "user", start: int = 0, end: int = 3, turn: int = 0
) -> Any:
    return StoredSegment(Segment(id_, name, kind, start, end, turn))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_tokens": 2}, "3 tokens are new in a session of 2"),
        ({"tokens": [-1, 0, 0]}, "token -1 is none"),
        ({"pending": [2**31]}, "token 2147483648 is none"),
        ({"prompt": 1}, "the prompt is segment 1 of 1"),
        ({"prompt": -1}, "the prompt is segment -1 of 1"),
        ({"n_segments": 0, "prompt": None}, "segment 0 comes after -1 of 0 segments"),
        ({"segments": [part(1), part(0)], "n_segments": 2}, "segment 0 comes after 1 of 2 segments"),
        ({"segments": [part(0), part(0)], "n_segments": 2}, "segment 0 comes after 0 of 2 segments"),
        ({"segments": [part(end=4)]}, "segment 'a' ends at 4 in a session of 3"),
        ({"segments": [part(turn=1)]}, "segment 'a' is of turn 1 of 1"),
        ({"segments": [part(turn=-1)]}, "segment 'a' is of turn -1 of 1"),
        ({"residents": [(0, 0, 4)]}, "token 3 is resident in a session of 3"),
        ({"residents": [(0, 2**31 - 2, 3)]}, "position 2147483648 is above 2147483647"),
        ({"residents": [(1, 0, 1), (0, 1, 1)]}, "token index 0 must be 2 or more"),
        ({"evictions": [[(4, 1), (3, 1)]]}, "token index 3 must be 5 or more"),
        ({"counters": {"seconds": float("nan")}}, "counters {'seconds': nan} are not all finite"),
    ],
)
def test_a_turn_that_is_wrong(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        turn_record(**change)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: part(kind="song"), "segment kind 'song' is not one of system, user"),
        (lambda: part(name=""), "segment 0 has no name"),
        (lambda: part(start=4), "segment 'a' runs from 4 to 3"),
    ],
)
def test_a_segment_that_is_wrong(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "song"}, "a record of type 'song' is not one of header, turn"),
        ({"type": None}, "'type' is None; it must be of type str"),
        ({"tokens": [1]}, "'tokens' is [1]; it must be of type str"),
        ({"tokens": "AQA="}, "have 2 bytes, which is no multiple of 4"),
        ({"n_tokens": 3.0}, "'n_tokens' is 3.0; it must be of type int"),
        ({"segments": {}}, "'segments' is {}; it must be of type list"),
        ({"segments": [5]}, "5 is no JSON object"),
        ({"role": 5}, "'role' is 5; it must be of type str"),
        ({"prompt": True}, "'prompt' is True; it must be of type int"),
        ({"pending": ["1"]}, "'pending' is ['1']; it must be a list of token ids"),
        ({"plan": [{"text": "a", "reads": [1]}]}, "'reads' is [1]; it must be a list of strings"),
        ({"plan": [{"reads": []}]}, "'text' is None; it must be of type str"),
        ({"residents": [[0, 0]]}, "'residents' holds [0, 0]; it must hold rows of 3 whole numbers"),
        ({"residents": [[0, 0, True]]}, "it must hold rows of 3 whole numbers"),
        ({"residents": [5]}, "'residents' holds 5"),
        ({"evictions": [5]}, "'evictions' holds 5; it must be a list"),
        ({"evictions": [[[1, 2, 3]]]}, "it must hold rows of 2 whole numbers"),
        ({"counters": {"a": "b"}}, "'a' of 'counters' is 'b'; it must be a finite number"),
        ({"counters": {"a": True}}, "'a' of 'counters' is True; it must be a finite number"),
        ({"policy_state": None}, "'policy_state' is None; it must be of type dict"),
        ({"events": ["x" * 99]}, f"'{'x' * 46}… is no JSON object"),
    ],
)
def test_a_turn_document_that_is_wrong(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        record_of({**turn_record().as_document(), **change})


def test_what_is_no_object() -> None:
    for document in (None, [], 5, "x"):
        with pytest.raises(ValueError, match="is no JSON object"):
            record_of(document)
