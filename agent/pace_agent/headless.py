"""A run without a screen: the result on one stream, how it goes on another, and an exit code."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO

from pace_agent.events import AgentEvent, Ended, as_dict
from pace_agent.files.atomic_write import real_path, write_atomically
from pace_agent.reporting.event_lines import is_result
from pace_agent.reporting.progress import Progress
from pace_agent.reporting.run_summary import EXIT_CODES, RunSummary
from pace_local.errors import FileError, InputError, PaceError, StorageError
from pace_local.harmless_text import harmless
from pace_local.wording import jsonable

OutputFormat = Literal["text", "json", "stream-json"]
"""The answer; one object at the end; every event as a line of JSON."""


class Runs(Protocol):
    """What works on a prompt; :class:`pace_agent.Agent` is one."""

    def run(
        self, prompt: str, *, max_turns: int | None = None, time_limit: float | None = None
    ) -> Iterator[AgentEvent]:
        """Work on a prompt; the last event is :class:`~pace_agent.events.Ended`."""

    def cancel(self) -> None:
        """Ask the run to end; from any thread."""


def run_headless(
    agent: Runs,
    prompt: str,
    *,
    output: OutputFormat = "text",
    out: TextIO | None = None,
    err: TextIO | None = None,
    file: str | os.PathLike[str] | None = None,
    max_turns: int | None = None,
    time_limit: float | None = None,
    listener: Callable[[AgentEvent], None] = lambda event: None,
) -> int:
    """Let an agent work on a prompt, and print what comes of it.

    Progress goes to ``err``, a line each, whatever the form of the result. If the reader of ``out`` goes
    away, the run is cancelled. As ``text``, an answer or a question is the result; what went wrong belongs
    to the progress.

    Args:
        agent: what works.
        prompt: what it is asked.
        output: what goes to ``out``.
        out: None: stdout.
        err: None: stderr.
        file: gets the result too, replaced in one step: the text, or the object for the forms of JSON.
        max_turns: see :meth:`pace_agent.Agent.run`.
        time_limit: the same, in seconds.
        listener: given every event too.

    Returns:
        The exit code: see :data:`~pace_agent.reporting.run_summary.EXIT_CODES`; 1 if nobody was there to read
        the result; 2 if ``file`` could not be written, which is said.

    Raises:
        FileError: if ``file`` cannot be one; before anything is done.
        Whatever the run raises.
    """
    if file is not None:
        check_output_file(file)
    summary = RunSummary()
    progress = Progress(sys.stderr if err is None else err)
    result = _Result(sys.stdout if out is None else out, agent)
    for event in agent.run(prompt, max_turns=max_turns, time_limit=time_limit):
        summary.take(event)
        progress.take(event)
        listener(event)
        if output == "stream-json":
            result.print(_line(as_dict(event)))
        else:
            result.look()
    progress.close()
    ended = summary.ended
    assert ended is not None, "a run ends with Ended"
    code = EXIT_CODES[ended.reason]
    if ended.reason == "refused":
        progress.say("nobody is here to allow it: --mode accept-edits or auto allows more")
    text = _text(ended) if output == "text" else _line(summary.document())
    if file is not None and text:
        try:
            _write_file(Path(file), text)
        except InputError as error:
            progress.say(f"pace: {error}")
            code = error.exit_code
    if output != "stream-json":
        result.print(text)
    return code if result.is_read else 1


def print_error(error: PaceError, output: OutputFormat, out: TextIO | None = None) -> None:
    """Tell readers of JSON that there was no run, or that it broke off; ``text`` has stderr for that."""
    stream = sys.stdout if out is None else out
    fault = {"exit_code": error.exit_code}
    if output == "json":
        print(json.dumps({"result": "", "reason": "failed", "error": str(error), **fault}), file=stream)
    elif output == "stream-json":
        print(json.dumps({"type": "error", "message": str(error), **fault}), file=stream)


def check_output_file(file: str | os.PathLike[str]) -> None:
    """Refuse what the result cannot be written to, before any work is done.

    Raises:
        FileError: a folder, or in a folder that is not there.
    """
    path = Path(file)
    if path.is_dir():
        raise FileError(f"cannot write the result to {str(path)!r}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise FileError(f"cannot write the result to {str(path)!r}: no such folder; make it first")


class _Result:
    """Where the result goes; once its reader is gone, the run is cancelled, and nothing more is printed."""

    def __init__(self, stream: TextIO | None, agent: Runs) -> None:
        self._stream = stream
        self._agent = agent
        self.is_read = True

    def print(self, text: str) -> None:
        if self.is_read and self._stream is not None:
            try:
                self._stream.write(harmless(text) if self._stream.isatty() else text)
                self._stream.flush()
            except BrokenPipeError:
                self._give_up()

    def look(self) -> None:
        """Find out whether somebody still reads, while there is nothing to print."""
        if self.is_read and is_abandoned(self._stream):
            self._give_up()

    def _give_up(self) -> None:
        self.is_read = False
        self._agent.cancel()


def is_abandoned(stream: TextIO | None) -> bool:
    """Whether a stream is a pipe or a socket that nobody reads any more."""
    if stream is None or not hasattr(select, "poll"):
        return False
    try:
        descriptor = stream.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(found & (select.POLLERR | select.POLLHUP) for _, found in poll.poll(0))


def _text(ended: Ended) -> str:
    """The result as text, whole lines; empty if there is none."""
    if not is_result(ended) or not ended.result:
        return ""
    return ended.result if ended.result.endswith("\n") else ended.result + "\n"


def _line(document: dict[str, Any]) -> str:
    # In ASCII, so that it can be printed and parsed whatever the encoding of stdout.
    return json.dumps(jsonable(document)) + "\n"


def _write_file(path: Path, text: str) -> None:
    """Give a file a content in one step; what is no regular file, such as a pipe, is written to.

    Raises:
        StorageError, ToolError: if it cannot be written.
    """
    data = text.encode("utf-8", "backslashreplace")
    real = real_path(path)
    if not real.exists() or real.is_file():
        write_atomically(real, data)
        return
    try:
        with real.open("wb") as stream:
            stream.write(data)
    except OSError as error:
        raise StorageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
