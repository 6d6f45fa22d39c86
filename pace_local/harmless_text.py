"""Text of files, models and commands made harmless: it is shown as it is, and no terminal obeys any of it.

Imports nothing but the standard library: a screen needs it before its first paint.
"""

from __future__ import annotations

import re

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, other ends of lines, marks that turn writing around, halves of surrogate pairs."""
_KEPT = frozenset("\n\t\u3000")
"""Not printable by Python's book, and meant to be there."""


def harmless(text: str, *, is_strict: bool = False) -> str:
    """A text that moves no cursor and turns no line around.

    Line ends and tabs stay; ``·`` stands for every other control character, for marks that turn the direction
    of writing around, and for what no terminal could be sent.

    Args:
        text: of anybody.
        is_strict: whether ``·`` stands for all else that is not seen, too, such as joiners: for a text in
            which nothing may hide.
    """
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if is_strict:
        return "".join(one if one.isprintable() or one in _KEPT else "·" for one in text)
    return _OBEYED.sub("·", text)
