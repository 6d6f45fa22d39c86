"""Starts a run for each comment that asks for something, as files are saved.

A comment that ends in ``AI!`` is done, one that ends in ``AI?`` is answered, see
:mod:`pace_agent.watching.comments`; when that has succeeded, the comment is removed. One that failed is not
tried again until it changes.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pace_agent.errors import StaleError
from pace_agent.events import AgentEvent, Changed
from pace_agent.headless import Runs
from pace_agent.planning.intent import ANSWER_ONLY
from pace_agent.reporting.event_lines import counted, diff_lines
from pace_agent.repository.ignoring import Ignoring
from pace_agent.repository.walk import Walk, shown
from pace_agent.safety.permissions import Mode
from pace_agent.safety.protected import protection
from pace_agent.watching.changes import Batch
from pace_agent.watching.comments import Request, find_requests, without_comment
from pace_local.errors import FileError, InputError
from pace_local.files import MAX_FILE_BYTES, read_text

_LINES_BEFORE = 15
_LINES_AFTER = 25
"""Lines of the file around a comment that the prompt shows."""
_LONGEST_LINE = 400
"""Characters of one of them: a file may have a line of a megabyte."""
_MARKS = ("AI!", "AI?")
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Edits(Runs, Protocol):
    """An agent as it is needed here; :class:`pace_agent.Agent` is one."""

    mode: Mode

    def note(self, text: str) -> None:
        """Have the model told something before its next turn."""

    def edit(self, path: str, text: str, *, expected: str | None = None) -> None:
        """Give a file of the repository a new text, journaled as a change of the agent's.

        Raises:
            InputError: if it cannot be written.
        """


class CommentWatch:
    """Finds requests in comments, and has them done one by one, in order.

    Args:
        agent: what works.
        root: the repository, resolved.
        ask: has the agent work on a prompt, shows how that goes, and says whether it was done; what it is
            given beside the prompt is told each event.
        say: told what a user should know.
        stopped: whether somebody asked to stop.
    """

    def __init__(
        self,
        agent: Edits,
        root: Path,
        *,
        ask: Callable[[str, Callable[[AgentEvent], None]], bool],
        say: Callable[[str], None],
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._agent = agent
        self._root = root
        self._ask = ask
        self._say = say
        self._stopped = stopped
        # Requests that are not to be started (again), by file. Of two that are alike, either may be meant.
        self._known: dict[str, Counter[str]] = {}
        # Lines with a mark that the agent wrote, by file: it must not set itself to work.
        self._written: dict[str, set[str]] = {}

    def look(self) -> list[Request]:
        """Take all requests that are in the repository's files now as known, and give them."""
        found: list[Request] = []
        for entry in Walk(Ignoring(self._root)):
            if not entry.is_folder and not entry.is_link:
                found += self._new(entry.path)
        return found

    def follow(self, batches: Iterable[Batch]) -> None:
        """Start what batches of changes bring, until there are no more or somebody asks to stop."""
        for batch in batches:
            new = self.take(batch)
            if batch.head is None:
                self.do(new)
            elif new:
                # Somebody else may have written them: they are not what the user has just asked for.
                self._say(
                    f"{counted(len(new), 'request')} not started, as a commit was checked out or made "
                    f"({batch.head}); change a comment to have it started"
                )
            if self._stopped():
                return

    def take(self, batch: Batch) -> list[Request]:
        """The new requests of a batch; they are known from now on. What the agent wrote itself is none."""
        found: list[Request] = []
        moved = [change for change in batch.changes if change.old_path is not None]
        known = {change.path: self._known.pop(change.old_path or "", None) for change in moved}
        self._known.update({path: requests for path, requests in known.items() if requests})
        for change in batch.changes:
            if change.kind == "deleted":
                self._known.pop(change.path, None)
                continue
            found += self._new(change.path)
        return found

    def do(self, requests: Iterable[Request]) -> None:
        """Have requests done that are still there."""
        for request in requests:
            if self._stopped():
                return
            current = self._current(request)
            if current is None:
                self._forget(request)
                continue
            request, text = current
            what = "does" if request.kind == "do" else "answers"
            words = f": {shown(request.text)}" if request.text else ""
            self._say(f"{shown(request.path)}:{request.line} {what}{words}")
            # No part of the prompt: a path that the code names is not one that the user names.
            self._agent.note(place_of(request, text))
            alike = self._count(request)
            with self._mode_for(request):
                is_done = self._ask(prompt_of(request), self._hear)
            if is_done and self._count(request) < alike:  # the run has removed it: what is left is another
                self._forget(request)
            elif is_done:
                self._remove(request)
            elif not self._stopped():
                self._say(f"{shown(request.path)}: not done; change the comment to have it tried again")

    def _new(self, path: str) -> list[Request]:
        """Requests of a file that were not known; what is not there any more is forgotten."""
        text = self._read(path)
        requests = find_requests(path, text) if text is not None else []
        left = Counter(request.key for request in requests) & self._known.get(path, Counter())
        new = []
        for request in requests:
            if left[request.key] > 0:
                left[request.key] -= 1
            elif not self._is_written_by_agent(request):
                new.append(request)
        self._known.pop(path, None)
        if requests:
            self._known[path] = Counter(request.key for request in requests)
        return new

    def _hear(self, event: AgentEvent) -> None:
        """Take note of requests that the agent writes into files."""
        if not isinstance(event, Changed) or event.by == "user":
            return
        lines = diff_lines(event.diff)
        if lines is None:  # too much to be shown: all that is there now and was not known
            written = {request.raw for request in self._new(event.path)}
        else:
            # A line that was moved or indented anew is not the agent's.
            written = {line.strip() for line in lines[0]} - {line.strip() for line in lines[1]}
        marked = {line for line in written if any(mark in line for mark in _MARKS)}
        if marked:
            self._written.setdefault(event.path, set()).update(marked)

    def _is_written_by_agent(self, request: Request) -> bool:
        marked = request.raw.rpartition("\n")[2].strip()
        return any(marked in line for line in self._written.get(request.path, ()))

    def _current(self, request: Request) -> tuple[Request, str] | None:
        """A request where it stands now, with the file's text; None if it is gone."""
        text = self._read(request.path)
        same = _alike(request, text)
        if text is None or not same:
            return None
        return min(same, key=lambda one: abs(one.line - request.line)), text

    def _count(self, request: Request) -> int:
        """How many requests like one its file holds."""
        return len(_alike(request, self._read(request.path)))

    def _remove(self, request: Request) -> None:
        """Take the comment of a request that is done out of its file, unless it is gone already."""
        text = self._read(request.path)
        new_text = without_comment(text, request) if text is not None else None
        if new_text is not None and new_text != text:
            try:
                self._agent.edit(request.path, new_text, expected=text)
            except StaleError:  # the user has saved it just now
                self._remove(request)
                return
            except InputError as error:
                self._say(f"warning: the comment stays in {shown(request.path)}: {error}")
                return
        self._forget(request)

    def _forget(self, request: Request) -> None:
        """The same comment, written once more, is a new request."""
        known = self._known.get(request.path)
        if known is not None and known[request.key] > 0:
            known[request.key] -= 1

    def _read(self, path: str) -> str | None:
        """The text of a file that may ask for something; None of any other."""
        if protection(path.split("/")) is not None:
            return None
        file = self._root / path
        try:
            if file.is_symlink() or file.stat().st_size > MAX_FILE_BYTES:
                return None
            data = file.read_bytes()
            # Most files hold no mark, and need no reading as text.
            if not data.startswith(_WIDE) and not any(mark.encode() in data for mark in _MARKS):
                return None
            return read_text(file).text
        except (OSError, FileError):  # gone, or no text
            return None

    @contextmanager
    def _mode_for(self, request: Request) -> Iterator[None]:
        """A question changes nothing, whatever the agent may do otherwise."""
        mode = self._agent.mode
        if request.kind == "answer":
            self._agent.mode = Mode.PLAN
        try:
            yield
        finally:
            if self._agent.mode != mode:
                self._agent.mode = mode


