"""Comments that ask for something: ``# rename this to total AI!`` (do it), ``// why twice? AI?`` (answer it).

The mark stands at the end of a comment, in capitals, in whatever way the language writes comments; inside a
string it means nothing. Of line comments on lines of their own, one below the other, the mark takes along
those above it as far back as a sentence goes: up to a line that ends with ``.``, ``!`` or ``?``. So a comment
that was there before keeps its place when the request below it is done and removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import tree_sitter

from pace_agent.repository.comment_syntax import scan_comments, syntax_of
from pace_local.excerpts.languages import Language, grammar_of, language_of

LARGEST = 4 * 1024**2
"""Characters of a text that is looked at."""
_MARK = re.compile(r"(?<![\w-])AI(?P<mark>[!?])\s*\Z")
_OPENING = re.compile(
    r"(?://+[!/]*|/\*+!?|#+[!|=]?|<#|<!--+|--+(?:\[\[)?|;+|%+|\{-|\(\*|'|\"|!+|REM\b|rem\b|::)"
)
_CLOSING = re.compile(r"(?:\*+/|--+>|\]\]|-\}|\*+\)|\|#|=#|#>)\Z")
_INNER = re.compile(r"^[ \t]*(?:\*(?!\*)[ \t]?)?")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s*\Z")


@dataclass(frozen=True)
class Request:
    """A comment that asks for something."""

    path: str
    line: int
    """Its first line, from 1."""
    last_line: int
    kind: Literal["do", "answer"]
    text: str
    """What it says, without the comment's signs and the mark; empty if it says nothing else."""
    start: int
    """Place of its first character in the text."""
    raw: str
    """All of the comment as it stands there, lines in between included."""

    @property
    def key(self) -> str:
        """What it is known by: the same for a comment that was only indented anew."""
        return "\n".join(line.strip() for line in self.raw.split("\n"))


@dataclass(frozen=True)
class _Comment:
    start: int
    end: int
    alone: bool
    """Whether nothing but blanks is before it on its line."""


def find_requests(path: str, text: str) -> list[Request]:
    """All requests of a file, in their order.

    Args:
        path: of the file; its suffix (or a first line with ``#!``) tells the language. In a language that is
            not known there are none.
        text: of the file, line ends as they are.
    """
    if len(text) > LARGEST or ("AI!" not in text and "AI?" not in text):
        return []
    comments = _comments(path, text)
    requests: list[Request] = []
    for index, comment in enumerate(comments):
        body = _body(text[comment.start : comment.end])
        mark = _MARK.search(body)
        if mark is None:
            continue
        first = _first_of(comments, index, text)
        parts = [_body(text[one.start : one.end]) for one in comments[first:index]]
        parts.append(body[: mark.start()])
        start = comments[first].start
        line = text.count("\n", 0, start) + 1
        raw = text[start : comment.end]
        requests.append(
            Request(
                path,
                line,
                line + raw.count("\n"),
                "do" if mark["mark"] == "!" else "answer",
                "\n".join(part for part in parts if part).strip(),
                start,
                raw,
            )
        )
    return requests


def without_comment(text: str, found: Request) -> str:
    """The text without a request; everything else stays byte for byte.

    A comment alone on its lines goes with them; behind code it goes with the blanks before it. The text may
    have changed elsewhere since the request was found; if the comment is gone, it is returned as it is.
    """
    candidates = [one for one in find_requests(found.path, text) if one.key == found.key]
    if not candidates:
        return text
    request = min(candidates, key=lambda one: (abs(one.line - found.line), one.line))
    start, end = request.start, request.start + len(request.raw)
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end + 1
    before, after = text[line_start:start], text[end:line_end]
    if not after.strip():
        if not before.strip():
            return text[:line_start] + text[line_end:]
        start -= len(before) - len(before.rstrip(" \t"))
    return text[:start] + text[end:]


def _first_of(comments: list[_Comment], last: int, text: str) -> int:
    """Index of the first of the line comments that form one sentence with the last."""
    first = last
    while first > 0 and _continues(comments[first - 1], comments[first], text):
        first -= 1
    return first


def _continues(above: _Comment, below: _Comment, text: str) -> bool:
    """Whether two line comments stand one below the other, and the first has not come to its end."""
    raw = text[above.start : above.end]
    between = text[above.end : below.start]
    if not (above.alone and below.alone) or "\n" in raw or between.count("\n") != 1 or between.strip():
        return False
    signs = [_OPENING.match(text, one.start) for one in (above, below)]
    if signs[0] is None or signs[1] is None or signs[0][0] != signs[1][0] or _CLOSING.search(raw):
        return False
    if _column(above, text) != _column(below, text):
        return False
    body = _body(raw)
    return bool(body) and not _SENTENCE_END.search(body)


def _column(comment: _Comment, text: str) -> int:
    return comment.start - text.rfind("\n", 0, comment.start) - 1


def _body(raw: str) -> str:
    """What a comment says: without its signs, and without a star before each line."""
    opening = _OPENING.match(raw)
    body = raw[opening.end() :] if opening else raw
    body = _CLOSING.sub("", body.rstrip())
    first, *rest = body.splitlines() or [""]
    lines = [first.strip(), *(_INNER.sub("", line).strip() for line in rest)]
    return "\n".join(lines).strip()


def _comments(path: str, text: str) -> list[_Comment]:
    language = language_of(path, text)
    places = _from_grammar(text, language) if language else None
    if places is None:
        syntax = syntax_of(path, text)
        places = scan_comments(text, syntax) if syntax else []
    return [
        _Comment(start, end, not text[text.rfind("\n", 0, start) + 1 : start].strip())
        for start, end in places
    ]


def _from_grammar(text: str, language: Language) -> list[tuple[int, int]] | None:
    """Where comments are, by the language's grammar; None if it cannot be loaded."""
    query = _comment_query(language)
    grammar = grammar_of(language)
    if query is None or grammar is None:
        return None
    data = text.encode("utf-8", "surrogatepass")
    nodes = tree_sitter.QueryCursor(query).captures(grammar.parser.parse(data).root_node).get("comment", [])
    spans = sorted({(node.start_byte, node.end_byte) for node in nodes})
    places: list[tuple[int, int]] = []
    at, character = 0, 0
    for start, end in spans:
        if start < at:  # a part of the comment before
            continue
        character += len(data[at:start].decode("utf-8", "surrogatepass"))
        raw = data[start:end].decode("utf-8", "surrogatepass")
        # Some grammars count the line end to the comment.
        places.append((character, character + len(raw.rstrip("\r\n"))))
        character += len(raw)
        at = end
    return places


def _comment_query(language: Language) -> tree_sitter.Query | None:
    grammar = grammar_of(language)
    known = grammar.parser.language if grammar else None
    if known is None:
        return None
    kinds = [
        kind
        for kind in ("comment", "line_comment", "block_comment", "html_comment")
        if known.id_for_node_kind(kind, True)
    ]
    return (
        tree_sitter.Query(known, f"[{' '.join(f'({kind})' for kind in kinds)}] @comment") if kinds else None
    )
