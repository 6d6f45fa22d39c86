from __future__ import annotations

import ast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pace_agent.editing.apply_answer import Applied, apply_answer, replace_lines
from pace_agent.editing.symbols import find_definition
from pace_agent.errors import EditError

ORDERS = '''\
"""Orders."""

import os

RATE = 53


# How many there are.
def count(orders):
    return len(orders)


class Basket:
    """Holds orders."""

    def __init__(self, orders):
        self.orders = orders

    # The sum.
    def total(self):
        return sum(one.price for one in self.orders[1:])

    def last(self):
        return self.orders[-1]


def main():
    print(count([]))
'''
TOTAL = "    def total(self):\n        return sum(one.price for one in self.orders)\n"
OLD_TOTAL = "    def total(self):\n        return sum(one.price for one in self.orders[1:])\n"


def block(code: str, tag: str = "python") -> str:
    return f"Here it is:\n\n```{tag}\n{code}```\nDone."


def unindented(code: str) -> str:
    return "".join(line.removeprefix("    ") for line in code.splitlines(keepends=True))


def applied(symbol: str | None, answer: str, text: str = ORDERS, path: str = "shop/orders.py") -> Applied:
    return apply_answer(text, path, symbol, answer)


@pytest.mark.parametrize(
    "code",
    [
        TOTAL,
        unindented(TOTAL),
        "class Basket:\n" + TOTAL,
        "class Basket:\n    def __init__(self):\n        pass\n\n"
        + TOTAL
        + "\n    def last(self):\n        pass\n",
        "# shop/orders.py\n" + TOTAL,
        ORDERS.replace(OLD_TOTAL, TOTAL),
        TOTAL + "\n\nprint(Basket([]).total())\n",
        unindented(TOTAL) + '\n\nif __name__ == "__main__":\n    main()\n',
        "    # The sum, corrected.\n" + TOTAL,
    ],
)
def test_a_method_is_replaced_whatever_stands_around_it(code: str) -> None:
    done = applied("Basket.total", block(code))
    assert done.edited.text == ORDERS.replace(OLD_TOTAL, TOTAL)
    assert (done.symbol, done.how, done.added) == ("Basket.total", "definition", ())
    assert done.edited.first_line == done.edited.last_line == 21


def test_an_answer_without_fences() -> None:
    done = applied("Basket.total", f"The function now:\n\n{unindented(TOTAL)}\nIt sums all of them.")
    assert done.edited.text == ORDERS.replace(OLD_TOTAL, TOTAL)


def test_other_definitions_in_the_answer_are_left_alone_and_named() -> None:
    code = ORDERS.replace(OLD_TOTAL, TOTAL).replace("return len(orders)", "return 0").replace("53", "54")
    done = applied("Basket.total", block(code))
    assert done.edited.text == ORDERS.replace(OLD_TOTAL, TOTAL)
    assert "count" in done.left_out
    assert "RATE" in done.left_out


def test_imports_come_along() -> None:
    done = applied(
        "count",
        "```python\nimport math\n```\n```python\ndef count(orders):\n    return math.floor(len(orders))\n```",
    )
    assert "import os\nimport math\n" in done.edited.text
    assert "return math.floor(len(orders))" in done.edited.text
    assert done.edited.text.count("# How many there are.") == 1


def test_new_definitions_that_are_used_are_put_before_it() -> None:
    code = (
        "LIMIT = 3\n\ndef _inner(order):\n    return LIMIT\n\ndef unused():\n    pass\n\n"
        "def count(orders):\n    return sum(_inner(one) for one in orders)\n"
    )
    done = applied("count", block(code))
    assert done.added == ("LIMIT", "_inner")
    assert done.left_out == ("unused",)
    expected = (
        "RATE = 53\n\n\nLIMIT = 3\n\ndef _inner(order):\n    return LIMIT\n\n\n"
        "# How many there are.\ndef count(orders):\n    return sum(_inner(one) for one in orders)\n\n\n"
        "class Basket:"
    )
    assert expected in done.edited.text


