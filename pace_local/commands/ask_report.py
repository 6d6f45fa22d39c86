"""What ``pace ask`` shows: answers on stdout in the form that was asked for, the rest on stderr."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, TextIO

from pace_local import _native
from pace_local.asking import Asking, PlannedStep
from pace_local.errors import PaceError
from pace_local.events import Event, Finished, Progress, ReadsOverBudget, Renumbered, Text, as_dict
from pace_local.harmless_text import harmless
from pace_local.models import ResolvedModel
from pace_local.terminal import say
from pace_local.wording import in_one_line


class AskReport:
    """Shows a run, call by call.

    Args:
        form: ``text``, ``json`` or ``stream-json``.
        quiet: whether stderr gets nothing.
    """

    def __init__(self, form: str, *, quiet: bool) -> None:
        self._form = form
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._planned: list[PlannedStep] = []
        self._total = self._done = self._before = 0
        self._began = self._shown = time.monotonic()
        self._reading = False
        self._number = 0
        self._line_open = False
        self._answer_ends_line = True
        self._document: dict[str, Any] = {}

    def start(self, asking: Asking, planned: list[PlannedStep], resolved: ResolvedModel) -> None:
        self._planned = planned
        to_read, self._total = asking.tokens_to_read, asking.tokens_to_decode
        build = _native.read_build().facts
        self._document = {
            "model": {
                "path": str(resolved.path),
                "name": resolved.info.name if resolved.info else resolved.path.stem,
                "sha256": resolved.info.sha256 if resolved.info else None,
            },
            "build": {
                "llama_cpp": build.get("llama_cpp_python"),
                "patch": build.get("patch"),
                "isa": build.get("isa"),
            },
            "tokens_to_read": to_read,
            "steps": [
                {
                    "prompt": step.prompt,
                    "reads": [
                        {"excerpt": p.excerpt.label, "tokens": p.tokens, "reason": p.reason}
                        for p in step.picks
                    ],
                    "answers": list(step.answers),
                }
                for step in planned
            ],
        }
        if self._form == "stream-json":
            self._json({"type": "start", **self._document})
        files = len({excerpt.path for excerpt in asking.excerpts})
        if files:
            self._say(
                f"reading {files} file{'s' * (files > 1)}: "
                f"{to_read:,} tokens in {len(asking.excerpts)} excerpts"
            )
        for number, step in enumerate(planned, 1):
            what = f"step {number} reads" if len(planned) > 1 else "the answer will read"
            for pick in step.picks:
                self._say(f"  {what} {pick.excerpt.label} ({pick.tokens} tokens): {pick.reason}")
        self._reading = True
        self._began = time.monotonic()

    def take(self, event: Event) -> None:
        """Every event of the session."""
        if self._form == "stream-json":
            self._json(as_dict(event))
        if isinstance(event, Progress) and self._reading:
            if event.done < self._before:
                self._before = 0
            self._done += event.done - self._before
            self._before = 0 if event.done == event.total else event.done
            self._progress()
        elif isinstance(event, Text):
            if self._form == "text":
                self._clear()
                print(_for(sys.stdout, event.text), end="", flush=True)
                self._answer_ends_line = event.text.endswith("\n")
        elif isinstance(event, ReadsOverBudget):
            self._say(
                f"  over budget: {event.kept} of {event.resident} tokens of {event.segment} stay "
                f"(step {self._number + event.step + 1})"
            )
        elif isinstance(event, Renumbered) and self._terminal:
            self._say(
                f"  renumbered {event.residents:,} residents from below {event.from_position:,} "
                f"to below {event.next_position:,} in {event.seconds * 1000:.0f} ms"
            )

    def files_read(self) -> None:
        self._reading = False
        self._clear()

    def question(self, number: int) -> None:
        self._number = number
        if len(self._planned) > 1 and self._form == "text":
            print(_for(sys.stdout, f"## {self._planned[number].step.text}\n"), flush=True)

    def answered(self, number: int, event: Finished) -> None:
        stats = event.stats
        self._document["steps"][number] |= {
            "answer": event.answer,
            "finish_reason": event.reason,
            "stats": stats.as_dict(),
        }
        if self._form == "text" and not self._answer_ends_line:
            print(flush=True)
        for line in stats.lines():
            self._say(f"  {line}")
        if number + 1 < len(self._planned) and self._form == "text":
            print(flush=True)

    def end(self) -> None:
        if self._form == "json":
            last = self._document["steps"][-1]
            self._json(self._document | {"answer": last["answer"]})
        elif self._form == "stream-json":
            self._json({"type": "end"})

    def failed(self, error: PaceError) -> None:
        self._clear()
        if self._form == "text" and not self._answer_ends_line:
            print(flush=True)
        if self._form == "json":
            self._json(self._document | {"error": str(error), "exit_code": error.exit_code})
        elif self._form == "stream-json":
            self._json({"type": "error", "message": str(error), "exit_code": error.exit_code})

    def _progress(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._shown < (0.2 if self._terminal else 10):
            return
        self._shown = now
        rate = self._done / max(now - self._began, 1e-9)
        left = max(self._total - self._done, 0) / max(rate, 1e-9)
        done = min(self._done, self._total)
        text = f"read {done:,} of {self._total:,} tokens, {rate:.0f} a second, {left:.0f} s left"
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._line_open = True
        else:
            self._say(text)

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._clear()
            say(in_one_line(line))  # names of files are in it, and text of theirs

    def _clear(self) -> None:
        if self._line_open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._line_open = False

    def _json(self, document: dict[str, Any]) -> None:
        # In ASCII, so that it can be printed and parsed whatever the encoding of stdout.
        print(json.dumps(document), flush=True)


def _for(stream: TextIO, text: str) -> str:
    """A text of a model or a file as it is, but such that a terminal obeys none of it."""
    return harmless(text) if stream.isatty() else text
