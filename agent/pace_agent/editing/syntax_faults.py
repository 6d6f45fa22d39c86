"""Where a text does not parse, in words."""

from __future__ import annotations

import ast
import warnings

from pace_agent.errors import EditError
from pace_agent.repository.outline import Outline


def syntax_fault(outline: Outline) -> str | None:
    """The first place where a text does not parse; None if it does."""
    is_python = outline.language.name == "python"
    faults = list(outline.faults())
    if not faults:
        return indentation_fault(outline.text) if is_python else None
    error = _python_error(outline.text) if is_python else None
    fault = min(faults, key=lambda node: (not node.is_missing, node.end_byte - node.start_byte))
    line = outline.lines.line_at_byte(fault.start_byte) + 1
    said = f", where {fault.type!r} is missing" if fault.is_missing else ""
    if error is not None and error.lineno:
        line, said = error.lineno, f": {error.msg}"
    shown = outline.lines.lines[line - 1].strip()[:100] if 0 < line <= len(outline.lines) else ""
    return f"near line {line}, {shown!r}{said}"


def new_fault(before: str, after: str, path: str) -> str | None:
    """Where a text does not parse, if there are more such places than before; None also without a grammar.

    Args:
        before: the text before an edit.
        after: the text after it.
        path: says the language.
    """
    try:
        old, new = Outline(before, path), Outline(after, path)
    except EditError:
        return None
    if len(list(new.faults())) > len(list(old.faults())):
        return syntax_fault(new)
    wrong = indentation_fault(after) if new.language.name == "python" else None
    return wrong if wrong and not indentation_fault(before) else None


def indentation_fault(text: str) -> str | None:
    """What is wrong with the indentation of Python code, with its line; None if nothing is.

    The grammar forgives indentation and missing bodies. Other faults are not looked for: syntax of another
    version of Python is for its own interpreter to judge.
    """
    error = _python_error(text)
    return f"near line {error.lineno}: {error.msg}" if isinstance(error, IndentationError) else None


def _python_error(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):
        return None
    return None
