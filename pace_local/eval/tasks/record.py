"""A record interface: fields in a given order, two of them with defaults."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal

_REQUIRED = ("serial", "owner", "zone", "badge", "depot", "vessel")
_OPTIONAL = (("ttl", "level"), ("quota", "shade"), ("depth", "tier"), ("span", "mode"))
_WORDS = ("amber", "cobalt", "walnut", "saffron", "pewter", "indigo", "maroon", "copper")


def make(rng: random.Random) -> Specification:
    """Two required fields, a number and a word by default, and a fixed order that is not the alphabet's."""
    first, second = rng.sample(_REQUIRED, 2)
    number, word = rng.choice(_OPTIONAL)
    default_number, default_word = rng.randrange(23, 98), rng.choice(_WORDS)
    text = (
        "# Beacon record\n\n"
        "A beacon is described by a plain dict. Other services compare such records as text, so the order of "
        "the keys matters.\n\n"
        f"The function `new_beacon` has four parameters in this order: `{first}`, `{second}`, `{number}` and "
        f"`{word}`. The first two have no default. The default of `{number}` is {default_number}, and the "
        f"default of `{word}` is '{default_word}'.\n\n"
        "The function only returns a dict with four keys, in this order:\n\n"
        f"- '{word}': the value of `{word}`\n"
        f"- '{second}': the value of `{second}`\n"
        f"- '{first}': the value of `{first}`\n"
        f"- '{number}': the value of `{number}`\n\n"
        "All values go into the dict as they are: none is checked, and any is valid. There are no other keys."
    )
    solution = (
        f"def new_beacon({first}, {second}, {number}={default_number}, {word}='{default_word}'):\n"
        f"    return {{'{word}': {word}, '{second}': {second}, '{first}': {first}, '{number}': {number}}}\n"
    )

    def record(one: object, two: object, three: object, four: object) -> list[tuple[str, object]]:
        return [(word, four), (second, two), (first, one), (number, three)]

    return Specification(
        name="spec:beacon",
        title="beacon record",
        text=text,
        function="new_beacon",
        signature="new_beacon",
        facts=(first, second, number, word, str(default_number), default_word),
        checks=(
            check_equal(("new_beacon('k1', 'k2')", dict(record("k1", "k2", default_number, default_word)))),
            check_equal(
                ("list(new_beacon('k1', 'k2').items())", record("k1", "k2", default_number, default_word))
            ),
            check_equal(("list(new_beacon('a', 'b', 5).items())", record("a", "b", 5, default_word))),
            check_equal(("list(new_beacon('a', 'b', 6, 'z').items())", record("a", "b", 6, "z"))),
            check_equal(
                (
                    f"list(new_beacon({second}='s', {first}='f', {word}='w').items())",
                    record("f", "s", default_number, "w"),
                )
            ),
        ),
        solution=solution,
    )
