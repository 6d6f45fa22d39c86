"""What the user has approved beforehand: tools, and commands by the words that they begin with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from pace_agent.files.folder_identity import identity_from, identity_of
from pace_agent.files.private_file import UnusableFileError, changing, read_private, write_private
from pace_agent.shell.words import names
from pace_agent.shell.wrappers import SHELLS
from pace_local.errors import StorageError

_FORMAT = 2
_MOST_WORDS = 64

_SUBCOMMANDS = names(
    "git npm pnpm yarn bun cargo go docker podman kubectl pip pip3 uv poetry hatch tox nox make cmake"
    " gh conda apt apt-get brew dotnet gradle mvn bundle gem rake just terraform systemctl composer"
    " mix"
)
"""Programs whose first argument says what they do: the prefix that is offered has that word too."""

_OF_TWO_WORDS = names("npm:run pnpm:run yarn:run bun:run uv:run poetry:run docker:compose uv:pip go:tool")
_RUNS_ANYTHING = SHELLS | names(
    "python python2 python3 pypy pypy3 node deno bun perl ruby php lua Rscript awk gawk mawk sed env"
    " sudo doas xargs eval exec find fd ssh docker podman npx make uv poetry watch time nice nohup"
    " timeout command builtin rm mv cp dd chmod chown git npm yarn pnpm cargo go osascript source ."
)
"""Programs that can do anything, by what follows them: never approved by their name alone."""


@dataclass(frozen=True)
class Approval:
    """A tool, or the commands of a tool that begin with certain words."""

    tool: str
    prefix: tuple[str, ...] = ()
    """Words, not characters: ``("git", "log")`` covers ``git log -p``, but not ``git logs``."""

    @property
    def shown(self) -> str:
        """For people."""
        return f"{' '.join(self.prefix)} …" if self.prefix else self.tool


def suggested_prefix(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command by which to approve others like it: as few as still say what it does."""
    if not words:
        return ()
    if words[0] in ("sudo", "doas", "xargs"):
        return tuple(words)
    if ":".join(words[:2]) in _OF_TWO_WORDS:
        return tuple(words[:3])
    if words[0] in _SUBCOMMANDS:
        # An option before the subcommand may change what it does; then all words count.
        return tuple(words[:2]) if len(words) > 1 and not words[1].startswith("-") else tuple(words)
    if words[0] in _RUNS_ANYTHING or "/" in words[0]:
        if words[0].startswith("python") and list(words[1:2]) == ["-m"]:
            return tuple(words[:3])
        return tuple(words)
    return (words[0],)


def is_too_broad(approval: Approval) -> bool:
    """Whether an approval would cover whatever a shell can do."""
    prefix = approval.prefix
    if not prefix:
        return approval.tool == "shell"
    bare = prefix[0].rpartition("/")[2]
    if bare not in _RUNS_ANYTHING:
        return False
    if len(prefix) == 1:
        return True
    if bare in ("sudo", "doas", "xargs", "env", "time", "nice", "nohup", "timeout", "command", "exec"):
        return is_too_broad(Approval(approval.tool, prefix[1:])) or all(
            word.startswith("-") for word in prefix[1:]
        )
    inline = {"-c", "-e", "-i", "-s", "-", "-m", "-lc"}
    return len(prefix) == 2 and prefix[1] in inline


def approvals_path(repository: Path) -> Path:
    """The file of a project's approvals, in the user's config folder: the agent cannot write there."""
    digest = hashlib.sha256(str(repository).encode(errors="surrogateescape")).hexdigest()[:32]
    return platformdirs.user_config_path("pace-local", appauthor=False) / "approvals" / f"{digest}.json"


class ProjectApprovals:
    """The approvals of one project, in a file that is its user's alone.

    A broken file counts as empty, and :attr:`warnings` says so; it is replaced when something is approved.
    So is one of another folder, also of one that was at the same path: that held another project.

    Args:
        path: of the file.
        repository: the project's folder, resolved.
    """

    def __init__(self, path: Path, repository: Path) -> None:
        self.path = path
        self.repository = repository
        self.warnings: list[str] = []

    def read(self) -> frozenset[Approval]:
        """All approvals. Raises nothing."""
        try:
            content = read_private(self.path)
            if not content:
                return frozenset()
            entries = content.get("approvals")
            if content.get("format") != _FORMAT or not isinstance(entries, list):
                raise UnusableFileError(
                    f"{self.path} is no file of approvals of format {_FORMAT}; delete it, or approve anew"
                )
            if content.get("folder") != str(self.repository):
                raise UnusableFileError(f"{self.path} is for another folder, {content.get('folder')!r}")
            known = identity_from(content)
            if known is None or not identity_of(self.repository).is_same(known):
                raise UnusableFileError(
                    f"{self.path} is for another folder that was {self.repository} before"
                )
        except OSError as error:
            self._warn(f"{self.repository}: {error.strerror or error}; the project has no approvals")
            return frozenset()
        except UnusableFileError as error:
            self._warn(f"{error}; the project has no approvals")
            return frozenset()
        read = [_approval(entry) for entry in entries]
        if None in read:
            self._warn(f"{self.path} has entries that are no approvals; they are ignored")
        return frozenset(approval for approval in read if approval is not None)

    def add(self, approvals: Iterable[Approval]) -> None:
        """Remember further approvals.

        Raises:
            StorageError: if they cannot be written down, or the project's folder is gone.
        """
        with changing(self.path):
            every = sorted({*self.read(), *approvals}, key=lambda each: (each.tool, each.prefix))
            entries = [{"tool": each.tool, "prefix": list(each.prefix)} for each in every]
            try:
                identity = identity_of(self.repository).document()
            except OSError as error:
                raise StorageError(
                    f"cannot approve for {self.repository}: {error.strerror or error}"
                ) from error
            content = {"format": _FORMAT, "folder": str(self.repository), **identity, "approvals": entries}
            write_private(self.path, content)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def _approval(content: Any) -> Approval | None:
    if not isinstance(content, dict):
        return None
    tool, prefix = content.get("tool"), content.get("prefix")
    if not isinstance(tool, str) or not tool or not isinstance(prefix, list) or len(prefix) > _MOST_WORDS:
        return None
    if not all(isinstance(word, str) and word for word in prefix):
        return None
    approval = Approval(tool, tuple(prefix))
    return None if is_too_broad(approval) else approval
