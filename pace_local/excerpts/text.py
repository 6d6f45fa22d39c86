"""Text without a grammar: borders from headings, blank lines and indentation; definitions by patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from pace_local.excerpts.layout import WEAKEST, Found, Layout, Lines, Style

_PROSE = frozenset({"", ".md", ".markdown", ".mdx", ".rst", ".txt", ".text", ".adoc", ".org", ".tex", ".log"})
_HEADED = frozenset({".md", ".markdown", ".mdx", ".rst", ".txt", ".text"})
_SETTINGS = frozenset(
    {".toml", ".ini", ".cfg", ".conf", ".env", ".properties", ".yaml", ".yml", ".json", ".jsonc", ".json5"}
)
_UNDERLINES = "=-~^"
_ATX = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
_UNDERLINE = re.compile(r"([=\-~^])\1{2,}\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")

_CODE = re.compile(
    r"^[ \t]*(?:(?:export|default|public|private|protected|internal|static|abstract|final|sealed|open"
    r"|override|async|inline|unsafe|extern|const|pub(?:\([^)]*\))?)[ \t]+)*"
    r"(?P<word>def|fn|func|fun|function|sub|proc|class|struct|enum|interface|trait|protocol|record|object"
    r"|type|module|namespace|macro|const|let|var|val|static)[ \t]+(?:\([^)]*\)[ \t]*)?"
    r"(?P<name>[^\W\d][\w.:]*[?!]?)"
)
_KEY = re.compile(r"""^[ \t]*(?:-[ \t]+)?(["']?)(?P<name>[^\W\d][\w.-]*)\1[ \t]*(?:[:?+]?=(?!=)|:(?!:))""")
_TABLE = re.compile(r"^[ \t]*\[{1,2}(?P<name>[\w.\-\" ]+)\]{1,2}\s*(?:[#;].*)?$")
_TERM = re.compile(
    r"(?:`(?P<code>[^\W\d][\w.]*(?:\(\))?)`[*]*[ \t]*(?:\||—|–)?"
    r"|(?<![\w`])(?P<constant>[A-Z][A-Z0-9_]+)[*]*[ \t]*)"
    r"(?:(?<=[|—–])|=(?!=)|:(?!:)|is\b|are\b|means\b|defaults\b|returns\b)"
)
_MEMBER = re.compile(
    r"^[ \t]*(?:(?:public|private|protected|internal|static|abstract|final|sealed|override|virtual|async"
    r"|readonly)[ \t]+)+[\w<>\[\],.?]+[ \t]+(?P<name>[^\W\d]\w*)[ \t]*(?P<next>[({=;])"
)
_CONSTANT = re.compile(r"(?<![\w.])(?P<name>[A-Z][A-Z0-9_]{2,})[ \t]*=(?![=>])")
_SECOND_WORD = re.compile(r"[ \t]\w")
_FUNCTION_WORDS = frozenset({"def", "fn", "func", "fun", "function", "sub", "proc"})
_VALUE_WORDS = frozenset({"const", "let", "var", "val", "static"})


def style_of(path: str) -> Style:
    """What a text is like, by its suffix, where no grammar reads it."""
    suffix = PurePath(path).suffix.lower()
    return "prose" if suffix in _PROSE else "settings" if suffix in _SETTINGS else "code"


def text_layout(lines: Lines, path: str) -> Layout:
    """Borders and definitions of a text that no grammar reads."""
    style = style_of(path)
    levels = plain_levels(lines, style)
    found = list(patterns_in(lines, style))
    if PurePath(path).suffix.lower() in _HEADED:
        found += _mark_headings(lines, levels)
        found.sort(key=lambda one: (one.at, one.kind != "section"))
    return Layout(levels, style, found)


def plain_levels(lines: Lines, style: Style) -> list[int]:
    """Borders by blank lines and indentation.

    In prose a blank line is the stronger sign, elsewhere the smaller indentation.

    Returns:
        For each line the level of the border before it, from 10 (below that are headings) to ``WEAKEST``.
    """
    levels = []
    after_blank = True
    for line in range(len(lines)):
        if lines.is_blank(line):
            levels.append(WEAKEST)
            after_blank = True
            continue
        indent = min(lines.indent(line), 80)
        if lines.closes(line):
            level = WEAKEST
        elif style == "prose":
            level = (10 if after_blank else 100) + indent
        else:
            level = 10 + 2 * indent + (0 if after_blank else 1)
        levels.append(level)
        after_blank = False
    return levels


def _mark_headings(lines: Lines, levels: list[int]) -> list[Found]:
    """Lower ``levels`` at headings, outermost most, and give each section as a definition."""
    headings: list[tuple[int, int, str]] = []  # line, depth, title
    fence = ""
    for line, text in enumerate(lines.lines):
        opening = _FENCE.match(text)
        if opening and not fence:
            fence = opening[1]
        elif fence:
            levels[line] = max(levels[line], 300)  # a block of code is kept whole where that is possible
            if opening and text.strip() == opening[1] and opening[1].startswith(fence):
                fence = ""
        elif atx := _ATX.match(text):
            headings.append((line, len(atx[1]), text[atx.end() :].strip().rstrip("#")))
        elif line and _UNDERLINE.match(text) and _can_be_title(lines, line - 1):
            headings.append((line - 1, _UNDERLINES.index(text[0]) + 1, lines.lines[line - 1].strip()))
            levels[line] = WEAKEST
    found: list[Found] = []
    starts = dict.fromkeys(range(1, 7), len(lines))  # by depth, the first line of the next heading
    for line, depth, title in reversed(headings):
        levels[line] = depth
        last = min(starts[other] for other in range(1, depth + 1)) - 1
        starts[depth] = line
        if name := title.strip("`*_ \t"):
            found.append(
                Found(name, "section", lines.byte_starts[line], line, last, lines.lines[line].rstrip())
            )
    return found


def _can_be_title(lines: Lines, line: int) -> bool:
    """Whether an underline makes the line above a title: it stands alone and is no list item or table row."""
    text = lines.lines[line].strip()
    return bool(text) and text[0] not in "-*+|>=~^#" and (line == 0 or lines.is_blank(line - 1))


def patterns_in(lines: Lines, style: Style) -> Iterator[Found]:
    """Definitions that a line's form shows: by keywords of many languages, as keys, as terms of prose."""
    for line, text in enumerate(lines.lines):
        seen = set()
        for name, kind, column in _patterns_in_line(text, style):
            if name and name not in seen:
                seen.add(name)
                last = line if kind in ("key", "value") else _block_end(lines, line)
                yield Found(name, kind, lines.byte_at(line, column), line, last, text.rstrip())


def _patterns_in_line(text: str, style: Style) -> Iterator[tuple[str, str, int]]:
    if style == "settings":
        if match := _TABLE.match(text) or _KEY.match(text):
            yield match["name"].strip(), "key", match.start("name")
        return
    match = _CODE.match(text)
    word = match["word"] if match else ""
    # In a sentence the keywords are words: "type of order", "let us". In code no second word follows a name,
    # but one may follow the type of a constant.
    if match and not ((style == "prose" or word in _VALUE_WORDS) and _SECOND_WORD.match(text, match.end())):
        kind = "function" if word in _FUNCTION_WORDS else "value" if word in _VALUE_WORDS else "type"
        yield match["name"].rstrip(".:").replace("::", "."), kind, match.start("name")
        return
    if style == "prose":
        for term in _TERM.finditer(text):
            group = "code" if term["code"] else "constant"
            yield term[group].removesuffix("()"), "key", term.start(group)
    elif match := _MEMBER.match(text):
        yield match["name"], "function" if match["next"] == "(" else "value", match.start("name")
    elif match := _CONSTANT.search(text) or (None if text[:1].isspace() else _KEY.match(text)):
        yield match["name"], "value", match.start("name")


def _block_end(lines: Lines, line: int) -> int:
    """Last line of a block by its indentation: before the next line that is no deeper, or that closes it."""
    own = lines.indent(line)
    last = line
    for later in range(line + 1, min(len(lines), line + 2_000)):
        if lines.is_blank(later):
            continue
        if lines.indent(later) <= own:
            return later if lines.closes(later) else last
        last = later
    return last