def test_new_methods_go_into_the_class_and_functions_before_it() -> None:
    code = (
        "def _price(order):\n    return order.price\n\n\nclass Basket:\n    def _all(self):\n"
        "        return [_price(one) for one in self.orders]\n\n"
        "    def total(self):\n        return sum(self._all())\n"
    )
    done = applied("Basket.total", block(code))
    assert done.added == ("_price", "Basket._all")
    text = done.edited.text
    assert "def _price(order):\n    return order.price\n\n\nclass Basket:" in text
    expected = (
        "    def _all(self):\n        return [_price(one) for one in self.orders]\n\n    # The sum.\n"
        "    def total(self):\n        return sum(self._all())\n\n    def last"
    )
    assert expected in text
    compile(text, "orders.py", "exec")


def test_new_methods_without_their_class_at_no_indentation() -> None:
    code = "def _all(self):\n    return self.orders\n\ndef total(self):\n    return sum(self._all())\n"
    done = applied("Basket.total", block(code))
    assert done.added == ("Basket._all",)
    assert "    def _all(self):\n        return self.orders\n\n    # The sum.\n" in done.edited.text


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("I cannot do that.", "holds no code; give the whole of Basket.total"),
        (block("def totl(self):\n    return 1\n"), "defines totl, not Basket.total"),
        (block(OLD_TOTAL), "is the same as what"),
        (block(ORDERS), "is the same as what"),
        (
            block("def total(self):\n    # ... rest unchanged\n    return 1\n"),
            r"leaves code out at '# \.\.\. rest",
        ),
        (block("def total(self):\n    return (1,\n"), "does not parse"),
        (block("def total(self):\n"), "does not parse"),
        (block("return 1\n"), "not Basket.total|nothing|holds more|does not parse"),
        ("```python\n\n```", "holds no code"),
    ],
)
def test_what_cannot_be_applied_says_why(answer: str, message: str) -> None:
    with pytest.raises(EditError, match=message) as caught:
        applied("Basket.total", answer)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_definition_that_the_file_does_not_have() -> None:
    with pytest.raises(EditError, match="does not define gone; it defines count"):
        applied("gone", block("def gone():\n    return 1\n"))


CLASS = """\
import math

class Basket:
    def last(self):
        return math.inf

    def first(self):
        return self.orders[0]
"""


@pytest.mark.parametrize("code", [CLASS, CLASS.replace("class Basket:\n", "").replace("    def", "def")])
def test_some_methods_of_a_class_do_not_cost_the_others(code: str) -> None:
    done = applied("Basket", block(code))
    assert (done.symbol, done.how, done.added) == ("Basket", "members", ("Basket.first",))
    first = "    def first(self):\n        return self.orders[0]\n\n    def __init__"
    expected = ORDERS.replace("import os\n", "import os\nimport math\n").replace("    def __init__", first)
    assert done.edited.text == expected.replace("self.orders[-1]", "math.inf")


def test_a_whole_class_is_replaced_whole() -> None:
    new = ORDERS[ORDERS.index("class Basket") : ORDERS.index("\n\ndef main")]
    new = new.replace('"""Holds orders."""', "kept = 1").replace("[1:]", "")
    done = applied("Basket", block(new))
    assert done.how == "definition"
    assert done.edited.text == ORDERS.replace('"""Holds orders."""', "kept = 1").replace("[1:]", "")


def test_a_class_without_its_methods_is_refused() -> None:
    with pytest.raises(EditError, match="leaves out __init__, last, total of Basket"):
        applied("Basket", block("class Basket:\n    pass\n"))


def test_rename_of_a_definition() -> None:
    answer = block("def number(orders):\n    return len(orders)\n")
    done = apply_answer(ORDERS, "shop/orders.py", "count", answer, rename=("count", "number"))
    assert done.edited.text == ORDERS.replace("def count(orders)", "def number(orders)")
    assert (done.symbol, done.how) == ("number", "renamed")
    assert (done.edited.first_line, done.edited.last_line) == (9, 9)
    changed = block("@cached\ndef number(orders):\n    return 1\n")
    done = apply_answer(ORDERS, "shop/orders.py", "count", changed, rename=("count", "number"))
    old = "def count(orders):\n    return len(orders)\n"
    assert done.edited.text == ORDERS.replace(old, "@cached\ndef number(orders):\n    return 1\n")


