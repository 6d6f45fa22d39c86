"""Recall: what was evicted is kept, found and brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pace_local.recall.piece import Piece, StoreStats
from pace_local.recall.shingles import Shingles, overlap
from pace_local.recall.sizes import default_disk_bytes, default_host_bytes
from pace_local.recall.store import Store

if TYPE_CHECKING:
    from pace_local.recall.mentions import MentionIndex

__all__ = [
    "MentionIndex",
    "Piece",
    "Shingles",
    "Store",
    "StoreStats",
    "default_disk_bytes",
    "default_host_bytes",
    "overlap",
]


def __getattr__(name: str) -> Any:
    """Import the index of names when it is first used: it brings grammars, which a store can do without."""
    if name != "MentionIndex":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pace_local.recall.mentions import MentionIndex

    return MentionIndex
