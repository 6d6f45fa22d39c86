"""Watches what a session merges, and says slowly what it must have become."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from session_pair import tiny_session

from pace_local import Model, Session
from pace_local.clusters import cluster_rows
from pace_local.memory import KeepPlan, Reason
from pace_local.merging import Merger
from pace_local.policies.base import CacheView, Merging
from pace_local.testing import TinySpec

Float32Array = NDArray[np.float32]

SPEC = TinySpec(n_layer=4, n_head=2, n_head_kv=1, n_ff=16, speech="text")
TEXT = "return the self and other 17 times, if None is there "
LONG = TEXT * 8


@dataclass(frozen=True)
class Layer:
    """All that one layer holds, a row or an element for each resident."""

    plain: Float32Array
    keys: Float32Array
    values: Float32Array
    members: list[list[int]]
    counts: list[int]


@dataclass(frozen=True)
class Entry:
    """What one merged resident must hold in a layer."""

    key: NDArray[np.float64]
    value: NDArray[np.float64]
    members: list[int]
    count: int
    unsure: float
    """How far the key of another member may be, if two are equally near to the center."""


@dataclass(frozen=True)
class Merge:
    """One merge: everything before it, and after it but before the eviction."""

    tokens: list[int]
    view: CacheView
    plan: KeepPlan
    attention: NDArray[np.float64]
    before: list[Layer]
    after: list[Layer]
    written: list[tuple[int, list[int], list[float]]]
    """Layer, ranks and counts of each call that wrote rows."""

    @property
    def victims(self) -> list[int]:
        """Ranks of the content that goes."""
        framing = self.view.framing.tolist()
        return [
            rank
            for rank, reason in enumerate(self.plan.reasons.tolist())
            if reason == Reason.EVICTED and not framing[rank]
        ]

    def hosts(self, merging: Merging) -> list[int]:
        """Ranks of those whose cells the entries take."""
        newest = int(merging.newest_share * self.view.target)
        old = self.plan.reasons.tolist()[: max(0, len(self.view) - newest)]
        kept = [rank for rank, reason in enumerate(old) if reason == Reason.SCORE]
        kept.sort(key=lambda rank: (float(self.plan.scores[rank]), rank))
        wanted = math.ceil(round(len(self.victims) / (merging.per_cluster - 1), 6))
        return sorted(kept[:wanted])

    def entries(self, layer: int, merging: Merging) -> dict[int, Entry]:
        """By rank of the host, what it must hold in a layer."""
        hosts, held = self.hosts(merging), self.before[layer]
        zone = sorted([*hosts, *self.victims])
        labels = cluster_rows(held.plain[zone], len(hosts), merging.seed).tolist()
        clusters = [
            [rank for rank, own in zip(zone, labels, strict=True) if own == label]
            for label in range(len(hosts))
        ]

        def place(cluster: list[int]) -> float:
            tokens = sum(self.tokens[rank] * held.counts[rank] for rank in cluster)
            return tokens / sum(held.counts[rank] for rank in cluster)

        clusters.sort(key=place)
        return {
            host: self._entry(cluster, held, merging) for host, cluster in zip(hosts, clusters, strict=True)
        }

    def _entry(self, cluster: list[int], held: Layer, merging: Merging) -> Entry:
        count = sum(held.counts[rank] for rank in cluster)
        key = sum(held.counts[rank] * held.plain[rank].astype(np.float64) for rank in cluster) / count
        unsure = 0.0
        if merging.representative == "member":
            away = {rank: float(np.linalg.norm(held.plain[rank] - key)) for rank in cluster}
            nearest = min(cluster, key=lambda rank: (away[rank], rank))
            ties = [rank for rank in cluster if away[rank] <= away[nearest] * (1 + 1e-6)]
            key = held.plain[nearest].astype(np.float64)
            unsure = max(float(np.abs(held.plain[rank] - key).max()) for rank in ties)
        heard = {rank: max(float(self.attention[rank]), 1e-9) for rank in cluster}
        value = sum(heard[rank] * held.values[rank].astype(np.float64) for rank in cluster)
        members = sorted(token for rank in cluster for token in held.members[rank])
        return Entry(np.asarray(key), np.asarray(value / sum(heard.values())), members, count, unsure)


class _Cache:
    """The native cache, with what is written to it kept."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self.written: list[tuple[int, list[int], list[float]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def write_rows(self, layer: int, ranks: Any, n: int, keys: Any, values: Any, counts: Any) -> None:
        self.written.append((layer, ranks.tolist(), counts.tolist()))
        self._cache.write_rows(layer, ranks, n, keys, values, counts)


class MergeWatch:
    """Keeps every merge of a session from now on."""

    def __init__(self, session: Session) -> None:
        self.merges: list[Merge] = []
        self.session = session
        self.merger = merger_of(session)
        self._cache = _Cache(self.merger._cache)
        self._merge = self.merger.merge
        self.merger._cache = self._cache  # type: ignore[assignment]
        self.merger.merge = self._watched  # type: ignore[method-assign]

    def _watched(self, view: CacheView, plan: KeepPlan) -> None:
        assert view.attention is not None
        attention, tokens = view.attention.total.copy(), view.token_index.tolist()
        before = self.layers(tokens)
        self._cache.written = []
        self._merge(view, plan)
        frozen = CacheView(**{**vars(view), "framing": view.framing.copy(), "segment": view.segment.copy()})
        after = self.layers(tokens)
        self.merges.append(Merge(tokens, frozen, plan, attention, before, after, self._cache.written))

    def layers(self, tokens: Iterable[int]) -> list[Layer]:
        """What the cache holds now."""
        cache, entries = self._cache, self.merger.entries
        tokens = list(tokens)
        return [
            Layer(
                cache.read_plain_keys(layer),
                cache.read_rows("key", layer),
                cache.read_rows("value", layer),
                [entries.members(layer, token).tolist() for token in tokens],
                [entries.count(layer, token) for token in tokens],
            )
            for layer in range(self.session.engine.capabilities.n_layers)
        ]


def merger_of(session: Session) -> Merger:
    """What merges in a session whose policy asks for it."""
    merger = session._cache.merger
    assert merger is not None
    return merger


def entries_of(session: Session) -> dict[int, dict[int, tuple[list[int], int]]]:
    """By token index of each merged resident and by layer: what it stands for, and its count."""
    entries = merger_of(session).entries
    return {
        host: {
            layer: (members.tolist(), entries.count(layer, host))
            for layer, members in entries.of_token(host).items()
        }
        for host in sorted(entries.hosts())
    }


def merging_session(model: Model, **settings: Any) -> Session:
    # A small part that takes none, so that there are hosts in caches as small as these.
    options = {"recent_share": 0.2, **settings.pop("policy_options", {})}
    return tiny_session(model, **{"policy": "merge", "policy_options": options, **settings})


def read_much(session: Session) -> None:
    """Long texts, short ones and an answer: enough to evict many times."""
    if "rules" not in session.segments:
        session.append("always be brief", kind="system", name="rules")
    session.append(LONG, kind="file", name="long")
    for number in range(4):
        session.append(f"{number}: {TEXT}", name=f"short {number}")
    list(session.generate("what now?", max_tokens=40))
    session.append(LONG, kind="file", name="second")
