"""``pace sessions``: what sessions are on this machine, what is in one, and deleting them.

Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pace_local.config import SessionConfig
from pace_local.errors import FileError, PaceError
from pace_local.models.progress import format_bytes
from pace_local.models.store import allocated_bytes
from pace_local.sessions.folder import (
    kv_folder,
    lock_path,
    log_path,
    remove_session,
    session_folder,
    sessions_root,
)
from pace_local.sessions.lock import Holder, holder_of
from pace_local.sessions.log import read_log
from pace_local.sessions.packing import decode_runs
from pace_local.sessions.records import TurnRecord, plan_document
from pace_local.sessions.state import SessionState
from pace_local.sessions.summary import SessionSummary, list_sessions
from pace_local.wording import in_one_line, print_table

_NAME = "a session that `pace sessions list` shows, or the path of its folder"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``sessions`` and its actions; each sets ``handler`` to a function of the parsed arguments."""
    summary = "list, show and delete sessions that are kept on disk"
    parser = subparsers.add_parser("sessions", help=summary, description=f"{summary.capitalize()}.")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(
        name: str, summary: str, handler: Callable[[argparse.Namespace], int]
    ) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        added.set_defaults(handler=handler)
        return added

    listing = action("list", "list the sessions that have a name", list_all)
    listing.add_argument("--json", action="store_true", help="print one JSON array")
    showing = action("show", "show what a session holds", show)
    showing.add_argument("name", metavar="NAME", help=_NAME)
    showing.add_argument("--turns", action="store_true", help="also show what each record of its log added")
    showing.add_argument("--json", action="store_true", help="print one JSON object")
    removing = action("rm", "delete sessions with all that they hold; asks nothing", remove)
    removing.add_argument("name", metavar="NAME", nargs="+", help=_NAME)


