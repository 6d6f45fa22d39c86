"""What the model is told before its next turn: what has changed, and what others have to say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pace_agent.assembly import Assembly, today
from pace_agent.files.file_state import content_hash
from pace_agent.safety.permissions import Mode
from pace_agent.settings.agents_md import Instructions, Part, changed


@dataclass(frozen=True)
class Told:
    """What the model takes for true until it is told otherwise."""

    instructions: Instructions
    mode: Mode
    date: str
    """The line that said it; empty if it is not known which."""


class Briefing:
    """Gathers what is to be told, and appends it to the conversation.

    Args:
        parts: of the agent.
    """

    def __init__(self, parts: Assembly) -> None:
        self._parts = parts
        self.told = Told(parts.instructions, parts.permissions.mode, parts.date)
        self.notes: list[str] = []
        """What waits to be told, oldest first."""

    def note(self, text: str) -> None:
        """Have the model told something. From any thread."""
        self.notes.append(text)

    def tell(self) -> None:
        """Append what has changed since the last turn: mode, date, files, AGENTS.md; and the notes."""
        parts = self._parts
        while parts.said:
            parts.warn(parts.said.popleft())
        news = parts.watch.news()
        for change in news.changed:
            parts.outbox.say(change)
        if news.paths:
            parts.index.refresh(news.paths)
        parts.planner.forget(parts.bench.excerpts.take_stale())
        before, self.told = self.told, Told(parts.read_instructions(), parts.permissions.mode, today())
        notes = [self.told.date] if self.told.date != before.date else []
        notes += [f"The mode is {self.told.mode.value} now."] if self.told.mode is not before.mode else []
        # One by one: others may be added meanwhile, from another thread.
        notes += [self.notes.pop(0) for _ in range(len(self.notes))]
        notes += [news.note] if news.note else []
        said = changed(before.instructions, self.told.instructions)
        if said is not None:
            notes.append(said)
        for note in notes:
            parts.conversation.note(parts.bench.fit(note))

    def as_document(self) -> dict[str, Any]:
        """What was told and what waits to be, as plain values."""
        parts = [[part.path, part.text] for part in self.told.instructions.parts]
        return {
            "instructions": parts,
            "mode": self.told.mode.value,
            "date": self.told.date,
            "notes": list(self.notes),
        }

    def take_document(self, document: dict[str, Any]) -> None:
        """Take over what an earlier process told; what it did not write down counts as told."""
        self.notes[:0] = document.get("notes", [])
        self.told = replace(
            self.told, mode=Mode(document.get("mode", self.told.mode)), date=document.get("date", "")
        )
        if "instructions" in document:
            parts = [Part(path, text, content_hash(text.encode())) for path, text in document["instructions"]]
            self.told = replace(self.told, instructions=Instructions("", tuple(parts)))
