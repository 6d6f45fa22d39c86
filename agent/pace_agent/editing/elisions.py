"""Code that a model left out of an answer and only spoke of."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"^\s*(?:#+|//+|/\*+|\*|--+|;+|<!--|\"\"\"|''')\s*(.*?)\s*(?:\*/|-->|\"\"\"|''')?\s*$")
_BEHIND = re.compile(r"^\s*[^\s#/].*?\s(?:#|//)\s*(.*?)\s*$")
_WHAT = (
    r"(?:code|function|method|class|file|implementation|body|logic|module|program|definitions?|part|block)s?"
)
_STATE = r"(?:unchanged|(?:the )?same(?: as (?:before|above))?|as (?:before|above|is)|omitted|here|goes here)"
_REMAINS = rf"(?: (?:code )?(?:is |are |remains? |stays? )?{_STATE})"
_SPOKEN = re.compile(
    r"(?:\.\.\.|…).*"
    r"|.*\b(?:rest|remaining|remainder|existing|unchanged|same|other|previous|original|code|implementation|here)"
    r"\b.*(?:\.\.\.|…)"
    rf"|\W*(?:the )?(?:rest|remainder)(?: of (?:the |your |this )?(?:\w+ ){{0,2}}{_WHAT})?{_REMAINS}?\W*"
    rf"|\W*(?:the )?(?:existing|previous|original|remaining|unchanged|other) (?:\w+ )?{_WHAT}{_REMAINS}?\W*"
    r"|\W*(?:(?:code|everything|all) )?(?:is |are |remains? |stays? )?(?:unchanged|omitted"
    r"|no changes?(?: here)?|(?:the )?same as (?:before|above))\W*"
    r"|.*\bfor brevity\W*"
    rf"|\W*(?:add |put |insert |write )?(?:your|the) (?:\w+ )?{_WHAT} (?:goes |comes )?here\W*",
    re.IGNORECASE,
)
_BARE = re.compile(r"^\s*(?:\.\.\.|…)\s*;?\s*$")
_OPENS = re.compile(r"(?::|\"\"\"|''')\s*(?:#.*)?$")


def elided_line(text: str, original: str = "") -> str | None:
    """The first line of a code that stands for code which is not there; None if it is whole.

    Comments such as ``# rest of the function unchanged`` and ``// ... existing code ...``, and dots alone on
    a line. Python's ``...`` as the whole body of a function or class is code.

    Args:
        text: of the answer's code.
        original: what the file has there; its own lines are never taken for such.
    """
    own = {line.strip() for line in original.splitlines()}
    before = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        if line.strip() not in own and _stands_for_more(line, before):
            return line.strip()
        before = line
    return None


def is_elided(text: str, original: str = "") -> bool:
    """Whether a code leaves something out, by :func:`elided_line`: the model is to be asked again."""
    return elided_line(text, original) is not None


def _stands_for_more(line: str, before: str) -> bool:
    if _BARE.match(line):
        return _OPENS.search(before) is None or "…" in line
    comment = _COMMENT.match(line)
    if comment is None:
        behind = _BEHIND.match(line)
        is_stub = re.match(r"^\s*(?:pass|\.\.\.|return|\{)\s*;?\s*(?:#|//)", line) is not None
        return behind is not None and is_stub and _SPOKEN.fullmatch(behind[1]) is not None
    return bool(comment[1]) and _SPOKEN.fullmatch(comment[1]) is not None
