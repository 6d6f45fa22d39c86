"""What other processes, whose hashes of texts differ, make of a script."""

from __future__ import annotations

import os
import subprocess
import sys


def printed_with_other_hashes(script: str) -> set[bytes]:
    """All that two processes with other hashes print; one thing, if the order of sets decides nothing."""
    return {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
