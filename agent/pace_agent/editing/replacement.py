"""A definition given whole, put in the place of the one that a file has."""

from __future__ import annotations

from tree_sitter import Node

from pace_agent.editing.edited import Edited, check_storable, line_end_near, with_line_ends, with_span
from pace_agent.editing.import_lines import IMPORTS, PACKAGES, with_imports
from pace_agent.editing.indentation import Fit, indent_of, step_of
from pace_agent.errors import EditError
from pace_agent.repository.outline import ATTRIBUTES, COMMENTS, Definition, Outline
from pace_local.excerpts.layout import split_lines

_STRINGS = frozenset(
    {"string", "template_string", "raw_string_literal", "string_literal", "interpreted_string_literal"}
)
_KEPT_LINES = frozenset({"python", "javascript", "typescript", "tsx", "go", "rust", "cpp"})
"""Languages in which white space at the start of a string's later lines is a part of the string."""


def replace_definition(
    text: str, path: str, name: str, source: str, *, near_line: int | None = None
) -> Edited:
    """Replace exactly one definition, decorators included, by a new one of the same name.

    Args:
        text: of the file.
        path: says the language, by its suffix.
        name: of the definition, as for :func:`~pace_agent.repository.outline.find_definition`.
        source: the new definition whole, at any indentation; before it there may be comments, and imports,
            which are added to the file's where they are missing.
        near_line: of several definitions of the name, the one that holds this line or is nearest to it.

    Returns:
        The new text; its lines run from the first change to the last, imports included.

    Raises:
        EditError: the file does not define the name; the source does not parse, defines something else or
            more, or is what is there already.
    """
    check_storable(source, path)
    outline = Outline(text, path)
    target = outline.find(name, near_line)
    if target is None or target.node is None:
        known = ", ".join(one.name for one in outline.definitions if one.kind in ("function", "type"))
        raise EditError(f"{path} does not define {name}" + (f"; it defines {known}"[:400] if known else ""))
    given = Outline(_dedented(source), path)
    imports, rest = _split(given, outline)
    lines = split_lines(_dedented(rest))
    lines = lines[_repeated_comments(outline, target, lines) :]
    if not "".join(lines).strip():
        raise EditError(f"the source for {target.name} is empty; give the whole definition")
    after, end_byte = _put(outline, target, lines)
    _check(outline, target, after, end_byte)
    result = with_imports(after, given, imports)
    if result == text:
        raise EditError(f"the source for {target.name} is the same as what {path} has; change it, or go on")
    return with_span(text, 0, len(text), result, "definition", path=path)


def _dedented(source: str) -> str:
    """The source without blank lines around it and without the indentation of its first line."""
    lines = split_lines(source)
    while lines and not lines[0].strip():
        lines.pop(0)
    base = indent_of(lines[0]) if lines else ""
    return "".join(line.removeprefix(base) for line in lines).rstrip()


def _split(given: Outline, outline: Outline) -> tuple[list[Node], str]:
    """The imports at the start of a source, and what follows them."""
    imports: list[Node] = []
    end = 0
    for node in given.root.children:
        if node.type in IMPORTS:
            imports.append(node)
        elif node.type in PACKAGES:
            if given.part(node) not in outline.text:
                raise EditError(f"the source is of {given.part(node)!r}, another package than {outline.path}")
        elif node.type in COMMENTS or not node.is_named:
            continue
        else:
            break
        after = node.next_sibling
        end = after.end_byte if after is not None and after.type == ";" else node.end_byte
    rest = given.lines.data[end:].decode("utf-8", "replace")
    return imports, rest if end == 0 else rest.lstrip("\r\n")


def _repeated_comments(outline: Outline, target: Definition, lines: list[str]) -> int:
    """How many of the source's first lines are comments that the file has right before the definition."""
    before = [line.strip() for line in outline.lines.lines[: target.first_line - 1]]
    own = [line.strip() for line in lines]
    marks = ("#", "//", "/*", "*")
    for count in range(min(len(before), len(own)), 0, -1):
        if (
            own[0].startswith(marks)
            and before[-count:] == own[:count]
            and all(line.startswith(marks) and not line.startswith("#[") for line in own[:count])
        ):
            return count
    return 0


def _put(outline: Outline, target: Definition, lines: list[str]) -> tuple[Outline, int]:
    """The file with the source in the place of the definition, and where that ends there, in bytes."""
    start, end = outline.characters(target.start_byte, target.end_byte)
    indent = indent_of(outline.lines.lines[target.first_line - 1])
    base = indent_of(lines[0])
    last = lines[-1].strip()
    if outline.language.name != "python" and base == "" and indent_of(lines[-1]) == indent and last[0] == "}":
        base = indent  # the first line alone lost its indentation
        lines = [indent + lines[0], *lines[1:]]
    fit = Fit({base: indent}, _step(lines, outline.path), step_of(outline.lines.lines))
    shifted = [fit(indent_of(line)) + line.lstrip() if line.strip() else "" for line in lines]
    shifted = [line.rstrip("\r\n") for line in shifted]
    shifted[0] = shifted[0].lstrip()
    line_end = line_end_near(outline.text, start)

    def put() -> tuple[Outline, int]:
        new = with_line_ends(line_end.join(shifted), line_end)
        after = Outline(outline.text[:start] + new + outline.text[end:], outline.path)
        return after, target.start_byte + len(new.encode())

    after, end_byte = put()
    raw = [line.rstrip("\r\n") for line in lines]
    kept = [at for at in _in_strings(after, target.start_byte, end_byte) if shifted[at] != raw[at]]
    old = {line.rstrip("\r\n") for line in outline.lines.lines[target.first_line - 1 : target.last_line]}
    kept = [at for at in kept if raw[at] in old or shifted[at] not in old]
    if not kept:
        return after, end_byte
    for at in kept:
        shifted[at] = raw[at]
    return put()


