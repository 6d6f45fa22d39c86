"""Answers that reached their greatest length: what stands open at their end is not all of it."""

from __future__ import annotations

from collections.abc import Sequence

from pace_agent.editing.code_blocks import CodeBlock, Picked
from pace_agent.errors import EditError
from pace_agent.repository.outline import Definition
from pace_local.fenced import fenced_blocks


def cut_off(what: str) -> EditError:
    """What to tell a model whose answer was cut off in what it was to give."""
    return EditError(
        f"the answer reached its greatest length before the code ended; give {what} to its end and no more"
    )


def check_end(
    picked: Picked | None, blocks: Sequence[CodeBlock], target: Definition, cut: str | None
) -> None:
    """Refuse a definition that the answer broke off in: it may parse, and lack its last lines.

    Raises:
        EditError: if nothing shows that it came to its end.
    """
    if cut is None or (picked is not None and picked.outline.text != cut):
        return
    if picked is not None:
        data, end = picked.outline.lines.data, picked.definition.end_byte
        is_closed = picked.outline.language.name != "python" and data[:end].rstrip().endswith(b"}")
        if data[end:].strip() or is_closed:
            return
    elif target.kind != "type" and len(blocks) > 1:
        return
    raise cut_off(target.name)


def is_open(answer: str) -> bool:
    """Whether an answer with search blocks or a diff breaks off in one of them."""
    blocks = fenced_blocks(answer)
    if blocks and not blocks[-1].is_closed:
        return True
    behind = answer[answer.rfind(">>>>>") + 1 :] if ">>>>>" in answer else answer
    return "<<<<<" in behind or not (blocks or ">>>>>" in answer)


def check_closed(block: CodeBlock, what: str, *, is_cut: bool, last: str = "") -> None:
    """Refuse code whose end is not there: of such a file or such lines the rest would be lost.

    Args:
        block: of an answer.
        what: it was to give whole.
        is_cut: whether the answer reached its greatest length.
        last: the code as it is now: an answer that came to its end by itself has it if it ends like this.

    Raises:
        EditError: if its block was not closed.
    """
    if block.is_closed:
        return
    ends = [code.rstrip().rpartition("\n")[2].strip() for code in (block.text, last)]
    if is_cut or (ends[1] and ends[0] != ends[1]):
        raise EditError(
            f"the answer ends in the middle of the code; give {what} to its end, and close the block"
        )
