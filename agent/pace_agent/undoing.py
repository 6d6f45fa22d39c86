"""Taking back a prompt: what it changed in files, what was said, and what the cache holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pace_agent.assembly import Assembly
from pace_agent.briefing import Briefing, Told
from pace_agent.events import Undone
from pace_agent.planning.task_plan import TaskPlan

_MOST_CHECKPOINTS = 16
"""Prompts that can be taken back with their cache."""


@dataclass(frozen=True)
class _Mark:
    """What a prompt can be taken back to."""

    number: int
    checkpoint: int
    excerpts: list[dict[str, Any]]
    prompts: tuple[str, ...]
    told: Told
    notes: tuple[str, ...]


class Undoing:
    """Marks where prompts begin, and goes back there.

    Args:
        parts: of the agent.
        briefing: has what the model is still to be told.
    """

    def __init__(self, parts: Assembly, briefing: Briefing) -> None:
        self._parts = parts
        self._briefing = briefing
        self._marks: list[_Mark] = []

    def mark(self, number: int) -> None:
        """Remember all as it is before a prompt."""
        session = self._parts.session
        while self._marks and self._marks[-1].number >= number:  # of a prompt that was not even read
            session.drop_checkpoint(self._marks.pop().checkpoint)
        self._marks.append(
            _Mark(
                number,
                session.checkpoint(),
                self._parts.bench.excerpts.as_document(),
                tuple(self._parts.planner.prompts),
                self._briefing.told,
                tuple(self._briefing.notes),
            )
        )
        while len(self._marks) > _MOST_CHECKPOINTS:
            session.drop_checkpoint(self._marks.pop(0).checkpoint)

    def take_back(self, number: int) -> Undone:
        """Go back to before a prompt, the last one.

        Of a session that was gone on with, files alone are taken back, and the model is told.

        Raises:
            StaleError: if somebody else changed one of the files since; nothing is taken back.
            ToolError, StorageError: if a file cannot be written.
        """
        parts = self._parts
        undone = parts.journal.undo(number)
        name_of = parts.bench.territory.name_of
        restored, removed = tuple(map(name_of, undone.restored)), tuple(map(name_of, undone.removed))
        if self._marks and self._marks[-1].number == number:
            self._restore(self._marks.pop())
        else:
            files = ", ".join((*restored, *removed)) or "none"
            self._briefing.note(
                f"The user took back prompt {number} and what was done for it (files: {files})."
            )
        if not parts.planner.is_given:  # one for the next prompt is no part of what is taken back
            parts.planner.plan = TaskPlan()
        parts.conversation.mark_read()
        parts.index.refresh([*restored, *removed])
        return Undone(number, restored, removed)

    def _restore(self, mark: _Mark) -> None:
        parts = self._parts
        parts.session.restore(mark.checkpoint)
        parts.session.drop_checkpoint(mark.checkpoint)
        parts.bench.excerpts.take_document(mark.excerpts)
        parts.planner.prompts = list(mark.prompts)
        self._briefing.told = mark.told
        self._briefing.notes[:] = mark.notes
        parts.watch.compare()
