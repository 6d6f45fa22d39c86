"""Texts as tokens of a byte each, however a vocabulary would cut them."""

from __future__ import annotations

from pace_local import Model


def bytes_of(model: Model, text: str) -> list[int]:
    """A token for each byte."""
    by_piece = {model.piece(token): token for token in range(model.shape.n_vocab) if not model.is_end(token)}
    return [by_piece[bytes([byte])] for byte in text.encode()]
