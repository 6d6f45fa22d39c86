from __future__ import annotations

import pytest

from pace_agent.editing.symbols import definitions, find_definition, replace_definition
from pace_agent.errors import EditError

ORDERS = '''\
"""Orders."""

import os
from typing import overload

RATE = 53


# How many there are.
@cached
async def count(orders):
    return len(orders)


class Orders:
    name: str = "x"

    @overload
    def total(self, a: int) -> int: ...
    @overload
    def total(self, a: str) -> str: ...
    def total(self, a):
        def inner():
            return 1

        return inner()

    @property
    def state(self):
        return self._state

    @state.setter
    def state(self, value):
        self._state = value

    class Line:
        def total(self):
            return 2


def last(): return 3
'''

FILES = {
    "a.py": (ORDERS, "Orders.Line.total", "def total(self):\n            return 2"),
    "a.js": (
        "import x from 'x';\n\nclass A {\n  async go(a) {\n    return `\n${a}`;\n  }\n\n  stop() {}\n}\n"
        "export const f = (a) => {\n  return a;\n};\n",
        "A.go",
        "async go(a) {\n    return `\n${a}`;\n  }",
    ),
    "b.js": (
        "const g = 1;\nexport const f = (a) => {\n  return a;\n};\n",
        "f",
        "export const f = (a) => {\n  return a;\n};",
    ),
    "a.ts": (
        "@Component({})\nexport class A {\n  go(a: string): string;\n"
        "  @Input()\n  go(a: any) {\n    return a;\n  }\n}\n"
        "interface B { x: number }\n",
        "A.go",
        "@Input()\n  go(a: any) {\n    return a;\n  }",
    ),
    "a.go": (
        'package a\n\nimport "fmt"\n\n// T is.\ntype T struct {\n'
        "\tx int\n}\n\nfunc (t *T) Go() int {\n\treturn t.x\n}\n",
        "T",
        "type T struct {\n\tx int\n}",
    ),
    "a.rs": (
        "use std::fmt;\n\n/// Doc.\n#[derive(Debug)]\n"
        "#[allow(x)]\npub struct S {\n    x: u8,\n}\n\nimpl S {\n"
        "    #[inline]\n    fn go(&self) -> u8 {\n        self.x\n    }\n}\n",
        "S.go",
        "#[inline]\n    fn go(&self) -> u8 {\n        self.x\n    }",
    ),
    "a.c": (
        "#include <a.h>\n\nint go(int a);\n\nstruct P {\n"
        "    int x;\n};\n\nint go(int a)\n{\n    return a;\n}\n",
        "go",
        "int go(int a)\n{\n    return a;\n}",
    ),
    "b.c": ("struct P {\n    int x;\n};\nint y;\n", "P", "struct P {\n    int x;\n};"),
    "a.cpp": (
        "namespace n {\ntemplate <typename T>\nT twice(T a) {\n  return a;\n}\nclass A {\n  int go();\n};\n"
        "int A::go() {\n  return 1;\n}\n}\n",
        "n::twice",
        "template <typename T>\nT twice(T a) {\n  return a;\n}",
    ),
    "A.java": (
        "package a;\n\nimport java.util.List;\n\nclass A {\n"
        "    @Override\n    public int go(int a) {\n        return a;\n"
        "    }\n\n    int stop() { return 1; }\n}\n",
        "A.go",
        "@Override\n    public int go(int a) {\n        return a;\n    }",
    ),
}


@pytest.mark.parametrize("path", FILES)
def test_a_definition_is_found_from_its_decorators_to_its_end(path: str) -> None:
    text, name, expected = FILES[path]
    found = find_definition(text, path, name)
    assert found is not None
    data = text.encode()
    assert data[found.start_byte : found.end_byte].decode() == expected
    assert found.first_line == data[: found.start_byte].count(b"\n") + 1
    assert found.last_line == found.first_line + expected.count("\n")


@pytest.mark.parametrize("path", FILES)
def test_a_definition_replaced_by_itself_deeper_changes_only_it(path: str) -> None:
    text, name, expected = FILES[path]
    with pytest.raises(EditError, match="the same as what"):
        replace_definition(text, path, name, expected)
    new = expected.replace("return ", "return 1 + ").replace("int x", "int xx").replace("x int", "xx int")
    assert new != expected or path == "a.rs"
    if path == "a.rs":
        new = expected.replace("self.x", "self.x + 1")
    edited = replace_definition(text, path, name, new)
    assert edited.text == text.replace(expected, new)
    assert edited.rung == "definition"


