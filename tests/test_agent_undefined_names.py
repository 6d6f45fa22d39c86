from __future__ import annotations

import pytest

from pace_agent.editing.undefined_names import new_undefined_names

BEFORE = "import os\n\n\ndef f(a):\n    return missing(a)\n"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (BEFORE, {}),
        (BEFORE.replace("missing(a)", "missing(b)"), {"b": 5}),
        (BEFORE.replace("missing(a)", "missing(missing(a))"), {"missing": 5}),  # once more than before
        (BEFORE.replace("missing(a)", "os.path.join(a)"), {}),
        (BEFORE.replace("missing(a)", "len(a) + __name__.count('x')"), {}),
        (BEFORE + "\n\nfrom os import *\nprint(join)\n", {}),  # may be one of them
        (BEFORE + "\n\nb = c + c\n", {"c": 8}),
        ("def f(:\n", {}),
        ("", {}),
    ],
)
def test_names_that_an_edit_brings_in(after: str, expected: dict[str, int]) -> None:
    assert new_undefined_names(BEFORE, after, "a.py") == expected


def test_only_of_python() -> None:
    assert new_undefined_names("", "let a = b;", "a.js") == {}
    assert new_undefined_names("", "a = b\n", "b.py") == {"b": 1}
