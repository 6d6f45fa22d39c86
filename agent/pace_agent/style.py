"""Which way of working suits a model: ``tools`` if it can call them, ``guided`` if not.

Models of the registry are known by their size. Any other is tried out once: it is asked to make two calls,
one of which edits a text that it is shown; what came of it is remembered by the model's fingerprint.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import platformdirs

from pace_agent.calls.formats import CallFormat, format_of_template
from pace_agent.calls.grammar import begins_with_reasoning, calling
from pace_agent.calls.parsing import parse_answer
from pace_agent.files.private_file import UnusableFileError, changing, read_private, write_private
from pace_agent.tool_type import Tool, tool
from pace_local import Model, Session
from pace_local.config import SessionConfig
from pace_local.errors import ModelError, PaceError
from pace_local.models import model_info
from pace_local.sampling import Writer

Chosen = Literal["tools", "guided"]

CALLS_TOOLS_FROM = 3_000_000_000
"""Parameters from which on a model of the registry calls tools: the 0.5B and 1.5B coders write search texts
that are in no file (docs/LOG.md)."""

_PROBE = SessionConfig(budget=1024, position_cap=4096, policy="streaming")
_LONGEST_ANSWER = 200
_TEXT = "def area(width, height):\n    return width + height\n"


def style_of(model: Model, *, folder: Path | None = None, writer: Writer | None = None) -> tuple[Chosen, str]:
    """How to work with a model, and why.

    Args:
        model: open.
        folder: where what was found out is remembered; None: the user's own.
        writer: writes in the model's place.

    Raises:
        PaceError: if the model cannot be run.
    """
    with contextlib.suppress(ModelError):
        info = model_info(model.path.stem)
        can = info.parameters >= CALLS_TOOLS_FROM
        return (
            "tools" if can else "guided"
        ), f"{info.name} has {info.parameters / 1e9:.1f} billion parameters"
    path = (
        platformdirs.user_data_path("pace-local", appauthor=False) if folder is None else folder
    ) / "styles.json"
    key = model.fingerprint.hex()
    known = _read(path)
    if known.get(key) in ("tools", "guided"):
        chosen: Chosen = "tools" if known[key] == "tools" else "guided"
        return chosen, "it was tried before"
    can, why = probe(model, writer)
    chosen = "tools" if can else "guided"
    with contextlib.suppress(OSError, UnusableFileError), changing(path):
        write_private(path, {**_read(path), key: chosen})
    return chosen, why


def probe(model: Model, writer: Writer | None = None) -> tuple[bool, str]:
    """Try whether a model calls tools with the right arguments; and what it did.

    Raises:
        PaceError: if the model cannot be run.
    """
    form = call_format(model)
    tools = _tools()
    with Session(model, config=_PROBE, writer=writer) as session:
        session.append(form.instructions(tools, is_short=True), kind="system")
        for prompt, wanted in _tasks():
            sampling, is_reasoning = calling(tools, form), False
            pieces: list[str] = []
            for event in session.generate(prompt, max_tokens=_LONGEST_ANSWER, sampling=sampling):
                if not pieces:  # the prompt has been read by now: what opens the answer hangs on it
                    is_reasoning = begins_with_reasoning(session.answer_prefix, sampling)
                pieces.append(event.text)
            calls = parse_answer("".join(pieces), form, tools, is_reasoning=is_reasoning).calls
            if not calls:
                return False, f"asked to call {wanted['name']}, it wrote no call"
            if calls[0].name != wanted["name"]:
                return False, f"asked to call {wanted['name']}, it called {calls[0].name}"
            for key, value in wanted.items():
                if key != "name" and value not in str(calls[0].arguments.get(key, "")):
                    return False, f"its call of {wanted['name']} had the wrong {key}"
    return True, "it called two tools with the right arguments"


def call_format(model: Model) -> CallFormat:
    """How a model writes calls, by its chat template."""
    return format_of_template(model.metadata("tokenizer.chat_template") or "")


def _tools() -> list[Tool]:
    @tool("read")
    def read(path: str, first: int = 1) -> str:
        """Read a file, from a line on."""
        return f"{path}{first}"

    @tool("write")
    def edit(path: str, search: str, replacement: str) -> str:
        """Replace lines of a file. The search text must be in it exactly once."""
        return f"{path}{search}{replacement}"

    return [read, edit]


def _tasks() -> list[tuple[str, Mapping[str, str]]]:
    return [
        ("Read the file docs/notes.txt with a tool.", {"name": "read", "path": "docs/notes.txt"}),
        (
            f"This is shapes.py:\n\n{_TEXT}\nThe area is wrong: it has to be width times height. "
            "Correct it with the tool edit.",
            {
                "name": "edit",
                "path": "shapes.py",
                "search": "width + height",
                "replacement": "width * height",
            },
        ),
    ]


def _read(path: Path) -> dict[str, object]:
    try:
        return dict(read_private(path)) if os.path.exists(path) else {}
    except (OSError, UnusableFileError, PaceError):
        return {}