def _step(lines: list[str], path: str) -> str | None:
    """One level of indentation of a source; what is inside its strings shows none."""
    alone = Outline("".join(lines), path)
    inside = set(_in_strings(alone, 0, len(alone.lines.data)))
    return step_of(line for at, line in enumerate(lines) if at not in inside)


def _in_strings(after: Outline, start_byte: int, end_byte: int) -> list[int]:
    """Lines between two bytes, 0-based from the first, that begin inside a string, docstrings left out."""
    if after.language.name not in _KEPT_LINES:
        return []
    found: set[int] = set()
    stack = [after.root]
    while stack:
        node = stack.pop()
        if node.end_byte <= start_byte or node.start_byte >= end_byte:
            continue
        is_docstring = node.parent is not None and node.parent.type == "expression_statement"
        if node.type in _STRINGS and not is_docstring:
            first, last = (after.lines.line_at_byte(at) for at in (node.start_byte, node.end_byte - 1))
            found.update(range(first + 1, last + 1))
        else:
            stack.extend(node.children)
    first = after.lines.line_at_byte(start_byte)
    return sorted(line - first for line in found if first < line <= after.lines.line_at_byte(end_byte - 1))


def _check(outline: Outline, target: Definition, after: Outline, end_byte: int) -> None:
    """Refuse a source that is not just the one definition.

    Raises:
        EditError: with the reason.
    """
    start = target.start_byte

    def inside(node: Node | Definition, end: int) -> bool:
        return start <= node.start_byte and node.end_byte <= end

    faults = list(after.faults())
    own = [node for node in faults if inside(node, end_byte)]
    before = [node for node in outline.faults() if not inside(node, target.end_byte)]
    if own or len(faults) > len(before):
        raise _unparsed(after, target, (own or faults)[0])
    wanted = {
        one.name for one in outline.definitions if (one.start_byte, one.end_byte) == (start, target.end_byte)
    }
    new = [one for one in after.definitions if inside(one, end_byte)]
    outer = [one for one in new if not any(_is_around(other, one) for other in new)]
    names = {one.name for one in outer}
    if not names & wanted:
        if any(start <= one.start_byte < end_byte < one.end_byte for one in after.definitions):
            raise EditError(
                f"the source for {target.name} does not parse: it takes in what follows in {outline.path}; "
                "close its brackets and strings"
            )
        what = ", ".join(sorted(names)) or "nothing"
        raise EditError(
            f"the source defines {what}, not {target.name}; give {target.name} alone, with that name"
        )
    more = sorted(names - wanted) or [
        after.part(node).split("\n")[0].strip()[:100] for node in _others(after, outer, start, end_byte)
    ]
    if more or len({one.start_byte for one in outer}) > 1 or names != wanted:
        said = ", ".join(repr(one) for one in more) or "it is given more than once or not whole"
        raise EditError(
            f"the source holds more than {target.name}: {said}; give that definition alone, with its imports"
        )
    outside = [(one.name, one.kind) for one in outline.definitions if not inside(one, target.end_byte)]
    if outside != [(one.name, one.kind) for one in after.definitions if not inside(one, end_byte)]:
        raise EditError(
            f"the source for {target.name} would change what is around it; check its brackets and indentation"
        )


def _unparsed(after: Outline, target: Definition, fault: Node) -> EditError:
    line = max(after.lines.line_at_byte(fault.start_byte), target.first_line - 1)
    shown = after.lines.lines[line].strip()[:100] if line < len(after.lines) else ""
    return EditError(
        f"the source for {target.name} does not parse: near its line {line - target.first_line + 2}, "
        f"{shown!r}; give the whole definition, complete to its end"
    )


def _is_around(outer: Definition, inner: Definition) -> bool:
    same = (outer.start_byte, outer.end_byte) == (inner.start_byte, inner.end_byte)
    return not same and outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def _others(after: Outline, outer: list[Definition], start: int, end: int) -> list[Node]:
    """Statements between the bytes that belong to no definition there."""
    spans = [(one.start_byte, one.end_byte) for one in outer]
    found: list[Node] = []
    stack = [after.root]
    while stack:
        node = stack.pop()
        if (
            node.end_byte <= start
            or node.start_byte >= end
            or any(
                a <= node.start_byte and node.end_byte <= b and (node.start_byte, node.end_byte) != (0, 0)
                for a, b in spans
            )
        ):
            continue
        if any(node.start_byte < b and a < node.end_byte for a, b in spans):
            stack.extend(reversed(node.children))
        elif node.is_named and node.type not in COMMENTS | ATTRIBUTES | {"empty_statement"}:
            found.append(node)
    return found
