"""Names that code uses and nothing defines, which an edit has brought in.

A small model puts ``arguments.upper`` into a function that knows no ``arguments``. The file parses, and
without a test nothing else would say so.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter

from pyflakes.checker import Checker
from pyflakes.messages import UndefinedName

from pace_local.excerpts.languages import language_of


def new_undefined_names(before: str, after: str, path: str) -> dict[str, int]:
    """Names that are used without a definition after an edit and were not before, each with its first line.

    Only of Python, by pyflakes; empty for other languages and for what does not parse.

    Args:
        before: the text before the edit; empty: there was none.
        after: the text after it.
        path: says the language.
    """
    language = language_of(path, after)
    if language is None or language.name != "python":
        return {}
    old = Counter(name for name, _ in _undefined(before))
    found: dict[str, int] = {}
    for name, line in _undefined(after):
        if old[name]:
            old[name] -= 1
        else:
            found.setdefault(name, line)
    return found


def _undefined(text: str) -> list[tuple[str, int]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        messages = Checker(tree).messages
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = [(each.message_args[0], each.lineno) for each in messages if isinstance(each, UndefinedName)]
    return sorted(found, key=lambda each: each[1])
