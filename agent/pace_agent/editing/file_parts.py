"""A file of which an answer gave some parts only: they are put in, and the rest stays."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from tree_sitter import Node

from pace_agent.editing.added_definitions import lines_with_comments
from pace_agent.editing.class_members import lacking, replace_members
from pace_agent.editing.code_blocks import definition_text, unindented
from pace_agent.editing.edited import Edited, line_end_near, with_line_ends, with_span
from pace_agent.editing.import_lines import IMPORTS, PACKAGES, with_imports
from pace_agent.editing.replacement import replace_definition
from pace_agent.editing.syntax_faults import new_fault
from pace_agent.errors import EditError
from pace_agent.repository.outline import ATTRIBUTES, COMMENTS, Definition, Outline
from pace_local.excerpts.layout import split_lines

_MOST_LOST = 0.5
"""An answer may take a smaller share than this of the lines outside of functions and types out of a file."""
_SHORTER = 2
"""How many times shorter a script without functions may be after it was written anew."""
_GUARD = re.compile(r"if\s*\(?\s*__name__\b")


class WholeFile(NamedTuple):
    """A file after an answer that was to give all of it."""

    edited: Edited
    added: tuple[str, ...]
    """New definitions, where the answer gave some definitions only."""


def is_part(own: Outline, given: Outline) -> bool:
    """Whether an answer surely gives parts of a file where all of it was asked for.

    It lacks functions, types or functions of types that the file has; or most of what the file has outside of
    them, and what it gives has names to put it in by. A script that was written anew is no part.

    Raises:
        EditError: it leaves out most of the file, and nothing tells where it belongs.
    """
    known, new = _outermost(own), _outermost(given)
    if known.keys() - new.keys() or any(
        lacking(own, one, given, name) for name, one in known.items() if one.kind == "type"
    ):
        return True
    lost, lines = _lost(own, given)
    before, after = _lines(own.text), _lines(given.text)
    fresh = sum((after - before).values())
    if not lost or lost < _MOST_LOST * lines:
        # Of Python, names that are missing then are found when the answer is judged.
        lacks_imports = own.language.name != "python" and _imports(own) and not _imports(given)
        return bool(lacks_imports and known and fresh)
    if not fresh and sum((before & after).values()) >= _MOST_LOST * sum(before.values()):
        return False  # nothing but lines taken out
    if known or not _loose(given):
        return True
    if lost > _SHORTER * fresh:
        raise EditError(
            f"the answer leaves out most lines of {own.path}; give the whole file, every line of it"
        )
    return False


def with_guard(own: Outline, given: Outline) -> str:
    """An answer's whole file with the ``if __name__ == "__main__"`` at its end that it alone lacks."""
    guard, code = _guard(own), given.text
    fresh = _lines(code) - _lines(own.text)
    if guard is None or _guard(given) is not None or not fresh:
        return code
    body = _lines("".join(split_lines(own.part(guard))[1:]))
    if not body - _lines(code):
        return code
    return f"{code.rstrip()}\n\n\n{own.part(guard).rstrip()}\n"


