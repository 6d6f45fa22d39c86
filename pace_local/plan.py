"""The plan: steps still to do, and which segments each of them will read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pace_local.errors import PlanError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Step:
    """One step: what it does, and the names of the segments that it reads."""

    text: str
    reads: tuple[str, ...] = ()
    prompt: str | None = None
    """What the model is asked when this step's turn comes; None: the text."""

    def __init__(self, text: str, reads: Iterable[str] = (), prompt: str | None = None) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "reads", (reads,) if isinstance(reads, str) else tuple(reads))
        object.__setattr__(self, "prompt", prompt)


@dataclass(frozen=True)
class Plan:
    """Steps still to do, nearest first."""

    steps: tuple[Step, ...] = field(default=())

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        object.__setattr__(self, "steps", tuple(steps))

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        """Steps, nearest first."""
        return iter(self.steps)

    def advance(self) -> Plan:
        """The plan after its nearest step is done."""
        return Plan(self.steps[1:])

    def next_use(self) -> dict[str, int]:
        """Segment name -> how many steps away the nearest step that reads it is."""
        uses: dict[str, int] = {}
        for distance, step in enumerate(self.steps):
            for name in step.reads:
                uses.setdefault(name, distance)
        return uses


def load_plan(path: Path) -> Plan:
    """Read a plan from a TOML file with one ``[[step]]`` table a step: ``prompt``, ``reads``, ``text``.

    Raises:
        PlanError: if it cannot be read, or is not of that form.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"cannot read the plan {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"the plan {path} is not valid TOML: {error}") from error
    unknown = set(document) - {"step"}
    if unknown:
        raise PlanError(
            f"the plan {path} has unknown keys: {', '.join(sorted(unknown))}; use [[step]] tables"
        )
    tables = document.get("step", [])
    if not isinstance(tables, list) or not tables:
        raise PlanError(f"the plan {path} has no steps; add a [[step]] table with a prompt and its reads")
    return Plan(_step(path, number, table) for number, table in enumerate(tables, 1))


def _step(path: Path, number: int, table: Any) -> Step:
    where = f"step {number} of the plan {path}"
    if not isinstance(table, dict):
        raise PlanError(f"{where} is not a table; write [[step]]")
    unknown = set(table) - {"text", "prompt", "reads"}
    if unknown:
        raise PlanError(
            f"{where} has unknown keys: {', '.join(sorted(unknown))}; known are prompt, reads, text"
        )
    prompt, reads = table.get("prompt"), table.get("reads", [])
    text = table.get("text", prompt)
    if not isinstance(text, str) or not text.strip():
        raise PlanError(f"{where} needs a prompt: the text to ask")
    if prompt is not None and not isinstance(prompt, str):
        raise PlanError(f"{where}: prompt must be a string, not {prompt!r}")
    if prompt is not None and not prompt.strip():
        raise PlanError(f"{where} has an empty prompt; write what to ask, or leave it out")
    if not isinstance(reads, list) or not all(isinstance(name, str) for name in reads):
        raise PlanError(f"{where}: reads must be a list of names, not {reads!r}")
    return Step(text, reads, prompt)
