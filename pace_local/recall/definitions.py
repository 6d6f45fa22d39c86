"""What a segment's text defines: the names that it gives a meaning to, and what they belong to."""

from __future__ import annotations

import builtins
import io
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from pace_local.entities import LINES_OF_NAME, SUFFIX_OF_TAG
from pace_local.entity_words import is_telling
from pace_local.excerpts import cut
from pace_local.excerpts.names import looks_like_name
from pace_local.excerpts.text import style_of
from pace_local.excerpts.words import word_terms
from pace_local.files import SourceText

_WHOLE = 1 << 40  # tokens of an excerpt: each text is one
_FENCE_LINE = re.compile(r"^ {0,3}(?:`{3,}|~{3,})[^\n]*", re.MULTILINE)
_FENCED = re.compile(
    r"^ {0,3}(?P<mark>`{3,}|~{3,})[ \t]*(?P<tag>[\w+#.-]*)[^\n`]*\n(?P<code>.*?)"
    r"(?:^ {0,3}(?P=mark)[^\n]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)

_PART = r"[^\W\d]\w*"
_SAYS = (
    r"(?:is|are|means|must|shall|should|returns?|takes?|gives?|computes?|calculates?|raises?|yields?|adds?|"
    r"removes?|accepts?|checks?|sets?|creates?|counts?|converts?|defaults?|equals?)\b"
)
_LINE_START = r"^[ \t]*(?:[-*+•][ \t]+|\d+[.)][ \t]+|\|[ \t]*|#+[ \t]+)?[*_]{0,2}"
_NOUN = r"(?i:functions?|methods?|classe?s?|constants?|routines?|procedures?|endpoints?)[ \t]+[*_]{0,2}"
_SIGNATURE = re.compile(
    rf"(?P<lead>{_LINE_START}|\b{_NOUN})?`(?P<name>{_PART}(?:\.{_PART})*)\([^`\n]*\)[^`\n]*`[*_]{{0,2}}"
    rf"(?P<says>[ \t]*(?:[:|—–=]|->|{_SAYS}))?",
    re.MULTILINE,
)
"""A call in back-ticks defines what it names where it heads a line, follows what it is, or is explained."""
_BARE_SIGNATURE = re.compile(
    rf"(?:{_LINE_START}|\b{_NOUN})(?P<name>{_PART}(?:\.{_PART})*)\([^()\n]*\)"
    rf"[ \t]*(?:->[ \t]*[\w.\[\], |]+?[ \t]*)?(?:[:—–]|{_SAYS})",
    re.MULTILINE,
)
_SHAPED = re.compile(
    rf"\b{_NOUN}`(?P<name>{_PART}(?:\.{_PART})*)`[*_]{{0,2}}[ \t]+(?:has|have|takes?|accepts?)[ \t]+"
    r"(?:[\w-]+[ \t]+){1,4}(?:parameters?|arguments?|fields?|attributes?|members?|columns?)\b"
)
"""Who says what it is made of defines a name; who says that it has a fault does not."""
_QUOTED_DEFINITION = re.compile(
    rf"`(?:async[ \t]+)?(?:class|def|struct|enum|interface|trait|type|fn|func|function|const)[ \t]+"
    rf"(?P<name>{_PART})"
)
_STATED = re.compile(
    rf"(?<![\w.`])`?(?P<name>{_PART})`?[*_]{{0,2}}[ \t]*(?:=(?!=)|:[ \t]|(?:is|are|means|equals)\b)"
)

_KINDS = frozenset({"function", "type", "value", "field", "macro", "key"})
_EVERYWHERE = frozenset(
    name
    for owner in (
        builtins,
        object,
        str,
        bytes,
        int,
        float,
        list,
        dict,
        set,
        tuple,
        io.TextIOWrapper,
        Exception,
    )
    for name in dir(owner)
) | frozenset(keyword.kwlist)
_ORDINARY = frozenset(
    re.findall(
        r"\w+",
        """
        add apply args build call check config context create data delete error execute file fetch handle
        handler id info init item items kind kwargs length load log main message mode name new node number
        obj object options params parse path process put query receive reset result results run save send
        setup show size start state status step stop test tests text title token total type update url user
        util utils validate value values version api todo note json xml html http https utf ok
        """,
    )
)
"""Names that any two programs have in common, in lower case."""


@dataclass(frozen=True)
class Definitions:
    """What one text defines."""

    source: str
    """What the text is or was cut from: a segment's name without line numbers and the number of a copy."""
    keys: frozenset[str]
    """Each name as it is spelled, and behind each of its owners, as :func:`owned` joins them."""


def definitions_of(text: str, name: str) -> Definitions:
    """The names that a text gives a meaning to.

    Code is read by its grammar, or by patterns where there is none: functions, types, values outside of
    functions, fields. Prose defines what it says a value or meaning of (``RATE is 53``, ``limit_days = 3``),
    calls that head a line, follow a word such as *function*, or are explained behind, and what it says the
    parameters or fields of (*the function* ``new_order`` *has two parameters*).
    Common words, keywords and names of one letter are none.

    Args:
        text: of the segment.
        name: of the segment, such as ``orders.py:10-42`` or ``spec:orders``; its suffix tells the language.
    """
    path = LINES_OF_NAME.sub("", name)
    names = set(_names(text, path))
    subject = PurePath(path.rpartition(":")[2]).stem
    keys = set()
    for one in names:
        *owners, leaf = one.split(".")
        if is_telling(leaf):
            keys.add(leaf)
            keys |= {owned(owner, leaf) for owner in (*owners[-1:], subject) if is_telling(owner)}
    return Definitions(path, frozenset(keys))


def _names(text: str, path: str) -> Iterator[str]:
    """Names that a text defines, with dots; some of them twice."""
    if style_of(path) != "prose":
        yield from _found(_FENCE_LINE.sub("", text), path)
        return
    for block in _FENCED.finditer(text):
        tag = block["tag"].casefold() or "code"
        yield from _names(block["code"], f"block.{SUFFIX_OF_TAG.get(tag, tag)}")
    prose = _FENCED.sub("", text)
    yield from _found(prose, path)
    for match in _SIGNATURE.finditer(prose):
        if match["lead"] is not None or match["says"]:
            yield match["name"]
    for pattern in (_BARE_SIGNATURE, _SHAPED, _QUOTED_DEFINITION):
        yield from (match["name"] for match in pattern.finditer(prose))
    for match in _STATED.finditer(prose):
        if looks_like_name(match["name"]):
            yield match["name"]


def _found(text: str, path: str) -> Iterator[str]:
    for excerpt in cut(SourceText(path, text, "utf-8", "\n"), _WHOLE, len):
        yield from (definition.name for definition in excerpt.defines if definition.kind in _KINDS)


def owned(owner: str, leaf: str) -> str:
    """A name as something of an owner. The owner's form does not matter: orders, Order and ORDER are one."""
    terms = word_terms(owner)
    return f"{terms[-1] if terms else owner}.{leaf}"


def is_common(leaf: str) -> bool:
    """Whether a name alone, without an owner, says too little of which definition is meant."""
    return leaf in _EVERYWHERE or leaf.strip("_").casefold() in _ORDINARY