def with_parts(own: Outline, given: Outline) -> WholeFile:
    """A file with the definitions and values that an answer gives replaced by name, and new ones put in.

    New functions and types go to the end, before an ``if __name__ == "__main__"``. A new value goes behind
    those at the file's beginning, if it is surely meant to: what is there, or what the answer replaces, is
    like it, and it needs nothing that comes later. What else stands in the answer, such as a call that shows
    how to use it, is left out.

    Raises:
        EditError: nothing is left to put in, or the file would not parse.
    """
    text, path = own.text, own.path
    known, parts = _outermost(own), _outermost(given)
    values = _values(given)
    for name in values.keys() & _values(own).keys():
        if _times_set(own, name) > 1 or _times_set(given, name) > 1:
            raise EditError(f"{path} sets {name} more than once; give the whole file, every line of it")
    added: list[str] = []
    result = text
    for name, (one, *_) in values.items():
        if name in _values(own):
            result = _replaced(result, path, name, definition_text(given, one), _values(own)[name][0])
    for name in _wanted_values(own, given):
        put = _with_value(result, path, given, values[name][0])
        if put is not None:
            result, added = put, [*added, name]
    for name, one in parts.items():
        source = definition_text(given, one)
        if name in known:
            result, new = _with_definition(result, path, given, one, known[name])
            added += new
        elif one.node is not None and not one.node.has_error:
            result = _at_end(result, path, source)
            added.append(name)
    if not parts and result == text:
        missing = ", ".join(list(known or _values(own))[:8])
        what = f"does not hold {missing} of" if missing else "leaves out most lines of"
        raise EditError(f"the answer {what} {path}; give the whole file, every line of it")
    if result != text:
        imports = [node for node in _imports(given) if not node.has_error]
        result = with_imports(Outline(result, path), given, imports)
    fault = new_fault(text, result, path)
    if fault is not None:
        raise EditError(f"{path} does not parse with this: {fault}; give the whole file, to its end")
    return WholeFile(
        with_span(text, 0, len(text), result, "definition", path=path), tuple(dict.fromkeys(added))
    )


# What a file consists of


def _outermost(outline: Outline) -> dict[str, Definition]:
    return {
        one.name: one
        for one in outline.definitions
        if one.kind in ("function", "type") and "." not in one.name and one.node is not None
    }


def _values(outline: Outline) -> dict[str, list[Definition]]:
    """Values and macros at the outermost level, each as often as it is set."""
    top = {node.start_byte for node in outline.root.children}
    found: dict[str, list[Definition]] = {}
    for one in outline.definitions:
        if one.kind in ("value", "macro") and one.node is not None and one.node.start_byte in top:
            found.setdefault(one.name, []).append(one)
    return found


def _times_set(outline: Outline, name: str) -> int:
    """How often a value is set, as far as lines that begin with its name show it."""
    again = re.findall(rf"^[ \t]*{re.escape(name)}\b[^=\n]*=(?!=)", outline.text, re.MULTILINE)
    return max(len(again), len(_values(outline)[name]))


def _statements(outline: Outline) -> list[Node]:
    """What a file has at its outermost level beside functions, types, comments and docstrings."""
    spans = [
        (one.start_byte, one.end_byte)
        for one in outline.definitions
        if one.kind in ("function", "type", "module") and one.node is not None
    ]
    left_out = COMMENTS | ATTRIBUTES | PACKAGES
    return [
        node
        for node in outline.root.children
        if node.is_named
        and node.type not in left_out
        and not any(node.start_byte < end and start < node.end_byte for start, end in spans)
        and not (len(node.children) == 1 and node.children[0].type == "string")
    ]


def _guard(outline: Outline) -> Node | None:
    """The last statement of a Python file, if it is ``if __name__ == "__main__"``."""
    last = next((node for node in reversed(outline.root.children) if node.type not in COMMENTS), None)
    return last if last is not None and _GUARD.match(outline.part(last)) else None


def _lost(own: Outline, given: Outline) -> tuple[float, int]:
    """Lines of a file's statements that an answer does not have, and all of them.

    A value is there if it is set at all, and imports if there are any.
    """
    statements = _statements(own)
    names = {one.node.start_byte: name for name, all_of in _values(own).items() for one in all_of if one.node}
    values = _values(given)
    there = _lines(given.text)
    lost, lines = 0, 0
    for node in statements:
        own_lines = _lines(own.part(node))
        count = sum(own_lines.values())
        lines += count
        if node.type in IMPORTS and _imports(given):
            continue
        if names.get(node.start_byte) not in values and sum((own_lines & there).values()) * 2 <= count:
            lost += count
    return lost, lines


def _imports(outline: Outline) -> list[Node]:
    return [node for node in outline.root.children if node.type in IMPORTS]