def test_rename_of_a_method_and_of_what_calls_it() -> None:
    answer = block("class Basket:\n    def newest(self):\n        return self.orders[-1]\n")
    done = apply_answer(ORDERS, "shop/orders.py", "Basket.last", answer, rename=("last", "newest"))
    assert done.edited.text == ORDERS.replace("def last", "def newest")
    assert done.symbol == "Basket.newest"
    caller = block("def main():\n    print(number([]))\n")
    done = apply_answer(ORDERS, "shop/orders.py", "main", caller, rename=("count", "number"))
    assert done.edited.text == ORDERS.replace("print(count([]))", "print(number([]))")
    assert done.how == "definition"


def test_rename_to_a_name_that_is_taken_or_not_done() -> None:
    answer = block("def main(orders):\n    return len(orders)\n")
    with pytest.raises(EditError, match="defines main already"):
        apply_answer(ORDERS, "shop/orders.py", "count", answer, rename=("count", "main"))
    diff = "```diff\n@@ ... @@\n-    return len(orders)\n+    return 1\n```"
    changed = block('def count(orders):\n    """How many."""\n    return len(orders)\n')
    for answer in (block("def count(orders):\n    return len(orders)\n"), changed, diff):
        with pytest.raises(EditError, match="still calls it count; it is called number now"):
            apply_answer(ORDERS, "shop/orders.py", "count", answer, rename=("count", "number"))


@pytest.mark.parametrize(
    ("path", "text", "symbol", "code"),
    [
        (
            "a.go",
            "package a\n\nfunc F(x int) int {\n\treturn x\n}\n",
            "F",
            "func G(x int) int {\n\treturn x\n}\n",
        ),
        ("a.rs", "#[inline]\nfn F() -> i32 {\n    1\n}\n", "F", "#[inline]\nfn G() -> i32 {\n    1\n}\n"),
        ("a.c", "int F(int x)\n{\n    return x;\n}\n", "F", "int G(int x)\n{\n    return x;\n}\n"),
        (
            "a.ts",
            "export const F = () => {\n  return 1;\n};\n",
            "F",
            "export const G = () => {\n  return 1;\n};\n",
        ),
    ],
)
def test_rename_in_other_languages(path: str, text: str, symbol: str, code: str) -> None:
    done = apply_answer(text, path, symbol, block(code, ""), rename=("F", "G"))
    assert done.edited.text == text.replace("F", "G")


SEARCH = """\
shop/orders.py
```python
<<<<<<< SEARCH
        return sum(one.price for one in self.orders[1:])
=======
        return sum(one.price for one in self.orders)
>>>>>>> REPLACE
```
"""
DIFF = """\
```diff
--- a/shop/orders.py
+++ b/shop/orders.py
@@ -17,3 +17,3 @@ class Basket:
     # The sum.
     def total(self):
-        return sum(one.price for one in self.orders[1:])
+        return sum(one.price for one in self.orders)

```
"""


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (SEARCH, "search"),
        (SEARCH.replace("\n", "\r\n"), "search"),
        (DIFF, "diff"),
        (DIFF.replace("```diff\n", "").replace("```\n", ""), "diff"),
        (
            DIFF.replace("--- a/shop/orders.py\n+++ b/shop/orders.py\n@@ -17,3 +17,3 @@ class Basket:\n", ""),
            "diff",
        ),
        (DIFF.replace("@@ -17,3 +17,3 @@ class Basket:", "@@ ... @@"), "diff"),
    ],
)
def test_edits_instead_of_code(answer: str, how: str) -> None:
    done = applied("Basket.total", answer)
    assert done.edited.text == ORDERS.replace(OLD_TOTAL, TOTAL)
    assert done.how == how


def test_several_edits_and_one_that_is_only_clear_in_the_definition() -> None:
    text = "def a():\n    x = 1\n    return x\n\n\ndef b():\n    x = 1\n    return x\n"
    answer = (
        "<<<<<<< SEARCH\n    x = 1\n=======\n    x = 2\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\n    return x\n=======\n    return x + 1\n>>>>>>> REPLACE\n"
    )
    done = apply_answer(text, "a.py", "b", answer)
    assert done.edited.text == text.replace(
        "def b():\n    x = 1\n    return x\n", "def b():\n    x = 2\n    return x + 1\n"
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (SEARCH.replace("self.orders[1:]", "self.nothing"), "is not in shop/orders.py"),
        (
            DIFF.replace("shop/orders.py", "shop/other.py"),
            "changes shop/other.py; change shop/orders.py alone",
        ),
        ("```diff\n@@ -1 +1,2 @@\n+x = 1\n```", "has no place"),
        (SEARCH.replace("for one in self.orders)", "for one in (self.orders)"), "does not parse"),
    ],
)
def test_edits_that_cannot_be_applied(answer: str, message: str) -> None:
    with pytest.raises(EditError, match=message):
        applied("Basket.total", answer)


