"""Telling one model file from another without reading all of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

_HEAD_BYTES = 1 << 20
_SAMPLES, _SAMPLE_BYTES = 256, 4096


def fingerprint(path: Path) -> bytes:
    """A digest of a file's size, its first megabyte and samples of all the rest, 32 bytes.

    Two models differ in all of their weights, so that samples tell them apart; a hash of many gigabytes would
    take longer than loading them. It is no proof of where a file comes from: ``pace models verify`` is.

    Raises:
        OSError: if it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        digest.update(file.read(_HEAD_BYTES))
        for number in range(_SAMPLES):
            file.seek(size * number // _SAMPLES)
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.digest()
