"""Definitions of one name: a property's, overloads of a function."""

from __future__ import annotations

from pace_agent.errors import EditError
from pace_agent.repository.outline import Definition, Outline
from pace_local.excerpts.languages import grammar_of, language_of


def definitions_named(outline: Outline, name: str, near_line: int | None = None) -> list[Definition]:
    """All definitions that a name means, in the order of the file; empty if there is none.

    Args:
        outline: of the file.
        name: as for :func:`~pace_agent.repository.outline.find_definition`.
        near_line: of several the one nearest to this line, 1-based; None: all of them.

    Raises:
        EditError: if the name is the end of several qualified ones: they have nothing to do with each other.
    """
    one = outline.find(name, 1 if near_line is None else near_line)
    if one is None or near_line is not None:
        return [] if one is None else [one]
    plain = name.strip().removesuffix("()").replace("::", ".").replace("#", ".").strip(".")
    if plain != one.name and any(
        each.name.endswith(f".{plain}") and each.name != one.name for each in outline.definitions
    ):
        one = outline.find(name)  # which says so, if it does not know which
        return [] if one is None else [one]
    found = {
        each.start_byte: each
        for each in outline.definitions
        if each.name == one.name and each.is_declaration == one.is_declaration
    }
    return list(found.values())


def has_grammar(path: str, text: str) -> bool:
    """Whether definitions of a file can be found by name."""
    language = language_of(path, text)
    return language is not None and grammar_of(language) is not None


def head_of(code: str) -> str:
    """A definition's first line without white space around it, which tells those of one name apart."""
    return code.strip().split("\n")[0].strip()


def several_named(name: str, heads: list[str], path: str) -> EditError:
    """What to tell a model whose answer begins like none of several definitions of a name."""
    shown = ", ".join(repr(head[:80]) for head in heads[:6])
    return EditError(
        f"{path} defines {name} {len(heads)} times, beginning {shown}; give the one that changes whole, with "
        "that first line"
    )
