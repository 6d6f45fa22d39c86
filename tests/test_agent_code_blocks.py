from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_agent.editing.code_blocks import CodeBlock, as_code, code_blocks, is_elided, pick, pick_definition
from pace_agent.editing.elisions import elided_line
from pace_agent.editing.syntax_faults import indentation_fault

ONE = "def f(x):\n    return x\n"


def texts(answer: str) -> list[str]:
    return [block.text for block in code_blocks(answer)]


@pytest.mark.parametrize(
    ("answer", "language", "is_closed"),
    [
        (f"```python\n{ONE}```", "python", True),
        (f"Sure:\n\n```Python\n{ONE}```\nIt returns x.", "python", True),
        (f"~~~py\n{ONE}~~~", "py", True),
        (f"````python\n{ONE}````", "python", True),
        (f"```\n{ONE}```", "", True),
        (f"``` python \n{ONE}``` ", "python", True),
        (f"```python\n{ONE}", "python", False),
        (f"```python\n{ONE}```".replace("\n", "\r\n"), "python", True),
        (f"```{{.python .numberLines}}\n{ONE}```", "python", True),
        ("1. First:\n   ```python\n   def f(x):\n       return x\n   ```\n2. Then", "python", True),
        ("- ```python\n  def f(x):\n      return x\n  ```", "python", True),
        ("\t```python\n\tdef f(x):\n\t    return x\n\t```", "python", True),
    ],
)
def test_one_block(answer: str, language: str, is_closed: bool) -> None:
    assert code_blocks(answer) == (CodeBlock(language, ONE, None, is_closed),)


def test_blocks_with_prose_between_and_empty_ones() -> None:
    assert texts(f"The constant:\n```py\nA = 1\n```\nand\n```py\n```\nthe rest\n```py\n{ONE}```\nDone.") == [
        "A = 1\n",
        ONE,
    ]


def test_a_block_that_was_not_closed_ends_where_the_next_begins() -> None:
    blocks = code_blocks(f"```python\nA = 1\n```python\n{ONE}```")
    assert [(block.text, block.is_closed) for block in blocks] == [("A = 1\n", False), (ONE, True)]


def test_fences_within_a_block_belong_to_it() -> None:
    markdown = "# Title\n```python\nx = 1\n```\nmore\n"
    assert texts(f"```markdown\n{markdown}```\nprose") == [markdown]
    assert texts(f"````\n{markdown}````") == [markdown]
    docstring = 'def f():\n    """\n    ```python\n    f()\n    ```\n    """\n    return 1\n'
    assert texts(f"```python\n{docstring}```") == [docstring]
    tildes = "x = '''\n~~~\n'''\n"
    assert texts(f"```python\n{tildes}```") == [tildes]


def test_indentation_of_the_code_itself_is_kept() -> None:
    method = "    def f(self):\n        return 1\n"
    assert texts(f"```python\n{method}```") == [method]


def test_a_form_feed_is_no_line_end() -> None:
    assert texts("```python\nA = '\f'\n```") == ["A = '\f'\n"]


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (f"```python title=shop/orders.py\n{ONE}```", "shop/orders.py"),
        (f'```python title="shop/orders.py"\n{ONE}```', "shop/orders.py"),
        (f"```python:shop/orders.py\n{ONE}```", "shop/orders.py"),
        (f"```shop/orders.py\n{ONE}```", "shop/orders.py"),
        (f"**`shop/orders.py`**:\n\n```python\n{ONE}```", "shop/orders.py"),
        (f"### shop/orders.py\n```python\n{ONE}```", "shop/orders.py"),
        (f"File: shop/orders.py\n```python\n{ONE}```", "shop/orders.py"),
        (f"```python\n# shop/orders.py\n{ONE}```", "shop/orders.py"),
        (f"I changed the function f in orders.py as you said:\n```python\n{ONE}```", None),
        (f"```python\n# It is quick.\n{ONE}```", None),
    ],
)
def test_path_hints(answer: str, hint: str | None) -> None:
    (block,) = code_blocks(answer)
    assert block.path_hint == hint
    assert block.language in ("python", "py")
    assert block.text.endswith(ONE)
    assert "shop/orders.py" not in block.text


@pytest.mark.parametrize(
    "answer",
    [
        ONE,
        f"Here is the function:\n\n{ONE}\nIt returns x, as asked.",
        f"def is what you need.\n\n{ONE}",
        ONE.replace("\n", "\r\n"),
    ],
)
def test_an_answer_without_fences(answer: str) -> None:
    assert code_blocks(answer) == ()
    block = as_code(answer, "a.py")
    assert block is not None
    assert pick_definition([block], "a.py", "f") == ONE


@pytest.mark.parametrize("answer", ["", "I cannot do that.", "The rate is 53.", "x" * 300_000])
def test_an_answer_without_code(answer: str) -> None:
    block = as_code(answer, "a.py")
    assert block is None or pick_definition([block], "a.py", "f") is None


def picked(answer: str, name: str, path: str = "a.py") -> str | None:
    return pick_definition(code_blocks(answer), path, name)


def test_the_last_whole_definition_wins() -> None:
    first, last = "def f():\n    return 1\n", "def f():\n    return 2\n"
    assert picked(f"```python\n{first}```\nBetter:\n```python\n{last}```", "f") == last
    assert picked(f"```python\n{first}```\nor\n```python\ndef f(:\n    return (2\n```", "f") == first
    assert (
        picked(f"```python\n{first}```\nor\n```python\ndef f():\n    # ... rest unchanged\n```", "f") == first
    )
    assert picked(f"```python\n{first}```\nor\n```python\n{last}", "f") == first


