"""A definition under another name, where a task is to rename it."""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from pace_agent.editing.same_named import definitions_named
from pace_agent.errors import EditError
from pace_agent.repository.outline import Definition, Outline


def qualified(name: str, new: str) -> str:
    """A qualified name with another last part."""
    head = name.rpartition(".")[0]
    return f"{head}.{new}" if head else new


def renamed(outline: Outline, targets: Sequence[Definition], name: str) -> str:
    """The file with the definitions' name changed where they are defined, and nowhere else.

    Args:
        outline: of the file.
        targets: in it, of one name, in order.
        name: qualified, that they are to have.

    Raises:
        EditError: if the file has that name already.
    """
    old, new = targets[0].name.rpartition(".")[2], name.rpartition(".")[2]
    if any(one.name == name for one in outline.definitions):
        raise EditError(f"{outline.path} defines {name} already; {old} cannot be called that too")
    text = outline.text
    for target in reversed(targets):
        node = _name_node(outline, target, old)
        if node is None:
            raise EditError(
                f"{old} cannot be renamed where {outline.path} defines it; use search and replace"
            )
        start, end = outline.characters(node.start_byte, node.end_byte)
        text = text[:start] + new + text[end:]
    return text


def name_after(text: str, path: str, symbol: str | None, rename: tuple[str, str] | None) -> str | None:
    """What a definition is called after edits of the file.

    Raises:
        EditError: if it was to be renamed, and has its old name.
    """
    if symbol is None or rename is None or symbol.rpartition(".")[2] != rename[0]:
        return symbol
    name = qualified(symbol, rename[1])
    if not definitions_named(Outline(text, path), name):
        raise not_renamed(rename)
    return name


def not_renamed(rename: tuple[str, str]) -> EditError:
    """What to tell a model that left a definition its old name."""
    old, new = rename
    return EditError(
        f"the answer still calls it {old}; it is called {new} now: give it whole, with that name"
    )


def _name_node(outline: Outline, target: Definition, name: str) -> Node | None:
    stack = [target.node] if target.node is not None else []
    while stack:
        node = stack.pop()
        if node.type in outline.language.identifiers and outline.part(node) == name:
            parent = node.parent
            if parent is None or parent.type != "decorator":
                return node
        stack.extend(one for one in reversed(node.children) if one.type != "decorator")
    return None
