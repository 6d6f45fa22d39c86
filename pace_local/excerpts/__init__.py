"""Files cut at definition borders, and the excerpts that a prompt needs."""

from __future__ import annotations

from pace_local.excerpts.cut import MAX_TOKENS, cut
from pace_local.excerpts.excerpt import CountTokens, Definition, Excerpt, ExcerptKind, Pick
from pace_local.excerpts.index import ExcerptIndex
from pace_local.excerpts.names import Name, prompt_names
from pace_local.excerpts.rank import pick

__all__ = [
    "MAX_TOKENS",
    "CountTokens",
    "Definition",
    "Excerpt",
    "ExcerptIndex",
    "ExcerptKind",
    "Name",
    "Pick",
    "cut",
    "pick",
    "prompt_names",
]
