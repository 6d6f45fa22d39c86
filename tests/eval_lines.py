"""Lines of an evaluation whose outcome is known, for plots and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from test_eval_measures import probe, read

from pace_local.eval.cells import Cell

CEILING = Cell("alike", "ceiling", None, 1)
TRAINED = 32_768


def run_line(cells: Sequence[Cell], **changes: Any) -> dict[str, Any]:
    return {
        "type": "run",
        "run": "one",
        "date": "2026-01-02T03:04:05+00:00",
        "command": ["pace", "eval", "gap", "--out", "two words"],
        "commit": None,
        "model": {"name": "tiny", "sha256": None, "fingerprint": "ab"},
        "n_ctx_train": TRAINED,
        "build": {"llama_cpp": "1.2.3", "patch": "cd", "isa": []},
        "machine": {"cpu": "a CPU", "cores": 2, "threads": 1, "load": 0.5},
        "settings": {"threads": 1},
        "seeds": 1,
        "cells": [vars(cell) for cell in cells],
        "identity": {
            "evaluation": "gap",
            "tokens": 64_000,
            "budget": 2048,
            "position_cap": 8192,
            "specifications": 8,
            "between": 0,
        },
        **changes,
    }


def probe_line(cell: Cell, number: int, passed: int, facts: int = 3, **changes: Any) -> dict[str, Any]:
    """One of five checks, of which the first so many passed, and of three facts."""
    broke = None if passed == 5 else "facts not reused" if facts < 3 else "code wrong"
    fields: dict[str, Any] = {
        "run": "one",
        "cell": cell.key,
        "number": number,
        "checks": (tuple(check < passed for check in range(5)),),
        "facts_recalled": facts,
        "facts_total": 3,
        "missing_facts": ("41",) * (3 - facts),
        "failures": tuple(f"check {check + 1}: no" for check in range(passed, 5)),
        "broke": broke,
        "reads": (read(),),
        **changes,
    }
    return {"type": "probe", **probe(**fields).as_document()}


def turn_line(cell: Cell, number: int, session_tokens: int, **changes: Any) -> dict[str, Any]:
    measured: dict[str, Any] = {
        "part": "filler",
        "name": "f",
        "tokens": 100,
        "seconds": 2.0,
        "evicted": 0,
        "renumbered": 0,
        "residents": 50,
        "next_position": 60,
        "session_tokens": session_tokens,
        "kv_bytes": 110_100_480,
        "host_bytes": 2_000_000_000,
        "device_bytes": 0,
        **changes,
    }
    return {"type": "turn", "run": "one", "stage": cell.stage, "seed": 1, "number": number, **measured}


def done_line(cell: Cell, refused: str | None = None) -> dict[str, Any]:
    return {"type": "done", "run": "one", "cell": cell.key, "seed": 1, "refused": refused}
