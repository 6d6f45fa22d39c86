"""Clusters, means and typical members, against plain Python."""

from __future__ import annotations

import math
import threading
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pace_local.clusters import cluster_rows, mean_by_label, nearest_members


def random_rows(n: int, width: int = 16, seed: int = 0) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    return rows


def groups(n: int, size: int, noise: float, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows around ``n`` places that are far apart, shuffled, and which place each is from."""
    random = np.random.default_rng(seed)
    of = random.permutation(np.repeat(np.arange(n), size))
    places = 100.0 * np.eye(n, 16)
    return (places[of] + noise * random.normal(size=(n * size, 16))).astype(np.float32), of


# Clusters


@pytest.mark.parametrize("n_clusters", [1, 2, 7, 40])
@pytest.mark.parametrize(
    "rows",
    [
        random_rows(40),
        np.zeros((40, 16), dtype=np.float32),
        np.repeat(random_rows(4), 10, axis=0),
        np.concatenate([random_rows(1), np.full((39, 16), 3.0, dtype=np.float32)]),
        groups(5, 8, 1e-3)[0],
        groups(5, 8, 0.0)[0],
        random_rows(40) * np.float32(1e-20),
        random_rows(40) * np.float32(1e15),
    ],
    ids=["random", "zeros", "four, ten times", "one apart", "groups", "groups of equals", "tiny", "huge"],
)
def test_every_label_has_a_row(rows: NDArray[np.float32], n_clusters: int) -> None:
    """Fewer different rows than clusters left clusters empty, and a host without a cluster. No warning."""
    before = rows.copy()
    labels = cluster_rows(rows, n_clusters, 0)
    assert labels.shape == (40,)
    assert labels.dtype == np.int64
    assert sorted(set(labels.tolist())) == list(range(n_clusters))
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(cluster_rows(rows, n_clusters, 0), labels)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_label_has_a_row_of_any_rows(data: st.DataObject) -> None:
    """Also where nearly all are equal."""
    n = data.draw(st.integers(1, 30), "rows")
    n_clusters = data.draw(st.integers(1, n), "clusters")
    kinds = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n), "kind of each")
    rows = random_rows(4)[kinds]
    labels = cluster_rows(rows, n_clusters, data.draw(st.integers(0, 2**32 - 1), "seed"))
    assert sorted(set(labels.tolist())) == list(range(n_clusters))


def test_one_row() -> None:
    assert cluster_rows(random_rows(1), 1, 0).tolist() == [0]


def test_rows_that_lie_together_are_one_cluster() -> None:
    """Two clusters of two places far apart are those."""
    rows, of = groups(2, 20, noise=1.0)
    labels = cluster_rows(rows, 2, 0)
    assert labels.tolist() in (of.tolist(), (1 - of).tolist())


def test_clusters_are_tighter_than_chance() -> None:
    """A hundred rows in ten of twenty groups: what is in one cluster is nearly always of one group."""
    rows, of = groups(10, 10, noise=1.0)
    labels = cluster_rows(rows, 20, 0)
    pure = sum(np.bincount(of[labels == label]).max() for label in range(20))
    assert pure >= 60, f"{pure} of 100 rows are with their like"


def test_the_same_seed_gives_the_same_clusters() -> None:
    rows = random_rows(380, 64)
    labels = cluster_rows(rows, 190, 7)
    np.testing.assert_array_equal(cluster_rows(rows, 190, 7), labels)
    np.testing.assert_array_equal(cluster_rows(rows.copy(order="F"), 190, 7), labels)
    others = [cluster_rows(rows, 190, seed) for seed in (0, 1, 2**32 - 1)]
    assert not any(np.array_equal(other, labels) for other in others)


def test_the_seeds_of_others_stay_as_they_are() -> None:
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    cluster_rows(random_rows(40), 7, 0)
    assert np.random.random() == expected


def test_filters_of_warnings_stay_as_they_are() -> None:
    before = list(warnings.filters)
    cluster_rows(np.zeros((20, 4), dtype=np.float32), 7, 0)
    assert list(warnings.filters) == before


def test_in_another_thread() -> None:
    """A session is used from any one thread: the labels are those of the main one."""
    rows = random_rows(100)
    got: list[NDArray[np.int64]] = []
    worker = threading.Thread(target=lambda: got.append(cluster_rows(rows, 30, 5)))
    worker.start()
    worker.join()
    np.testing.assert_array_equal(got[0], cluster_rows(rows, 30, 5))


# Means and typical members


@st.composite
def labelled(draw: Any) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float64], int]:
    """Rows, labels that are all used, weights, and the number of labels."""
    n_clusters = draw(st.integers(1, 6))
    more = draw(st.lists(st.integers(0, n_clusters - 1), max_size=14))
    labels = np.array(draw(st.permutations([*range(n_clusters), *more])), dtype=np.int64)
    shape = (len(labels), draw(st.integers(1, 3)))
    numbers = st.floats(-1e3, 1e3, width=32)
    rows = draw(st.lists(numbers, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    weights = draw(st.lists(st.floats(1e-9, 1e6), min_size=shape[0], max_size=shape[0]))
    return np.array(rows, dtype=np.float32).reshape(shape), labels, np.array(weights), n_clusters


@settings(deadline=None)
@given(labelled())
def test_means_are_those_of_plain_sums(
    given: tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float64], int],
) -> None:
    rows, labels, weights, n_clusters = given
    means = mean_by_label(rows, labels, weights, n_clusters)
    assert means.shape == (n_clusters, rows.shape[1])
    assert means.dtype == np.float64
    for label in range(n_clusters):
        members = [rank for rank, own in enumerate(labels.tolist()) if own == label]
        whole = math.fsum(float(weights[rank]) for rank in members)
        for column in range(rows.shape[1]):
            total = math.fsum(float(weights[rank]) * float(rows[rank, column]) for rank in members)
            size = math.fsum(float(weights[rank]) * abs(float(rows[rank, column])) for rank in members)
            assert abs(means[label, column] - total / whole) <= 1e-12 * size / whole + 1e-300


@settings(deadline=None)
@given(labelled(), st.booleans())
def test_typical_members_are_the_nearest_and_the_earliest_of_equals(
    given: tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float64], int], coarse: bool
) -> None:
    rows, labels, weights, n_clusters = given
    if coarse:  # so that many are equally near
        rows = np.sign(rows)
    centers = (
        np.zeros((n_clusters, rows.shape[1])) if coarse else mean_by_label(rows, labels, weights, n_clusters)
    )
    typical = nearest_members(rows, labels, centers)
    assert typical.shape == (n_clusters,)
    for label in range(n_clusters):
        members = [rank for rank, own in enumerate(labels.tolist()) if own == label]
        away = {rank: math.dist(rows[rank].tolist(), centers[label].tolist()) for rank in members}
        chosen = int(typical[label])
        assert chosen in members
        assert away[chosen] <= min(away.values()) * (1 + 1e-9)
        if coarse:
            assert chosen == min(members, key=lambda rank: (round(away[rank], 6), rank))
