"""H2O, SnapKV and streaming keep what slow references keep that were written from the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import policy_references
import pytest
from cache_views import make_view
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local.memory import plan_keep
from pace_local.policies import Attention, CacheView, Policy, policy_named

each_case = settings(deadline=None, max_examples=200)


@dataclass(frozen=True)
class Text:
    """Residents of a plain text, and attention over them in sixteenths: sums are exact, ties common."""

    index: tuple[int, ...]
    rows: tuple[tuple[float, ...], ...]
    after: int
    target: int

    def view(self) -> CacheView:
        n = len(self.index)
        total = policy_references.sums(self.rows, n)
        seen = np.array(total[: n - self.after] + [np.nan] * self.after)
        attention = Attention(np.array(total, dtype=np.float64), np.zeros(n), seen)
        return make_view(self.index, target=self.target, attention=attention)


@st.composite
def texts(draw: st.DrawFn, first: int | None = None) -> Text:
    length = draw(st.integers(2, 40))
    gone = draw(st.integers(0, 2**length - 1)) & draw(st.integers(0, 2**length - 1))
    start = draw(st.integers(0, 50)) if first is None else first
    index = [start + i for i in range(length) if not gone >> i & 1] or [start]
    n = len(index)
    after = draw(st.integers(0, n // 2))
    n_rows = draw(st.integers(1, 5))
    weights = draw(st.integers(0, 16 ** (n * n_rows) - 1))
    rows = tuple(
        tuple((weights >> 4 * (row * n + rank) & 15) / 16 for rank in range(n)) for row in range(n_rows)
    )
    return Text(tuple(index), rows, after, draw(st.integers(1, n)))


def kept(policy: Policy, view: CacheView) -> list[int]:
    return [int(rank) for rank in plan_keep(view, policy, recent=0).keep]


@each_case
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 8))
def test_streaming(n: int, target: int, sinks: int) -> None:
    sinks = min(sinks, target - 1)
    policy = policy_named("streaming", {"sinks": sinks})
    assert kept(policy, make_view(range(n), target=target)) == policy_references.streaming(n, sinks, target)


@each_case
@given(texts(), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
def test_h2o(text: Text, recent_share: float) -> None:
    policy = policy_named("h2o", {"recent_share": recent_share})
    recent = int(text.target * recent_share)
    expected = policy_references.h2o(text.rows, len(text.index), text.target, recent)
    assert kept(policy, text.view()) == expected


@each_case
@given(texts(), st.sampled_from([1, 3, 5, 7]), st.sampled_from(["max", "mean"]))
def test_snapkv(text: Text, kernel: int, pooling: str) -> None:
    """The observation window is as long as there are rows, as far as so many of the prompt are resident."""
    rows: Sequence[Sequence[float]] = text.rows
    prompt = len(text.index) - text.after
    window = min(len(rows), prompt)
    rows = [list(row) for row in rows]
    if window < len(rows):  # one row for each token of the window, with the same sums
        rows = [policy_references.sums(rows, len(text.index)), *[[0.0] * len(text.index)] * (window - 1)]
    policy = policy_named("snapkv", {"window": len(text.rows), "kernel": kernel, "pooling": pooling})
    expected = policy_references.snapkv(
        rows, text.index, after=text.after, budget=text.target, kernel=kernel, pooling=pooling
    )
    assert kept(policy, text.view()) == expected


# By hand


def snapkv_scores(mass: list[float], index: list[int], **parameters: object) -> list[float]:
    n = len(mass)
    attention = Attention(np.zeros(n), np.zeros(n), np.array(mass))
    view = make_view(index, target=n, attention=attention)
    return policy_named("snapkv", parameters).score(view).tolist()


def test_snapkv_pools_over_neighbours_but_not_over_gaps() -> None:
    mass = [0.0, 0.0, 8.0, 0.0, 0.0, 4.0, 1.0, 1.0]
    whole = [10, 11, 12, 13, 14, 15, 16, 17]
    assert snapkv_scores(mass, whole, kernel=3, window=2) == [0, 1, 1, 1, 0.5, 0.5, 2, 3]
    cut = [10, 11, 12, 23, 24, 25, 26, 27]
    assert snapkv_scores(mass, cut, kernel=3, window=2) == [0, 1, 1, 0, 0.5, 0.5, 2, 3]
    mean = snapkv_scores(mass, whole, kernel=3, window=2, pooling="mean")
    greatest = 8 / 3
    expected = [0, 8 / 3, 8 / 3, 8 / 3, 4 / 3, 4 / 2]
    assert mean == pytest.approx([each / greatest for each in expected] + [2, 3])


def test_snapkv_takes_what_is_newer_first_and_all_of_it_before_any_prompt() -> None:
    nan = float("nan")
    assert snapkv_scores([4.0, 2.0, 1.0, nan, nan], [0, 1, 2, 3, 4], kernel=1, window=1) == [1, 0.5, 2, 3, 4]
    assert snapkv_scores([nan] * 3, [5, 6, 9]) == [1, 2, 3]
    assert snapkv_scores([1.0, 2.0], [5, 6], window=8) == [1, 2]
    assert snapkv_scores([], []) == []


def test_h2o_freezes_on_early_tokens_and_says_by_how_much() -> None:
    """As the paper has it: what was attended to over a long time is not overtaken by what is new."""
    attention = Attention(np.array([90.0, 45.0, 9.0, 3.0, 2.0, 1.0]), np.zeros(6), np.zeros(6))
    view = make_view(range(6), target=4, attention=attention)
    policy = policy_named("h2o")
    assert policy.score(view).tolist() == pytest.approx([1, 0.5, 0.1, 3 / 90, 2, 3])
    assert kept(policy, view) == [0, 1, 4, 5]


def test_streaming_is_sinks_and_a_window() -> None:
    plan = plan_keep(make_view(range(20), target=10), policy_named("streaming"), recent=2)
    assert plan.keep.tolist() == [0, 1, 2, 3, 14, 15, 16, 17, 18, 19]
