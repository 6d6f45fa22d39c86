"""Some members of a class, given where all of it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pace_agent.editing.added_definitions import put_before
from pace_agent.editing.code_blocks import definition_text
from pace_agent.editing.edited import Edited, with_span
from pace_agent.editing.import_lines import IMPORTS, with_imports
from pace_agent.editing.replacement import replace_definition
from pace_agent.repository.outline import Definition, Outline


@dataclass(frozen=True)
class Members:
    """A file after members of a class were replaced and added."""

    edited: Edited
    added: tuple[str, ...]


def lacking(own: Outline, target: Definition, given: Outline, scope: str) -> list[str]:
    """Functions of a class in the file that the answer's class, or the answer's own level, does not have."""
    return sorted(set(_functions(own, target.name)) - set(_functions(given, scope)))


def replace_members(own: Outline, target: Definition, given: Sequence[Outline], scope: str) -> Members | None:
    """Replace the functions of a class that an answer gives, add new ones, and keep all others.

    Args:
        own: the file.
        target: the class there.
        given: the answer's blocks, the one that counts last.
        scope: name of the class in the answer; empty: its functions stand alone.

    Returns:
        None if the answer has no function that the class has.

    Raises:
        EditError: a function does not parse, or nothing would change.
    """
    outline = given[-1]
    known, new = _functions(own, target.name), _functions(outline, scope)
    if not set(known) & set(new):
        return None
    text = own.text
    added = []
    for last, one in new.items():
        name = f"{target.name}.{last}"
        source = definition_text(outline, one)
        if last in known:
            now = Outline(text, own.path)
            there = now.find(name, known[last].first_line)
            if there is None or _stripped(definition_text(now, there)) != _stripped(source):
                text = replace_definition(text, own.path, name, source, near_line=known[last].first_line).text
        elif one.node is not None and not one.node.has_error:
            first = next(iter(known))
            near = known[first].first_line
            put = put_before(text, own.path, f"{target.name}.{first}", name, outline, one, near)
            if put is not None:
                text = put
                added.append(name)
    for block in given if text != own.text else ():
        imports = [node for node in block.root.children if node.type in IMPORTS and not node.has_error]
        text = with_imports(Outline(text, own.path), block, imports)
    return Members(with_span(own.text, 0, len(own.text), text, "definition", path=own.path), tuple(added))


def _functions(outline: Outline, scope: str) -> dict[str, Definition]:
    """Functions right inside a class, or at a text's own level, by their last name; of several the first."""
    found: dict[str, Definition] = {}
    for one in outline.definitions:
        if one.kind == "function" and one.name.rpartition(".")[0] == scope and one.node is not None:
            found.setdefault(one.name.rpartition(".")[2], one)
    return found


def _stripped(code: str) -> list[str]:
    return [line.strip() for line in code.splitlines() if line.strip()]