@pytest.mark.parametrize(
    ("path", "name", "source"),
    [
        ("a.js", "A.stop", "stop() {\n  go();\n}"),
        ("A.java", "A.stop", "int stop() {\n  return 2;\n}"),
        ("a.rs", "S.go", "fn go(&self) -> u8 {\n  1\n}"),
        ("a.go", "T.Go", "func (t *T) Go() int {\n    return 2\n}\n"),
        ("a.cpp", "A.go", "int A::go() {\n    return 2;\n}"),
    ],
)
def test_methods_given_without_indentation_get_that_of_the_file(path: str, name: str, source: str) -> None:
    text = FILES[path][0]
    found = find_definition(text, path, name)
    assert found is not None
    edited = replace_definition(text, path, name, source)
    data = text.encode()
    new = edited.text.encode()[
        found.start_byte : len(edited.text.encode()) - len(data) + found.end_byte
    ].decode()
    assert [line.strip() for line in new.splitlines()] == [line.strip() for line in source.splitlines()]
    margin = data.decode().splitlines()[found.first_line - 1]
    margin = margin[: len(margin) - len(margin.lstrip())]
    step = {"a.js": "  ", "A.java": "    ", "a.rs": "    ", "a.go": "\t", "a.cpp": "  "}[path]
    assert new.splitlines()[1].startswith(margin + step)
    assert not new.splitlines()[1].startswith(margin + step + " ")
    assert edited.text.encode().startswith(data[: found.start_byte])
    assert edited.text.encode().endswith(data[found.end_byte :])


def test_the_outline_names_everything_in_order() -> None:
    found = [(one.name, one.kind) for one in definitions(ORDERS, "a.py")]
    assert found[:3] == [("RATE", "value"), ("count", "function"), ("Orders", "type")]
    assert [name for name, _ in found].count("Orders.total") == 3
    assert ("Orders.Line.total", "function") in found
    assert found[-1] == ("last", "function")
    count = next(one for one in definitions(ORDERS, "a.py") if one.name == "count")
    assert (count.first_line, count.last_line) == (10, 12)


def test_overloads_yield_to_the_definition() -> None:
    found = find_definition(ORDERS, "a.py", "Orders.total")
    assert found is not None
    assert ORDERS.splitlines()[found.first_line - 1] == "    def total(self, a):"


def test_the_end_of_a_qualified_name_is_enough() -> None:
    found = find_definition(ORDERS, "a.py", "Line.total")
    assert found is not None
    assert found.name == "Orders.Line.total"
    assert find_definition(ORDERS, "a.py", "nothing") is None
    assert find_definition("", "a.py", "nothing") is None


def test_several_of_a_name_are_listed_or_chosen_by_line() -> None:
    with pytest.raises(EditError, match=r"2 times: Orders.state at line 28, Orders.state at line 32"):
        find_definition(ORDERS, "a.py", "Orders.state")
    found = find_definition(ORDERS, "a.py", "Orders.state", near_line=34)
    assert found is not None
    assert found.first_line == 32


def test_overloaded_methods_of_java_are_chosen_by_line() -> None:
    text = "class A {\n    int go(int a) { return a; }\n    int go(String a) { return 0; }\n}\n"
    with pytest.raises(EditError, match="2 times"):
        find_definition(text, "A.java", "go")
    edited = replace_definition(text, "A.java", "go", "int go(String a) { return 1; }", near_line=3)
    assert edited.text == text.replace("return 0", "return 1")


def test_a_language_without_a_grammar_is_refused() -> None:
    with pytest.raises(EditError, match="use search and replace"):
        find_definition("x", "a.sh", "x")


def test_a_name_that_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(EditError, match="does not define nothing; it defines count, Orders"):
        replace_definition(ORDERS, "a.py", "nothing", "def nothing(): pass")


def test_a_class_is_replaced_whole() -> None:
    edited = replace_definition(ORDERS, "a.py", "Orders", "class Orders:\n    pass\n")
    found = find_definition(ORDERS, "a.py", "Orders")
    assert found is not None
    lines = ORDERS.splitlines(keepends=True)
    assert edited.text == "".join(
        [*lines[: found.first_line - 1], "class Orders:\n    pass\n", *lines[found.last_line :]]
    )
    assert (edited.first_line, edited.last_line) == (16, 16)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def last(:\n    return 3", "does not parse"),
        ("def last():\n    return (3", "does not parse"),
        ("def last():\n    return '''3", "does not parse"),
        ("def first():\n    return 3", "defines first, not last"),
        ("class Orders:\n    def last(self):\n        return 3", "defines Orders, not last"),
        ("return 3", "defines nothing, not last"),
        ("def last():\n    return 4\n\n\ndef other():\n    return 3", "holds more than last: 'other'"),
        ("def last():\n    return 4\n\nprint(last())", r"more than last: 'print\(last\(\)\)'"),
        ("print(1)\ndef last():\n    return 4", r"more than last: 'print\(1\)'"),
        ("def last():\n    return 4\n\ndef last():\n    return 5", "more than once"),
        (
            "def last():\n    return 4\n\nif __name__ == '__main__':\n    last()",
            'more than last: "if __name__',
        ),
        ("", "empty"),
        ("import os\n", "empty"),
        ("def last(): return 3", "the same as what a.py has"),
        ("def last():\n    return '\ud800'", "half of a character"),
    ],
)
def test_sources_that_are_not_just_the_definition_are_refused(source: str, reason: str) -> None:
    with pytest.raises(EditError, match=reason) as caught:
        replace_definition(ORDERS, "a.py", "last", source)
    assert "\n" not in str(caught.value)