def list_all(arguments: argparse.Namespace) -> int:
    """Print a table, or JSON, of all sessions that have a name."""
    found = list_sessions()
    if arguments.json:
        print(json.dumps([_row(summary) for summary in found], indent=1))
        return 0
    if not found:
        print(f"no session is in {sessions_root()}", file=sys.stderr)
        return 0
    print_table(
        ("NAME", "MODEL", "TURNS", "TOKENS", "SIZE", "CHANGED", "STATE"),
        [
            (
                summary.name,
                summary.model_name or "–",
                f"{summary.turns:,}",
                f"{summary.tokens:,}",
                format_bytes(summary.bytes),
                _date(summary.changed),
                _state_words(summary),
            )
            for summary in found
        ],
    )
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print what a session holds, as text or as one JSON object."""
    folder = session_folder(arguments.name)
    if not folder.is_dir():
        raise FileError(f"there is no session in {folder}; `pace sessions list` shows those with a name")
    state = SessionState()
    records: list[dict[str, Any]] = []

    def take(document: dict[str, Any]) -> None:
        before = len(state.tokens)
        record = state.take(document)
        if isinstance(record, TurnRecord):
            records.append(_record(record, before))

    scanned = read_log(log_path(folder), take)
    state.problem, state.torn = scanned.problem, scanned.torn
    document = _document(folder, state)
    if arguments.turns:
        document["records"] = records
    if arguments.json:
        print(json.dumps(document, indent=1))
    else:
        _print_session(document)
    return 0


def remove(arguments: argparse.Namespace) -> int:
    """Delete each session that is named; 2 if one could not be."""
    code = 0
    for name in arguments.name:
        try:
            folder = session_folder(name)
            size = allocated_bytes(folder)
            remove_session(folder)
        except PaceError as error:
            print(f"pace: {in_one_line(str(error))}", file=sys.stderr)
            code = error.exit_code
        else:
            print(f"{in_one_line(name)}: {format_bytes(size)} freed")
    return code


def _row(summary: SessionSummary) -> dict[str, Any]:
    holder = summary.holder
    return {
        "name": summary.name,
        "path": str(summary.path),
        "model": summary.model_name,
        "turns": summary.turns,
        "tokens": summary.tokens,
        "bytes": summary.bytes,
        "changed": summary.changed,
        "in_use": dataclasses.asdict(holder) if holder is not None else None,
        "problem": summary.problem,
    }


def _state_words(summary: SessionSummary) -> str:
    words = []
    if summary.holder is not None:
        words.append(f"in use by {summary.holder.words()}")
    if summary.problem is not None:
        words.append(f"broken: {summary.problem}")
    return "; ".join(words) or "ready"


def _document(folder: Path, state: SessionState) -> dict[str, Any]:
    """A session as plain values."""
    header, holder = state.header, holder_of(lock_path(folder))
    assert header is not None  # a log without one cannot be read
    resident = _residents_by_segment(state)
    return {
        "name": folder.name,
        "path": str(folder),
        **{name: value for name, value in header.as_document().items() if name != "type"},
        "turns": state.n_turns,
        "tokens": len(state.tokens),
        "residents": state.n_residents,
        "bytes": allocated_bytes(folder),
        "kv_bytes": allocated_bytes(kv_folder(folder)),
        "in_use": dataclasses.asdict(holder) if holder is not None else None,
        "problem": state.problem,
        "plan": plan_document(state.plan),
        "counters": dict(state.counters),
        "segments": [
            {**vars(stored.segment), "resident": resident[stored.segment.id], "extra": dict(stored.extra)}
            for stored in state.segments
        ],
    }


def _residents_by_segment(state: SessionState) -> list[int]:
    """How many tokens of each segment are resident."""
    token_index, _ = decode_runs(state.residents)
    starts = [stored.segment.start for stored in state.segments]
    # Of segments that start at the same token all but the last are empty.
    ids = np.searchsorted(starts, token_index, side="right") - 1
    counts: list[int] = np.bincount(ids, minlength=len(starts)).tolist()
    return counts


def _record(record: TurnRecord, length_before: int) -> dict[str, Any]:
    """What a record of the log did, as plain values."""
    return {
        "withdrawn": length_before - (record.n_tokens - len(record.tokens)),
        "added": len(record.tokens),
        "tokens": record.n_tokens,
        "residents": sum(count for *_, count in record.residents),
        "evicted": sum(count for eviction in record.evictions for _, count in eviction),
        "segments": [stored.segment.name for stored in record.segments if stored.segment.kind != "framing"],
        "events": dict(Counter(str(event.get("type")) for event in record.events)),
    }


def _print_session(document: dict[str, Any]) -> None:
    model, build, holder = document["model"], document["build"], document["in_use"]
    defaults = vars(SessionConfig())
    settings = [
        f"{name}={value}" for name, value in document["config"].items() if defaults.get(name, ...) != value
    ]
    built = ", ".join(f"{name} {version}" for name, version in build.items())
    facts = [
        ("session", document["path"]),
        ("model", f"{model['name']} ({model['path']})"),
        ("begun", f"{document['created']} with pace {document['pace_version']}{built and f' ({built})'}"),
        ("settings", ", ".join(settings) or "the defaults"),
        ("turns", f"{document['turns']:,}"),
        ("tokens", f"{document['tokens']:,}, of which {document['residents']:,} are resident"),
        ("disk", f"{format_bytes(document['bytes'])}, keys and values {format_bytes(document['kv_bytes'])}"),
        ("in use", f"by {Holder(**holder).words()}" if holder is not None else "no"),
    ]
    if document["problem"] is not None:
        facts.append(("problem", document["problem"]))
    for name, value in facts:
        print(f"{name:<9} {in_one_line(value)}")
    if document["segments"]:
        print()
        _print_segments(document["segments"])
    for number, step in enumerate(document["plan"]):
        reads = f"  reads {', '.join(step['reads'])}" if step["reads"] else ""
        print(("\nplan\n" if number == 0 else "") + in_one_line(f"{number + 1:>4}. {step['text']}{reads}"))
    if "records" in document:
        print()
        _print_records(document["records"])


def _print_segments(segments: list[dict[str, Any]]) -> None:
    markers = sum(part["end"] - part["start"] for part in segments if part["kind"] == "framing")
    print_table(
        ("SEGMENT", "KIND", "TURN", "TOKENS", "RESIDENT", ""),
        [
            (
                part["name"],
                part["kind"],
                str(part["turn"]),
                f"{part['end'] - part['start']:,}",
                f"{part['resident']:,}",
                " ".join(flag for flag in ("pinned", "isolated") if part[flag]),
            )
            for part in segments
            if part["kind"] != "framing"
        ],
    )
    print(f"and {markers:,} tokens of role markers")


def _print_records(records: list[dict[str, Any]]) -> None:
    print_table(
        ("RECORD", "WITHDRAWN", "ADDED", "TOKENS", "RESIDENT", "EVICTED", "SEGMENTS"),
        [
            (
                str(number),
                *(f"{row[name]:,}" for name in ("withdrawn", "added", "tokens", "residents", "evicted")),
                ", ".join(row["segments"]),
            )
            for number, row in enumerate(records, 1)
        ],
    )


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
