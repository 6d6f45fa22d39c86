"""Imports of a source file: what they bring, and adding those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tree_sitter import Node

from pace_agent.editing.edited import line_end_near
from pace_agent.errors import EditError
from pace_agent.repository.outline import COMMENTS, Outline

IMPORTS = frozenset(
    {
        "future_import_statement",
        "import_declaration",
        "import_from_statement",
        "import_statement",
        "preproc_include",
        "use_declaration",
    }
)
PACKAGES = frozenset({"package_clause", "package_declaration"})
_SCOPES = frozenset(
    {"function_definition", "class_definition", "function_item", "mod_item", "statement_block"}
)


@dataclass(frozen=True)
class _Item:
    """One thing that an import brings."""

    head: str
    """What the statement begins with; with its tail, items of one head can share a statement."""
    text: str
    tail: str = ""
    name: str | None = None
    """The name that it gives the thing in the file."""
    meaning: str = ""
    """What that name then stands for."""


def with_imports(outline: Outline, new: Outline, nodes: Sequence[Node]) -> str:
    """The text with the imports of a source that it lacks.

    Args:
        outline: of the file.
        new: of the source that brings them.
        nodes: of its imports.

    Raises:
        EditError: if one gives a name that means something else in the file.
    """
    present = [item for node in _import_nodes(outline.root) for item in _items(outline, node)]
    missing = [item for node in nodes for item in _items(new, node)]
    missing = [
        item for item in dict.fromkeys(missing) if item not in present and _is_wanted(outline, present, item)
    ]
    if not missing:
        return outline.text
    future = [item for item in missing if item.head == "from __future__ import "]
    text = outline.text
    for items, is_future in (([one for one in missing if one not in future], False), (future, True)):
        if items:
            text = _inserted(outline, text, _statements(items), is_future=is_future)
    return text


def _is_wanted(outline: Outline, present: list[_Item], item: _Item) -> bool:
    """Whether to add an import that the file does not have in this form."""
    if item.name is None:
        return True
    for one in present:
        if one.name == item.name and one.meaning != item.meaning:
            if one.meaning.split(".")[-2:] == item.meaning.split(".")[-2:]:
                return False  # the same module, by a relative name or a longer one
            raise EditError(
                f"the source imports {item.name} by {(item.head + item.text + item.tail).strip()!r}, but in "
                f"{outline.path} that name is {one.meaning!r}; use it as the file does, without that import"
            )
    if any(one.name == item.name for one in outline.definitions):
        if item.meaning.split(".")[-2:-1] == [PurePath(outline.path).stem]:
            return False  # the file imports nothing from itself
        raise EditError(
            f"the source imports {item.name}, but {outline.path} defines it itself; leave the import out"
        )
    return True


def _import_nodes(node: Node) -> Iterator[Node]:
    """Imports of a file, also those in conditions, but not in functions."""
    for child in node.named_children:
        if child.type in IMPORTS:
            yield child
        elif child.type not in _SCOPES:
            yield from _import_nodes(child)


def _statements(items: list[_Item]) -> list[str]:
    heads = dict.fromkeys((item.head, item.tail) for item in items)
    result = []
    for head, tail in heads:
        texts = [item.text for item in items if (item.head, item.tail) == (head, tail)]
        if (tail == "" and head.startswith("from ")) or tail.startswith(" }"):
            result.append(head + ", ".join(texts) + tail)
        else:
            result += [head + text + tail for text in texts]
    return result


def _inserted(outline: Outline, text: str, statements: list[str], *, is_future: bool) -> str:
    """Lines put behind the imports at the file's start, or where they would be."""
    last: Node | None = None
    first: Node | None = None
    for node in outline.root.named_children:
        if node.type in IMPORTS | PACKAGES:
            if not is_future or node.type == "future_import_statement":
                last = node
        elif node.type in COMMENTS or (first is None and last is None and _is_docstring(node)):
            continue
        elif node.type.startswith("preproc_if") and any(_import_nodes(node)):
            last = list(_import_nodes(node))[-1]
        elif node.type in outline.language.definitions or node.type == "decorated_definition":
            first = first or node
            break
        first = first or node
    line_end = line_end_near(text, 0)
    if last is not None:
        end_byte = last.end_byte - (outline.part(last)[-1:] in ("\n", "\r"))
        at = outline.lines.starts[outline.lines.line_at_byte(max(last.start_byte, end_byte - 1)) + 1]
        gap = line_end if last.type in PACKAGES else ""
        before = "" if text[:at].endswith(("\n", "\r")) else line_end
        return text[:at] + before + gap + line_end.join(statements) + line_end + text[at:]
    line = _first_line(outline)
    at = outline.lines.starts[line]
    is_apart = line == len(outline.lines) or outline.lines.is_blank(line)
    return text[:at] + line_end.join(statements) + line_end * (1 if is_apart else 2) + text[at:]