def _alike(request: Request, text: str | None) -> list[Request]:
    """The requests of a text that are like one: those of its file that it cannot be told from."""
    return [one for one in find_requests(request.path, text or "") if one.key == request.key]


def place_of(request: Request, text: str) -> str:
    """The lines around a request, with their numbers.

    Args:
        request: where it stands now.
        text: of its file.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    first = max(1, request.line - _LINES_BEFORE)
    last = min(len(lines), request.last_line + _LINES_AFTER)
    place = "\n".join(f"{number}: {lines[number - 1][:_LONGEST_LINE]}" for number in range(first, last + 1))
    where = f"{request.path}, lines {first} to {last}"
    return f"{where}, around the comment that the user asks about next:\n\n{place}"


def prompt_of(request: Request) -> str:
    """What the agent is asked: the words of a comment, and where it stands now."""
    where = f"line {request.line}"
    if request.last_line != request.line:
        where = f"lines {request.line} to {request.last_line}"
    if request.kind == "do":
        head = f"A comment in {request.path}, {where}, asks for a change:"
        tail = "Make that change. Leave the comment itself as it is: it is removed when you are done."
    else:
        head = f"A comment in {request.path}, {where}, asks a question:"
        tail = f"Answer the question in words. {ANSWER_ONLY}"
    words = request.text or "(it says nothing more; the code around it shows what is meant)"
    return f"{head}\n\n{words}\n\n{tail}\n"
