"""The user's own editor, for a longer prompt."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def edit_text(text: str, editor: str = "") -> tuple[str, str]:
    """Have a text edited; the terminal is the editor's meanwhile.

    Args:
        text: what is there already.
        editor: a command; empty: ``$VISUAL``, ``$EDITOR`` or ``vi``.

    Returns:
        The new text, and what went wrong; if something did, the text is as it was.
    """
    command = editor or os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="pace-") as folder:
        file = Path(folder, "prompt.md")
        file.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*shlex.split(command), str(file)], check=False).returncode
        except (OSError, ValueError) as error:
            return text, f"the editor {command!r} cannot be started: {error}; set $EDITOR"
        if code:
            return text, f"the editor {command!r} ended with exit code {code}; the prompt is as it was"
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n"), ""
