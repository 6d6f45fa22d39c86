"""The folders that the commands of a text may run in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pace_agent.safety.paths import Territory
from pace_agent.shell.split import Split
from pace_agent.shell.words import SimpleCommand, Word

MOST_FOLDERS = 64
"""Folders that the commands of a text may run in; with more, the text is unclear."""

_GOES_TO = re.compile(r"(?:-C|--directory|--chdir|--cwd|--prefix|--dir)(?:=?(.+))?", re.DOTALL)
"""Options by which many programs run in another folder."""

_HOME = Word("~", "~", has_tilde=True)


def folders_run_in(split: Split, territory: Territory) -> tuple[tuple[Path, ...], bool]:
    """The folders that a relative path may start from, and whether the text shows where each ``cd`` leads.

    They are the repository, and wherever the text's ``cd`` and options like ``-C`` lead, in any order and any
    number of times: one may stand in a loop or fail. A shell goes up by the text of the path (``link/..``),
    programs by where it leads, so that both are taken.
    """
    steps: list[str] = []
    is_known = True
    for command in split.commands:
        for word in _folders_named(command):
            if word.text is None or word.is_pattern:
                is_known = is_known and command.program not in ("cd", "pushd")
            else:
                steps.append(spelled_out(word))
    bases = [territory.repository]
    for base in bases:  # grows
        if not (os.path.isdir(base) and territory.contains(str(base))):
            continue
        for step in dict.fromkeys(steps):
            path = os.path.join(base, os.path.expanduser(step))
            for each in (Path(os.path.normpath(path)), Path(os.path.realpath(path))):
                if each not in bases and len(bases) < MOST_FOLDERS:
                    bases.append(each)
    return tuple(bases), is_known


def _folders_named(command: SimpleCommand) -> Iterator[Word]:
    """The words of a command that name a folder it runs in, or that those after it do."""
    words = command.words[1:]
    if command.program in ("cd", "pushd"):
        operands = [word for word in words if not re.match(r"[-+]", word.text or "")]
        yield from operands or ([] if words else [_HOME])
        return
    for number, word in enumerate(words):
        match = _GOES_TO.fullmatch(word.text or "")
        if match is not None and match[1]:
            yield Word(word.raw, match[1], word.is_pattern)
        elif match is not None and number + 1 < len(words):
            yield words[number + 1]


def spelled_out(word: Word) -> str:
    """The path that a word is, with a ``~`` in front only where the shell puts a home folder for it."""
    text = word.text or ""
    return f"./{text}" if text.startswith("~") and not word.has_tilde else text
