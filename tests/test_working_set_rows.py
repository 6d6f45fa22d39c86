"""What the map knows of tokens that leave and come back, against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local.residents import CHANGED, NO_PIECE, NO_STAY, ResidentMap, Rows

CAPACITY = 48
Facts = tuple[int, int, bool, int, bool, int]
"""Segment, turn, framing, kind, entity, piece of a token."""


def facts_of(index: int, salt: int) -> Facts:
    """Something that no two tokens have in common."""
    return (index * 7 + salt, index // 3, bool(index & 1), index % 9, bool(index >> 1 & 1), index * 11 + salt)


def rows_of(indices: list[int], stays: list[int], salt: int) -> Rows:
    columns = [list(column) for column in zip(*(facts_of(i, salt) for i in indices), strict=True)] or [[]] * 6
    types: tuple[Any, ...] = (np.int32, np.int32, np.bool_, np.int8, np.bool_, np.int64)
    arrays = [np.array(column, dtype=kind) for column, kind in zip(columns, types, strict=True)]
    return Rows(*(np.array(indices, dtype=np.int64), *arrays, np.array(stays, dtype=np.int64)))


class Model:
    """Token index -> position, facts and stay."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[int, Facts, int]] = {}
        self.next_stay = 0

    @property
    def indices(self) -> list[int]:
        return sorted(self.held)

    def compare(self, residents: ResidentMap) -> None:
        indices = self.indices
        assert len(residents) == len(indices)
        assert residents.token_index.tolist() == indices
        assert residents.position.tolist() == [self.held[i][0] for i in indices]
        rows = residents.rows(np.arange(len(residents)))
        assert len(rows) == len(indices)
        columns = (rows.segment, rows.turn, rows.framing, rows.kind, rows.entity, rows.piece)
        found = list(zip(*(column.tolist() for column in columns), strict=True))
        assert found == [self.held[i][1] for i in indices]
        assert rows.stay.tolist() == [self.held[i][2] for i in indices]
        assert residents.stay.tolist() == rows.stay.tolist()
        assert residents.piece.tolist() == rows.piece.tolist()
        assert len(set(rows.stay.tolist())) == len(indices), "no stay is given twice"

    def insert(self, residents: ResidentMap, indices: list[int], stays: list[int], salt: int) -> None:
        """Into a compact order around what is there, as a session makes room for what comes back."""
        order = sorted({*self.held, *indices})
        place = {index: position for position, index in enumerate(order)}
        residents.place(np.array([place[i] for i in self.indices], dtype=np.int32))
        self.held = {i: (place[i], facts, stay) for i, (_, facts, stay) in self.held.items()}
        positions = np.array([place[i] for i in indices], dtype=np.int32)
        residents.insert(rows_of(indices, stays, salt), positions)
        for index, stay in zip(indices, stays, strict=True):
            given_stay = stay
            if stay == NO_STAY:
                given_stay, self.next_stay = self.next_stay, self.next_stay + 1
            self.held[index] = (place[index], facts_of(index, salt), given_stay)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_any_order_of_operations(data: st.DataObject) -> None:
    residents, model, length = ResidentMap(CAPACITY), Model(), 0
    aside: list[tuple[Rows, dict[int, tuple[int, Facts, int]]]] = []
    for _ in range(data.draw(st.integers(1, 14))):
        what = data.draw(st.sampled_from(["append", "keep", "insert", "aside", "back", "place", "change"]))
        n, room = len(residents), CAPACITY - len(residents)
        if what == "append" and room:
            count = data.draw(st.integers(1, min(room, 9)))
            position = residents.next_position
            residents.append(count, length, segment=3, turn=2, framing=False, kind=1)
            for i in range(count):
                facts = (3, 2, False, 1, False, NO_PIECE)
                model.held[length + i] = (position + i, facts, model.next_stay)
                model.next_stay += 1
            length += count
        elif what == "keep":
            ranks = sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else []
            indices = model.indices
            residents.keep(np.array(ranks, dtype=np.uint32))
            model.held = {indices[rank]: model.held[indices[rank]] for rank in ranks}
        elif what == "insert" and room:
            free = [i for i in range(length) if i not in model.held]
            indices = sorted(data.draw(st.sets(st.sampled_from(free), max_size=room))) if free else []
            model.insert(residents, indices, [NO_STAY] * len(indices), salt=n)
        elif what == "aside" and n:
            first = data.draw(st.integers(0, n))
            rows = residents.rows(np.arange(first, n))
            kept = {i: model.held.pop(i) for i in model.indices[first:]}
            residents.truncate(first)
            aside.append((rows, kept))
        elif what == "back" and aside:
            rows, kept = aside.pop()
            back = np.array(
                [rank for rank, i in enumerate(rows.token_index.tolist()) if i not in model.held],
                dtype=np.int64,
            )[:room]
            part = rows.take(back)
            indices = part.token_index.tolist()
            order = sorted({*model.held, *indices})
            place = {index: position for position, index in enumerate(order)}
            residents.place(np.array([place[i] for i in model.indices], dtype=np.int32))
            residents.insert(part, np.array([place[i] for i in indices], dtype=np.int32))
            model.held.update({i: kept[i] for i in indices})
            model.held = {i: (place[i], facts, stay) for i, (_, facts, stay) in model.held.items()}
        elif what == "place" and n:
            steps = data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
            positions = np.cumsum(steps).astype(np.int32)
            residents.place(positions)
            for index, position in zip(model.indices, positions.tolist(), strict=True):
                model.held[index] = (position, *model.held[index][1:])
        elif what == "change":
            residents.change()
            for index in model.indices:
                position, facts, _ = model.held[index]
                model.held[index] = (position, (*facts[:5], CHANGED), model.next_stay)
                model.next_stay += 1
        model.compare(residents)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 99), unique=True, max_size=20).map(sorted), st.data())
def test_some_of_some_rows(indices: list[int], data: st.DataObject) -> None:
    rows = rows_of(indices, list(range(len(indices))), salt=5)
    ranks = sorted(data.draw(st.sets(st.integers(0, len(indices) - 1)))) if indices else []
    part = rows.take(np.array(ranks, dtype=np.int64))
    assert len(part) == len(ranks)
    expected = rows_of([indices[rank] for rank in ranks], ranks, salt=5)
    for name, column in vars(part).items():
        assert column.tolist() == getattr(expected, name).tolist(), name
        assert column.dtype == getattr(rows, name).dtype, name


def test_a_copy_does_not_change_with_the_map() -> None:
    residents = ResidentMap(8)
    residents.append(4, 0, segment=1, turn=0, framing=False, kind=0)
    rows = residents.rows(np.arange(4))
    residents.keep(np.array([1, 3], dtype=np.uint32))
    residents.piece[:] = 9
    assert rows.token_index.tolist() == [0, 1, 2, 3]
    assert rows.piece.tolist() == [NO_PIECE] * 4


def test_what_comes_back_was_not_seen_by_the_last_prompt() -> None:
    residents = ResidentMap(8)
    residents.append(4, 0, segment=1, turn=0, framing=False, kind=0)
    residents.prompt_mass[:] = [1.0, 2.0, 3.0, 4.0]
    rows = residents.rows(np.array([1]))
    residents.keep(np.array([0, 2, 3], dtype=np.uint32))
    residents.insert(rows, np.array([1], dtype=np.int32))
    assert residents.token_index.tolist() == [0, 1, 2, 3]
    assert np.isnan(residents.prompt_mass[1])
    assert residents.prompt_mass[[0, 2, 3]].tolist() == [1.0, 3.0, 4.0]