def _loose(given: Outline) -> list[Node]:
    """Statements of an answer that no name says the place of."""
    named = {one.node.start_byte for all_of in _values(given).values() for one in all_of if one.node}
    return [node for node in _statements(given) if node.start_byte not in named and node.type not in IMPORTS]


def _lines(text: str) -> Counter[str]:
    return Counter(line.strip() for line in split_lines(text) if line.strip())


# Putting parts in


def _replaced(result: str, path: str, name: str, source: str, old: Definition) -> str:
    now = Outline(result, path)
    target = now.find(name, old.first_line)
    if target is not None and _lines(definition_text(now, target)) == _lines(source):
        return result
    return replace_definition(result, path, name, source, near_line=old.first_line).text


def _with_definition(
    result: str, path: str, given: Outline, one: Definition, old: Definition
) -> tuple[str, list[str]]:
    """The file with a function or type replaced; of a class that lacks functions, those that it has."""
    now = Outline(result, path)
    target = now.find(one.name, old.first_line)
    if target is not None and target.kind == "type" and (left_out := lacking(now, target, given, one.name)):
        members = replace_members(now, target, [given], one.name)
        if members is None:
            raise EditError(
                f"the answer leaves out {', '.join(left_out[:8])} of {one.name}; give the whole of {one.name}"
            )
        return members.edited.text, list(members.added)
    return _replaced(result, path, one.name, definition_text(given, one), old), []


def _at_end(result: str, path: str, source: str) -> str:
    """The file with a definition more at its end."""
    outline = Outline(result, path)
    guard = _guard(outline)
    at = len(result) if guard is None else outline.characters(guard.start_byte, guard.end_byte)[0]
    line_end = line_end_near(result, 0)
    gap = line_end * (2 if outline.language.name == "python" else 1)
    new = with_line_ends(unindented(source).rstrip(), line_end) + line_end
    if guard is not None:
        return result[:at] + new + gap + result[at:]
    return result + ("" if result.endswith(("\n", "\r")) else line_end) + gap + new


def _wanted_values(own: Outline, given: Outline) -> list[str]:
    """New values of an answer that surely belong into the file."""
    known, there = _outermost(own), {one.name for one in own.definitions}
    used = {
        word
        for name, one in _outermost(given).items()
        if name in known
        for word in re.findall(r"\w+", definition_text(given, one))
    }
    found = []
    for name, (one, *more) in _values(given).items():
        words = set(re.findall(r"\w+", definition_text(given, one)))
        is_like = not known or name.upper() == name or name in used
        if name not in there and not more and is_like and not words & known.keys():
            found.append(name)
    return found


def _with_value(result: str, path: str, given: Outline, one: Definition) -> str | None:
    """The file with a value more, behind those at its beginning; None if what it uses comes later."""
    outline = Outline(result, path)
    known = _outermost(outline)
    first = min((each.first_line for each in known.values()), default=len(outline.lines) + 1)
    before = [each for all_of in _values(outline).values() for each in all_of if each.first_line < first]
    last = max((each.last_line for each in before), default=0)
    is_behind_values = last > 0
    if not last:
        ends = [node.end_byte - 1 for node in _imports(outline)]
        last = max((outline.lines.line_at_byte(end) + 1 for end in ends), default=0)
    if not last:
        return None
    words = set(re.findall(r"\w+", definition_text(given, one)))
    later = {name for name, all_of in _values(outline).items() if all_of[0].first_line > last}
    if words & later:
        return None
    line_end = line_end_near(result, 0)
    code = with_line_ends("".join(lines_with_comments(given, one)), line_end)
    at = outline.lines.starts[last] if last < len(outline.lines.starts) else len(result)
    start = "" if not at or result[at - 1] in "\r\n" else line_end
    return result[:at] + start + ("" if is_behind_values else line_end) + code + result[at:]
