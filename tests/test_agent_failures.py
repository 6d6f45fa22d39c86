from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_agent.checking.failures import FailurePlace, parse_failures, shown
from pace_local.errors import InputError

ORDERS = """\
def total(orders):
    return sum(one["price"] for one in orders[1:])


class Basket:
    def rate(self, key):
        return self._find(key) / 0

    def _find(self, key):
        return {"a": 1}[key]
"""
TESTS = """\
import pytest

from shop.orders import Basket, total


def test_total():
    print("printed by the test")
    assert total([{"price": 2}, {"price": 3}]) == 5, "sum of prices"


@pytest.mark.parametrize("key", ["a", "b - c"])
def test_rate(key):
    assert Basket().rate(key) == 1


class TestIn:
    def test_raises(self):
        with pytest.raises(ValueError):
            total([])


@pytest.fixture
def broken():
    raise RuntimeError("no database")


def test_fixture(broken):
    pass


def test_fine():
    pass
"""
UNIT = '''\
import unittest

from shop.orders import Basket, total


class OrdersTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([{"price": 2}, {"price": 3}]), 5)

    def test_rate(self):
        """Has a docstring, which the title shows."""
        Basket().rate("zz")

    def test_many(self):
        for n in range(2):
            with self.subTest(n=n):
                self.assertEqual([1, n], [1, 5])
'''
SCRIPT = """\
from shop.orders import Basket


def main():
    try:
        Basket().rate("q")
    except KeyError as error:
        raise RuntimeError("cannot rate") from error


main()
"""
IDS = (
    "tests/test_orders.py::test_total",
    "tests/test_orders.py::test_rate[a]",
    "tests/test_orders.py::test_rate[b - c]",
    "tests/test_orders.py::TestIn::test_raises",
    "tests/test_orders.py::test_fixture",
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shop folder")
    return filled(
        root,
        {
            "shop/__init__.py": "",
            "shop/orders.py": ORDERS,
            "tests/__init__.py": "",
            "tests/test_orders.py": TESTS,
            "tests/test_unit.py": UNIT,
            "bad/test_import.py": "from shop.orders import nothing\n",
            "bad/test_syntax.py": "def test_x(:\n    pass\n",
            "script.py": SCRIPT,
        },
    )


def filled(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def output_of(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": ".", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode != 0
    return done.stdout.decode()


def of_pytest(root: Path, *arguments: str) -> str:
    return output_of(root, "-m", "pytest", "-p", "no:cacheprovider", *arguments)


def places(output: str, root: Path) -> list[tuple[str, int, str | None]]:
    return [(one.path, one.line, one.symbol) for one in parse_failures(output, root).places]


def line(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


RAISED = line(TESTS, "raise RuntimeError")
RATE, FIND = line(ORDERS, "/ 0"), line(ORDERS, '{"a"')
CALLED = line(TESTS, "assert Basket")


@pytest.mark.parametrize(
    "style",
    [("--tb=long",), ("--tb=short",), ("--tb=native",), ("--tb=auto", "--color=yes"), ("--tb=short", "-q")],
    ids=" ".join,
)
def test_pytest_names_tests_and_places_outermost_first(repository: Path, style: tuple[str, ...]) -> None:
    output = of_pytest(repository, *style, "tests/test_orders.py")
    found = parse_failures(output, repository)
    assert sorted(found.tests) == sorted(IDS)
    assert not found.is_collection_error
    assert [(one.path, one.line, one.symbol) for one in found.places] == [
        ("tests/test_orders.py", RAISED, "broken"),
        ("tests/test_orders.py", line(TESTS, "assert total"), "test_total"),
        ("tests/test_orders.py", CALLED, "test_rate"),
        ("shop/orders.py", RATE, "rate"),
        ("tests/test_orders.py", CALLED, "test_rate"),
        ("shop/orders.py", RATE, "rate"),
        ("shop/orders.py", FIND, "_find"),
        ("tests/test_orders.py", line(TESTS, "with pytest"), "test_raises"),
    ]
    said = [one.message for one in found.places]
    assert said[0] == "RuntimeError: no database"
    assert "sum of prices" in said[1]
    assert "assert 3 == 5" in said[1]
    assert said[2] == said[4] == said[5] == ""
    assert said[3] == "ZeroDivisionError: division by zero"
    assert said[6] == "KeyError: 'b - c'"
    assert "DID NOT RAISE" in said[7]
    assert 2 <= len(found.summary.split("\n")) <= 5
    assert "5 tests fail" in found.summary
    assert f"tests/test_orders.py:{RAISED}, in broken: RuntimeError: no database" in found.summary


def test_pytest_with_one_line_a_failure(repository: Path) -> None:
    found = parse_failures(of_pytest(repository, "--tb=line", "tests/test_orders.py"), repository)
    assert ("shop/orders.py", FIND) in [(one.path, one.line) for one in found.places]
    assert ("tests/test_orders.py", line(TESTS, "assert total")) in [
        (one.path, one.line) for one in found.places
    ]
    assert sorted(found.tests) == sorted(IDS)


def test_pytest_without_tracebacks_leads_to_the_tests(repository: Path) -> None:
    found = parse_failures(of_pytest(repository, "--tb=no", "tests/test_orders.py"), repository)
    assert ("tests/test_orders.py", line(TESTS, "def test_raises"), "test_raises") in [
        (one.path, one.line, one.symbol) for one in found.places
    ]
    assert "RuntimeError: no database" in {one.message for one in found.places}


def test_pytest_without_its_list_of_failures_still_gives_ids(repository: Path) -> None:
    output = of_pytest(repository, "tests/test_orders.py", "-r", "N")
    assert "FAILED tests" not in output
    assert sorted(parse_failures(output, repository).tests) == sorted(IDS)


def test_pytest_that_cannot_collect(repository: Path) -> None:
    found = parse_failures(of_pytest(repository, "bad"), repository)
    assert found.is_collection_error
    assert [(one.path, one.line) for one in found.places] == [
        ("bad/test_import.py", 1),
        ("bad/test_syntax.py", 1),
    ]
    assert found.places[0].message.startswith("ImportError: cannot import name 'nothing' from 'shop.orders'")
    assert found.places[1].message.startswith("SyntaxError")


def test_pytest_told_of_a_file_that_is_not_there(repository: Path) -> None:
    found = parse_failures(of_pytest(repository, "-q", "tests/test_none.py"), repository)
    assert found.is_collection_error
    assert "file or directory not found: tests/test_none.py" in found.summary


def test_output_with_windows_line_ends_and_cut_in_the_middle(repository: Path) -> None:
    output = of_pytest(repository, "--tb=short", "tests/test_orders.py")
    whole = places(output, repository)
    assert places(output.replace("\n", "\r\n"), repository) == whole
    at = output.index("TestIn.test_raises")
    cut = f"{output[: at - 200]}\n… 90,000 bytes in all; all of it is in out.txt …\n{output[at + 40 :]}"
    found = parse_failures(cut, repository)
    assert ("tests/test_orders.py", RAISED, "broken") in places(cut, repository)
    assert sorted(found.tests) == sorted(IDS)
    assert "DID NOT RAISE" not in {one.message for one in found.places if one.symbol in ("_find", "rate")}


def test_unittest(repository: Path) -> None:
    found = parse_failures(output_of(repository, "-m", "unittest", "tests.test_unit"), repository)
    assert sorted(found.tests) == [
        "tests.test_unit.OrdersTest.test_many",
        "tests.test_unit.OrdersTest.test_rate",
        "tests.test_unit.OrdersTest.test_total",
    ]
    assert not found.is_collection_error
    total = line(UNIT, "self.assertEqual(total")
    assert FailurePlace("tests/test_unit.py", total, "test_total", "AssertionError: 3 != 5") in found.places
    at = places(output_of(repository, "-m", "unittest", "tests.test_unit.OrdersTest.test_rate"), repository)
    assert at == [
        ("tests/test_unit.py", line(UNIT, "Basket().rate"), "test_rate"),
        ("shop/orders.py", RATE, "rate"),
        ("shop/orders.py", FIND, "_find"),
    ]


def test_unittest_that_cannot_import(repository: Path) -> None:
    output = output_of(repository, "-m", "unittest", "discover", "-s", "bad", "-t", "bad")
    found = parse_failures(output, repository)
    assert found.is_collection_error
    assert ("bad/test_import.py", 1, None) in places(output, repository)
    assert not any("_FailedTest" in one for one in found.tests)


def test_python_traceback_with_its_cause(repository: Path) -> None:
    output = output_of(repository, "script.py")
    found = parse_failures(output, repository)
    assert places(output, repository) == [
        ("script.py", 6, "main"),
        ("shop/orders.py", RATE, "rate"),
        ("shop/orders.py", FIND, "_find"),
        ("script.py", 11, None),
        ("script.py", 8, "main"),
    ]
    assert [one.message for one in found.places if one.message] == [
        "KeyError: 'q'",
        "RuntimeError: cannot rate",
    ]
    assert found.tests == ()


def test_python_syntax_error_is_one_of_loading(repository: Path) -> None:
    output = output_of(repository, "bad/test_syntax.py")
    found = parse_failures(output, repository)
    assert places(output, repository) == [("bad/test_syntax.py", 1, None)]
    assert found.is_collection_error


def test_installed_dependencies_and_other_folders_are_no_places(tmp_path: Path) -> None:
    root = filled(
        tmp_path / "repository",
        {"a.py": "", ".venv/lib/python3.11/site-packages/x.py": "", "web/node_modules/m/i.js": ""},
    )
    filled(tmp_path, {"other.py": ""})
    output = (
        "Traceback (most recent call last):\n"
        f'  File "{root}/.venv/lib/python3.11/site-packages/x.py", line 3, in run\n    f()\n'
        f'  File "{root}/a.py", line 2, in f\n    g()\n'
        f'  File "{tmp_path}/other.py", line 1, in g\n    h()\n'
        '  File "<frozen importlib>", line 9, in h\nOSError: gone\n'
        f"    at m (web/node_modules/m/i.js:1:1)\n    at m ({root}/../other.py:1:1)\n"
    )
    assert parse_failures(output, root).places == (FailurePlace("a.py", 2, "f", "OSError: gone"),)


def test_repository_behind_a_link(tmp_path: Path) -> None:
    root = filled(tmp_path / "real", {"a.py": ""})
    (tmp_path / "link").symlink_to(root)
    for shown_as, named in [("real", "link"), ("link", "real"), ("link", "link")]:
        output = (
            f'Traceback (most recent call last):\n  File "{tmp_path / shown_as}/a.py", line 1, in f\nE: x\n'
        )
        assert places(output, tmp_path / named) == [("a.py", 1, "f")]


JEST = """\
 FAIL  src/orders.test.ts
  ● orders › total of two

    expect(received).toBe(expected) // Object.is equality

    Expected: 5
    Received: 3

      4 | describe('orders', () => {
      5 |   it('total of two', () => {
    > 6 |     expect(total([2, 3])).toBe(5);
        |                           ^
      7 |   });

      at Object.toBe (src/orders.test.ts:6:27)

  ● rates

    TypeError: Cannot read properties of undefined (reading 'rate')

      1 | export function rate(order) {
    > 2 |   return order.table.rate;
        |                      ^

      at rate (src/orders.ts:2:22)
      at Object.<anonymous> (src/orders.test.ts:11:10)
      at processTicksAndRejections (node:internal/process/task_queues:96:5)

Tests:       2 failed, 1 passed, 3 total
"""
VITEST = """\
 ❯ src/orders.test.ts (2 tests | 1 failed) 5ms
   × orders > total of two 3ms
     → expected 3 to be 5 // Object.is equality

⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯

 FAIL  src/orders.test.ts > orders > total of two
AssertionError: expected 3 to be 5 // Object.is equality

- Expected
+ Received

- 5
+ 3

 ❯ check src/orders.ts:2:22
 ❯ src/orders.test.ts:6:27
      4|   it('total of two', () => {
"""
MOCHA = """\
  orders
    1) total of two
    ✓ is fine


  1 passing (5ms)
  1 failing

  1) orders
       total of two:

      AssertionError [ERR_ASSERTION]: 3 == 5
      + expected - actual

      -3
      +5

      at check (src/orders.ts:2:22)
      at Context.<anonymous> (src/orders.test.ts:6:27)
      at process.processImmediate (node:internal/timers:476:21)
"""
NODE = """\
TAP version 13
# Subtest: total of two
not ok 1 - total of two
  ---
  duration_ms: 13.467085
  location: '{root}/src/orders.test.ts:4:1'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:

    3 !== 5

  code: 'ERR_ASSERTION'
  name: 'AssertionError'
  expected: 5
  actual: 3
  operator: 'strictEqual'
  stack: |-
    check ({root}/src/orders.ts:2:22)
    TestContext.<anonymous> (file://{root}/src/orders.test.ts:6:27)
    Test.runInAsyncScope (node:async_hooks:206:9)
  ...
1..1
# fail 1
"""
GO_TEST = """\
--- FAIL: TestTotal (0.00s)
    --- FAIL: TestTotal/two_orders (0.00s)
        orders_test.go:12: total = 3, want 5
--- FAIL: TestRate (0.00s)
panic: runtime error: index out of range [5] with length 2 [recovered]
	panic: runtime error: index out of range [5] with length 2

goroutine 7 [running]:
testing.tRunner.func1.2({0x5139a0, 0xc0000b6018})
	/usr/local/go/src/testing/testing.go:1526 +0x24e
example.com/shop/orders.(*Basket).Rate(...)
	{root}/orders/orders.go:8
example.com/shop/orders.TestRate(0xc000007a00)
	{root}/orders/orders_test.go:20 +0x1d
created by testing.(*T).Run
	/usr/local/go/src/testing/testing.go:1629 +0x3ea

goroutine 1 [chan receive]:
main.other()
	{root}/main.go:3 +0x1d
FAIL	example.com/shop/orders	0.003s
ok  	example.com/shop/other	0.002s
FAIL
"""
GO_BUILD = """\
# example.com/shop/orders
orders/orders.go:8:2: undefined: rate
orders/orders.go:9:5: declared and not used: x
FAIL	example.com/shop/orders [build failed]
"""
CARGO = """\
   Compiling shop v0.1.0 ({root})
warning: unused variable: `x`
 --> src/lib.rs:30:5
running 2 tests
test tests::empty ... FAILED
test tests::adds ... FAILED

failures:

---- tests::empty stdout ----

thread 'tests::empty' (17045) panicked at src/lib.rs:2:7:
range start index 1 out of range for slice of length 0
stack backtrace:
   0: core::slice::index::slice_index_fail
             at /rustc/59807616e1fa/library/core/src/panic.rs:177:9
   1: shop::total
             at ./src/lib.rs:2:7
   2: shop::tests::empty
             at ./src/lib.rs:14:9
   3: shop::tests::empty::{{closure}}
             at ./src/lib.rs:13:15

---- tests::adds stdout ----
thread 'tests::adds' panicked at 'assertion failed: `(left == right)`
  left: `2`,
 right: `3`', src/lib.rs:10:9
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

failures:
    tests::adds
    tests::empty

test result: FAILED. 0 passed; 2 failed; 0 ignored
error: test failed, to rerun pass `--lib`
"""
RUSTC = """\
warning: unused variable: `x`
 --> src/lib.rs:30:5
error[E0425]: cannot find value `ys` in this scope
 --> src/lib.rs:2:5
  |
2 |     ys[1..].iter().sum()
  |     ^^
error: could not compile `shop` (lib test) due to 1 previous error
"""
GCC = """\
src/a.c: In function ‘total’:
src/a.c:3:12: error: ‘y’ undeclared (first use in this function)
    3 |     return y + 1;
src/a.c:3:12: note: each undeclared identifier is reported only once
src/a.c:5:18: warning: implicit declaration of function ‘foo’ [-Wimplicit-function-declaration]
src/a.c: At top level:
src/a.c:9:1: error: unknown type name ‘Order’
src/a.c:1:10: fatal error: orders.h: No such file or directory
make: *** [Makefile:2: a.o] Error 1
"""
TSC = """\
src/orders.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.
src/orders.test.ts:6:27 - error TS2304: Cannot find name 'totl'.

6     expect(totl(1))
             ~~~~
Found 2 errors.
"""
GTEST = """\
[ RUN      ] Orders.Total
{root}/src/a.c:12: Failure
Expected equality of these values:
  total(x)
    Which is: 3
  5
[  FAILED  ] Orders.Total (0 ms)
[  FAILED  ] Orders.Total
"""
OTHERS = {
    "jest": (
        JEST,
        ("orders › total of two", "rates"),
        [
            ("src/orders.test.ts", 6, "toBe"),
            ("src/orders.test.ts", 11, None),
            ("src/orders.ts", 2, "rate"),
        ],
        ["expect(received).toBe(expected)", "Expected: 5", "Received: 3", "TypeError: Cannot read"],
        False,
    ),
    "vitest": (
        VITEST,
        ("orders > total of two",),
        [("src/orders.test.ts", 6, None), ("src/orders.ts", 2, "check")],
        ["AssertionError: expected 3 to be 5"],
        False,
    ),
    "mocha": (
        MOCHA,
        ("orders total of two",),
        [("src/orders.test.ts", 6, None), ("src/orders.ts", 2, "check")],
        ["AssertionError [ERR_ASSERTION]: 3 == 5"],
        False,
    ),
    "node": (
        NODE,
        ("total of two",),
        [("src/orders.test.ts", 6, None), ("src/orders.ts", 2, "check")],
        ["strictly equal", "3 !== 5"],
        False,
    ),
    "go": (
        GO_TEST,
        ("TestTotal/two_orders", "TestRate"),
        [
            ("orders/orders_test.go", 12, "TestTotal"),
            ("orders/orders_test.go", 20, "TestRate"),
            ("orders/orders.go", 8, "Basket.Rate"),
        ],
        ["total = 3, want 5", "index out of range [5] with length 2"],
        False,
    ),
    "go build": (
        GO_BUILD,
        (),
        [("orders/orders.go", 8, None), ("orders/orders.go", 9, None)],
        ["undefined: rate", "declared and not used: x"],
        True,
    ),
    "cargo": (
        CARGO,
        ("tests::empty", "tests::adds"),
        [("src/lib.rs", 14, "empty"), ("src/lib.rs", 2, "total"), ("src/lib.rs", 10, None)],
        ["range start index 1 out of range", "left: `2`; right: `3`"],
        False,
    ),
    "rustc": (
        RUSTC,
        (),
        [("src/lib.rs", 2, None)],
        ["error[E0425]: cannot find value `ys` in this scope"],
        True,
    ),
    "gcc": (
        GCC,
        (),
        [("src/a.c", 3, "total"), ("src/a.c", 9, None), ("src/a.c", 1, None)],
        ["‘y’ undeclared", "unknown type name", "orders.h: No such file"],
        True,
    ),
    "tsc": (
        TSC,
        (),
        [("src/orders.ts", 3, None), ("src/orders.test.ts", 6, None)],
        ["TS2322: Type 'string'", "TS2304: Cannot find name 'totl'"],
        True,
    ),
    "gtest": (
        GTEST,
        ("Orders.Total",),
        [("src/a.c", 12, None)],
        ["Expected equality of these values: total(x); Which is: 3; 5"],
        False,
    ),
}


@pytest.mark.parametrize("tool", OTHERS)
@pytest.mark.parametrize("coloured", [False, True])
def test_other_languages(tool: str, coloured: bool, tmp_path: Path) -> None:
    output, tests, expected, said, is_unloaded = OTHERS[tool]
    names = ["src/orders.ts", "src/orders.test.ts", "src/lib.rs", "src/a.c", "main.go"]
    names += ["orders/orders.go", "orders/orders_test.go", "other/orders_test.go"]
    filled(tmp_path, {"go.mod": "module example.com/shop\n\ngo 1.21\n", **dict.fromkeys(names, "")})
    output = output.replace("{root}", str(tmp_path))
    if coloured:
        output = "".join(f"\x1b[31m{one}\x1b[0m\r\n" for one in output.split("\n"))
    found = parse_failures(output, tmp_path)
    assert [(one.path, one.line, one.symbol) for one in found.places] == expected
    assert found.tests == tests
    assert found.is_collection_error is is_unloaded
    messages = "\n".join(one.message for one in found.places)
    for part in said:
        assert part in messages
        assert part in found.summary
    assert len(found.summary.split("\n")) <= 5


def test_an_output_that_no_tool_is_known_for(tmp_path: Path) -> None:
    found = parse_failures("all\n\n" * 9 + "step 3: the widget is broken\nbye\n", tmp_path)
    assert found.places == ()
    assert found.summary.split("\n")[-2:] == ["step 3: the widget is broken", "bye"]
    assert len(found.summary.split("\n")) <= 5
    assert parse_failures(" \n", tmp_path).summary == "the command failed and printed nothing"


def test_recursion_and_long_lines_end_quickly(tmp_path: Path) -> None:
    filled(tmp_path, {"a.py": ""})
    frame = f'  File "{tmp_path}/a.py", line 2, in f\n    f()\n'
    output = "Traceback (most recent call last):\n" + frame * 9_000 + "RecursionError: too deep\n\n"
    output += "at " + "x y (" * 20_000 + "\n" + "a:" * 50_000 + "\n" + "FAILED a.py::" + "[" * 50_000 + "\n"
    assert parse_failures(output, tmp_path).places == (
        FailurePlace("a.py", 2, "f", "RecursionError: too deep"),
    )


PIECES = [
    *JEST.split("\n"),
    *GO_TEST.split("\n"),
    *CARGO.split("\n"),
    *MOCHA.split("\n"),
    *NODE.split("\n"),
    'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\nValueError: no',
    "E   AssertionError: x\n\na.py:1: AssertionError",
    "=== FAILURES ===\n____ test_x ____",
    "FAILED a.py::test_x - no",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=30)), max_size=25))
def test_any_output_is_read_and_cut(pieces: list[str]) -> None:
    output = "\n".join(pieces)
    found = parse_failures(output, Path(__file__).parent / "no such folder")
    assert found.places == ()
    assert 1 <= len(found.summary.split("\n")) <= 5
    for limit in (40, 300):
        assert len(shown(output, limit)) <= limit


def test_shown_keeps_a_short_output_whole() -> None:
    assert shown("\x1b[31mone\x1b[0m\r\ntwo\n\n", 40) == "one\ntwo"


def test_shown_keeps_the_assertion_and_what_is_near(repository: Path) -> None:
    output = of_pytest(repository, "tests/test_orders.py", "-k", "test_total or test_rate")
    part = shown(output, 420)
    assert len(part) <= 420
    assert "assert 3 == 5" in part
    assert 'assert total([{"price": 2}, {"price": 3}]) == 5' in part
    assert "printed by the test" not in part
    assert "rootdir" not in part
    assert part.index("sum of prices") < part.index("ZeroDivisionError")
    assert "…" in part.split("\n")


def test_shown_keeps_the_last_calls_of_a_deep_traceback() -> None:
    calls = "".join(f'  File "a.py", line {n}, in f{n}\n    call_{n}()\n' for n in range(1, 90))
    part = shown(f"Traceback (most recent call last):\n{calls}KeyError: 'rate'\n", 300)
    assert part.endswith("KeyError: 'rate'")
    assert "call_89()" in part
    assert "line 87, in f87" in part
    assert "call_2()" not in part


def test_shown_prefers_own_calls_to_those_of_libraries() -> None:
    own = '  File "a.py", line 4, in own\n    library.run()\n'
    foreign = "".join(
        f'  File "/x/lib/python3.11/site-packages/l.py", line {n}, in g\n    g{n}()\n' for n in range(40)
    )
    part = shown(f"Traceback (most recent call last):\n{own}{foreign}KeyError: 'rate'\n", 160)
    assert "library.run()" in part
    assert "KeyError: 'rate'" in part


def test_shown_cuts_a_long_line_in_its_middle_and_keeps_the_end_of_plain_output() -> None:
    part = shown(f"AssertionError: {'x' * 5_000} is not 5\n" + "noise\n" * 100, 200)
    assert "AssertionError: x" in part
    assert "is not 5" in part
    assert shown("\n".join(f"step {n}" for n in range(500)), 100).endswith("step 499")


def test_shown_refuses_a_limit_that_shows_nothing() -> None:
    with pytest.raises(InputError, match="39 characters"):
        shown("x", 39)