def test_lines_without_a_symbol() -> None:
    done = apply_answer(ORDERS, "shop/orders.py", None, block("RATE = 54\n"), lines=(5, 5))
    assert done.edited.text == ORDERS.replace("53", "54")
    assert (done.how, done.symbol) == ("lines", None)
    with pytest.raises(EditError, match=r"does not parse: near line 5, 'RATE = \(54'"):
        apply_answer(ORDERS, "shop/orders.py", None, block("RATE = (54\n"), lines=(5, 5))
    with pytest.raises(EditError, match="leaves code out"):
        apply_answer(ORDERS, "shop/orders.py", None, block("RATE = 54\n# rest of the code\n"), lines=(5, 5))
    with pytest.raises(EditError, match="nothing to change"):
        apply_answer(ORDERS, "shop/orders.py", None, block("RATE = 53\n"), lines=(5, 5))


def test_a_whole_file() -> None:
    new = ORDERS.replace("53", "54").replace("print(count([]))", "print(1)")
    done = applied(None, block(new))
    assert done.edited.text == new
    assert done.how == "file"
    assert applied(None, block(new), ORDERS.replace("\n", "\r\n")).edited.text == new.replace("\n", "\r\n")
    with pytest.raises(EditError, match="does not parse"):
        applied(None, block(ORDERS.replace("def main():", "def main(:")))


def test_a_part_of_a_file_does_not_cost_the_rest() -> None:
    code = (
        "import math\n\ndef count(orders):\n    return math.inf\n\n"
        "def added():\n    return 1\n\ndef main():\n    print(count([]))\n"
    )
    done = applied(None, block(code))
    expected = ORDERS.replace("return len(orders)", "return math.inf").replace(
        "import os\n", "import os\nimport math\n"
    )
    assert done.edited.text == expected + "\n\ndef added():\n    return 1\n"
    assert done.added == ("added",)
    with pytest.raises(EditError, match=r"does not hold count, Basket, main of shop/orders\.py"):
        applied(None, block("x = 1\n"))


SETTINGS = """\
import os

DEBUG = True
SECRET = os.environ["SECRET"]
INSTALLED = [
    "a",
]
TIMEOUT = 3
"""
TOOL = '''\
"""A tool."""
import os

RATE = 19


def main():
    print(os.sep, RATE)


if __name__ == "__main__":
    main()
'''
GO = 'package a\n\nimport "fmt"\n\nconst Rate = 3\n\nfunc F() {\n\tfmt.Println(Rate)\n}\n'
SCRIPT = "a = 1\nb = 2\nprint(a + b)\n"


@pytest.mark.parametrize(
    ("path", "text", "code", "expected"),
    [
        # What has a name is put in by it, and what is new goes behind what is like it.
        ("s.py", SETTINGS, "CACHE = 30\n", SETTINGS + "CACHE = 30\n"),
        (
            "s.py",
            SETTINGS,
            "# Seconds.\nCACHE = 30  # or so\n",
            SETTINGS + "# Seconds.\nCACHE = 30  # or so\n",
        ),
        ("s.py", SETTINGS, "TIMEOUT = 5\n", SETTINGS.replace("TIMEOUT = 3", "TIMEOUT = 5")),
        ("s.py", "A = 1\nB = 2\n", "A = 3\n", "A = 3\nB = 2\n"),
        ("s.py", "DEBUG = True", "CACHE = 30\n", "DEBUG = True\nCACHE = 30\n"),
        ("t.py", TOOL, "LIMIT = 3\n", TOOL.replace("= 19\n", "= 19\nLIMIT = 3\n")),
        ("t.py", TOOL, "def main():\n    print(RATE)\n", TOOL.replace("os.sep, ", "")),
        ("t.py", TOOL, "def main():\n    print(RATE)\n\n\nmain()\n", TOOL.replace("os.sep, ", "")),
        (
            "t.py",
            TOOL,
            "def other():\n    return 1\n\n\ndef main():\n    print(other())\n",
            TOOL.replace("os.sep, RATE", "other()").replace("if __", "def other():\n    return 1\n\n\nif __"),
        ),
        ("a.go", GO, "const Rate = 4\n", GO.replace("3", "4")),
        ("a.go", GO, "func F() {\n}\n", GO.replace("\tfmt.Println(Rate)\n", "")),
        # All of it is given: what it leaves out is meant to go, but for what small models forget.
        ("t.py", TOOL, TOOL[: TOOL.index("\n\nif __")].replace("19", "20"), TOOL.replace("19", "20")),
        ("t.py", TOOL, *[TOOL.replace("import os\n\n", "").replace("os.sep, ", "")] * 2),
        ("s.py", SETTINGS, *[SETTINGS.replace("DEBUG = True\n", "")] * 2),
        ("s.py", SCRIPT, *["def main():\n    a = 1\n    b = 2\n    print(a + b)\n\n\nmain()\n"] * 2),
        ("s.py", SCRIPT, *["total = sum([1, 2])\nprint(total)\n"] * 2),
    ],
)
def test_an_answer_for_a_whole_file_costs_nothing_of_it(
    path: str, text: str, code: str, expected: str
) -> None:
    assert applied(None, block(code, ""), text, path).edited.text == expected


