"""How much a store may hold when nobody says: what the machine can spare."""

from __future__ import annotations

import contextlib
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
    """A tenth of what a store can have where its folder is or would be: from 1 byte to 32 GB.

    What the folder holds counts as free, so that a store that is opened again keeps what it has saved.

    Args:
        folder: the store's; None: where temporary folders are.

    Returns:
        Bytes; 0 if what is free cannot be told.
    """
    place = (folder if folder is not None else Path(tempfile.gettempdir())).absolute()
    own = 0 if folder is None else _file_bytes(folder)
    for existing in (place, *place.parents):
        try:
            free = shutil.disk_usage(existing).free
        except FileNotFoundError:
            continue
        except OSError:
            return 0
        return min(max(1, (free + own) // 10), MOST_DISK_BYTES)
    return 0


def _file_bytes(folder: Path) -> int:
    """Of all files in a folder; those that cannot be looked at count nothing."""
    total = 0
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                total += path.stat().st_size
    return total
