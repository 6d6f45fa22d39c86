"""The code of an answer: every fenced block, in order."""

from __future__ import annotations

import ast
import textwrap

from pace_local.fenced import fenced_blocks

_PYTHON = frozenset({"", "python", "python3", "py", "py3", "ipython", "code"})


def code_blocks(answer: str) -> tuple[str, ...]:
    """All blocks of Python code of an answer.

    A model may give constants in one block and the function in the next, so every block counts; also a
    last one that is never closed. Blocks whose tag names another language, and blocks without a tag that
    are no Python (an example's output), do not. Without any fence the answer itself is the code, if it
    parses. A block tagged as Python is returned even if it does not parse: its error is worth reporting.
    """
    blocks = fenced_blocks(answer)
    if not blocks:
        return (answer,) if answer.strip() and _parses(answer) else ()
    found = [(block.tag, textwrap.dedent(block.text)) for block in blocks if block.tag in _PYTHON]
    return tuple(text for tag, text in found if text.strip() and (tag or _parses(text)))


def joined_code(answer: str) -> str:
    """All code of an answer as one text, for reading; empty if there is none."""
    return "\n\n".join(block.rstrip("\n") for block in code_blocks(answer))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
