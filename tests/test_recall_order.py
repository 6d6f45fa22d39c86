"""The order in which blocks leave a tier."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local.recall.order import MOST_TRIES, REFRESHED, DropOrder


class Table:
    """What is known of blocks, and how often it was asked."""

    def __init__(self) -> None:
        self.steps: dict[int, float] = {}
        self.used: dict[int, int] = {}
        self.asked = 0
        self.shift = 0.0
        """Steps that all blocks are further away."""
        self.order = DropOrder(self.next_use, lambda block: self.used.get(block, 0))

    def next_use(self, block: int) -> float:
        self.asked += 1
        return self.steps.get(block, math.inf) + self.shift

    def picks(self) -> list[int]:
        picked = []
        while (block := self.order.pick()) is not None:
            picked.append(block)
        return picked


@settings(deadline=None)
@given(
    steps=st.dictionaries(st.integers(0, 9), st.floats(0, 5) | st.just(math.inf), max_size=REFRESHED),
    later=st.dictionaries(st.integers(0, 9), st.floats(0, 5) | st.just(math.inf)),
    used=st.dictionaries(st.integers(0, 9), st.integers(0, 3)),
    gone=st.sets(st.integers(0, 9)),
)
def test_the_order_of_a_few_is_exact_whatever_changed_since(
    steps: dict[int, float], later: dict[int, float], used: dict[int, int], gone: set[int]
) -> None:
    table = Table()
    table.steps.update(steps)
    for block in steps:
        table.order.add(block)
    for block in gone:
        table.order.discard(block)
    table.steps.update(later)
    table.used.update(used)
    left = set(steps) - gone
    assert len(table.order) == len(left)
    assert {block for block in range(10) if block in table.order} == left
    expected = sorted(left, key=lambda block: (-table.steps[block], used.get(block, 0), block))
    assert table.picks() == expected
    assert table.order.pick() is None


def test_without_a_change_the_order_of_many_is_exact() -> None:
    table = Table()
    for block in range(1_000):
        table.steps[block] = float(block * 7 % 100)
        table.order.add(block)
    assert table.picks() == sorted(range(1_000), key=lambda block: (-table.steps[block], block))


def test_what_is_needed_later_than_it_was_is_noticed_within_a_round() -> None:
    table = Table()
    for block in range(200):
        table.steps[block] = 1.0
        table.order.add(block)
    table.steps[150] = math.inf
    picks = [table.order.pick() for _ in range(200 // REFRESHED + 1)]
    assert 150 in picks


def test_what_is_needed_sooner_than_it_was_is_not_taken_first() -> None:
    table = Table()
    for block in range(20):
        table.steps[block] = math.inf
        table.order.add(block)
    table.steps.update(dict.fromkeys(range(15), 0.0))
    assert [table.order.pick() for _ in range(5)] == [15, 16, 17, 18, 19]


def test_a_pick_asks_a_bounded_number_of_times_and_old_keys_do_not_pile_up() -> None:
    table = Table()
    for block in range(10_000):
        table.steps[block] = 1_000.0
        table.order.add(block)
    for _ in range(50):
        table.shift -= 1.0  # a step is done: all are needed sooner
        table.asked = 0
        block = table.order.pick()
        assert table.asked <= REFRESHED + MOST_TRIES
        assert block is not None
        table.order.add(block)
    assert len(table.order) == 10_000
    for _ in range(3):
        for block in range(10_000):
            table.used[block] = table.used.get(block, 0) + 1
            table.order.add(block)
    assert len(table.order._heap) <= 2 * 10_000 + 65


def test_a_next_use_that_is_no_number_is_unknown() -> None:
    table = Table()
    table.steps.update({0: math.nan, 1: 5.0, 2: math.inf})
    for block in range(3):
        table.order.add(block)
    assert table.picks() == [0, 2, 1]


@pytest.mark.parametrize("count", [0, 1])
def test_discarding_what_is_not_there_does_nothing(count: int) -> None:
    table = Table()
    for block in range(count):
        table.order.add(block)
    table.order.discard(7)
    assert len(table.order) == count
