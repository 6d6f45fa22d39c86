"""Merges residents that are about to be evicted into others that stay, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pace_local._native import NativeCache
from pace_local.clusters import cluster_rows, mean_by_label, nearest_members
from pace_local.memory import KeepPlan, Reason
from pace_local.policies.base import CacheView, Merging
from pace_local.policies.ranking import newest

Indices = npt.NDArray[np.int64]

_LEAST_WEIGHT = 1e-9
"""Weight of a value that no query has read, so that a cluster of such has a mean."""


class MergedEntries:
    """Which tokens each merged entry of each layer stands for.

    It takes eight bytes for each merged token and layer, for as long as the entry is resident. They lie in
    runs, each more than twice as long as the next shorter one, so that joining entries does not take longer
    and longer as the session grows.
    """

    def __init__(self) -> None:
        self._members: dict[tuple[int, int], list[Indices]] = {}
        self._counts: dict[tuple[int, int], int] = {}

    def members(self, layer: int, token_index: int) -> Indices:
        """Indices of the tokens that a resident stands for in a layer, increasing; its own if not merged."""
        return _union(self._runs(layer, token_index))

    def _runs(self, layer: int, token_index: int) -> list[Indices]:
        runs = self._members.get((layer, token_index))
        return [np.array([token_index], dtype=np.int64)] if runs is None else runs

    def count(self, layer: int, token_index: int) -> int:
        """How many tokens it stands for."""
        return self._counts.get((layer, token_index), 1)

    def of_token(self, token_index: int) -> dict[int, Indices]:
        """By layer, what a resident stands for where it was merged."""
        return {layer: _union(runs) for (layer, token), runs in self._members.items() if token == token_index}

    def hosts(self) -> set[int]:
        """Token indices of all residents that were merged in some layer."""
        return {token for _, token in self._members}

    def largest(self) -> dict[int, int]:
        """By token index of each merged resident, how many tokens it stands for in the layer of most."""
        counts: dict[int, int] = {}
        for (_, token), count in self._counts.items():
            counts[token] = max(count, counts.get(token, 1))
        return counts

    def join(
        self, layer: int, hosts: Sequence[int], groups: Sequence[Sequence[int]], counts: Sequence[int]
    ) -> None:
        """Each host stands from now on for what the residents of its group stood for until now."""
        runs = [_compact([run for token in group for run in self._runs(layer, token)]) for group in groups]
        for host, own, count in zip(hosts, runs, counts, strict=True):
            self._members[layer, host], self._counts[layer, host] = own, count

    def keep(self, token_index: Indices) -> None:
        """Forget all entries but those of these residents."""
        resident = set(token_index.tolist())
        for key in [key for key in self._members if key[1] not in resident]:
            del self._members[key], self._counts[key]

    def forget(self, first_index: int) -> None:
        """Tokens from this index on were withdrawn; what was merged of them stays merged, without a name."""
        for key, runs in list(self._members.items()):
            if key[1] >= first_index:
                del self._members[key], self._counts[key]
            elif any(run[-1] >= first_index for run in runs):
                left = [run[: np.searchsorted(run, first_index)] for run in runs]
                self._members[key] = [run for run in left if len(run)]

    def clear(self) -> None:
        """There is no merged entry any more."""
        self._members.clear()
        self._counts.clear()


class Merger:
    """Merges on one cache.

    Args:
        cache: that of the session.
        n_layers: layers that have keys and values.
        merging: how.
    """

    def __init__(self, cache: NativeCache, n_layers: int, merging: Merging) -> None:
        self._cache = cache
        self._merging = merging
        self.layers = range(_round_up(merging.early * n_layers))
        self.entries = MergedEntries()

    def merge(self, view: CacheView, plan: KeepPlan) -> None:
        """Merge what the plan evicts into the least of what it keeps by score. The caller evicts it then.

        Raises:
            NativeError: if the cache fails; some layers may be merged then, which double counts what is not
                evicted, and corrupts nothing.
        """
        victims = np.flatnonzero((plan.reasons == Reason.EVICTED) & ~view.framing)
        hosts = self._hosts(view, plan, len(victims))
        if len(hosts) and len(victims):
            zone = np.sort(np.concatenate([victims, hosts]))
            for layer in self.layers:
                self._merge_layer(layer, view, zone, hosts)

    def _hosts(self, view: CacheView, plan: KeepPlan, n_victims: int) -> Indices:
        """Ranks of the residents whose cells the entries take: the lowest that are kept for their score."""
        old = ~newest(view, int(self._merging.newest_share * view.target))
        candidates = np.flatnonzero((plan.reasons == Reason.SCORE) & old)
        wanted = _round_up(n_victims / (self._merging.per_cluster - 1.0))
        order = np.lexsort((candidates, plan.scores[candidates]))
        return np.sort(candidates[order[:wanted]])

    def _merge_layer(self, layer: int, view: CacheView, zone: Indices, hosts: Indices) -> None:
        assert view.attention is not None
        keys = self._cache.read_plain_keys(layer)[zone]
        values = self._cache.read_rows("value", layer)[zone]
        tokens = view.token_index[zone]
        counts = np.array([self.entries.count(layer, token) for token in tokens.tolist()], dtype=np.float64)
        n = len(hosts)
        labels = cluster_rows(keys, n, self._merging.seed)
        # In order of the tokens that they stand for, so that an entry sits near what it came from.
        place = np.bincount(labels, tokens * counts) / np.bincount(labels, counts)
        labels = np.argsort(np.argsort(place, kind="stable"))[labels]
        centers = mean_by_label(keys, labels, counts, n)
        if self._merging.representative == "member":
            centers = keys[nearest_members(keys, labels, centers)].astype(np.float64)
        heard = np.maximum(view.attention.total[zone], _LEAST_WEIGHT)
        merged = mean_by_label(values, labels, heard, n)
        total = np.bincount(labels, counts, minlength=n).astype(np.float64)
        self._cache.write_rows(
            layer, hosts.astype(np.uint32), len(view), centers.astype(np.float32),
            merged.astype(np.float32), total.astype(np.float32),
        )  # fmt: skip
        self._note(layer, view.token_index[hosts], tokens, labels, total)

    def _note(
        self,
        layer: int,
        hosts: Indices,
        tokens: Indices,
        labels: npt.NDArray[np.int64],
        total: npt.NDArray[np.float64],
    ) -> None:
        order = np.argsort(labels, kind="stable")
        groups = np.split(tokens[order], np.flatnonzero(np.diff(labels[order])) + 1)
        self.entries.join(
            layer, hosts.tolist(), [group.tolist() for group in groups], total.astype(np.int64).tolist()
        )


def _round_up(number: float) -> int:
    """The next whole number, but not for an error in the last bits: 0.07 of 100 are 7."""
    return math.ceil(round(number, 9))


def _union(runs: Sequence[Indices]) -> Indices:
    """All of some runs, increasing.

    A token can be in two of them: where an earlier merge succeeded, and the eviction after it failed.
    """
    return np.unique(np.concatenate(runs)) if runs else np.empty(0, dtype=np.int64)


def _compact(runs: Sequence[Indices]) -> list[Indices]:
    """The same tokens in few runs; a run is joined only to others that add half of it or more."""
    result: list[Indices] = []
    joined: list[Indices] = []
    size = 0
    for run in sorted(runs, key=len):
        if len(run) > 2 * size and joined:
            result.append(_union(joined))
            joined, size = [], 0
        joined.append(run)
        size += len(run)
    return [*result, _union(joined)] if joined else result
