"""Variables by whose value a shell, or what it runs, behaves otherwise."""

from __future__ import annotations

import os
import re

from pace_agent.shell.words import names

HARMLESS_VARIABLES = names(
    "LANG LANGUAGE LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME TZ NO_COLOR CLICOLOR"
    " CLICOLOR_FORCE FORCE_COLOR TERM COLUMNS LINES PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED"
    " POSIXLY_CORRECT"
)
"""Variables that may be set for a command that only reads: they change how it prints, and nothing else."""

EVALUATED = re.compile(
    r"S?RANDOM|SECONDS|EPOCH\w+|LINENO|HISTCMD|HISTSIZE|SAVEHIST|OPTIND|COLUMNS|LINES|TMOUT|SHLVL|MAILCHECK"
    r"|LISTMAX|KEYTIMEOUT|FUNCNEST|BASH_\w+|[EP]?[UG]ID"
)
"""Numbers for some shell, which calculates what they are set to, and runs what an index in that says."""

_OF_ZSH = names(
    "path cdpath fpath manpath mailpath module_path fignore psvar prompt argv watch options commands"
    " functions aliases galiases saliases parameters modules mapfile dirstack nameddirs userdirs history"
    " histchars"
)
_COMMON = re.compile(r"[A-Z]|FILES?|DIR|FOLDER|NAME|ITEM|LINE|KEY|VALUE|TEST|MODULE|VERSION|TARGET|PACKAGE")


def means_something(name: str, shell: str) -> bool:
    """Whether a variable may change what a shell runs, or is part of the environment of all that it runs.

    Names in capitals are the shells' own, and each has many; a few that loops commonly have are none's.
    """
    if name in os.environ or (shell == "zsh" and name in _OF_ZSH):
        return True
    return name.isupper() and not _COMMON.fullmatch(name)