@pytest.mark.parametrize(
    ("path", "text", "code", "message"),
    [
        ("s.py", SETTINGS, "print(DEBUG)\n", "leaves out most lines"),
        ("t.py", TOOL, "rate = main()\n", "does not hold main"),  # how it is used
        ("s.py", "if x:\n    A = 1\nelse:\n    A = 2\nB = 3\nC = 4\nD = 5\n", "A = 3\n", "does not hold B"),
        ("s.py", "A = 1\nA = A + 1\nB = 2\nC = 3\n", "A = 3\n", "sets A more than once"),
        ("a.js", "const a = 1;\nrun(a);\nstop(a);\ngo(a);\n", "walk(a);\n", "leaves out most lines"),
    ],
)
def test_a_part_of_a_file_whose_place_is_not_certain_is_refused(
    path: str, text: str, code: str, message: str
) -> None:
    with pytest.raises(EditError, match=message):
        applied(None, block(code, ""), text, path)


TWO = "def f(a):\n    a = 1\n    if a:\n        return 1\n    return 2\n\n\ndef g():\n    pass\n"
SMALL = "<<<<<<< SEARCH\n    a = 1\n=======\n    a = 3\n>>>>>>> REPLACE\n"


def test_an_answer_that_was_cut_off_is_taken_as_far_as_it_is_whole() -> None:
    def cut(symbol: str | None, answer: str, text: str = TWO, path: str = "a.py", **more: object) -> str:
        return apply_answer(text, path, symbol, answer, is_cut=True, **more).edited.text  # type: ignore[arg-type]

    start = "```python\n" + TWO.replace("a = 1", "a = 3")
    whole = TWO.replace("a = 1", "a = 3")
    assert cut("f", start) == whole  # what comes behind it shows that it is whole
    assert cut("f", "```python\n" + whole.split("\n\n")[0] + "\n```\nAnd now I wou") == whole
    guide = "# Guide\n" + "".join(f"line {at}\n" for at in range(40))
    refused = [
        ("f", start[: start.index("    return 2")], TWO, "a.py", {}),  # parses, and has lost its last line
        (None, start, TWO, "a.py", {}),
        (None, "```\na = 3\n", TWO, "a.py", {"lines": (2, 2)}),
        (None, f"```markdown\n{guide[:250]}".replace("Guide", "New"), guide, "README.md", {}),
        ("f", "def f(a):\n    a = 3\n    if a:\n        return 1\n", TWO, "a.py", {}),
        ("f", "```diff\n@@ ... @@\n-    a = 1\n+    a = 3\n     if a:\n", TWO, "a.py", {}),
        ("f", f"{SMALL}<<<<<<< SEARCH\n    return 2\n=====", TWO, "a.py", {}),
    ]
    for symbol, answer, text, path, more in refused:
        with pytest.raises(EditError, match=r"reached its greatest length|ends in the middle"):
            cut(symbol, answer, text, path, **more)
    assert cut("f", SMALL) == whole


