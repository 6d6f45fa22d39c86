"""A string format: prefix, capitals, separators, and a number with leading zeros."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal

_PREFIXES = ("QX", "VK", "ZR", "JB", "WN", "HY", "KD")
_MARKS = ("#", "/", "~", "=", "+")


def make(rng: random.Random) -> Specification:
    """``QX-NORTH/000000000042;81``: everything but the site and the number is fixed."""
    prefix, mark = rng.choice(_PREFIXES), rng.choice(_MARKS)
    width, revision = rng.randrange(11, 17), rng.randrange(31, 98)
    text = (
        "# Shelf labels\n\n"
        "Every shelf has a printed label. Scanners read it character by character, so it must be exact.\n\n"
        "A label is made of these parts, without any space between them:\n\n"
        f"1. the prefix {prefix}, and a hyphen;\n"
        "2. the name of the site in capital letters;\n"
        f"3. the character {mark}\n"
        f"4. the number of the shelf with leading zeros, {width} digits wide;\n"
        f"5. a semicolon and the revision of the format, which is {revision}.\n\n"
        "The function `shelf_label(site: str, number: int) -> str` returns the label. A number that is "
        "longer than the width is written in full. The function checks nothing and raises nothing."
    )
    solution = (
        "def shelf_label(site: str, number: int) -> str:\n"
        f"    return '{prefix}-' + site.upper() + '{mark}' + str(number).zfill({width}) + ';{revision}'\n"
    )

    def label(site: str, number: int) -> str:
        return f"{prefix}-{site.upper()}{mark}{number:0{width}d};{revision}"

    cases = (("north", 42), ("east", 0), ("West", 10 ** (width - 1)), ("yard", 10**width + 7), ("q", 9))
    return Specification(
        name="spec:labels",
        title="shelf labels",
        text=text,
        function="shelf_label",
        signature="shelf_label(site: str, number: int) -> str",
        facts=(prefix, str(width), str(revision)),
        checks=tuple(
            check_equal((f"shelf_label({site!r}, {number})", label(site, number))) for site, number in cases
        ),
        solution=solution,
    )
