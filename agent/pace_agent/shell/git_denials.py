"""Git commands that are refused in every mode, or asked about even where all else runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_DISCARDS = "it discards changes that are stored nowhere else"
_RUNS = "what git runs for it is not looked at"
_ALWAYS = {
    "push": "it publishes commits",
    "clean": "it deletes files that git does not have",
    "filter-branch": "it rewrites history",
    "filter-repo": "it rewrites history",
    "prune": "it deletes what undoing would need",
}
_BY_OPTION = {
    "reset": ("", "hard merge keep", _DISCARDS),
    "switch": ("fC", "force discard-changes force-create", _DISCARDS),
    "checkout": ("fB", "force pathspec-from-file", _DISCARDS),
    "checkout-index": ("f", "force", _DISCARDS),
    "read-tree": ("", "reset", _DISCARDS),
    "branch": ("dDMCf", "delete force", "it deletes a branch, or takes its commits away"),
    "tag": ("df", "delete force", "it deletes a tag, or takes its commit away"),
    "update-ref": ("d", "delete stdin", "it deletes a reference"),
    "symbolic-ref": ("d", "delete", "it deletes a reference"),
    "reflog": ("", "", "it deletes what undoing would need"),
    "gc": ("", "prune", "it deletes what undoing would need"),
    "submodule": ("f", "force", _DISCARDS),
    "rebase": ("", "abort skip quit", _DISCARDS),
    "merge": ("", "abort quit", _DISCARDS),
    "cherry-pick": ("", "abort skip quit", _DISCARDS),
    "revert": ("", "abort skip quit", _DISCARDS),
    "am": ("", "abort skip quit", _DISCARDS),
}
"""Subcommands that are grave with one of these letters or words as an option."""

_WITH_VALUE = {"tag": "mFu", "checkout": "b", "switch": "c"}
"""Letters of options whose value may follow in the same word."""

_RUNNING = {("submodule", "foreach"), ("bisect", "run")}
"""Subcommands of two words that run another command."""

_VALUED = frozenset(
    ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--attr-source"]
)


def force_push(texts: Sequence[str]) -> str | None:
    """Why a push is refused; None if it is none, or forces nothing.

    Args:
        texts: the words behind ``git``.
    """
    words = _git_words(texts)
    if words[:1] != ["push"]:
        return None
    for text in words[1:]:
        name = text[2:].partition("=")[0] if text.startswith("--") else ""
        forced = len(name) > 1 and any(each.startswith(name) for each in ("force-with-lease", "mirror"))
        forced = forced or text.startswith("+")
        if forced or re.fullmatch(r"-[a-zA-Z]*f[a-zA-Z]*", text):
            return f"git push {text} overwrites what others have"
    return None


def grave_git(texts: Sequence[str], is_there: Callable[[str], bool]) -> str | None:
    """Why a git command is asked about even in mode ``auto``; None if it is not.

    Args:
        texts: the words behind ``git``.
        is_there: whether a word is the name of a file or folder.
    """
    words = _git_words(texts)
    own = texts[: len(texts) - len(words)]
    if any(re.match(r"(?:-c|--config-env=)?alias\.", text, re.IGNORECASE) for text in own):
        return "what an alias of git runs is not looked at"
    if not words:
        return None
    name, rest = words[0], words[1:]
    if name in _ALWAYS:
        return _ALWAYS[name]
    letters, longs, why = _BY_OPTION.get(name, ("", "", ""))
    if why and _has(rest, letters, longs, _WITH_VALUE.get(name, "")):
        return why
    operand = next((word for word in rest if not word.startswith("-")), "")
    if (name, operand) in _RUNNING or (name == "rebase" and _has(rest, "x", "exec", "sSXC")):
        return _RUNS
    if name == "reflog" and rest[:1] and rest[0] in ("expire", "delete"):
        return why
    if name == "checkout" and _takes_files(rest, is_there):
        return _DISCARDS
    if name == "restore" and (not _has(rest, "S", "staged", "s") or _has(rest, "W", "worktree", "s")):
        return _DISCARDS
    if name == "stash" and rest[:1] and rest[0] in ("drop", "clear"):
        return _DISCARDS
    if name == "rm" and _has(rest, "f", "force") and not _has(rest, "", "cached"):
        return _DISCARDS
    if name == "worktree" and rest[:1] == ["remove"] and _has(rest, "f", "force"):
        return _DISCARDS
    return None


def _takes_files(words: Sequence[str], is_there: Callable[[str], bool]) -> bool:
    """Whether ``git checkout`` replaces files, and does not change to a branch."""
    if "--" in words or "." in words:
        return True
    if _has(words, "b", "orphan"):
        return False
    operands = [word for word in words if not word.startswith("-")]
    return len(operands) > 1 or any(re.search(r"[*?\[]|^:", word) or is_there(word) for word in operands)


def _has(words: Sequence[str], letters: str, longs: str, valued: str = "") -> bool:
    """Whether an option is among words, alone, in one word with others, or abbreviated as git allows it.

    What follows a ``valued`` letter in one word is its value.
    """
    for word in words:
        if word == "--":
            return False
        if word.startswith("--"):
            name = word[2:].partition("=")[0]
            if any(long.startswith(name) for long in longs.split()):
                return True
        elif letters and re.fullmatch(f"-[^{valued}-]*[{letters}].*", word, re.DOTALL):
            return True
    return False


def _git_words(texts: Sequence[str]) -> Sequence[str]:
    """The subcommand and what follows, without options of git itself."""
    at = 0
    while at < len(texts) and texts[at].startswith("-"):
        at += 2 if texts[at] in _VALUED else 1
    return texts[at:]
