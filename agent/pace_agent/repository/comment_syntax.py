"""How comments are written in languages without a grammar here, and a scan that finds them.

The scan knows strings well enough to stay out of them: quotes with backslashes, quotes over several lines
where a language has them, here-documents of shells. A quote that is not closed on its line is no string, so
that an apostrophe in prose hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath


@dataclass(frozen=True)
class Syntax:
    """Comments and strings of a family of languages."""

    line: tuple[str, ...] = ()
    """What starts a comment that ends with its line."""
    block: tuple[tuple[str, str], ...] = ()
    quotes: str = "\"'"
    """Characters that open and close a string on one line, with backslashes as escapes."""
    wide: tuple[str, ...] = ()
    """Quotes of strings that may have several lines."""
    apart: bool = False
    """Whether a line comment needs a blank, or the start of the line, before it."""
    here: bool = False
    """Whether there are here-documents (``<<EOF``)."""


_SLASHES = Syntax(("//",), (("/*", "*/"),), wide=("`",))
_HASH = Syntax(("#",), apart=True)
_SHELL = Syntax(("#",), apart=True, here=True)
_DASHES = Syntax(("--",), (("/*", "*/"),))
_SEMICOLON = Syntax((";",), (("#|", "|#"),), quotes='"')
_PERCENT = Syntax(("%",), quotes="")
_MARKUP = Syntax((), (("<!--", "-->"),), quotes="")
_PAGE = Syntax(("//",), (("<!--", "-->"), ("/*", "*/")), quotes="\"'`")
_ML = Syntax((), (("(*", "*)"),), quotes='"')
_PYTHON = Syntax(("#",), wide=('"""', "'''"))

_SYNTAXES = {
    _SLASHES: "c cc cpp cxx cu cuh h hh hpp hxx ipp inl java js jsx mjs cjs ts tsx mts cts go rs swift scala"
    " cs dart m mm groovy gradle zig proto sol jsonc json5 d v sv glsl vert frag hlsl wgsl metal less scss"
    " sass",
    Syntax(("//",), (("/*", "*/"),), wide=('"""',)): "kt kts",
    Syntax(("//", "#"), (("/*", "*/"),), apart=True): "php tf hcl",
    Syntax((), (("/*", "*/"),)): "css",
    _PYTHON: "py pyi pyw bzl star",
    _SHELL: "sh bash zsh ksh fish rb rake pl pm",
    _HASH: "yaml yml toml cfg conf mk cmake r ex exs nim cr coffee tcl awk gd properties env gitignore"
    " dockerignore editorconfig graphql gql po ninja",
    Syntax(("#",), (("<#", "#>"),), apart=True): "ps1 psm1",
    Syntax(("#",), (("#=", "=#"),), quotes='"', wide=('"""',), apart=True): "jl",
    Syntax(("#",), (("/*", "*/"),), quotes='"', wide=("''",), apart=True): "nix",
    Syntax((";", "#"), quotes="", apart=True): "ini",
    _DASHES: "sql ada adb ads vhd vhdl",
    Syntax(("--",), (("--[[", "]]"),)): "lua",
    Syntax(("--",), (("{-", "-}"),), quotes='"'): "hs elm purs",
    _SEMICOLON: "el lisp cl clj cljs cljc edn scm rkt asm s",
    _PERCENT: "tex sty bib erl hrl",
    _MARKUP: "html htm xml xhtml svg md markdown rst",
    _PAGE: "vue svelte astro",
    _ML: "ml mli",
    Syntax(("//",), (("(*", "*)"),), quotes='"', wide=('"""',)): "fs fsi fsx",
    Syntax(("'",), quotes='"'): "vb bas",
    Syntax(("!",)): "f90 f95 f03 f08",
    Syntax(('"',), quotes="'", apart=True): "vim",
    Syntax(("REM ", "rem ", "::"), quotes="", apart=True): "bat cmd",
}
_BY_SUFFIX = {suffix: syntax for syntax, suffixes in _SYNTAXES.items() for suffix in suffixes.split()}
_BY_NAME = re.compile(
    r"(?P<hash>(?:GNU)?[Mm]akefile|CMakeLists\.txt|Dockerfile.*|Containerfile.*|Justfile|justfile|Procfile"
    r"|requirements.*\.txt|CODEOWNERS|\.env.*|\.git\w+|\.docker\w+)"
    r"|(?P<shell>Gemfile|Rakefile|Vagrantfile|Brewfile|\.\w*(?:rc|profile))"
)
_HERE = re.compile(r"<<[-~]?(?P<quote>['\"]?)(?P<word>[A-Za-z_]\w*)(?P=quote)")


