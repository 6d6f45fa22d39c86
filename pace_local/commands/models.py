"""``pace models``: what there is, what is here, and fetching, checking or deleting it.

Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pace_local.errors import CancelledError, ModelError, StorageError
from pace_local.models.choose import Device, available_memory, selected_model
from pace_local.models.gguf_file import inspect_gguf
from pace_local.models.progress import ProgressLine, format_bytes
from pace_local.models.pull import pull
from pace_local.models.registry import REGISTRY, ModelInfo, model_info
from pace_local.models.resolve import find_model
from pace_local.models.store import Store

DeviceFinder = Callable[[], Sequence[Device]]


def no_devices() -> Sequence[Device]:
    """A ``DeviceFinder`` for a machine without accelerators."""
    return ()


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], devices: DeviceFinder = no_devices
) -> None:
    """Add ``models`` and its actions; each sets ``handler`` to a function of the parsed arguments.

    Args:
        subparsers: what ``ArgumentParser.add_subparsers`` returned.
        devices: finds this machine's accelerators; called only by actions that need the default model.
    """
    summary = "list, fetch, check and delete models"
    parser = subparsers.add_parser("models", help=summary, description=f"{summary.capitalize()}.")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(
        name: str, summary: str, handler: Callable[[argparse.Namespace], int]
    ) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        added.set_defaults(handler=handler, devices=devices)
        return added

    listing = action("list", "list the known models", list_models)
    listing.add_argument("--json", action="store_true", help="print one JSON array")
    pulling = action("pull", "fetch a model; a pull that was stopped goes on where it was", pull_model)
    pulling.add_argument("name", metavar="NAME", nargs="?", help="a known model; the default one if left out")
    action("path", "print where a model's file is", print_path).add_argument(
        "name", metavar="NAME", help="a known model, or the path of a GGUF file"
    )
    action("verify", "hash model files again, and compare", verify_models).add_argument(
        "name", metavar="NAME", nargs="?", help="a known model; all that are here if left out"
    )
    action("rm", "delete a model's file and what was fetched of it", remove_model).add_argument(
        "name", metavar="NAME", help="a known model"
    )


def list_models(arguments: argparse.Namespace) -> int:
    """Print a table, or JSON, of all known models; mark what is here and what is the default."""
    store = Store()
    default = _default(arguments)
    rows = [_row(info, store, default) for info in REGISTRY.values()]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    cells = [("", "NAME", "SIZE", "CONTEXT", "LICENCE", "TYPE", "STATE")]
    cells += [
        (
            "*" if row["default"] else "",
            row["name"],
            format_bytes(row["size_bytes"]),
            str(row["context_length"]),
            row["licence"],
            row["quantisation"],
            row["state"] if row["state"] != "partial" else f"{format_bytes(row['partial_bytes'])} fetched",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(f"* {selected_model(None, arguments.devices(), available_memory()).reason}", file=sys.stderr)
    return 0


def pull_model(arguments: argparse.Namespace) -> int:
    """Fetch one model, with progress; print its path."""
    info = model_info(arguments.name or _default(arguments))
    from pace_local.terminal import run_stoppable  # with numpy, which the other actions do not need

    line = ProgressLine()
    try:
        stored = run_stoppable(lambda stop: pull(info, progress=stop.watching(line), say=line.say))
    except CancelledError:
        raise CancelledError(f"stopped; `pace models pull {info.name}` goes on from here") from None
    finally:
        line.close()
    against = {"registry": "as registered", "hub": "as the hub says", None: "unverified"}[stored.checked]
    print(f"{info.name}: sha256 {stored.sha256}, {against}; from {stored.source}", file=sys.stderr)
    print(stored.path)
    return 0


def print_path(arguments: argparse.Namespace) -> int:
    """Print the path of a model that is here."""
    line = ProgressLine()
    try:
        path = find_model(arguments.name, progress=line)
        inspect_gguf(path)
    finally:
        line.close()
    print(path)
    return 0


def verify_models(arguments: argparse.Namespace) -> int:
    """Hash the named model, or every one that is here; print a line each; 2 if one is wrong."""
    store = Store()
    here = [info for info in REGISTRY.values() if store.present(info)]
    wanted = [model_info(arguments.name)] if arguments.name else here
    code = 0
    for info in wanted:
        line = ProgressLine()
        try:
            stored = store.find(info, line, rehash=True)
            if stored is None:
                raise ModelError(f"{info.name} is not on this machine; run `pace models pull {info.name}`")
            inspect_gguf(stored.path)
        except (ModelError, StorageError) as error:
            line.say(f"{info.name}: {error}")
            code = error.exit_code
        else:
            line.close()
            state = "ok" if stored.checked else "unverified: no hash to compare with"
            print(f"{info.name}  {state}  {stored.sha256}")
    if not wanted:
        print(f"no model is in {store.folder}", file=sys.stderr)
    return code


def remove_model(arguments: argparse.Namespace) -> int:
    """Delete a model's file and any unfinished pull of it."""
    info = model_info(arguments.name)
    store = Store()
    if not store.present(info) and not store.partial_bytes(info):
        raise ModelError(f"{info.name} is not in {store.folder}; `pace models list` shows what is")
    print(f"{info.name}: {format_bytes(store.remove(info))} freed")
    return 0


def _default(arguments: argparse.Namespace) -> str:
    return selected_model(None, arguments.devices(), available_memory()).reference


def _row(info: ModelInfo, store: Store, default: str) -> dict[str, Any]:
    partial = store.partial_bytes(info)
    return {
        "name": info.name,
        "title": info.title,
        "licence": info.licence,
        "architecture": info.architecture,
        "parameters": info.parameters,
        "quantisation": info.quantisation,
        "size_bytes": info.size_bytes,
        "context_length": info.context_length,
        "kv_bytes_per_token": info.kv_bytes_per_token(),
        "sha256": info.sha256,
        "state": "present" if store.present(info) else "partial" if partial else "absent",
        "partial_bytes": partial,
        "path": str(store.path(info)),
        "default": info.name == default.lower(),
    }
