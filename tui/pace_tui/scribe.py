"""Writes what was received into a transcript: which events are worth an entry, and which one is theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pace_tui.entries import (
    AnswerEntry,
    CallEntry,
    DiffEntry,
    Entry,
    NoteEntry,
    PromptEntry,
    ThoughtEntry,
)
from pace_tui.plain_text import count, counted, duration, one_line
from pace_tui.wire import Received

_REASONS = {
    "done": ("done", "success", "✓"),
    "question": ("asks you", "warning", "?"),
    "turn_limit": ("stopped at the limit of turns", "warning", "■"),
    "format_errors": ("stopped after answers that could not be read", "error", "■"),
    "repeated": ("stopped: the same call again and again", "warning", "■"),
    "refused": ("stopped: a permission was refused", "warning", "⊘"),
    "time": ("stopped at the time limit", "warning", "■"),
    "cancelled": ("interrupted", "warning", "■"),
    "failed": ("failed", "error", "✗"),
}


class Paper(Protocol):
    """What is written on: a transcript, or what takes its place."""

    def add(self, entry: Entry) -> object:
        """Put an entry at the end."""

    def changed(self, entry: Entry) -> object:
        """An entry has grown or looks otherwise."""


class Scribe:
    """Keeps track of what is still being written."""

    def __init__(self, transcript: Paper) -> None:
        self._transcript = transcript
        self._answer: AnswerEntry | None = None
        self._thought: ThoughtEntry | None = None
        self._calls: dict[int, CallEntry] = {}
        self._expected: PromptEntry | None = None
        """The prompt that was sent, until the agent has read it."""
        self._written: list[str] = []
        self._ordered: list[str] = []
        """Commands of the user's own that have not begun."""

    def take(self, received: Received) -> None:
        """Write an object down, if it is worth it."""
        handler: Callable[[Received], None] | None = getattr(self, f"_take_{received.get('type')}", None)
        if handler is not None:
            handler(received)

    def note(self, text: str, look: str = "faint", *, sign: str = "·") -> None:
        """Write a line of the screen's own."""
        self._end_text()
        self._transcript.add(NoteEntry(text, look, sign=sign))

    def expect(self, entry: PromptEntry) -> None:
        """A prompt was sent; it is in the transcript."""
        self._expected = entry

    def order(self, command: str) -> None:
        """The user runs a command of their own: what it prints is shown without being asked for."""
        self._ordered.append(command)

    def forget_expected(self) -> None:
        """The transcript is another session's now."""
        self._expected = None

    def restart(self) -> None:
        """Another process: what was being written is over."""
        self._end_text()
        self._stop_calls()
        self._give_up_expected()
        self._calls.clear()
        self._ordered.clear()

    def _give_up_expected(self) -> None:
        """The prompt that was sent will not be read any more."""
        entry, self._expected = self._expected, None
        if entry is not None:
            entry.state = "not read"
            self._transcript.changed(entry)

    def _end_text(self) -> None:
        self._answer = self._thought = None

    def _stop_calls(self) -> None:
        for call in self._calls.values():
            if call.state in ("running", "asked"):
                call.state = "stopped"
                self._transcript.changed(call)

    def _take_started(self, received: Received) -> None:
        again = "gone on with" if received.get("resumed") else "begun"
        name = one_line(str(received.get("session") or "that is not kept"))
        model, style = one_line(str(received.get("model", ""))), received.get("style")
        budget = count(int(received.get("budget") or 0))
        self.note(
            f"session {name} {again}: {model}, {style} style, {received.get('policy')}, budget {budget}"
        )

    def _take_prompted(self, received: Received) -> None:
        self._end_text()
        self._written.clear()
        entry = PromptEntry(str(received.get("prompt", "")))
        if self._expected is not None and self._expected.prompt == entry.prompt:
            self._expected = None
        else:
            self._transcript.add(entry)

    def _take_wrote(self, received: Received) -> None:
        if self._answer is None:
            self._answer, self._thought = AnswerEntry(), None
            self._transcript.add(self._answer)
        written = str(received.get("written", ""))
        self._written.append(written)
        self._answer.text.append(written)
        self._transcript.changed(self._answer)

    def _take_thought(self, received: Received) -> None:
        if self._thought is None:
            self._thought, self._answer = ThoughtEntry(), None
            self._transcript.add(self._thought)
        self._thought.append(str(received.get("written", "")))
        self._transcript.changed(self._thought)

    def _take_step_started(self, received: Received) -> None:
        number, of = received.get("number"), received.get("of")
        absent = [name for name, means in dict(received.get("reads", {})).items() if means == "absent"]
        self.note(f"step {number} of {of}: {one_line(str(received.get('step', '')))}", "secondary", sign="●")
        if absent:
            self.note(f"did not fit the budget: {one_line(', '.join(absent))}", "warning", sign="□")

    def _take_step_ended(self, received: Received) -> None:
        if received.get("state") == "failed":
            self.note(f"step {received.get('number')} failed: {received.get('summary')}", "error", sign="✗")

    def _take_missed(self, received: Received) -> None:
        self.note(f"plan miss: {received.get('segment')} was {received.get('means')}", "warning", sign="↺")

    def _take_called(self, received: Received) -> None:
        self._end_text()
        arguments = dict(received.get("arguments", {}))
        entry = CallEntry(str(received.get("tool", "")), arguments)
        self._calls[int(received.get("id", 0))] = entry
        self._transcript.add(entry)
        if arguments.get("command") in self._ordered:
            self._ordered.remove(str(arguments["command"]))
            entry.is_folded = False

    def _take_asked(self, received: Received) -> None:
        self._set_state(received, "asked")

    def _take_decided(self, received: Received) -> None:
        self._set_state(received, "running" if received.get("allowed") else "refused")

    def _set_state(self, received: Received, state: str) -> None:
        call = self._calls.get(int(received.get("id", 0)))
        if call is not None and call.result is None:
            call.state = state
            self._transcript.changed(call)

    def _take_output(self, received: Received) -> None:
        call = self._calls.get(int(received.get("id", 0)))
        if call is not None:
            call.print(str(received.get("written", "")))
            self._transcript.changed(call)

    def _take_returned(self, received: Received) -> None:
        call = self._calls.pop(int(received.get("id", 0)), None)
        if call is not None:
            ok, seconds = bool(received.get("ok")), float(received.get("seconds", 0.0))
            call.finish(ok, str(received.get("result", "")), seconds)
            self._transcript.changed(call)

    def _take_changed(self, received: Received) -> None:
        self._end_text()
        path, diff = str(received.get("path", "")), str(received.get("diff", ""))
        self._transcript.add(DiffEntry(path, diff, str(received.get("by", ""))))

    def _take_undone(self, received: Received) -> None:
        parts = [f"prompt {received.get('number')} was taken back"]
        for name, word in (
            ("restored", "restored"),
            ("removed", "removed"),
            ("kept", "left as others changed it"),
        ):
            if received.get(name):
                parts.append(f"{word}: {one_line(', '.join(received[name]))}")
        self.note("; ".join(parts), "secondary", sign="↶")

    def _take_noted(self, received: Received) -> None:
        self.note(one_line(str(received.get("note", ""))))

    def _take_warned(self, received: Received) -> None:
        self.note(str(received.get("message", "")), "warning", sign="!")

    def _take_error(self, received: Received) -> None:
        self.note(str(received.get("message", "")), "error", sign="✗")

    def _take_reply(self, received: Received) -> None:
        if received.get("message"):
            ok = bool(received.get("ok", True))
            self.note(str(received["message"]), "faint" if ok else "error", sign="·" if ok else "✗")

    def _take_ended(self, received: Received) -> None:
        self._stop_calls()
        self._give_up_expected()
        self._end_text()
        result = str(received.get("result", ""))
        reason = str(received.get("reason", ""))
        if result.strip() and result.strip() not in "".join(self._written):
            if reason in ("done", "question"):
                self._transcript.add(AnswerEntry(result))
            else:
                self.note(result, "error" if reason == "failed" else "warning", sign="■")
        words, look, sign = _REASONS.get(reason, (reason, "warning", "■"))
        turns = counted(int(received.get("turns", 0)), "turn")
        line = f"{words}, {duration(float(received.get('seconds', 0.0)))}, {turns}"
        if received.get("changed"):
            line += f", changed {one_line(', '.join(received['changed']))}"
        self._transcript.add(NoteEntry(line, look, sign=sign))