def syntax_of(path: str, text: str) -> Syntax | None:
    """How comments are written in a file, by its name, else by its first line; None if that is not known."""
    pure = PurePath(path)
    named = _BY_NAME.fullmatch(pure.name)
    if named:
        return _HASH if named["hash"] else _SHELL
    suffix = pure.suffix.lower().removeprefix(".")
    if suffix:
        return _BY_SUFFIX.get(suffix)
    return _SHELL if text.startswith("#!") else None


def scan_comments(text: str, syntax: Syntax) -> list[tuple[int, int]]:
    """Where each comment starts and ends, in characters; a line comment ends before its line end."""
    tokens = _tokens(syntax)
    found: list[tuple[int, int]] = []
    here: list[str] = []
    at = 0
    while match := tokens.search(text, at):
        at = match.end()
        kind = match.lastgroup
        if kind == "end":
            for word in here:
                closing = re.compile(rf"^[ \t]*{re.escape(word)}[ \t]*\r?$", re.MULTILINE).search(text, at)
                at = closing.end() if closing else len(text)
            here.clear()
        elif kind == "line":
            end = _line_end(text, match.start())
            found.append((match.start("line"), end))
            at = end
        elif kind == "block":
            closing_mark = dict(syntax.block)[match["block"]]
            end = text.find(closing_mark, at)
            if end < 0:  # still being written
                break
            at = end + len(closing_mark)
            found.append((match.start("block"), at))
        elif kind == "wide":
            at = _closed(text, at, match["wide"])
        elif kind == "quote":
            end = _closed(text, at, match["quote"])
            if "\n" not in text[at:end] and text.endswith(match["quote"], at, end):
                at = end
        elif kind == "here" and (opened := _HERE.match(text, match.start())):
            here.append(opened["word"])
            at = opened.end()
    return found


@cache
def _tokens(syntax: Syntax) -> re.Pattern[str]:
    """What the scan stops at; of marks that start alike, the longest is tried first."""
    parts = [r"(?P<end>\n)"]
    if syntax.here:
        parts.append(r"(?P<here><<(?=[-~]?['\"]?[A-Za-z_]))")
    if syntax.block:
        parts.append(f"(?P<block>{_either(start for start, _ in syntax.block)})")
    if syntax.line:
        before = r"(?:^|(?<=[\s;(){}\[\],]))" if syntax.apart else r"(?<![:\\])"
        parts.append(f"{before}(?P<line>{_either(syntax.line)})")
    if syntax.wide:
        parts.append(f"(?P<wide>{_either(syntax.wide)})")
    if syntax.quotes:
        # An apostrophe behind a letter is one; prefixes of Python's strings are one or two letters alone.
        before = r"(?:(?<![\w'])|(?<=\b[rbfuRBFU])|(?<=\b[rbfRBF]{2}))"
        parts.append(rf"\\.|{before}(?P<quote>[{re.escape(syntax.quotes)}])")
    return re.compile("|".join(parts), re.MULTILINE | re.DOTALL)


def _either(marks: Iterable[str]) -> str:
    return "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True))


def _closed(text: str, at: int, quote: str) -> int:
    """Place behind the end of a string that started before ``at``; on one line for a single quote."""
    stop = len(text) if len(quote) > 1 or quote == "`" else _line_end(text, at)
    while at < stop:
        if text[at] == "\\":
            at += 2
        elif text.startswith(quote, at):
            return at + len(quote)
        else:
            at += 1
    return stop


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end > at and text[end - 1] == "\r" else end
