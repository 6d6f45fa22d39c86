"""Parameters for each policy that random sessions are tried with; all fit a target of 64 tokens."""

from __future__ import annotations

from typing import Any

_BY_AGE: list[dict[str, Any]] = [{}, {}, {"sinks": 0}, {"sinks": 2}]
_POOLED: list[dict[str, Any]] = [
    {},
    {},
    {"alpha": 0.0},
    {"window": 0},
    {"window": 24, "pool_size": 16, "sinks": 1},
    {"pool_size": 0, "beta": 0.0},
    {"base": 0.0, "decay": 0.9, "beta": 5.0},
]

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "none": [{}],
    "truncate": [{}, {"window": 1}, {"window": 40}],
    "streaming": _BY_AGE,
    "context_shift": [{}, {}, {"sinks": 4}],
    "h2o": [{}, {}, {"recent_share": 0.0}, {"recent_share": 1.0}],
    "h2o_grace": [{}, {"grace": 0, "decay": 0.9}, {"grace": 10, "sinks": 0}, {"decay": 0.0}],
    "attention": [
        {},
        {"mode": "decay", "min_distance": 0, "sinks": 1},
        {"window": 3, "min_distance": 8, "distance_power": 1.0},
    ],
    "snapkv": [{}, {"window": 1, "kernel": 1}, {"window": 8, "pooling": "mean", "kernel": 5}],
    "hybrid": _POOLED,
    "merge": [
        {},
        {"early": 0.0},
        {"early": 1.0, "representative": "member", "per_cluster": 4.0},
        {"recent_share": 0.0, "sinks": 0, "seed": 3},
    ],
    "plan": _BY_AGE,
    "bounded": _BY_AGE,
    "pace": _BY_AGE,
    "pace_hybrid": _POOLED,
    "pace_focus": _BY_AGE,
}
"""Policy -> some sets of its parameters, the defaults among them."""