def test_a_fence_of_the_file_does_not_end_it() -> None:
    text = "# Use\n\nFirst:\n\n```\nrun it\n```\n\nThen:\n"
    answer = f"```\n{text.replace('Use', 'How to use')}```\n"
    with pytest.raises(EditError, match=r"ends at a fence in README\.md"):
        applied(None, answer, text, "README.md")
    answer = answer.replace("```\n# How", "``````\n# How").removesuffix("```\n") + "``````\n"
    assert applied(None, answer, text, "README.md").edited.text == text.replace("Use", "How to use")


def test_lines_are_not_lost_by_an_answer_with_fewer() -> None:
    text = "A = 1\nB = 2\nC = 3\nD = 4\n"
    with pytest.raises(EditError, match="gives 1 of 4 lines"):
        apply_answer(text, "a.py", None, block("B = 3\n"), lines=(1, 4))


PRICE = """\
class Item:
    @property
    def price(self):
        return self._price

    @price.setter
    def price(self, value):
        self._price = value + 1
"""
SETTER = "    @price.setter\n    def price(self, value):\n        self._price = value\n"
CALC = """\
class Calc {
    int add(int a, int b) {
        return a - b;
    }

    double add(double a, double b) {
        return a + b;
    }
}
"""


@pytest.mark.parametrize(
    ("path", "text", "symbol", "code", "expected"),
    [
        ("a.py", PRICE, "Item.price", SETTER, PRICE.replace("value + 1", "value")),
        ("a.py", PRICE, "Item.price", unindented(SETTER), PRICE.replace("value + 1", "value")),
        ("a.py", PRICE, "Item.price", "class Item:\n" + SETTER, PRICE.replace("value + 1", "value")),
        ("a.py", PRICE, "Item", "class Item:\n" + SETTER, PRICE.replace("value + 1", "value")),
        ("a.py", PRICE, "Item.price", *[PRICE.replace("_price", "_cents").replace(" + 1", "")] * 2),
        (
            "A.java",
            CALC,
            "Calc.add",
            "int add(int a, int b) {\n    return a + b;\n}\n",
            CALC.replace("a - b", "a + b"),
        ),
    ],
)
def test_of_several_definitions_of_a_name_those_are_replaced_that_begin_like_the_answer(
    path: str, text: str, symbol: str, code: str, expected: str
) -> None:
    assert applied(symbol, block(code, ""), text, path).edited.text == expected


def test_of_several_definitions_one_that_begins_like_none_is_not_guessed_at() -> None:
    bare = block("def price(self, value):\n    self._price = value\n")
    with pytest.raises(EditError, match=r"2 times, beginning '@property', '@price\.setter'"):
        applied("Item.price", bare, PRICE, "a.py")
    done = apply_answer(PRICE, "a.py", "Item.price", block(SETTER), near_line=7)
    assert done.edited.text == PRICE.replace("value + 1", "value")


def test_several_definitions_of_a_name_are_renamed_together() -> None:
    new = PRICE.replace("price(", "cost(").replace("@price", "@cost")
    done = apply_answer(PRICE, "a.py", "Item.price", block(new), rename=("price", "cost"))
    assert (done.edited.text, done.symbol, done.how) == (new, "Item.cost", "renamed")
    half = block(new[: new.index("    @cost")])
    with pytest.raises(EditError, match="2 times"):
        apply_answer(PRICE, "a.py", "Item.price", half, rename=("price", "cost"))


def test_a_file_in_no_known_language() -> None:
    text = "# Title\n\none\ntwo\nthree\n"
    done = applied(None, block("# Title\n\none\n2\nthree\n", "markdown"), text, "notes.md")
    assert done.edited.text == "# Title\n\none\n2\nthree\n"
    with pytest.raises(EditError, match="leaves out most lines"):
        applied(None, block("two and a half\n", ""), text, "notes.md")


def test_an_empty_file_gets_its_content() -> None:
    assert applied(None, block("x = 1\n"), "", "a.py").edited.text == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "first", "last", "new", "expected"),
    [
        ("a\nb\nc\n", 2, 2, "x\ny\n", "a\nx\ny\nc\n"),
        ("a\r\nb\r\nc", 3, 3, "x\ny\n", "a\r\nb\r\nx\r\ny"),
        ("a\nb\n", 2, 1, "x", "a\nx\nb\n"),
        ("a\nb", 3, 2, "x", "a\nb\nx"),
        ("a\nb\nc\n", 1, 2, "", "c\n"),
        ("if a:\n\tb\n\tc\n", 2, 3, "x\nif y:\n    z\n", "if a:\n\tx\n\tif y:\n\t\tz\n"),
        ("if a:\n    b\n", 2, 2, "        x\n", "if a:\n        x\n"),
    ],
)
def test_replace_lines(text: str, first: int, last: int, new: str, expected: str) -> None:
    assert replace_lines(text, first, last, new, path="a.py").text == expected


