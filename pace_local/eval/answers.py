"""The code of an answer: every fenced block, in order."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass

_OPENING = re.compile(r"^[ \t]*(?:[-*] |\d+[.)] )?[ \t]*(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_PYTHON = frozenset({"", "python", "python3", "py", "py3", "ipython", "code"})


@dataclass(frozen=True)
class _Block:
    tag: str
    text: str


def code_blocks(answer: str) -> tuple[str, ...]:
    """All blocks of Python code of an answer.

    A model may give constants in one block and the function in the next, so every block counts; also a
    last one that is never closed. Blocks whose tag names another language, and blocks without a tag that
    are no Python (an example's output), do not. Without any fence the answer itself is the code, if it
    parses. A block tagged as Python is returned even if it does not parse: its error is worth reporting.
    """
    blocks = _fenced(answer)
    if not blocks:
        return (answer,) if answer.strip() and _parses(answer) else ()
    return tuple(
        block.text
        for block in blocks
        if block.text.strip() and block.tag in _PYTHON and (block.tag or _parses(block.text))
    )


def joined_code(answer: str) -> str:
    """All code of an answer as one text, for reading; empty if there is none."""
    return "\n\n".join(block.rstrip("\n") for block in code_blocks(answer))


def _fenced(answer: str) -> list[_Block]:
    """Blocks with their tags; the last one may be open."""
    blocks: list[_Block] = []
    mark, tag = "", ""
    lines: list[str] = []

    def close() -> None:
        blocks.append(_Block(tag, textwrap.dedent("\n".join(lines) + "\n")))
        lines.clear()

    for line in answer.splitlines():
        opening = _OPENING.match(line)
        if opening is not None and (not mark or opening[2]):
            if mark:  # the block before was not closed: no line of Python starts with a fence
                close()
            mark = opening[1]
            tag = opening[2].split()[0].strip("{}.").casefold() if opening[2].strip() else ""
            continue
        bare = line.strip()
        if not mark or not bare.endswith(mark):
            lines += [line] if mark else []
            continue
        code = line.rstrip().rstrip(mark[0])
        if code.strip():  # closed on the last line of the code
            lines.append(code)
        close()
        mark = ""
    if mark:
        close()
    return blocks


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
