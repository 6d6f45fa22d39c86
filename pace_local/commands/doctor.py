"""``pace doctor``: is everything in place, what will fit, and does a renumbering work here?"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import psutil

from pace_local import __version__, _native
from pace_local.config import SessionConfig
from pace_local.errors import PaceError
from pace_local.models import (
    REGISTRY,
    KvShape,
    Store,
    available_memory,
    find_model,
    format_bytes,
    inspect_gguf,
    selected_model,
)
from pace_local.recall import default_disk_bytes, default_host_bytes
from pace_local.self_test import run_self_test
from pace_local.terminal import accelerators

_OK, _BAD = "ok", "FAILED"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``doctor``."""
    parser = commands.add_parser(
        "doctor",
        help="check the installation, and what will fit into memory",
        description="Checks the native library with a renumbering, and works out what the model will need.",
    )
    parser.set_defaults(handler=doctor)
    parser.add_argument("--model", metavar="NAME", help="a name of `pace models list`, or a GGUF's path")
    parser.add_argument(
        "--budget", type=int, default=SessionConfig().budget, metavar="TOKENS", help="default %(default)s"
    )
    parser.add_argument(
        "--headroom", type=int, default=SessionConfig().headroom, metavar="TOKENS", help="default %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def doctor(arguments: argparse.Namespace) -> int:
    """Run the action; 0 if all is well, 1 if a check failed."""
    config = SessionConfig(
        budget=arguments.budget,
        headroom=arguments.headroom,
        position_cap=max(SessionConfig().position_cap, arguments.budget + arguments.headroom),
    )
    sections: dict[str, Callable[[], dict[str, Any]]] = {
        "build": _build,
        "machine": _machine,
        "model": lambda: _model(arguments.model),
        "memory": lambda: _memory(arguments.model, config),
        "recall": lambda: _recall(arguments.model),
        "self-test": _self_test,
    }
    report: dict[str, Any] = {}
    passed = True
    for name, examine in sections.items():
        try:
            facts = examine()
            facts.setdefault("status", _OK)
        except (PaceError, OSError) as error:
            facts = {"status": _BAD, "problem": str(error)}
        passed = passed and facts["status"] == _OK
        report[name] = facts
        if not arguments.json:
            _print(name, facts)
    if arguments.json:
        print(json.dumps({"ok": passed, **report}, indent=1))
    return 0 if passed else 1


def _print(name: str, facts: dict[str, Any]) -> None:
    print(f"{name}: {facts['status']}")
    for key, value in facts.items():
        if key not in ("status", "bytes"):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            print(f"  {key.replace('_', ' ')}: {shown}")
    sys.stdout.flush()


def _build() -> dict[str, Any]:
    build = _native.read_build()
    lacking = _native.missing_instruction_sets(build)
    facts = build.facts
    result: dict[str, Any] = {
        "pace": __version__,
        "llama_cpp_python": facts.get("llama_cpp_python", "unknown"),
        "patch": facts.get("patch", "unknown"),
        "instruction_sets": build.isa,
        "backends": facts.get("backends", []),
        "compiler": facts.get("compiler", "unknown"),
    }
    advertised = (_native.cpu_flags() or set()) & {"amx_tile", "amx_int8"}
    if advertised and not set(build.isa) & {"amx_tile", "amx_int8"}:
        result["note"] = "this CPU advertises AMX, and a probe at build time could not run it; it is off"
    if lacking:
        result["problem"] = f"this CPU lacks {', '.join(lacking)}; run scripts/pace to build the library anew"
        result["status"] = _BAD
    return result


def _machine() -> dict[str, Any]:
    memory = psutil.virtual_memory()
    return {
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "cores": f"{psutil.cpu_count(logical=False) or '?'} physical, {os.cpu_count()} logical",
        "memory": f"{format_bytes(memory.available)} free of {format_bytes(memory.total)}",
        "devices": [
            f"{device.name} ({device.description.strip()}, {format_bytes(device.total)})"
            for device in _native.devices()
        ],
    }


def _model(flag: str | None) -> dict[str, Any]:
    choice = selected_model(flag, accelerators(), available_memory())
    result: dict[str, Any] = {"chosen": choice.reason}
    info = REGISTRY.get(choice.reference.lower())
    if info is not None and not Store().present(info):
        return result | {
            "file": f"not here yet; `pace models pull {info.name}` fetches {format_bytes(info.size_bytes)}"
        }
    header = inspect_gguf(find_model(choice.reference))
    return result | {
        "file": str(header.path),
        "architecture": header.architecture,
        "size": format_bytes(header.size_bytes),
        "trained_context": header.context_length or "unknown",
    }


def _sizes(flag: str | None) -> tuple[int, KvShape | None]:
    """Bytes of the model's weights, and the shape of its cache if its header tells."""
    choice = selected_model(flag, accelerators(), available_memory())
    info = REGISTRY.get(choice.reference.lower())
    if info is not None:
        return info.size_bytes, info.kv
    header = inspect_gguf(find_model(choice.reference))
    return header.size_bytes, header.kv


def _memory(flag: str | None, config: SessionConfig) -> dict[str, Any]:
    weights, shape = _sizes(flag)
    spare = max([available_memory(), *(device.usable_bytes for device in accelerators())])
    token = shape.key_bytes() if shape is not None else 0
    keys = values = references = token * config.n_cells
    total = weights + keys + values + references
    result: dict[str, Any]
    if shape is None:
        result = {
            "weights": f"{format_bytes(weights)}, of {format_bytes(spare)} that can be had",
            "note": "the cache's shape differs by layer; it is known once loaded",
        }
    else:
        result = {
            "cells": f"budget {config.budget:,} + headroom {config.headroom:,} = {config.n_cells:,} tokens",
            "weights": format_bytes(weights),
            "keys_and_values": f"{format_bytes(keys + values)} ({2 * token:,} bytes a token, F16)",
            "references": format_bytes(references),
            "all_together": f"{format_bytes(total)}, of {format_bytes(spare)} that can be had",
            "unbounded_cache_would_take": f"{format_bytes(2 * token * 1_000_000)} at a million tokens",
            # The same for programs.
            "bytes": {
                "a_token": 2 * token,
                "weights": weights,
                "keys_and_values": keys + values,
                "references": references,
                "all_together": total,
                "to_be_had": spare,
            },
        }
    if total > spare:
        result["status"] = _BAD
        result["problem"] = "weights and cache do not fit; choose a smaller model"
    return result


def _recall(flag: str | None) -> dict[str, Any]:
    """What evicted segments would be saved in, and how much of a session that is."""
    budgets = {"host": default_host_bytes(), "disk": default_disk_bytes()}
    shape = _sizes(flag)[1]
    if shape is None:
        told = {name: f"at most {format_bytes(budget)}" for name, budget in budgets.items()}
        note = "how many tokens that holds is known once the model is loaded"
        return {"main_memory": told["host"], "disk": told["disk"], "note": note, "bytes": budgets}
    token = shape.bytes_per_token()
    told = {
        name: f"at most {format_bytes(budget)}, for {_round_down(budget // token):,} evicted tokens"
        for name, budget in budgets.items()
    }
    return {
        "main_memory": told["host"],
        "disk": f"{told['disk']} more",
        "a_token": f"{token:,} bytes, reference key and value in F16",
        "past_that": "a segment keeps its text alone, and is computed again when it is read",
        "bytes": {**budgets, "a_token": token},
    }


def _round_down(count: int) -> int:
    """To two digits: what is free changes from moment to moment."""
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit


def _self_test() -> dict[str, Any]:
    test = run_self_test()
    result: dict[str, Any] = {
        "renumbered": f"{test.residents} residents, {test.renumberings} times, on a tiny random model",
        "keys": f"within {test.largest_difference:.2f} of the rounding error that is allowed",
        "values": "bit for bit as before" if test.values_kept else "CHANGED",
        "decoding": "goes on behind them" if test.decodes else "BROKEN",
    }
    if not test.passed:
        result["status"] = _BAD
        result["problem"] = "the native library computes wrong results here; build it anew and report this"
    return result
