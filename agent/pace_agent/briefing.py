"""What the model is told before its next turn: what has changed, and what others have to say."""

from __future__ import annotations

from pace_agent.assembly import Assembly
from pace_agent.safety.permissions import Mode
from pace_agent.settings.agents_md import changed


class Briefing:
    """Gathers what is to be told, and appends it to the conversation.

    Args:
        parts: of the agent.
    """

    def __init__(self, parts: Assembly) -> None:
        self._parts = parts
        self.notes: list[str] = []
        """What waits to be told, oldest first."""

    def note(self, text: str) -> None:
        """Have the model told something. From any thread."""
        self.notes.append(text)

    def note_mode(self, mode: Mode) -> None:
        """Have the model told how much is done without asking."""
        self.note(f"The mode is {mode.value} now.")

    def tell(self) -> None:
        """Append what has changed since the last turn: files, AGENTS.md; and the notes."""
        parts = self._parts
        while parts.said:
            parts.warn(parts.said.popleft())
        news = parts.watch.news()
        for change in news.changed:
            parts.outbox.say(change)
        if news.paths:
            parts.index.refresh(news.paths)
        parts.planner.forget(parts.bench.excerpts.take_stale())
        # One by one: others may be added meanwhile, from another thread.
        notes = [self.notes.pop(0) for _ in range(len(self.notes))]
        notes += [news.note] if news.note else []
        now = parts.read_instructions()
        said = changed(parts.instructions, now)
        parts.instructions = now
        if said is not None:
            notes.append(said)
        for note in notes:
            parts.conversation.note(parts.bench.fit(note))
