"""The pool against a sort, and what its operations cost."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local.policies.heap_pool import HeapPool


class Counted(float):
    """A score that counts how often scores are compared."""

    comparisons = 0
    __hash__ = float.__hash__

    def __lt__(self, other: object) -> bool:
        Counted.comparisons += 1
        return float.__lt__(self, other)  # type: ignore[operator]

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return float.__eq__(self, other)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 6)), st.integers(0, 12))
def test_equals_a_sort(scores: list[int], capacity: int) -> None:
    """Of equal scores the newer stays; what each push displaces is what a sort would."""
    pool, best = HeapPool(capacity), []
    for index, score in enumerate(scores):
        ranked = sorted([*best, (score, index)], reverse=True)
        best, lost = ranked[:capacity], ranked[capacity:]
        assert pool.push(index, score) == (lost[0][1] if lost else None)
        assert pool.scores == {index: score for score, index in best}
        assert len(pool) == len(best)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_order_of_operations(data: st.DataObject) -> None:
    """Pushed again, removed, resized: always the best of what was not removed or lost."""
    capacity = data.draw(st.integers(0, 6))
    pool, held = HeapPool(capacity), dict[int, float]()
    for _ in range(data.draw(st.integers(1, 40))):
        what = data.draw(st.sampled_from(["push", "push", "push", "remove", "resize"]))
        lost = []
        if what == "push":
            index, score = data.draw(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.5, 2.0])))
            held[index] = score
            lost = sorted(held, key=lambda i: (held[i], i))[: max(0, len(held) - capacity)]
            assert pool.push(index, score) == (lost[0] if lost else None)
        elif what == "remove":
            gone = data.draw(st.lists(st.integers(0, 9), max_size=4))
            pool.remove(gone)
            held = {index: score for index, score in held.items() if index not in gone}
        else:
            capacity = data.draw(st.integers(0, 6))
            pool.resize(capacity)
            lost = sorted(held, key=lambda i: (held[i], i))[: max(0, len(held) - capacity)]
        for index in lost:
            del held[index]
        assert pool.scores == held
        assert all((index in pool) == (index in held) for index in range(10))


PER_PUSH = 5
"""Comparisons of scores per push and level of the heap. Replacing the top sifts down and up again: two
pairs a level, each compared for equality and for order. One more for the look at the top."""


@pytest.mark.parametrize("order", ["rising", "falling", "random"])
@pytest.mark.parametrize("size", [16, 128, 1024])
def test_a_push_costs_the_logarithm_of_the_size(order: str, size: int) -> None:
    scores = list(range(6 * size))
    if order == "random":
        random.Random(0).shuffle(scores)
    elif order == "falling":
        scores.reverse()
    pool = HeapPool(size)
    most = 0
    for index, score in enumerate(scores):
        Counted.comparisons = 0
        before = pool.operations
        pool.push(index, Counted(score))
        assert pool.operations - before <= 1
        most = max(most, Counted.comparisons)
    assert 0 < most <= PER_PUSH * math.log2(size)


@pytest.mark.parametrize("size", [16, 128, 1024])
def test_removals_cost_the_logarithm_of_the_size_too(size: int) -> None:
    """Dead entries are paid for by the pushes that brought them: on average the bound holds."""
    dice = random.Random(1)
    pool = HeapPool(size)
    Counted.comparisons = 0
    n = 20 * size
    for index in range(n):
        pool.push(index, Counted(dice.random()))
        if index % 3 == 0 and len(pool):
            pool.remove([dice.choice(list(pool.scores))])
    assert Counted.comparisons <= PER_PUSH * n * math.log2(size)
    assert pool.operations <= 2 * n


def test_dead_entries_do_not_pile_up() -> None:
    """A pool that is emptied over and over holds no more than twice its size."""
    pool = HeapPool(8)
    for index in range(10_000):
        pool.push(index, index % 7)
        pool.remove([index])
    assert len(pool) == 0
    assert len(pool._heap) <= 16


def test_scores_can_be_read_but_not_written() -> None:
    pool = HeapPool(2)
    pool.push(3, 1.5)
    with pytest.raises(TypeError):
        pool.scores[3] = 2.0  # type: ignore[index]
    assert pool.scores == {3: 1.5}
