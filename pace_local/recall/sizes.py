"""How much a store may hold when nobody says: what the machine can spare."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pace_local.models import available_memory

MOST_HOST_BYTES = 8_000_000_000
"""8 GB. At 144 KiB a token (Qwen3-8B) they hold about 54,000 tokens."""
MOST_DISK_BYTES = 32_000_000_000
"""32 GB. At 144 KiB a token (Qwen3-8B) they hold about 217,000 tokens."""


def default_host_bytes() -> int:
    """A quarter of the memory that a program can have now without swapping, at most 8 GB."""
    return min(available_memory() // 4, MOST_HOST_BYTES)


def default_disk_bytes(folder: Path | None = None) -> int:
    """A tenth of what is free where a folder is or would be, at most 32 GB; 0 if that cannot be told.

    Args:
        folder: the store's; None: where temporary folders are.
    """
    place = (folder if folder is not None else Path(tempfile.gettempdir())).absolute()
    for existing in (place, *place.parents):
        try:
            return min(shutil.disk_usage(existing).free // 10, MOST_DISK_BYTES)
        except FileNotFoundError:
            continue
        except OSError:
            return 0
    return 0
