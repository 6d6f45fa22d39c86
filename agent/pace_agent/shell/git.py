"""Which git commands only read. Git has hooks and drivers for much; what may start one is not listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pace_agent.shell.options import NotReadOnlyError, Options, Parsed, options, parse
from pace_agent.shell.words import Word, names

_DIFF = (
    " patch no-patch unified= raw patch-with-raw indent-heuristic minimal patience histogram"
    " diff-algorithm= stat numstat shortstat dirstat summary patch-with-stat name-only name-status"
    " color no-color color-words word-diff word-diff-regex= no-renames check full-index binary abbrev"
    " break-rewrites find-renames find-copies diff-filter= pickaxe-all pickaxe-regex relative text"
    " ignore-cr-at-eol ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines"
    " inter-hunk-context= function-context exit-code quiet no-ext-diff no-textconv no-prefix"
    " src-prefix= dst-prefix= submodule ignore-submodules"
)
_LOG = _DIFF + (
    " oneline pretty format= abbrev-commit no-abbrev-commit decorate no-decorate graph all branches"
    " tags remotes max-count= skip= since= after= until= before= author= committer= grep= all-match"
    " invert-grep regexp-ignore-case merges no-merges first-parent follow full-history topo-order"
    " date-order author-date-order reverse date= left-right cherry-pick cherry-mark boundary"
    " simplify-by-decoration source no-walk merge walk-reflogs parents children notes no-notes"
    " encoding= cc remerge-diff"
)
_LOG_OPTIONS = options("pusqzwbmcitraEFPgRW", "nSGl", _LOG, numbers=True, attached="UMC")
_DIFF_OPTIONS = options(
    "puszwbRaWtr", "SGl", _DIFF + " cached staged merge-base", numbers=True, attached="UMC"
)
_BRANCH = options(
    "arvilq",
    "",
    "list all remotes verbose no-color color column no-column show-current sort= contains="
    " no-contains= merged no-merged points-at= format= ignore-case abbrev no-abbrev",
)
_LISTS = names("l list contains no-contains merged no-merged points-at")


@dataclass(frozen=True)
class _Command:
    options: Options
    needs: frozenset[str] = frozenset()
    """If it has operands, one of these options must be there: else it makes something."""

    most: int | None = None
    words: frozenset[str] | None = None
    """What its first operand may be."""


_COMMANDS: dict[str, _Command] = {
    "status": _Command(
        options(
            "sbvz",
            "",
            "short branch porcelain long verbose untracked-files ignored show-stash ahead-behind"
            " no-ahead-behind renames no-renames column no-column ignore-submodules",
            attached="u",
        )
    ),
    "log": _Command(_LOG_OPTIONS),
    "show": _Command(_LOG_OPTIONS),
    "whatchanged": _Command(_LOG_OPTIONS),
    "diff": _Command(_DIFF_OPTIONS),
    "diff-tree": _Command(_DIFF_OPTIONS),
    "branch": _Command(_BRANCH, needs=_LISTS),
    "tag": _Command(
        options(
            "lin",
            "",
            "list sort= contains= no-contains= merged no-merged points-at= format= column no-column"
            " color ignore-case",
        ),
        needs=names("l list contains no-contains merged no-merged points-at"),
    ),
    "remote": _Command(options("v", "", "verbose"), words=frozenset({"get-url"})),
    "stash": _Command(_LOG_OPTIONS, words=frozenset({"list", "show"})),
    "worktree": _Command(options("vz", "", "porcelain verbose"), words=frozenset({"list"})),
    "reflog": _Command(_LOG_OPTIONS, words=frozenset({"show"})),
    "rev-parse": _Command(
        options(
            "q",
            "",
            "abbrev-ref short verify symbolic symbolic-full-name show-toplevel git-dir"
            " show-prefix show-cdup is-inside-work-tree is-bare-repository all branches tags remotes quiet"
            " absolute-git-dir git-common-dir",
        )
    ),
    "rev-list": _Command(options("n", "n", _LOG + " count objects", numbers=True)),
    "ls-files": _Command(
        options(
            "cdmoikstuvzf",
            "x",
            "cached deleted modified others ignored stage unmerged killed"
            " exclude= exclude-standard error-unmatch full-name abbrev deduplicate directory eol",
        )
    ),
    "ls-tree": _Command(
        options("rdtlz", "", "name-only name-status long full-name full-tree abbrev object-only")
    ),
    "blame": _Command(
        options(
            "bltfnsewCMp",
            "L",
            "root show-stats porcelain line-porcelain date= abbrev color-lines"
            " show-name show-number show-email",
        )
    ),
    "describe": _Command(
        options(
            "",
            "",
            "all tags long always dirty abbrev exact-match first-parent match= exclude= candidates= contains",
        )
    ),
    "shortlog": _Command(options("nsec", "", "numbered summary email group= no-merges all since= until=")),
    "grep": _Command(
        options(
            "aIiwvhHEGFPnlLcopW",
            "eABCm",
            "text ignore-case word-regexp invert-match full-name extended-regexp"
            " basic-regexp perl-regexp fixed-strings line-number column files-with-matches name-only"
            " files-without-match count color no-color break heading show-function context= after-context="
            " before-context= function-context max-depth= cached untracked and or not all-match quiet",
            numbers=True,
        )
    ),
    "cat-file": _Command(options("petsz")),
    "merge-base": _Command(options("a", "", "all is-ancestor fork-point octopus independent")),
    "name-rev": _Command(options("", "", "name-only tags refs= always")),
    "for-each-ref": _Command(
        options("", "", "count= sort= format= points-at= merged no-merged contains no-contains color")
    ),
    "show-ref": _Command(options("dsqh", "", "head tags heads branches verify hash abbrev")),
    "check-ignore": _Command(options("qvn", "", "quiet verbose non-matching no-index")),
    "count-objects": _Command(options("vH", "", "verbose human-readable")),
    "version": _Command(options("", "", "build-options")),
}
_CONFIG_KEYS = ("user.", "core.", "init.", "branch.", "pull.", "push.", "merge.", "color.")


def read_git(words: Sequence[Word]) -> tuple[str, list[Word]]:
    """The name of a git command that only reads, and which of its words may be paths.

    Args:
        words: without ``git`` itself.

    Raises:
        NotReadOnlyError: if it is not known to only read.
    """
    at = 0
    while at < len(words) and words[at].text in (
        "--no-pager",
        "-P",
        "--no-optional-locks",
        "--literal-pathspecs",
    ):
        at += 1
    name = words[at].text if at < len(words) else None
    if name is None or words[at].is_pattern:
        raise NotReadOnlyError("a git command that the text does not show")
    rest = words[at + 1 :]
    if name == "config":
        return name, _config(rest)
    command = _COMMANDS.get(name)
    if command is None:
        raise NotReadOnlyError(f"git {name}")
    parsed = parse(rest, command.options)
    _check(name, command, parsed)
    operands = parsed.operands
    if name == "grep" and "e" not in parsed.options:
        operands = operands[1:]
    return name, [*(_path_part(word) for word in operands), *parsed.paths]


def _check(name: str, command: _Command, parsed: Parsed) -> None:
    operands = parsed.operands
    if command.needs and operands and not command.needs & parsed.options.keys():
        raise NotReadOnlyError(f"git {name} with a name makes one")
    if command.words is not None and operands and operands[0].text not in command.words:
        raise NotReadOnlyError(f"git {name} {operands[0].raw}")
    if name == "stash" and not operands:
        raise NotReadOnlyError("git stash puts changes away")


def _config(words: Sequence[Word]) -> list[Word]:
    if len(words) == 2 and words[0].text in ("--get", "get"):
        key = words[1].text or ""
        if key.startswith(_CONFIG_KEYS) and not words[1].is_pattern:
            return []
    raise NotReadOnlyError("git config")


def _path_part(word: Word) -> Word:
    """The path in ``revision:path``, which names a file in another version; else the word."""
    text = word.text or ""
    _, colon, path = text.rpartition(":")
    if colon and path:
        return Word(word.raw, path.lstrip("/"), word.is_pattern)
    return word