@pytest.mark.parametrize(("first", "last"), [(0, 1), (3, 3), (2, 0), (1, 4)])
def test_replace_lines_that_are_not_there(first: int, last: int) -> None:
    with pytest.raises(EditError, match=f"has 2 lines; {first} to {last} are not among them"):
        replace_lines("a\nb\n", first, last, "x", path="a.py")


TABBED = ORDERS.replace("    ", "\t")
NAMES = ("count", "Basket", "Basket.total", "Basket.last", "Basket.__init__", "main")
STATEMENTS = st.sampled_from(
    [
        "x = 1",
        "return self",
        "if x:\n    y = 2",
        'z = "é"',
        "for a in b:\n    if a:\n        return a",
        "'''doc'''",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_the_unchanged_definition_is_refused_as_the_same(
    name: str, line_end: str, tabs: bool, keeps_indentation: bool
) -> None:
    text = (TABBED if tabs else ORDERS).replace("\n", line_end)
    found = find_definition(text, "a.py", name)
    assert found is not None
    lines = text.split(line_end)[found.first_line - 1 : found.last_line]
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    code = "\n".join(line if keeps_indentation else line.removeprefix(indent) for line in lines)
    with pytest.raises(EditError, match="is the same"):
        apply_answer(text, "a.py", name, block(code + "\n"))


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from([name for name in NAMES if name != "Basket"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.lists(STATEMENTS, min_size=1, max_size=4),
)
def test_any_new_body_leaves_the_rest_byte_for_byte(
    name: str, line_end: str, tabs: bool, ends: bool, statements: list[str]
) -> None:
    text = (TABBED if tabs else ORDERS).replace("\n", line_end)
    text = text if ends else text.removesuffix(line_end)
    found = find_definition(text, "a.py", name)
    assert found is not None
    body = "\n".join(statements).split("\n")
    code = f"def {name.rpartition('.')[2]}(self):\n" + "".join(f"    {line}\n" for line in body)
    done = apply_answer(text, "a.py", name, block(code))
    data = text.encode()
    new = done.edited.text.encode()
    assert new.startswith(data[: found.start_byte])
    assert new.endswith(data[found.end_byte :])
    middle = new[found.start_byte : len(new) - (len(data) - found.end_byte)].decode()
    assert middle.count(line_end) == middle.count("\n") == len(body)
    assert [line.strip() for line in middle.split(line_end)] == [
        line.strip() for line in code.strip().split("\n")
    ]
    if tabs:
        assert "    " not in middle


LINES = [
    "```python",
    "```",
    "def count(orders):",
    "    return 1",
    "    # ...",
    "class Basket:",
    TOTAL,
    SEARCH,
    DIFF,
]
LINES += [
    "",
    "prose",
    "import os",
    "<<<<<<< SEARCH",
    "=======",
    ">>>>>>> REPLACE",
    "x = (",
    "@@ -1 +1 @@",
    "-RATE",
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([*NAMES, None]),
    st.lists(
        st.sampled_from(LINES),
        max_size=12,
    ),
)
@example(None, ["class Basket:", "    return 1"])
def test_any_answer_is_applied_or_refused(name: str | None, lines: list[str]) -> None:
    try:
        done = apply_answer(ORDERS, "shop/orders.py", name, "\n".join(lines))
    except EditError:
        return
    assert done.edited.text != ORDERS
    ast.parse(done.edited.text)
    assert done.edited.text.count("    def ") >= 3


def test_a_function_may_lose_a_helper_inside_it() -> None:
    text = "def f(a):\n    def g(b):\n        return b + 1\n    return g(a)\n"
    done = apply_answer(text, "a.py", None, "```python\ndef f(a):\n    return a + 1\n```")
    assert done.edited.text == "def f(a):\n    return a + 1\n"
