"""A naming and sorting rule for lists of file names."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal

_DROPPED = ("tmp_", "old_", "bak_", "raw_", "wip_")
_ENDINGS = (".arc", ".dat", ".pkg", ".lst", ".rec")


def make(rng: random.Random) -> Specification:
    """Some are left out, the rest sorted by length and then by the alphabet, each with a suffix."""
    dropped, ending, number = rng.choice(_DROPPED), rng.choice(_ENDINGS), rng.randrange(21, 98)
    text = (
        "# Names in the archive\n\n"
        "Before files go to the archive, their names are put in order. The function "
        "`archive_names(names: list[str]) -> list[str]` does it in three steps:\n\n"
        f"1. It leaves out the names that start with '{dropped}'.\n"
        "2. It sorts the other names by their length, shortest first, and names of equal length "
        "alphabetically.\n"
        f"3. It appends the suffix '{ending}{number}' to each of the sorted names.\n\n"
        "It returns the new list, and leaves the list that it was given as it is. An empty list gives an "
        "empty list. Names that occur twice stay twice. Only the start of a name decides whether it is left "
        "out; the same letters elsewhere in it do not matter."
    )
    suffix = f"{ending}{number}"
    solution = (
        "def archive_names(names: list[str]) -> list[str]:\n"
        f"    kept = [name for name in names if not name.startswith('{dropped}')]\n"
        f"    return [name + '{suffix}' for name in sorted(kept, key=lambda name: (len(name), name))]\n"
    )

    def case(*names: str) -> tuple[str, object]:
        kept = [name for name in names if not name.startswith(dropped)]
        kept.sort(key=lambda name: (len(name), name))
        return f"archive_names({list(names)!r})", [name + suffix for name in kept]

    return Specification(
        name="spec:archive",
        title="names in the archive",
        text=text,
        function="archive_names",
        signature="archive_names(names: list[str]) -> list[str]",
        facts=(dropped, suffix),
        checks=(
            check_equal(case(f"{dropped}a", "plan")),
            check_equal(case("report", "map", "index")),
            check_equal(case("dune", "barn", "cove", "arch")),
            check_equal(case(f"my{dropped}x", f"{dropped}y", "z", "z")),
            check_equal(case("pear", "fig", f"{dropped}apple", "apple", "kiwi"), case()),
        ),
        solution=solution,
    )
