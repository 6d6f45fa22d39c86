"""Asks ripgrep, where it is installed, which files a search need not read.

Python's and Rust's expressions differ in what they mean (words, ends, look-ahead, letters without case), so
ripgrep is given a looser expression, which matches every line that Python's does, and some more. What then
is found in the files that are left is Python's to say: a search finds the same with ripgrep and without.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ARGUMENT_BYTES = 200_000
"""Bytes of file names that are given at once; systems take 1 MB and more."""

_LOOK_SECONDS = 0.1
_WIDE = r"[\x80-\xff]+"
"""Any characters beyond ASCII, and any bytes that are no UTF-8: compared by Python alone."""
_LETTERS = frozenset(map(ord, "iIkKsS"))
"""Letters that Python takes for some beyond ASCII where case is ignored: İ, ı, K (Kelvin), ſ."""
_ASCII = frozenset(range(1, 128)) - {ord("\n")}
_CATEGORIES: dict[str, frozenset[int]] = {
    "DIGIT": frozenset(c for c in _ASCII if chr(c).isdigit()),
    "SPACE": frozenset(c for c in _ASCII if chr(c).isspace()),
    "WORD": frozenset(c for c in _ASCII if chr(c).isalnum() or c == ord("_")),
}
_OPTIONS = (
    *("--no-config", "--files-with-matches", "--null", "--no-messages", "--color=never", "--text"),
    *("--no-ignore", "--hidden", "--no-mmap", "--case-sensitive", "--engine=default", "--regexp"),
)


def find_ripgrep(roots: Sequence[Path]) -> str | None:
    """The path of ripgrep; None if it is not installed, or lies in a folder that the agent works in."""
    found = shutil.which("rg")
    if found is None or not os.path.isabs(found):
        return None
    real = Path(os.path.realpath(found))
    return None if any(real.is_relative_to(root) for root in roots) else str(real)


class Sieve:
    """Says which files may hold lines that match an expression.

    Args:
        program: path of ripgrep.
        regex: what is searched for.
        root: folder that the files' paths start from.
    """

    def __init__(self, program: str, regex: re.Pattern[str], root: Path) -> None:
        self._program = program
        self._root = root
        self._pattern = loosened(regex)

    def kept(self, paths: Sequence[str], deadline: float, cancel: threading.Event | None) -> frozenset[str]:
        """Those that must be read; all of them if ripgrep cannot say, or is not done in time.

        Args:
            paths: of regular files, relative to the root; of at most about :data:`ARGUMENT_BYTES`.
            deadline: on :func:`time.monotonic`'s clock.
            cancel: ends it when set.
        """
        if self._pattern is None or not paths:
            return frozenset(paths)
        # "./" before a name that begins with a hyphen; nothing is read from standard input.
        command = [self._program, *_OPTIONS, self._pattern, "--", *(f"./{path}" for path in paths)]
        try:
            process = subprocess.Popen(
                command,
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return frozenset(paths)
        with process:
            output = _output(process, deadline, cancel)
        # 0: some match, 1: none does; else it could not read the expression or one of the files.
        if output is None or process.returncode not in (0, 1):
            return frozenset(paths)
        return frozenset(os.fsdecode(name)[2:] for name in output.split(b"\0") if name)


def _output(
    process: subprocess.Popen[bytes], deadline: float, cancel: threading.Event | None
) -> bytes | None:
    while True:
        try:
            return process.communicate(timeout=_LOOK_SECONDS)[0]
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline or (cancel is not None and cancel.is_set()):
                process.kill()
                process.communicate()
                return None


def loosened(regex: re.Pattern[str]) -> str | None:
    """An expression for ripgrep that matches, in bytes, whatever line the given one matches.

    Args:
        regex: one for text.

    Returns:
        None if nothing narrower than every line is known.
    """
    try:
        parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
        with warnings.catch_warnings():  # said already where it was compiled
            warnings.simplefilter("ignore")
            tree = parser.parse(regex.pattern, regex.flags & ~re.UNICODE)
        pattern = _loose(tree, bool(tree.state.flags & re.IGNORECASE) or "(?" in regex.pattern)
    except (ImportError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None  # a Python with other insides
    return f"(?-u){pattern}"


def _loose(tree: Iterable[tuple[Any, Any]], ignore_case: bool) -> str:
    return "".join(_loose_node(str(operation), value, ignore_case) for operation, value in tree)


def _loose_node(operation: str, value: Any, ignore_case: bool) -> str:
    if operation in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
        return _characters(operation, value, ignore_case)
    if operation == "BRANCH":
        return f"(?:{'|'.join(_loose(each, ignore_case) for each in value[1])})"
    if operation == "SUBPATTERN":
        return f"(?:{_loose(value[3], ignore_case)})"
    if operation == "ATOMIC_GROUP":
        return f"(?:{_loose(value, ignore_case)})"
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, inside = value
        # Counted repeats can need more memory than ripgrep takes.
        count = ("?" if least == 0 else "") if most == 1 else ("+" if least else "*")
        return f"(?:{_loose(inside, ignore_case)}){count}"
    if operation in ("AT", "ASSERT", "ASSERT_NOT"):
        return ""  # what must stand around is left to Python
    return r"[^\n]*"  # a reference to a group, and what later versions have


def _characters(operation: str, value: Any, ignore_case: bool) -> str:
    """What matches one character of a set, or the bytes of one beyond ASCII."""
    if operation == "LITERAL" and value >= 128 and not ignore_case and not _is_doubtful(value):
        return _bytes(chr(value).encode())
    if operation == "IN":
        kept, is_wide = _set(value)
    elif operation == "ANY":
        kept, is_wide = _ASCII, True
    else:
        kept, is_wide = frozenset({value}) & _ASCII, value >= 128
        if operation == "NOT_LITERAL":
            kept, is_wide = _ASCII - kept, True
    if ignore_case and operation != "ANY":
        if operation == "NOT_LITERAL" or (operation == "IN" and str(value[0][0]) == "NEGATE"):
            kept, is_wide = _ASCII, True
        else:
            kept |= {ord(chr(c).swapcase()) for c in kept} | (_LETTERS if is_wide else frozenset())
            is_wide = is_wide or bool(kept & _LETTERS)
    narrow = f"[{_bytes(sorted(kept))}]" if kept else ""
    if narrow and is_wide:
        return f"(?:{narrow}|{_WIDE})"
    return narrow or (_WIDE if is_wide else r"[^\n]*")  # the last: a set that matches in no line


def _set(items: Iterable[tuple[Any, Any]]) -> tuple[frozenset[int], bool]:
    """The ASCII characters of a set, and whether it may hold others."""
    kept: frozenset[int] = frozenset()
    is_wide = is_negated = False
    for kind, value in items:
        operation = str(kind)
        if operation == "NEGATE":
            is_negated = True
        elif operation == "LITERAL":
            kept |= frozenset({value}) & _ASCII
            is_wide |= value >= 128
        elif operation == "RANGE":
            kept |= frozenset(range(value[0], min(value[1], 127) + 1)) & _ASCII
            is_wide |= value[1] >= 128
        else:
            name = str(value).removeprefix("CATEGORY_").removeprefix("UNI_")
            is_not = name.startswith("NOT_")
            category = _CATEGORIES[name.removeprefix("NOT_")]
            kept |= _ASCII - category if is_not else category
            is_wide = True
    return (_ASCII - kept, True) if is_negated else (kept, is_wide)


def _bytes(values: Iterable[int]) -> str:
    return "".join(rf"\x{value:02x}" for value in values)


def _is_doubtful(value: int) -> bool:
    """Whether a character stands for bytes that are no text."""
    return value == 0xFFFD or 0xD800 <= value < 0xE000
