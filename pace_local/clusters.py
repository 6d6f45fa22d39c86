"""Clusters of keys: which residents are alike enough to be one entry."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]

_ITERATIONS = 6


def cluster_rows(rows: Rows, n_clusters: int, seed: int) -> npt.NDArray[np.int64]:
    """Labels 0 … ``n_clusters`` − 1 of rows, shape [n]; every label has a row. The same for the same seed.

    Args:
        rows: shape [n, width], n at least ``n_clusters``.
        n_clusters: at least 1.
        seed: of scikit-learn's MiniBatchKMeans.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # fewer distinct rows than clusters: the labels that are missing are given out below
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = MiniBatchKMeans(
            n_clusters,
            random_state=seed,
            init="random",
            n_init=1,
            max_iter=_ITERATIONS,
            batch_size=max(1024, len(rows)),
            reassignment_ratio=0.0,
        ).fit(rows)
    return _every_label(rows, means.labels_.astype(np.int64), means.cluster_centers_)


def _every_label(
    rows: Rows, labels: npt.NDArray[np.int64], centers: npt.NDArray[np.floating]
) -> npt.NDArray[np.int64]:
    """Give each label without rows the row farthest from its center, out of the largest cluster."""
    counts = np.bincount(labels, minlength=len(centers))
    distance = np.linalg.norm(rows - centers[labels], axis=1)
    for label in np.flatnonzero(counts == 0):
        largest = int(counts.argmax())
        members = np.flatnonzero(labels == largest)
        row = members[int(distance[members].argmax())]
        labels[row] = label
        distance[row] = 0.0
        counts[largest] -= 1
        counts[label] = 1
    return labels


def mean_by_label(
    rows: Rows, labels: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], n_clusters: int
) -> npt.NDArray[np.float64]:
    """Weighted mean of the rows of each label, shape [n_clusters, width]; each label must have a row."""
    order = np.argsort(labels, kind="stable")
    first = np.flatnonzero(np.diff(labels[order], prepend=-1))
    total = np.add.reduceat(rows[order] * weights[order, None], first, axis=0)
    return np.asarray(total / np.bincount(labels, weights, minlength=n_clusters)[:, None])


def nearest_members(
    rows: Rows, labels: npt.NDArray[np.int64], centers: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """The row of each label that is nearest to its center, shape [n_clusters]; ties go to the earlier."""
    distance = np.linalg.norm(rows - centers[labels], axis=1)
    order = np.lexsort((np.arange(len(rows)), distance, labels))
    first = np.flatnonzero(np.diff(labels[order], prepend=-1))
    return np.asarray(order[first])
