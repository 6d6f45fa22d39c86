"""Prompts from before: one file for all repositories, a JSON line each, for their user alone."""

from __future__ import annotations

import json
import os
from collections import deque
from contextlib import suppress
from functools import cached_property
from pathlib import Path

_MOST = 500
"""Prompts that are given."""

_MOST_BYTES = 4 << 20
"""Of the file; one that is larger loses its older half when it is read."""

_LONGEST = 100_000
"""Characters of a prompt that is kept."""


def history_path() -> Path:
    """The file in the user's state folder, whether or not it is there."""
    import platformdirs  # after the first paint

    return platformdirs.user_state_path("pace-local", appauthor=False) / "prompts.jsonl"


class PromptHistory:
    """What was asked for in a repository.

    It is a convenience: what cannot be read or written is left out, and nobody is told.

    Args:
        repository: resolved.
        path: the file; None: the user's own.
    """

    def __init__(self, repository: str | os.PathLike[str], path: Path | None = None) -> None:
        self._repository = os.fspath(repository)
        self._path = path

    @cached_property
    def _file(self) -> Path:
        return history_path() if self._path is None else self._path

    def read(self) -> list[str]:
        """The newest prompts, oldest first, none twice in a row."""
        found: deque[str] = deque(maxlen=_MOST)
        with suppress(OSError):
            data = self._file.read_bytes()
            if len(data) > _MOST_BYTES:
                data = data[len(data) // 2 :].partition(b"\n")[2]
                self._replace(data)
            for line in data.splitlines():
                prompt = self._prompt_in(line)
                if prompt and (not found or found[-1] != prompt):
                    found.append(prompt)
        return list(found)

    def add(self, prompt: str) -> None:
        """Write a prompt down."""
        if len(prompt) > _LONGEST:
            return
        line = json.dumps({"repository": self._repository, "prompt": prompt}).encode() + b"\n"
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # In one write to the end of the file: several screens may be open.
            descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    def _prompt_in(self, line: bytes) -> str:
        with suppress(ValueError, RecursionError):
            document = json.loads(line)
            if isinstance(document, dict) and document.get("repository") == self._repository:
                prompt = document.get("prompt")
                return prompt if isinstance(prompt, str) else ""
        return ""

    def _replace(self, data: bytes) -> None:
        from pace_agent.files.private_file import put_private

        put_private(self._file, data, is_lasting=False)