def test_nothing_whole_gives_nothing() -> None:
    assert picked("```python\ndef f():\n    x = (1,\n```", "f") is None
    assert picked("```python\ndef f():\n    a = 1\n    # rest of the code\n```", "f") is None
    assert picked(f"```python\n{ONE}```", "g") is None


def test_imports_of_all_blocks_come_with_it() -> None:
    source = picked(
        "First:\n```python\nimport math\nRATE = 1\n```\nthen\n```python\n"
        "from os import path\nimport math\n\ndef g():\n    return 2\n\n"
        "@cached\ndef f():\n    return 1\n```",
        "f",
    )
    assert source == "import math\nfrom os import path\n@cached\ndef f():\n    return 1\n"


def test_a_method_alone_and_in_its_class() -> None:
    method = "def total(self):\n    if self:\n        return 1\n"
    inside = "class Basket:\n    def other(self):\n        return 0\n\n" + "".join(
        f"    {line}\n" for line in method.splitlines()
    )
    for code in (method, inside, "".join(f"    {line}\n" for line in method.splitlines())):
        assert picked(f"```python\n{code}```", "Basket.total") == method
        assert picked(f"```python\n{code}```", "Basket::total()") == method
    assert (
        picked("```python\nclass Order:\n    def total(self):\n        return 3\n```", "Basket.total") is None
    )


def test_of_a_property_the_one_that_begins_like_the_original() -> None:
    code = (
        "class A:\n    @property\n    def x(self):\n        return 1\n\n"
        "    @x.setter\n    def x(self, value):\n        self._x = value\n"
    )
    found = pick(code_blocks(f"```python\n{code}```"), "a.py", "A.x", "@property\n    def x(self):")
    assert found is not None
    assert found.source.startswith("@property")
    assert found.is_whole


def test_blocks_of_other_languages_and_files_do_not_count() -> None:
    other = "`tests/test_a.py`:\n```python\ndef f():\n    return 'of the test'\n```\n"
    shell = "```bash\nf() { return 1; }\n```\n"
    assert picked(f"```python\n{ONE}```\n{shell}{other}", "f") == ONE
    assert picked("```js\nfunction f() { return 1; }\n```", "f", "a.ts") == "function f() { return 1; }\n"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a.go", "func f(x int) int {\n\treturn x\n}\n"),
        ("a.rs", "#[inline]\nfn f(x: i32) -> i32 {\n    x\n}\n"),
        ("a.c", "int f(int x)\n{\n    return x;\n}\n"),
        ("a.ts", "export const f = (x: number): number => {\n  return x;\n};\n"),
    ],
)
def test_other_languages(path: str, code: str) -> None:
    assert picked(f"Here:\n```\n{code}```", "f", path) == code


@pytest.mark.parametrize(
    "line",
    [
        "# ... existing code ...",
        "# ...",
        "    # rest of the function unchanged",
        "# Rest of the code remains the same",
        "# (rest unchanged)",
        "# remaining methods",
        "// ... rest of the implementation",
        "// other methods remain unchanged",
        "/* ... */",
        "/* existing code */",
        "# unchanged",
        "# same as before",
        "# the rest of your code here...",
        "# code omitted for brevity",
        "# Your code here",
        "pass  # your code goes here",
        "...",
        "…",
        "    pass  # ... rest of the class",
    ],
)
def test_elisions(line: str) -> None:
    code = f"def f(x):\n    y = x\n    {line.strip()}\n    return y\n"
    assert is_elided(code)
    assert elided_line(code) == line.strip()
    assert not is_elided(code, original=f"before\n{line}\n")


@pytest.mark.parametrize(
    "code",
    [
        ONE,
        "def f(): ...\n",
        "class P(Protocol):\n    def f(self) -> int:\n        ...\n",
        'class P(Protocol):\n    def f(self) -> int:\n        """What it does."""\n        ...\n',
        "# Process the remaining items\nfor item in rest:\n    use(item)\n",
        "x = [1, ...]\n",
        "call(...)\n",
        "# keep the same order as the original list does\nx = 1\n",
        "# The code of the country\ncode = 1\n",
        "# Use existing connection if there is one\nx = 1\n",
        "f(...args)\n",
        "const g = {\n  ...other,\n};\n",
        "# other\nx = 1  # the rest\n",
        "    pass\n",
    ],
)
def test_no_elisions(code: str) -> None:
    assert elided_line(code) is None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "```",
                "```python",
                "~~~",
                "````md",
                "  ```",
                "def f(x):",
                "    return x",
                "prose",
                "",
                "# a.py",
                "```py x",
            ]
        ),
        max_size=14,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_answer_is_read(lines: list[str], line_end: str) -> None:
    answer = line_end.join(lines)
    blocks = code_blocks(answer)
    if not any(line.strip(" `") for line in lines if line.startswith("`")):
        assert all(block.is_closed for block in blocks[:-1])
    assert sum(block.text.count("\n") for block in blocks) <= len(lines)
    source = pick_definition(blocks, "a.py", "f")
    if source is not None:
        assert indentation_fault(source) is None
        assert "def f(x):" in source
