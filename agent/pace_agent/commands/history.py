"""``pace history``: which sessions the agent has kept, what was done in one, and deleting them.

Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from pace_agent.commands.past_prompts import PastPrompt, past_prompts
from pace_agent.events import Started
from pace_agent.reporting.event_lines import counted, line_of
from pace_agent.sessions.events import EVENTS, read_events
from pace_agent.sessions.log import Summary, delete, list_sessions, session_path
from pace_agent.sessions.places import LOCK, SESSION, agents_root, is_missing, read_head
from pace_local.errors import PaceError
from pace_local.models.progress import format_bytes
from pace_local.models.store import allocated_bytes
from pace_local.sessions.lock import Holder, holder_of
from pace_local.terminal import say
from pace_local.wording import cut_middle, in_one_line, print_table

_PROMPT_ROOM = 60
"""Columns of a prompt in the list."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``history`` and what it can do beside listing."""
    summary = "list, show and delete the agent's sessions"
    parser = commands.add_parser(
        "history",
        help=summary,
        description=f"{summary.capitalize()}. Without an action it lists, the one used last first.",
    )
    parser.set_defaults(handler=list_all)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--repo", metavar="FOLDER", help="sessions of this repository; default: this folder")
    place.add_argument("--all", action="store_true", help="sessions of all repositories")
    parser.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", help="default: list")
    what = "show what was done for each prompt of a session"
    showing = actions.add_parser("show", help=what, description=f"{what.capitalize()}.")
    showing.set_defaults(handler=show)
    showing.add_argument("id", metavar="ID", help="a session that `pace history` lists")
    # Also before the action's name: what stood there holds if it is not given again.
    showing.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object"
    )
    what = "delete sessions with all that they hold; asks nothing"
    removing = actions.add_parser("delete", help=what, description=f"{what.capitalize()}.")
    removing.set_defaults(handler=remove)
    removing.add_argument("ids", metavar="ID", nargs="+", help="a session that `pace history` lists")


def list_all(arguments: argparse.Namespace) -> int:
    """Print a table, or JSON, of sessions."""
    repository = os.path.realpath(os.path.expanduser(arguments.repo or "."))
    found = list_sessions(None if arguments.all else repository)
    if arguments.json:
        print(json.dumps([_row(each) for each in found], indent=1))
        return 0
    if not found:
        if arguments.all:
            say(f"no session is in {agents_root()}")
        else:
            say(f"no session is about {in_one_line(repository)}; --all lists those of all repositories")
        return 0
    heads: tuple[str, ...] = ("ID", "LAST USED", "PROMPTS", "FIRST PROMPT", "STATE")
    rows: list[tuple[str, ...]] = [
        (
            each.name,
            _date(each.last_used),
            f"{each.prompts:,}",
            cut_middle(in_one_line(each.first_prompt.strip()), _PROMPT_ROOM) or "–",
            _state(each.holder, each.problem),
        )
        for each in found
    ]
    if arguments.all:
        heads = (*heads[:1], "REPOSITORY", *heads[1:])
        rows = [(row[0], each.repository or "–", *row[1:]) for row, each in zip(rows, found, strict=True)]
    print_table(heads, rows)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print what was done in a session, as text or as one JSON object."""
    path = session_path(arguments.id)
    if not os.path.lexists(path / SESSION):
        raise is_missing(path)
    head = read_head(path)
    skipped: list[None] = []
    started, prompts = past_prompts(read_events(path / EVENTS, lambda: skipped.append(None)))
    holder = holder_of(path / LOCK)
    if arguments.json:
        document = {
            "id": path.name,
            "path": str(path),
            "repository": head.repository,
            "started": head.started,
            **_settings(started),
            "bytes": allocated_bytes(path),
            "in_use": None if holder is None else dataclasses.asdict(holder),
            "unreadable_lines": len(skipped),
            "prompts": [each.document() for each in prompts],
        }
        print(json.dumps(document, indent=1))
        return 0
    facts = [
        ("session", str(path)),
        ("about", head.repository),
        ("begun", _date(head.started)),
        ("settings", "–" if started is None else line_of(started)[1][0].strip()),
        ("disk", format_bytes(allocated_bytes(path))),
        ("in use", "no" if holder is None else f"by {holder.words()}"),
    ]
    if skipped:
        facts.append(("damaged", f"{counted(len(skipped), 'line')} of {EVENTS} cannot be read"))
    for name, value in facts:
        print(f"{name:<9} {in_one_line(value)}")
    for each in prompts:
        print()
        for line in _lines(each, holder):
            print(line)
    return 0


def remove(arguments: argparse.Namespace) -> int:
    """Delete each session that is named; the exit code of the last error if one could not be."""
    code = 0
    for name in arguments.ids:
        try:
            size = allocated_bytes(session_path(name))
            delete(name)
        except PaceError as error:
            say(f"pace: {in_one_line(str(error))}")
            code = error.exit_code
        else:
            print(f"{name}: {format_bytes(size)} freed")
    return code


def _row(each: Summary) -> dict[str, Any]:
    return {
        "id": each.name,
        "repository": each.repository,
        "first_prompt": each.first_prompt,
        "prompts": each.prompts,
        "started": each.started,
        "last_used": each.last_used,
        "in_use": None if each.holder is None else dataclasses.asdict(each.holder),
        "problem": each.problem,
    }


def _settings(started: Started | None) -> dict[str, Any]:
    keys = ("model", "style", "mode", "policy", "budget", "position_cap")
    return {key: None if started is None else getattr(started, key) for key in keys}


def _state(holder: Holder | None, problem: str) -> str:
    words = [f"in use by {holder.words()}"] if holder is not None else []
    return "; ".join([*words, *([f"broken: {problem}"] if problem else [])]) or "ready"


def _lines(each: PastPrompt, holder: Holder | None) -> Iterator[str]:
    """A prompt and what was done for it, a line each."""
    taken_back = "  (taken back)" if each.is_undone else ""
    yield f"prompt {each.number}  {_date(each.at)}{taken_back}"
    for line in each.prompt.strip().split("\n"):
        yield f"  > {in_one_line(line)}"
    for number, step in enumerate(each.steps, 1):
        yield in_one_line(f"  step {number}, {step.state}: {step.text}")
    for call in each.calls.values():
        yield f"  call  {call.line}"
    for path in each.changed:
        yield in_one_line(f"  changed  {path}")
    for event in (*each.recalled, *each.missed):
        yield "".join(part for part, _ in line_of(event))
    again = f", of which {each.decoded_again:,} again" if each.decoded_again else ""
    yield (
        f"  {counted(each.turns, 'turn')}, tokens: {each.reused:,} reused, {each.decoded:,} decoded{again}, "
        f"{each.generated:,} generated"
    )
    if each.ended is not None:
        yield f"  {''.join(part for part, _ in line_of(each.ended)[:1])}"
        if each.ended.reason in ("done", "question"):
            yield from (f"  < {in_one_line(line)}" for line in each.ended.result.strip().split("\n") if line)
    else:
        yield "  goes on" if holder is not None and not each.is_undone else "  broken off"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
