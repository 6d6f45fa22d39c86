"""Events of a run as lines for a person to read: one for each step, call, change, permission, miss and end.

What an event holds may come from a file or a model, and could be obeyed by a terminal: it is made harmless.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import Any

from pace_agent.events import (
    AgentEvent,
    Asked,
    By,
    Called,
    Changed,
    Decided,
    Ended,
    EndReason,
    Memory,
    Missed,
    Planned,
    Returned,
    Started,
    StepEnded,
    StepStarted,
    Undone,
    Warned,
)
from pace_local.wording import cut_middle, in_one_line


class Look(str, Enum):
    """How a part of a line looks where there are colours."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    BAD = "bad"
    NOTICE = "notice"


Part = tuple[str, Look]
"""A piece of a line; a line's text is that of its parts, one after the other."""

_ROOM = 160
"""Columns of a text that an event holds."""
_ARGUMENT_ROOM = 72
"""Columns of one argument of a call."""

_DECIDERS: dict[By, str] = {
    "rule": "by a rule",
    "mode": "by the mode",
    "approval": "as approved before",
    "user": "by the user",
    "nobody": "as nobody is there to ask",
}

_REASONS: dict[EndReason, str] = {
    "done": "done",
    "question": "stopped with a question",
    "turn_limit": "stopped at the limit of turns",
    "format_errors": "stopped after answers that could not be read",
    "repeated": "stopped: the same call again and again",
    "refused": "stopped: a permission was refused",
    "time": "stopped at the time limit",
    "cancelled": "cancelled",
    "failed": "failed",
}


def line_of(event: AgentEvent) -> tuple[Part, ...]:
    """The line that an event is worth; empty if it is worth none."""
    return tuple((in_one_line(text), look) for text, look in _line(event))


def _line(event: AgentEvent) -> tuple[Part, ...]:
    match event:
        case Started():
            return _started(event)
        case Planned():
            count = counted(len(event.steps), "step")
            return ((f"plan of {count}, by the {event.by}{_after(event.reason)}", Look.PLAIN),)
        case StepStarted():
            reads = ", ".join(f"{name} {means}" for name, means in event.reads.items())
            return (
                (f"step {event.number} of {event.of}: {shown(event.step)}", Look.STRONG),
                (f"  (reads {shown(reads)})" if reads else "", Look.FAINT),
            )
        case StepEnded() if event.state != "done":
            return ((f"step {event.number} {event.state}{_after(event.summary)}", Look.NOTICE),)
        case Called():
            return ((f"  {shown(event.tool)}{_arguments(event.arguments)}", Look.PLAIN),)
        case Returned() if not event.ok:
            return ((f"  {shown(event.tool)} failed{_after(event.result)}", Look.NOTICE),)
        case Asked():
            return (
                (f"  asks for {shown(event.tool)}: {shown(event.what)} ({shown(event.reason)})", Look.NOTICE),
            )
        case Decided() if not event.allowed:
            return ((f"  refused {_DECIDERS[event.by]}{_after(event.reason)}", Look.BAD),)
        case Decided() if event.by in ("user", "approval"):
            return ((f"  allowed {_DECIDERS[event.by]}{_after(event.reason)}", Look.GOOD),)
        case Changed():
            return _changed(event)
        case Missed():
            return (
                (f"  plan miss: {shown(event.segment)}, {event.means}{_after(event.reason)}", Look.NOTICE),
            )
        case Memory() if event.event.get("type") == "recalled":
            return (
                (
                    f"  recalled {shown(str(event.event.get('segment')))}, {event.event.get('means')}, "
                    f"{counted(int(event.event.get('tokens', 0)), 'token')}",
                    Look.FAINT,
                ),
            )
        case Undone():
            files = len(event.restored) + len(event.removed)
            return ((f"prompt {event.number} undone: {counted(files, 'file')} as before", Look.PLAIN),)
        case Warned():
            return ((f"warning: {shown(event.message)}", Look.NOTICE),)
        case Ended():
            return _ended(event)
    return ()


def shown(text: str) -> str:
    """A text of an event, short, in one line that a terminal does not obey."""
    return cut_middle(in_one_line(text.strip()), _ROOM)


def _after(text: str) -> str:
    """A text behind what it explains; nothing if it is empty."""
    return f": {shown(text)}" if text.strip() else ""


def counted(number: int, noun: str) -> str:
    """A number of things in words: ``1 turn``, ``2,048 tokens``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def diff_lines(diff: str) -> tuple[list[str], list[str]] | None:
    """Lines that a unified diff adds and takes away, without their signs; None for a notice in its place."""
    added: list[str] = []
    removed: list[str] = []
    in_hunk = False
    for line in diff.split("\n"):
        if line.startswith("@@"):
            in_hunk = True
        elif in_hunk and line.startswith("+"):
            added.append(line[1:])
        elif in_hunk and line.startswith("-"):
            removed.append(line[1:])
    return (added, removed) if in_hunk else None


def _started(event: Started) -> tuple[Part, ...]:
    name = f"session {shown(event.session)}" if event.session else "a session that is not kept"
    resumed = ", gone on with" if event.resumed else ""
    how = f"{event.style} style, mode {event.mode}, {event.policy} with a budget of {event.budget:,} tokens"
    return ((f"{name}{resumed}", Look.STRONG), (f"  {shown(event.model)}, {how}", Look.FAINT))


def _arguments(arguments: dict[str, Any]) -> str:
    """The first argument says what a call is about; its name would add nothing."""
    words = []
    for number, (name, value) in enumerate(arguments.items()):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        text = cut_middle(in_one_line(text), _ARGUMENT_ROOM)  # its columns can be counted then
        words.append(f" {text}" if number == 0 else f" {shown(name)}={text}")
    return "".join(words)


def _changed(event: Changed) -> tuple[Part, ...]:
    who = {"agent": "changed", "user": "the user changed", "shell": "a command changed"}[event.by]
    lines = diff_lines(event.diff)
    if lines is None:
        note = shown(event.diff.removeprefix(f"{event.path}: "))
        return ((f"  {who} {shown(event.path)}", Look.PLAIN), (f": {note}" if note else "", Look.FAINT))
    return (
        (f"  {who} {shown(event.path)} ", Look.PLAIN),
        (f"+{len(lines[0]):,}", Look.GOOD),
        (" ", Look.PLAIN),
        (f"-{len(lines[1]):,}", Look.BAD),
    )


def _ended(event: Ended) -> tuple[Part, ...]:
    figures: Iterable[tuple[int, str, str]] = (
        (event.turns, "turn", ""),
        (len(event.changed), "file", " changed"),
        (event.misses, "plan miss", ""),
        (event.recalled, "segment", " recalled"),
        (event.decoded, "token", " read"),
        (event.generated, "token", " written"),
    )
    words = [
        f"{number:,} plan misses" if noun == "plan miss" and number > 1 else counted(number, noun) + rest
        for number, noun, rest in figures
        if number
    ]
    # A question is a result, and printed as one.
    why = "" if is_result(event) else _after(event.result)
    return (
        (f"{_REASONS[event.reason]}{why}", Look.GOOD if event.is_success else Look.BAD),
        (f"  ({', '.join([f'{event.seconds:.1f} s', *words])})", Look.FAINT),
    )


def is_result(event: Ended) -> bool:
    """Whether a run's end holds what was asked for, or a question, and not only what went wrong."""
    return event.reason in ("done", "question")
