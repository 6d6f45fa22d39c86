"""Real git repositories for tests, which no settings of the user or the machine reach."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SETTINGS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_OPTIONAL_LOCKS": "0",
}


def git(folder: Path, *arguments: str, given: bytes = b"", statuses: tuple[int, ...] = (0,)) -> bytes:
    """What a git command writes; its exit status must be one of those named."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=given, capture_output=True, env={**kept, **_SETTINGS}
    )
    assert done.returncode in statuses, done.stderr.decode()
    return done.stdout


def repository(folder: Path) -> Path:
    """An empty repository on branch ``main``."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    return folder


def commit_all(folder: Path, message: str = "state") -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


def write(path: Path, text: str | bytes = "x\n") -> Path:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
