"""The resident map against a plain list."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local.policies import Attention
from pace_local.residents import ResidentMap
from pace_local.segments import KINDS

CAPACITY = 64
Row = tuple[int, int, int, int, bool, int, bool, float]


def rows_of(residents: ResidentMap, length: int) -> list[Row]:
    view = residents.view(length, 1)
    assert np.array_equal(view.position, residents.position)
    return list(
        zip(
            view.token_index.tolist(),
            view.position.tolist(),
            view.segment.tolist(),
            view.turn.tolist(),
            view.framing.tolist(),
            view.kind.tolist(),
            view.entity.tolist(),
            np.nan_to_num(residents.prompt_mass, nan=-1.0).tolist(),
            strict=True,
        )
    )


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_any_order_of_operations(data: st.DataObject) -> None:
    residents, length = ResidentMap(CAPACITY), 0
    rows: list[Row] = []
    for _ in range(data.draw(st.integers(1, 15))):
        what = data.draw(st.sampled_from(["append", "keep", "renumber", "truncate", "mark"]))
        if what == "append":
            count = data.draw(st.integers(1, max(1, min(20, CAPACITY - len(rows)))))
            if len(rows) + count > CAPACITY:
                continue
            segment, turn = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
            framing, kind = data.draw(st.booleans()), data.draw(st.integers(0, len(KINDS) - 1))
            position = rows[-1][1] + 1 if rows else 0
            residents.append(count, length, segment=segment, turn=turn, framing=framing, kind=kind)
            # a new token is no name yet, and was not resident when the last prompt ended
            rows += [
                (length + i, position + i, segment, turn, framing, kind, False, -1.0) for i in range(count)
            ]
            length += count
        elif what == "keep":
            ranks = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1)))) if rows else []
            residents.keep(np.array(ranks, dtype=np.uint32))
            rows = [rows[rank] for rank in ranks]
        elif what == "renumber":
            residents.renumber()
            rows = [(row[0], position, *row[2:]) for position, row in enumerate(rows)]
        elif what == "mark":
            marks = data.draw(st.integers(0, 2 ** len(rows) - 1))
            entities = [bool(marks >> rank & 1) for rank in range(len(rows))]
            residents.entity[:] = entities
            residents.prompt_mass[:] = np.arange(len(rows)) / 2
            rows = [(*row[:6], entities[rank], rank / 2) for rank, row in enumerate(rows)]
        else:
            count = data.draw(st.integers(0, len(rows)))
            residents.truncate(count)
            rows = rows[:count]
        assert rows_of(residents, length) == rows
        assert len(residents) == len(rows)
        assert residents.next_position == (rows[-1][1] + 1 if rows else 0)
        for index in (0, length // 2, length):
            assert residents.rank_of_index(index) == sum(row[0] < index for row in rows)


def test_empty() -> None:
    residents = ResidentMap(4)
    assert (len(residents), residents.next_position, residents.rank_of_index(7)) == (0, 0, 0)
    assert rows_of(residents, 0) == []
    residents.renumber()
    residents.keep(np.array([], dtype=np.uint32))
    assert len(residents.view(9, 5)) == 0
    assert residents.view(9, 5).session_length == 9


def test_a_view_says_what_it_was_told() -> None:
    residents = ResidentMap(4)
    residents.append(3, 0, segment=1, turn=0, framing=False, kind=KINDS.index("user"))
    attention = Attention(np.ones(3), np.zeros(3), np.full(3, np.nan))
    view = residents.view(7, 2, first_user=1, attention=attention)
    assert (view.session_length, view.target, view.first_user) == (7, 2, 1)
    assert view.attention is attention
    plain = residents.view(7, 2)
    assert plain.first_user is None
    assert plain.attention is None


def test_indices_beyond_32_bits() -> None:
    residents = ResidentMap(4)
    residents.append(2, 2**40, segment=0, turn=0, framing=False, kind=0)
    assert residents.token_index.tolist() == [2**40, 2**40 + 1]
    assert residents.rank_of_index(2**40 + 1) == 1