def _first_line(outline: Outline) -> int:
    """The line before which the first import goes: behind the comments and the docstring at the start."""
    line = 0
    for node in outline.root.named_children:
        last = outline.lines.line_at_byte(max(node.start_byte, node.end_byte - 1))
        is_apart = last + 1 < len(outline.lines) and outline.lines.is_blank(last + 1)
        is_marker = outline.part(node).startswith("#!") or "coding" in outline.part(node)[:30]
        if node.type in COMMENTS and (is_apart or (last < 2 and is_marker)):
            line = last + 1
        elif _is_docstring(node):
            line = last + 1
            break
        elif node.type not in COMMENTS:
            break
    while 0 < line < len(outline.lines) and outline.lines.is_blank(line):
        line += 1
    return line


def _is_docstring(node: Node) -> bool:
    inner = node.named_children
    return node.type == "expression_statement" and len(inner) == 1 and inner[0].type == "string"


def _items(outline: Outline, node: Node) -> list[_Item]:
    text = " ".join(outline.part(node).split())
    language = outline.language.name
    if language == "python":
        return list(_python(outline, node))
    if language in ("javascript", "typescript", "tsx"):
        return list(_javascript(outline, node, text))
    if language == "go":
        return list(_go(outline, node))
    if language == "rust":
        argument = node.child_by_field_name("argument")
        return [_rust_item(path) for path in _rust(outline, argument, "")] if argument else []
    if language == "java":
        name = text.rstrip(" ;").rpartition(".")[2]
        return [_Item("", text, "", None if name == "*" else name, text)]
    return [_Item("", text)]


def _python(outline: Outline, node: Node) -> Iterator[_Item]:
    module_node = node.child_by_field_name("module_name")
    module = outline.part(module_node) if module_node else "__future__"
    is_plain = node.type == "import_statement"
    head = "import " if is_plain else f"from {module} import "
    for one in node.named_children:
        if one.type == "wildcard_import":
            yield _Item(head, "*")
    for one in node.children_by_field_name("name"):
        name_node, alias = one.child_by_field_name("name"), one.child_by_field_name("alias")
        name = outline.part(name_node if alias and name_node else one)
        text = f"{name} as {outline.part(alias)}" if alias else name
        if node.type == "future_import_statement":
            yield _Item(head, text)
        elif is_plain and not alias:
            yield _Item(head, text, "", name.partition(".")[0], name.partition(".")[0])
        else:
            bound = outline.part(alias) if alias else name
            yield _Item(head, text, "", bound, name if is_plain else f"{module}.{name}")


def _javascript(outline: Outline, node: Node, text: str) -> Iterator[_Item]:
    source = node.child_by_field_name("source")
    clause = next((one for one in node.named_children if one.type == "import_clause"), None)
    if source is None or clause is None:
        yield _Item("", text)
        return
    module = outline.part(source)
    end = ";" if text.endswith(";") else ""
    start = "import type " if text.startswith("import type ") else "import "
    plain = module[1:-1]
    for one in clause.named_children:
        if one.type == "named_imports":
            for part in one.named_children:
                if part.type in COMMENTS:
                    continue
                name, alias = part.child_by_field_name("name"), part.child_by_field_name("alias")
                bound = outline.part(alias or name or part)
                meaning = f"{plain}:{outline.part(name or part)}"
                yield _Item(start + "{ ", outline.part(part), f" }} from '{plain}'{end}", bound, meaning)
        else:
            bound = outline.part(one).rpartition(" ")[2]
            yield _Item(start, outline.part(one), f" from '{plain}'{end}", bound, f"{plain}:{one.type}")


def _go(outline: Outline, node: Node) -> Iterator[_Item]:
    stack = list(node.named_children)
    while stack:
        one = stack.pop(0)
        if one.type == "import_spec_list":
            stack = one.named_children + stack
        elif one.type == "import_spec":
            path, name = one.child_by_field_name("path"), one.child_by_field_name("name")
            plain = outline.part(path).strip('"`') if path else ""
            bound = outline.part(name) if name else plain.rpartition("/")[2]
            yield _Item("import ", outline.part(one), "", None if bound in ("_", ".") else bound, plain)


def _rust(outline: Outline, node: Node, prefix: str) -> Iterator[str]:
    """The paths of a use declaration, one by one."""
    if node.type == "scoped_use_list":
        path, inner = node.child_by_field_name("path"), node.child_by_field_name("list")
        if inner is not None:
            yield from _rust(outline, inner, f"{prefix}{outline.part(path)}::" if path else prefix)
    elif node.type == "use_list":
        for one in node.named_children:
            if one.type not in COMMENTS:
                yield from _rust(outline, one, prefix)
    else:
        yield prefix + outline.part(node)


def _rust_item(path: str) -> _Item:
    what, _, alias = path.partition(" as ")
    bound = alias.strip() or what.rpartition("::")[2]
    return _Item("use ", path, ";", None if bound in ("*", "_", "self") else bound, what)