def test_a_method_must_not_leave_its_class() -> None:
    with pytest.raises(EditError, match="more than Orders\\.Line\\.total: 'print"):
        replace_definition(ORDERS, "a.py", "Orders.Line.total", "def total(self):\n    return 4\nprint(1)\n")
    text = FILES["a.js"][0]
    with pytest.raises(EditError, match=r"does not parse|around it|more than"):
        replace_definition(text, "a.js", "A.stop", "stop() {\n  }\n}\nfunction other() {\n")


def test_syntax_errors_elsewhere_do_not_matter() -> None:
    text = "def broken(:\n    x = 1\n\n\ndef good():\n    return 1\n\n\ndef bad)\n"
    edited = replace_definition(text, "a.py", "good", "def good():\n    return 2\n")
    assert edited.text == text.replace("return 1", "return 2")
    with pytest.raises(EditError, match="does not parse"):
        replace_definition(text, "a.py", "good", "def good():\n    return (2\n")


def test_comments_shown_with_a_definition_are_not_doubled() -> None:
    source = "# How many there are.\n@cached\nasync def count(orders):\n    return 1\n"
    edited = replace_definition(ORDERS, "a.py", "count", source)
    assert edited.text == ORDERS.replace("return len(orders)", "return 1")


def test_decorators_are_replaced_with_the_definition() -> None:
    edited = replace_definition(ORDERS, "a.py", "count", "def count(orders):\n    return 1\n")
    assert "@cached" not in edited.text
    assert "# How many there are.\ndef count" in edited.text


def test_line_ends_tabs_and_a_missing_final_newline_stay() -> None:
    text = "class A:\r\n\tx = 1\r\n\r\n\tdef go(self):\r\n\t\treturn 1"
    source = "def go(self):\n    if self.x:\n        return 2\n\n    return 3\n"
    assert replace_definition(text, "a.py", "A.go", source).text == (
        "class A:\r\n\tx = 1\r\n\r\n\tdef go(self):\r\n\t\tif self.x:\r\n\t\t\treturn 2\r\n\r\n\t\treturn 3"
    )


def test_what_is_inside_strings_is_not_indented() -> None:
    text = 'class A:\n    def go(self):\n        return """\nold\n"""\n'
    source = 'def go(self):\n    """Doc.\n\n    More.\n    """\n    return """\nnew\n  deep\n"""\n'
    assert replace_definition(text, "a.py", "A.go", source).text == (
        'class A:\n    def go(self):\n        """Doc.\n\n        More.\n        """\n'
        '        return """\nnew\n  deep\n"""\n'
    )


def test_a_string_that_was_dedented_with_its_block_comes_back_as_it_was() -> None:
    text = 'class A:\n    def go(self):\n        return f("""\n        old\n        """)\n'
    source = 'def go(self):\n    return g("""\n    old\n    """)\n'
    assert replace_definition(text, "a.py", "A.go", source).text == text.replace("f(", "g(")


def test_a_block_whose_first_line_alone_lost_its_indentation() -> None:
    text = FILES["A.java"][0]
    source = "int stop() {\n        return 2;\n    }"
    expected = text.replace("int stop() { return 1; }", source)
    assert replace_definition(text, "A.java", "A.stop", source).text == expected


def test_a_source_that_ends_in_a_bracket_as_deep_as_the_place() -> None:
    text = "class A:\n    def go(self):\n        return 1\n"
    edited = replace_definition(text, "a.py", "A.go", "def go(self):\n    return f(\n        1,\n    )\n")
    assert edited.text == "class A:\n    def go(self):\n        return f(\n            1,\n        )\n"


def test_wide_characters_before_a_definition() -> None:
    text = "# größe 數 😀\nNAME = '數'\ndef go(): return '😀'\nlast = 1\n"
    assert replace_definition(text, "a.py", "go", "def go(): return '£'").text == text.replace("'😀'", "'£'")


