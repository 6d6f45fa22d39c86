"""What a session's memory holds, and what it did, as text for people and as values for programs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from pace_agent.memory_view import HeldBytes, MemoryView, SegmentRow
from pace_agent.reporting.event_lines import counted
from pace_agent.sessions.following import SessionFollower, Totals
from pace_local.models.progress import format_bytes

Fact = tuple[str, str]
"""A name, and what it is."""

HEADS = ("SEGMENT", "KIND", "RESIDENT", "POSITIONS", "WHY")


def facts(follower: SessionFollower) -> list[Fact]:
    """All but the segments, a line each."""
    view = None if follower.view is None else follower.view.view
    looked = "never: its process is of a version that does not say"
    return [
        ("session", f"{follower.folder.name}, {state_words(follower)}"),
        ("about", follower.head.repository),
        *_settings(follower),
        *([] if view is None else _places(view)),
        *_work(follower.totals),
        *([] if view is None else _held(view.bytes)),
        ("looked at", looked if follower.view is None else _time(follower.view.at)),
    ]


def state_words(follower: SessionFollower) -> str:
    """Whether somebody works on it, for people."""
    if follower.is_gone:
        return "deleted"
    if follower.holder is None:
        return "broken off" if follower.totals.is_running else "ended"
    doing = (
        f"works on prompt {follower.totals.prompts}" if follower.totals.is_running else "waits for a prompt"
    )
    return f"{doing}; held by {follower.holder.words()}"


def _settings(follower: SessionFollower) -> list[Fact]:
    started = follower.started
    if started is None:
        return []
    return [("model", f"{started.model}, policy {started.policy}, style {started.style}")]


def _places(view: MemoryView) -> list[Fact]:
    cap = "no cap" if view.position_cap is None else f"cap {view.position_cap:,}"
    positions = f"0–{view.next_position - 1:,}" if view.next_position else "none"
    share = f" ({view.resident_tokens / view.budget:.0%})" if view.budget else ""
    return [
        ("budget", f"{view.resident_tokens:,} of {view.budget:,} tokens resident{share}"),
        ("positions", f"{positions}, {cap}; the session has {view.session_tokens:,} tokens"),
    ]


def _work(totals: Totals) -> list[Fact]:
    again = f", {totals.decoded_again:,} of them again" if totals.decoded_again else ""
    evicted = f"{totals.evictions:,} ({counted(totals.evicted, 'token')})"
    lines = [
        ("evictions", f"{evicted}, {counted(totals.renumberings, 'renumbering')}"),
        (
            "recalls",
            f"{totals.recalls:,}, {totals.misses:,} plan {'miss' if totals.misses == 1 else 'misses'}",
        ),
        (
            "tokens",
            f"{totals.reused:,} reused, {totals.decoded:,} decoded{again}, {totals.generated:,} generated "
            f"in {counted(totals.turns, 'turn')}",
        ),
    ]
    last = totals.last
    if last is not None:
        read = _speed(last.decoded, last.reading_seconds)
        wrote = _speed(last.generated, last.generating_seconds)
        lines.append(("speed", f"read {read}, wrote {wrote} in the last turn"))
    return lines


def _speed(tokens: int, seconds: float) -> str:
    rate = f" ({tokens / seconds:,.1f} tokens/s)" if seconds > 0 and tokens else ""
    return f"{tokens:,} in {seconds:.1f} s{rate}"


def _held(held: HeldBytes) -> list[Fact]:
    size = {name: format_bytes(value) for name, value in vars(held).items()}
    return [
        ("cache", f"keys {size['keys']}, values {size['values']}, references {size['references']}"),
        ("process", f"host {size['host']}, devices {size['device']}"),
        ("saved", f"{size['saved_host']} in memory, {size['saved_disk']} on disk, for what was evicted"),
    ]


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def segment_rows(view: MemoryView) -> list[Sequence[str]]:
    """Segments of which something is resident, in the order of positions; cells as :data:`HEADS` has them."""
    resident = [row for row in view.segments if row.first_position is not None]
    resident.sort(key=lambda row: row.first_position or 0)
    return [
        (
            f"{row.name}{_marks(row)}",
            row.kind,
            f"{row.resident:,}/{row.tokens:,}",
            f"{row.first_position}–{row.last_position}",
            row.why,
        )
        for row in resident
    ]


def _marks(row: SegmentRow) -> str:
    words = [word for word, holds in (("pinned", row.pinned), ("isolated", row.isolated)) if holds]
    return f" ({', '.join(words)})" if words else ""


def notes(view: MemoryView) -> list[str]:
    """What the rows leave out, a line each."""
    framing = sum(run.tokens for run in view.residents if run.kind == "framing")
    gone = [row for row in view.segments if row.first_position is None]
    lines = []
    if framing:
        lines.append(f"role markers: {counted(framing, 'token')}")
    if gone:
        tokens = sum(row.tokens for row in gone)
        lines.append(f"evicted whole: {counted(len(gone), 'segment')} with {counted(tokens, 'token')}")
    return lines


def as_document(follower: SessionFollower) -> dict[str, Any]:
    """All of it as plain values."""
    totals = vars(follower.totals).copy()
    history, last = totals.pop("history"), totals.pop("last")
    started, view = follower.started, follower.view
    return {
        "session": follower.folder.name,
        "path": str(follower.folder),
        "repository": follower.head.repository,
        "begun": follower.head.started,
        "holder": None if follower.holder is None else dataclasses.asdict(follower.holder),
        "state": state_words(follower),
        "settings": None if started is None else {name: getattr(started, name) for name in _SETTINGS},
        "totals": totals,
        "last_turn": None if last is None else dataclasses.asdict(last),
        "viewed": None if view is None else view.at,
        "view": None if view is None else view.view.as_dict(),
        "history": [dataclasses.asdict(point) for point in history],
    }


_SETTINGS = ("model", "style", "mode", "policy", "budget", "position_cap")
