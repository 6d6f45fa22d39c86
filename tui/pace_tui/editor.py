"""The user's own editor, for a longer prompt."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOOK_PAUSE = 0.03
_END_SECONDS = 0.3
"""In which an editor ends that was told to; then it is made to."""


async def edit_text(text: str, editor: str = "") -> tuple[str, str]:
    """Have a text edited; the terminal is the editor's meanwhile, and the loop goes on.

    If this is cancelled, the editor is ended.

    Args:
        text: what is there already.
        editor: a command; empty: ``$VISUAL``, ``$EDITOR`` or ``vi``.

    Returns:
        The new text, and what went wrong; if something did, the text is as it was.
    """
    command = editor or os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        with tempfile.TemporaryDirectory(prefix="pace-", ignore_cleanup_errors=True) as folder:
            return await _edit(Path(folder, "prompt.md"), text, command)
    except OSError as error:
        reason = error.strerror or error
        return text, f"the file for the editor {command!r} cannot be used: {reason}; the prompt is as it was"


async def _edit(file: Path, text: str, command: str) -> tuple[str, str]:
    file.write_text(text, encoding="utf-8")
    try:
        process = subprocess.Popen([*shlex.split(command), str(file)])
    except (OSError, ValueError) as error:
        return text, f"the editor {command!r} cannot be started: {error}; set $EDITOR"
    with _interrupts_left_to_others():
        try:
            while (code := process.poll()) is None:
                await asyncio.sleep(_LOOK_PAUSE)
        finally:
            _end(process)
    if code:
        return text, f"the editor {command!r} ended with exit code {code}; the prompt is as it was"
    return file.read_text(encoding="utf-8", errors="replace").rstrip("\n"), ""


@contextmanager
def _interrupts_left_to_others() -> Iterator[None]:
    """Ctrl+C comes to all that the terminal is given to; it is for the editor."""
    try:
        # Not SIG_IGN, which a process that is started now would inherit.
        before = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    except ValueError:  # not in the main thread, where nobody has Ctrl+C
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End an editor that still runs, and what it has started: it may be a script around one."""
    if process.poll() is not None:
        return
    import psutil

    with suppress(psutil.Error):
        whole = psutil.Process(process.pid)
        all_of_it = [whole, *whole.children(recursive=True)]
        for each in all_of_it:
            with suppress(psutil.Error):
                each.terminate()
        for each in psutil.wait_procs(all_of_it, _END_SECONDS)[1]:
            with suppress(psutil.Error):
                each.kill()
    process.wait()