@pytest.mark.parametrize(
    ("start", "brought", "expected"),
    [
        ("import os\n", "import os\n", "import os\n"),
        ("import os\n", "import re\n", "import os\nimport re\n"),
        ("from a import b\n", "from a import b, c\n", "from a import b\nfrom a import c\n"),
        ("import os\n", "import os.path\n", "import os\nimport os.path\n"),
        (
            "import os  # why\nX = 1\n",
            "import re\nimport sys\n",
            "import os  # why\nimport re\nimport sys\nX = 1\n",
        ),
        (
            "from a import (\n    b,\n    c as d,\n)\n",
            "from a import b, c as d\n",
            "from a import (\n    b,\n    c as d,\n)\n",
        ),
        (
            "try:\n    import json\nexcept ImportError:\n    json = None\n",
            "import json\n",
            "try:\n    import json\nexcept ImportError:\n    json = None\n",
        ),
        ('"""Doc."""\n\nX = 1\n', "import re\n", '"""Doc."""\n\nimport re\n\nX = 1\n'),
        (
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n",
            "import re\n",
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nimport re\n\n",
        ),
        (
            '"""Doc."""\nimport os\n',
            "from __future__ import annotations\nimport re\n",
            '"""Doc."""\nfrom __future__ import annotations\n\nimport os\nimport re\n',
        ),
        ("from .models import Order\n", "from models import Order\n", "from .models import Order\n"),
        ("class Order: pass\n", "from shop import Order\n", "class Order: pass\n"),
        ("", "import re\n", "import re\n\n"),
        ("import os\r\n", "import re\n", "import os\r\nimport re\r\n"),
    ],
)
def test_imports_that_a_source_brings_are_merged(start: str, brought: str, expected: str) -> None:
    end = "\r\n" if "\r\n" in start else "\n"
    text = start + f"def go():{end}    return 1{end}"
    edited = replace_definition(text, "shop.py", "go", brought + "\n\ndef go():\n    return 2\n")
    assert edited.text == expected + f"def go():{end}    return 2{end}"


@pytest.mark.parametrize(
    ("start", "brought"),
    [
        ("import datetime\n", "from datetime import datetime\n"),
        ("class Order: pass\n", "from models import Order\n"),
        ("import numpy as np\n", "import nothing as np\n"),
    ],
)
def test_imports_that_would_change_what_a_name_means_are_refused(start: str, brought: str) -> None:
    with pytest.raises(EditError, match="the source imports"):
        replace_definition(start + "def go(): return 1\n", "a.py", "go", brought + "def go(): return 2\n")


@pytest.mark.parametrize(
    ("path", "text", "brought", "added"),
    [
        (
            "a.ts",
            "import { a } from './m';\n\nfunction go() { return 1; }\n",
            "import { a, b } from './m';\n",
            "import { b } from './m';\n",
        ),
        (
            "a.js",
            'import a from "m"\n\nfunction go() { return 1; }\n',
            'import * as fs from "fs"\n',
            "import * as fs from 'fs'\n",
        ),
        (
            "a.go",
            'package a\n\nimport (\n\t"fmt"\n)\n\nfunc go_() int { return 1 }\n',
            'package a\n\nimport (\n\t"fmt"\n\t"os"\n)\n',
            'import "os"\n',
        ),
        (
            "a.rs",
            "use a::{b, c::d};\n\nfn go() -> u8 { return 1; }\n",
            "use a::b;\nuse a::c::{d, e};\n",
            "use a::c::e;\n",
        ),
        (
            "A.java",
            "import a.B;\n\nclass A {\n    int go() { return 1; }\n}\n",
            "import a.B;\nimport a.C;\n",
            "import a.C;\n",
        ),
        (
            "a.c",
            "#ifndef A\n#define A\n#include <a.h>\n\nint go(void) { return 1; }\n#endif\n",
            "#include <a.h>\n#include <b.h>\n",
            "#include <b.h>\n",
        ),
    ],
)
def test_imports_of_other_languages_are_merged(path: str, text: str, brought: str, added: str) -> None:
    name = "go_" if path == "a.go" else "go"
    found = find_definition(text, path, name)
    assert found is not None
    source = text.encode()[found.start_byte : found.end_byte].decode().replace("return 1", "return 2")
    edited = replace_definition(text, path, name, brought + "\n" + source)
    expected = text.replace("return 1", "return 2")
    assert edited.text.replace(added, "", 1) == expected
    assert edited.text.count(added) == 1
    assert edited.text.index(added) < edited.text.index("return 2")


def test_a_large_file_takes_seconds_at_most() -> None:
    text = "".join(f"def go_{at}(a):\n    return a + {at}\n\n\n" for at in range(5_000))
    edited = replace_definition(text, "a.py", "go_4000", "def go_4000(a):\n    return 0\n")
    assert edited.text == text.replace("return a + 4000\n", "return 0\n")
