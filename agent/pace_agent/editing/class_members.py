"""Some members of a class, given where all of it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pace_agent.editing.added_definitions import put_before
from pace_agent.editing.code_blocks import definition_text
from pace_agent.editing.edited import Edited, with_span
from pace_agent.editing.import_lines import IMPORTS, with_imports
from pace_agent.editing.replacement import replace_definition
from pace_agent.editing.same_named import definitions_named, head_of, several_named
from pace_agent.repository.outline import Definition, Outline


@dataclass(frozen=True)
class Members:
    """A file after members of a class were replaced and added."""

    edited: Edited
    added: tuple[str, ...]


def lacking(own: Outline, target: Definition, given: Outline, scope: str) -> list[str]:
    """Functions of a class in the file that the answer's class, or the answer's own level, does not have.

    Of several of one name, such as a property's, it must have as many.
    """
    known, new = _functions(own, target.name), _functions(given, scope)
    return sorted(name for name, all_of in known.items() if len(new.get(name, ())) < len(all_of))


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
    for last, all_of in new.items():
        name = f"{target.name}.{last}"
        if last in known:
            for one, at in _pairs(own, known[last], outline, all_of, name):
                source = definition_text(outline, one)
                there = definitions_named(Outline(text, own.path), name)[at]
                if _stripped(definition_text(Outline(text, own.path), there)) != _stripped(source):
                    text = replace_definition(text, own.path, name, source, near_line=there.first_line).text
            continue
        first = next(iter(known))
        for one in all_of:
            if one.node is None or one.node.has_error:
                continue
            put = put_before(
                text, own.path, f"{target.name}.{first}", name, outline, one, known[first][0].first_line
            )
            if put is not None:
                text = put
                added.append(name)
    for block in given if text != own.text else ():
        imports = [node for node in block.root.children if node.type in IMPORTS and not node.has_error]
        text = with_imports(Outline(text, own.path), block, imports)
    return Members(with_span(own.text, 0, len(own.text), text, "definition", path=own.path), tuple(added))


def _functions(outline: Outline, scope: str) -> dict[str, list[Definition]]:
    """Functions right inside a class, or at a text's own level, by their last name."""
    found: dict[str, list[Definition]] = {}
    for one in outline.definitions:
        if one.kind == "function" and one.name.rpartition(".")[0] == scope and one.node is not None:
            found.setdefault(one.name.rpartition(".")[2], []).append(one)
    return found


def _pairs(
    own: Outline, known: Sequence[Definition], given: Outline, new: Sequence[Definition], name: str
) -> list[tuple[Definition, int]]:
    """Functions of one name in an answer, each with which of the file's it is: the one that begins like it.

    Raises:
        EditError: if one begins like none.
    """
    if len(known) == 1:
        return [(new[0], 0)]
    heads = [head_of(definition_text(own, one)) for one in known]
    found: list[tuple[Definition, int]] = []
    for one in new:
        head = head_of(definition_text(given, one))
        alike = [at for at, other in enumerate(heads) if other == head]
        left = [at for at in alike if at not in {at for _, at in found}] or alike
        if not left:
            raise several_named(name, heads, own.path)
        found.append((one, left[0]))
    return found


def _stripped(code: str) -> list[str]:
    return [line.strip() for line in code.splitlines() if line.strip()]
