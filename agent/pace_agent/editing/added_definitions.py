"""New definitions that came with another one and that it uses, put before it."""

from __future__ import annotations

import re

from pace_agent.editing.code_blocks import Picked
from pace_agent.editing.edited import Edited, line_end_near, with_line_ends, with_span
from pace_agent.editing.indentation import Fit, indent_of, step_of
from pace_agent.repository.outline import COMMENTS, Definition, Outline
from pace_local.excerpts.layout import split_lines

_LOCAL = frozenset({"field", "module"})


def with_new_definitions(
    edited: Edited, path: str, name: str, picked: Picked, near_line: int
) -> tuple[Edited, tuple[str, ...], tuple[str, ...]]:
    """A file with what stood beside a definition in its block, where the definition needs it.

    New are those whose name the file does not have, and needed those that the definition, or another that
    is needed, uses by name. Those of the block's own level go before the definition (or the outermost one
    around it), those of its class before it in the class. Examples, tests, and definitions that the file has
    already are left out.

    Args:
        edited: the file, with the definition in it.
        path: of the file.
        name: of the definition there, qualified.
        picked: the definition in its block.
        near_line: tells several of the name apart.

    Returns:
        The file, names that were added, and names that were left out.
    """
    given = picked.outline
    beside = [one for one in given.definitions if one.kind not in _LOCAL and _is_beside(one, picked)]
    if not beside:
        return edited, (), ()
    present = {one.name for one in Outline(edited.text, path).definitions}
    scope = name.rpartition(".")[0]
    new: dict[str, Definition] = {}
    for one in beside:
        known = _known_as(one, picked, scope)
        if known not in present and one.node is not None and not one.node.has_error:
            new.setdefault(known, one)
    needed = _needed(given, picked.definition, new)
    text = edited.text
    added = []
    for known, one in new.items():
        if known in needed:
            put = put_before(text, path, name, known, given, one, near_line)
            if put is not None:
                near_line += put.count("\n") - text.count("\n")
                text = put
                added.append(known)
    left_out = tuple(dict.fromkeys(one.name for one in beside if _known_as(one, picked, scope) not in added))
    if not added:
        return edited, (), left_out
    return with_span(edited.text, 0, len(edited.text), text, "definition", path=path), tuple(added), left_out


def _is_beside(one: Definition, picked: Picked) -> bool:
    """Whether it is at the block's own level, or in the same class as the definition."""
    own = picked.definition
    if one.start_byte <= own.start_byte and own.end_byte <= one.end_byte:
        return False  # itself, and what is around it
    if own.start_byte <= one.start_byte and one.end_byte <= own.end_byte:
        return False
    return "." not in one.name or one.name.rpartition(".")[0] == own.name.rpartition(".")[0]


def _known_as(one: Definition, picked: Picked, scope: str) -> str:
    """What the definition would be called in the file."""
    own_scope = picked.definition.name.rpartition(".")[0]
    head, _, last = one.name.rpartition(".")
    if own_scope and head == own_scope and scope:
        return f"{scope}.{last}"
    if not own_scope and scope and not head and _takes_self(one, picked.outline):
        return f"{scope}.{last}"  # a method beside a method, both without their class
    return one.name


def _takes_self(one: Definition, outline: Outline) -> bool:
    text = outline.lines.data[one.start_byte : one.end_byte].decode("utf-8", "replace")
    return outline.language.name == "python" and re.search(r"def \w+\(\s*(?:self|cls)\b", text) is not None


def _needed(given: Outline, own: Definition, new: dict[str, Definition]) -> set[str]:
    needed: set[str] = set()
    waiting = [own]
    while waiting:
        one = waiting.pop()
        used = set(re.findall(rb"\w+", given.lines.data[one.start_byte : one.end_byte]))
        for known, other in new.items():
            if known not in needed and known.rpartition(".")[2].encode() in used:
                needed.add(known)
                waiting.append(other)
    return needed


def put_before(
    text: str, path: str, name: str, known: str, given: Outline, one: Definition, near_line: int
) -> str | None:
    """The file with one definition more, before another.

    Args:
        text: of the file.
        path: of the file.
        name: of the definition that it goes before, or before the outermost one around that.
        known: what the new one is to be called in the file; in the same class as ``name``, it goes there.
        given: the text that the new one is in.
        one: the new one.
        near_line: tells several of the name apart.

    Returns:
        None if the file would not parse, or what is around would change.
    """
    outline = Outline(text, path)
    target = outline.find(name, near_line)
    if target is None:
        return None
    is_inside = "." in known and known.rpartition(".")[0] == target.name.rpartition(".")[0]
    if not is_inside:
        around = [each for each in outline.definitions if each.kind != "module"]
        around = [each for each in around if each.start_byte <= target.start_byte <= each.end_byte]
        target = min(around, key=lambda each: each.start_byte, default=target)
    line = _first_line(outline, target)
    at = outline.lines.starts[line]
    indent = indent_of(outline.lines.lines[target.first_line - 1])
    line_end = line_end_near(text, at)
    raw = split_lines(given.lines.data[one.start_byte : one.end_byte].decode("utf-8", "replace"))
    base = indent_of(given.lines.lines[one.first_line - 1])
    raw[0] = base + raw[0]
    fit = Fit({base: indent}, step_of(raw), step_of(outline.lines.lines))
    lines = [fit(indent_of(each)) + each.strip() if each.strip() else "" for each in raw]
    is_value = one.kind in ("value", "macro")
    gap = 2 if outline.language.name == "python" and not indent and not is_value else 1
    new = with_line_ends(line_end.join(lines) + line_end * (1 + gap), line_end)
    after = Outline(text[:at] + new + text[at:], path)
    before_names = [each.name for each in outline.definitions]
    names = [each.name for each in after.definitions]
    is_clean = len(list(after.faults())) <= len(list(outline.faults()))
    inside = [each for each in names if each == known or each.startswith(f"{known}.")]
    return (
        after.text if is_clean and known in names and len(names) == len(before_names) + len(inside) else None
    )


def lines_with_comments(outline: Outline, one: Definition) -> list[str]:
    """The whole lines of a definition with the comments that belong to it, the last one ended."""
    lines = outline.lines.lines[_first_line(outline, one) : one.last_line]
    return [*lines[:-1], lines[-1].rstrip("\r\n") + "\n"]


def _first_line(outline: Outline, target: Definition) -> int:
    """The line before which to put something, 0-based: above the comments that belong to a definition."""
    line = target.first_line - 1
    node = target.node.prev_named_sibling if target.node is not None else None
    while node is not None and node.type in COMMENTS:
        last = outline.lines.line_at_byte(max(node.start_byte, node.end_byte - 1))
        first = outline.lines.line_at_byte(node.start_byte)
        is_alone = not outline.lines.lines[first][: _column(outline, node, first)].strip()
        if last != line - 1 or not is_alone:
            break
        line = first
        node = node.prev_named_sibling
    return line


def _column(outline: Outline, node: object, line: int) -> int:
    start = int(getattr(node, "start_byte", 0))
    return len(outline.lines.data[outline.lines.byte_starts[line] : start].decode("utf-8", "replace"))
