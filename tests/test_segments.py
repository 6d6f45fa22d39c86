"""The table of segments."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local import Segment
from pace_local.errors import ConfigError, PlanError
from pace_local.segments import CONTENT_KINDS, KINDS, ROLE_OF_KIND, Kind, SegmentTable


def table_of(*lengths: int, kind: Kind = "file") -> SegmentTable:
    table = SegmentTable()
    for turn, length in enumerate(lengths):
        start = table[len(table) - 1].end if len(table) else 0
        table.add(None, kind, start, start + length, turn)
    return table


def test_kinds() -> None:
    assert get_args(Kind) == KINDS
    assert set(CONTENT_KINDS) == set(KINDS) - {"framing"}
    assert set(ROLE_OF_KIND) < set(CONTENT_KINDS)
    with pytest.raises(ConfigError, match="segment kind 'picture' is not one of system, user"):
        SegmentTable().add("x", "picture", 0, 1, 0)  # type: ignore[arg-type]


def test_segments_touch_and_cover_every_token() -> None:
    table = table_of(3, 0, 4)
    assert [(len(segment), segment.start, segment.end) for segment in table] == [
        (3, 0, 3),
        (0, 3, 3),
        (4, 3, 7),
    ]
    with pytest.raises(AssertionError):
        table.add("gap", "file", 8, 9, 3)


def test_a_segment_knows_its_length_and_cannot_be_changed() -> None:
    segment = Segment(0, "a", "file", 5, 9, 0)
    assert len(segment) == 4
    with pytest.raises(AttributeError):
        segment.end = 10  # type: ignore[misc]


def test_the_last_one_grows() -> None:
    table = table_of(3, 2)
    table.extend(1, 9)
    assert len(table[1]) == 6
    assert table.named("file:1").end == 9
    with pytest.raises(AssertionError):
        table.extend(0, 4)


@settings(deadline=None)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_which_segment_holds_a_token(lengths: list[int]) -> None:
    table = table_of(*lengths)
    for index in range(sum(lengths)):
        segment = table.at(index)
        assert segment.start <= index < segment.end


def test_names_are_unique() -> None:
    table = SegmentTable()
    asked = ["a", "a", "b", "a", "a#2", "a", None, None]
    names = [table.add(name, "user", i, i + 1, 7).name for i, name in enumerate(asked)]
    assert names == ["a", "a#2", "b", "a#3", "a#2#2", "a#4", "user:7", "user:7#2"]
    assert all(table.named(name).start == start for start, name in enumerate(names))
    assert "a#4" in table
    assert "a#5" not in table
    assert 3 not in table


def test_many_of_one_name_take_no_longer_each() -> None:
    """The number is remembered, not searched from the start: so many lookups for so many segments."""
    table = SegmentTable()

    class Counting(dict[str, int]):
        lookups = 0

        def __contains__(self, key: object) -> bool:
            Counting.lookups += 1
            return super().__contains__(key)

    table._by_name = Counting()
    for i in range(2000):
        table.add("chunk", "file", i, i + 1, 0)
    assert Counting.lookups < 3 * 2000


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("spec:ordesr", "no segment is named 'spec:ordesr'; did you mean 'spec:orders' or 'spec:rates'?"),
        ("spec", "no segment is named 'spec'; did you mean 'spec:rates' or 'spec:orders'?"),
        ("zzz", "no segment is named 'zzz'"),
    ],
)
def test_an_unknown_name_shows_close_ones(name: str, says: str) -> None:
    table = SegmentTable()
    for start, known in enumerate(("spec:orders", "spec:rates", "notes")):
        table.add(known, "file", start, start + 1, 0)
    with pytest.raises(PlanError) as raised:
        table.named(name)
    assert str(raised.value) == says


def test_pins() -> None:
    table = table_of(1, 1, 1)
    assert table.pinned == frozenset()
    table.set_pinned(1, True)
    table.set_pinned(1, True)
    pinned = table.add("rules", "system", 3, 4, 3, pinned=True)
    assert table.pinned == {1, pinned.id}
    assert table[1].pinned
    table.set_pinned(1, False)
    assert table.pinned == {pinned.id}
    table.truncate(3)
    assert table.pinned == frozenset()


def test_forgetting_the_last_ones() -> None:
    table = SegmentTable()
    for i in range(4):
        table.add("a", "file", i, i + 1, i)
    table.truncate(2)
    assert [segment.name for segment in table] == ["a", "a#2"]
    assert "a#3" not in table
    assert table.at(1).name == "a#2"
    assert table.add("a", "file", 2, 3, 2).name == "a#3"
    table.truncate(0)
    assert len(table) == 0
    assert table.add("a", "file", 0, 1, 0).name == "a"


def test_the_segments_of_a_turn() -> None:
    table = SegmentTable()
    runs: list[tuple[Any, int]] = [("framing", 0), ("user", 0), ("framing", 0), ("framing", 1), ("answer", 1)]
    for start, (kind, turn) in enumerate(runs):
        table.add(None, kind, start, start + 1, turn)
    for segment in table:
        assert [part.id for part in table.of_turn(segment)] == ([0, 1, 2] if segment.turn == 0 else [3, 4])
