"""What a figure was measured on: commit, build and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from pace_local import _native

_SOURCE = Path(__file__).resolve().parents[2]


def current_commit() -> str | None:
    """The commit of the source that runs, with ``-dirty`` if files differ; None outside a checkout."""
    top = _git("rev-parse", "--show-toplevel")
    # An installed package may lie inside a repository of somebody else.
    if top is None or Path(top).resolve() != _SOURCE:
        return None
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + ("-dirty" if _git("status", "--porcelain", "--untracked-files=no") else "")


def build_facts() -> dict[str, Any]:
    """Version of upstream, hash of the patches, instruction sets."""
    facts = _native.read_build().facts
    return {
        "llama_cpp": facts.get("llama_cpp_python"),
        "patch": facts.get("patch"),
        "isa": facts.get("isa", []),
    }


def machine_facts(threads: int) -> dict[str, Any]:
    """CPU, cores, threads used, and the load average of the last minute."""
    return {
        "cpu": _cpu_name(),
        "cores": psutil.cpu_count(logical=False) or 1,
        "threads": threads,
        "load": round(os.getloadavg()[0], 2),
    }


def threads_used(asked: int | None) -> int:
    """Threads that a context gets, as :class:`~pace_local.engine.Engine` has it."""
    return asked or psutil.cpu_count(logical=False) or 1


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(_SOURCE), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
