"""What a shell command would do, as far as its text says: the ground for a permission to run it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from pace_agent.safety.paths import Territory
from pace_agent.shell.denials import denied, grave
from pace_agent.shell.folders import MOST_FOLDERS, folders_run_in
from pace_agent.shell.look import Look
from pace_agent.shell.options import NotReadOnlyError
from pace_agent.shell.rules import Reading, is_device, read_only, writes_file
from pace_agent.shell.split import Split, split_command
from pace_agent.shell.words import Redirection, SimpleCommand, names

_CHECKOUT_FILES = names("head commondir gitdir config config.worktree")


@dataclass(frozen=True)
class Judged:
    """One simple command, judged."""

    command: SimpleCommand
    why_asked: str | None
    """Why it is not known to only read; None if it is."""

    grave: str | None
    """Why it is asked about even in mode ``auto``; None if it is not."""

    writes: bool
    """Whether a redirection of it makes or changes a file."""


@dataclass(frozen=True)
class Judgement:
    """What a shell command would do. The reasons are phrases for people, one each."""

    split: Split
    commands: tuple[Judged, ...]
    denied: str | None
    """Why it is refused in every mode."""

    protected: tuple[str, ...]
    """Protected paths that it names, with why each is."""

    outside: tuple[str, ...]
    """Paths that it names outside of the folders that the agent may use."""

    @property
    def is_read_only(self) -> bool:
        """Whether it is known to change nothing, and to read nothing that is protected or outside."""
        harmless = all(each.why_asked is None and not each.writes for each in self.commands)
        return harmless and self.only_writes_inside

    @property
    def only_writes_inside(self) -> bool:
        """Whether all that it changes are files in the folders of the agent, by redirections."""
        return (
            self.split.is_clear
            and self.denied is None
            and not self.protected
            and not self.outside
            and all(each.why_asked is None for each in self.commands)
        )

    @property
    def why_asked(self) -> str:
        """Why it is asked about, in a few words."""
        if self.split.unclear:
            return f"it cannot be fully understood: {self.split.unclear[0]}"
        if self.outside:
            return f"it names {self.outside[0]}"
        reasons = [each.why_asked for each in self.commands if each.why_asked is not None]
        if reasons:
            return reasons[0]
        return "it writes a file" if any(each.writes for each in self.commands) else "it only reads"


def judge(text: str, territory: Territory, *, is_trusted: bool = True) -> Judgement:
    """Judge a shell command that would run in the repository.

    Args:
        text: the command.
        territory: the folders that the agent may use.
        is_trusted: whether the repository was trusted: in one that was not, git's own settings may hold
            commands that any git command runs, so that none counts as only reading.
    """
    split = split_command(text)
    bases, is_known = folders_run_in(split, territory)
    if len(bases) >= MOST_FOLDERS:
        split = replace(split, unclear=(*split.unclear, "the folders that it runs in are too many"))
    look = Look(split, territory, bases, goes_anywhere=not is_known)
    is_trusted = is_trusted and not any(map(_makes_checkout, split.commands))
    judged = tuple(_judge_one(command, look, is_trusted) for command in split.commands)
    return Judgement(
        split, judged, denied(split), tuple(dict.fromkeys(look.protected)), tuple(dict.fromkeys(look.outside))
    )


def _judge_one(command: SimpleCommand, look: Look, is_trusted: bool) -> Judged:
    why: str | None = None
    reading: Reading | None = None
    try:
        reading = read_only(command)
        if command.program == "git" and [word.text for word in command.words[1:]] != ["--version"]:
            if not is_trusted:
                raise NotReadOnlyError("git runs what this folder's settings say, and it is not trusted yet")
            look.settings_of_git()
        for word in reading.paths:
            look.reads(word)
        if reading.sweep is not None:
            look.sweep(reading.sweep)
    except NotReadOnlyError as error:
        why = str(error)
    if reading is None:
        look.guess(command)
    for redirection in command.redirections:
        if redirection.is_file and not is_device(redirection.target.text or ""):
            try:
                look.reads(redirection.target)
            except NotReadOnlyError as error:
                why = why or str(error)
    serious = grave(command, look.is_there) or look.ruin(command) or look.stray(command)
    return Judged(command, why, serious, any(map(writes_file, command.redirections)))


def _makes_checkout(command: SimpleCommand) -> bool:
    """Whether a redirection may make a folder one that git takes its settings from."""
    return any(map(_may_make_checkout, command.redirections))


def _may_make_checkout(redirection: Redirection) -> bool:
    target = redirection.target
    if not writes_file(redirection):
        return False
    return (
        target.text is None
        or target.is_pattern
        or os.path.basename(target.text).casefold() in _CHECKOUT_FILES
    )
