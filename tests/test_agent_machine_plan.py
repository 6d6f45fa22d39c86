from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_repositories import GO, PYTHON, SCRIPT, make_repository
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace_agent.checking.failures import FailurePlace
from pace_agent.editing.new_files import new_files
from pace_agent.planning.intent import is_about_option, is_question, rename_in
from pace_agent.planning.machine_plan import machine_plan
from pace_agent.planning.model_plan import parse_plan
from pace_agent.planning.planned_step import PlannedStep
from pace_agent.repository.index import RepositoryIndex


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path_factory.mktemp("shop"), PYTHON), deadline=60)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path_factory.mktemp("script"), SCRIPT), deadline=60)


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path_factory.mktemp("go"), GO), deadline=60)


def places(steps: tuple[PlannedStep, ...]) -> list[tuple[str, ...]]:
    return [step.symbols or step.files for step in steps]


# Renaming


@pytest.mark.parametrize(
    "prompt",
    [
        "Rename order_total to grand_total and update its callers",
        "rename the function `order_total` to `grand_total` everywhere",
        "Please rename order_total in shop/orders.py into grand_total.",
        "Can you rename order_total() -> grand_total?",
        "change the name of order_total to grand_total",
        "Tests are red. Rename order_total to grand_total to make them pass",
    ],
)
def test_a_renaming_is_a_step_for_each_place(shop: RepositoryIndex, prompt: str) -> None:
    steps = machine_plan(prompt, shop, [FailurePlace("shop/rates.py", 8, None, "bad")])
    assert places(steps) == [
        ("shop/orders.py:order_total",),
        ("shop/__init__.py:__all__",),
        ("shop/orders.py:describe",),
        ("shop/report.py:report_lines",),
        ("tests/test_orders.py:test_total_of_nothing",),
        ("tests/test_orders.py:test_patched",),
        ("shop/__init__.py",),
        ("shop/report.py",),
        ("tests/test_orders.py",),
    ]
    assert all(step.edits and "`grand_total`" in step.text for step in steps)
    assert {step.old_name for step in steps} == {"", "order_total"}  # empty where it is defined
    assert not any(character.isdigit() for character in steps[7].text)  # lines move until it is done
    assert steps[7].reads == ("shop/report.py:3-3", "shop/report.py:11-11")


def test_a_method_is_renamed_where_it_is_used(shop: RepositoryIndex) -> None:
    steps = machine_plan("Rename Order.total to net", shop)
    assert places(steps) == [("shop/orders.py:Order.total",), ("shop/orders.py:order_total",)]


def test_what_is_not_there_is_not_renamed(shop: RepositoryIndex) -> None:
    (step,) = machine_plan("Rename nothing_here to something", shop)
    assert step == PlannedStep("Rename nothing_here to something")


def test_a_renaming_of_very_many_places_is_a_step_for_each_file(tmp_path: Path) -> None:
    files = {"a.py": "def busy_one(): pass\n"}
    for number in range(4):
        files[f"u{number}.py"] = "".join(f"def f{at}():\n    busy_one()\n\n" for at in range(10))
    index = RepositoryIndex(make_repository(tmp_path, files), deadline=60)
    steps = machine_plan("rename busy_one to idle_one", index)
    assert places(steps) == [("a.py:busy_one",), ("u0.py",), ("u1.py",), ("u2.py",), ("u3.py",)]


def test_renaming_in_typescript_and_go(script: RepositoryIndex, go: RepositoryIndex) -> None:
    steps = machine_plan("rename toCents to inCents", script)
    assert places(steps) == [("src/money.ts:toCents",), ("src/cart.ts:Cart.grandTotal",), ("src/cart.ts",)]
    steps = machine_plan("Rename OrderTotal to Sum", go)
    assert places(steps) == [
        ("orders/orders.go:OrderTotal",),
        ("main.go:main",),
        ("orders/orders_test.go:TestOrderTotal",),
    ]


def test_what_a_rename_says() -> None:
    found = rename_in("Rename the method `a.b` of the class C to `d`, please")
    assert found is not None
    assert found.new == "d"
    assert rename_in("add a name to it") is None


# Failures


def failure(*lines: tuple[str, int], message: str = "assert 1 == 2") -> list[FailurePlace]:
    found = [FailurePlace(path, line, None, "") for path, line in lines]
    return [*found[:-1], FailurePlace(lines[-1][0], lines[-1][1], None, message)]


def test_the_innermost_place_outside_of_tests_is_likeliest(shop: RepositoryIndex) -> None:
    failures = failure(("tests/test_orders.py", 5), ("shop/orders.py", 25), ("shop/rates.py", 8))
    (step,) = machine_plan("Make the failing test pass", shop, failures)
    assert step.symbols == ("shop/rates.py:rounded",)
    assert step.reads == ("tests/test_orders.py:test_total_of_nothing", "shop/orders.py:order_total")
    assert "assert 1 == 2" in step.text
    assert "`test_total_of_nothing`" in step.text


def test_where_a_result_is_wrong_it_is_what_the_test_uses(shop: RepositoryIndex) -> None:
    (step,) = machine_plan("Fix the failing tests", shop, failure(("tests/test_orders.py", 5)))
    assert step.symbols == ("shop/orders.py:order_total",)
    assert "tests/test_orders.py:test_total_of_nothing" in step.reads


def test_failures_of_one_place_are_one_step(shop: RepositoryIndex) -> None:
    first = failure(("tests/test_orders.py", 5), ("shop/rates.py", 8))
    second = failure(("tests/test_orders.py", 9), ("shop/orders.py", 25))
    steps = machine_plan("make the tests pass", shop, [*first, *first, *second])
    assert places(steps) == [("shop/rates.py:rounded",), ("shop/orders.py:order_total",)]


def test_a_test_that_is_named_is_enough(shop: RepositoryIndex) -> None:
    (step,) = machine_plan("Make tests/test_orders.py::test_total_of_nothing pass", shop)
    assert step.symbols == ("shop/orders.py:order_total",)


def test_a_pasted_traceback_is_enough(shop: RepositoryIndex) -> None:
    frames = '  File "shop/report.py", line 7, in x\n  File "shop/rates.py", line 8, in rounded\nTypeError'
    (step,) = machine_plan(f"Fix this error:\n{frames}", shop)
    assert step.symbols == ("shop/rates.py:rounded",)
    assert step.reads == ("shop/report.py:report_lines",)
    (step,) = machine_plan(f"The tests fail:\n{frames}", shop)
    assert step.symbols == ("shop/rates.py:rounded",)


def test_failures_elsewhere_do_not_turn_a_task_into_a_repair(shop: RepositoryIndex) -> None:
    (step,) = machine_plan("Speed up describe()", shop, failure(("shop/rates.py", 8)))
    assert step.symbols == ("shop/orders.py:describe",)


def test_places_outside_of_the_repository_are_left_out(shop: RepositoryIndex) -> None:
    (step,) = machine_plan("Fix the failing test", shop, failure(("lib/other.py", 3)))
    assert step.symbols == ()


# Options


def test_an_option_is_declared_and_then_used(shop: RepositoryIndex) -> None:
    steps = machine_plan("Add a command-line flag --quiet that prints nothing", shop)
    assert places(steps) == [("shop/cli.py:build_parser",), ("shop/cli.py:main",)]
    assert "`--quiet` (argparse)" in steps[0].text
    assert steps[1].reads[0] == "shop/cli.py:build_parser"


def test_the_option_of_a_definition_that_is_named(shop: RepositoryIndex) -> None:
    steps = machine_plan("Add an option --precision used by `report_lines`", shop)
    assert places(steps) == [("shop/cli.py:build_parser",), ("shop/report.py:report_lines",)]


def test_an_option_is_used_where_the_arguments_are_read(tmp_path: Path) -> None:
    text = (
        "import argparse\n\n\n"
        "def greeting(name):\n    return f'Hi {name}'\n\n\n"
        "def parser():\n    found = argparse.ArgumentParser()\n"
        "    found.add_argument('name')\n    return found\n\n\n"
        "def main():\n    arguments = parser().parse_args()\n    print(greeting(arguments.name))\n"
    )
    index = RepositoryIndex(make_repository(tmp_path, {"greet.py": text}), deadline=60)
    prompt = "Add a flag --upper to greet.py that prints the greeting in upper case"
    assert places(machine_plan(prompt, index)) == [("greet.py:parser",), ("greet.py:main",)]
    prompt = "Add a flag --upper to greet.py, for `greeting`"
    assert places(machine_plan(prompt, index)) == [("greet.py:parser",), ("greet.py:greeting",)]


def test_options_in_javascript_and_go(script: RepositoryIndex, go: RepositoryIndex) -> None:
    steps = machine_plan("Support a --verbose flag", script)
    assert places(steps) == [("bin/run.js:declareOptions",), ("bin/run.js:run",)]
    assert "(commander)" in steps[0].text
    steps = machine_plan("Add a -verbose flag to the command line", go)
    assert places(steps)[0] == ("main.go:currency",)
    assert "(flag)" in steps[0].text
    assert places(steps)[1] == ("main.go:main",)


CLICK = """\
import click


@click.command()
@click.option("--a")
def run_it(a):
    print(a)
"""
CLAP = """\
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[arg(long)]
    name: String,
}

fn main() {
    let cli = Cli::parse();
    println!("{}", cli.name);
}
"""
GETOPT = """\
#include <getopt.h>

int parse_options(int n, char **v)
{
    return getopt(n, v, "a");
}

int main(int n, char **v)
{
    return parse_options(n, v);
}
"""
PICOCLI = """\
import picocli.CommandLine.Option;

class App {
    @Option(names = "-a")
    int a;

    void run() {
    }
}
"""


@pytest.mark.parametrize(
    ("path", "text", "declared", "used"),
    [
        ("c.py", CLICK, "run_it", []),
        ("m.rs", CLAP, "Cli", ["main"]),
        ("m.c", GETOPT, "parse_options", ["main"]),
        ("App.java", PICOCLI, "App.a", []),
    ],
)
def test_options_of_other_libraries(
    tmp_path: Path, path: str, text: str, declared: str, used: list[str]
) -> None:
    index = RepositoryIndex(make_repository(tmp_path, {path: text}), deadline=60)
    steps = machine_plan("add a flag --b", index)
    assert places(steps) == [(f"{path}:{name}",) for name in (declared, *used)]


def test_an_option_where_there_is_no_command_line(tmp_path: Path) -> None:
    index = RepositoryIndex(make_repository(tmp_path, {"a.py": "def f(): pass\n"}), deadline=60)
    assert machine_plan("add a flag --b", index) == (PlannedStep("add a flag --b"),)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("add a command-line flag for it", True),
        ("Add --dry-run", True),
        ("Introduce a `--json` switch", True),
        ("add an optional parameter to f", False),
        ("add a red-black tree", False),
        ("describe the flag --x", False),
    ],
)
def test_what_is_about_an_option(prompt: str, expected: bool) -> None:
    assert is_about_option(prompt) is expected


# All else


@pytest.mark.parametrize(
    "prompt",
    [
        "What does order_total do?",
        "Explain order_total",
        "Why is order_total slow, and how would one change it?",
        "How do I add a flag to order_total?",
        "Please tell me where order_total is used.",
        "Does order_total round?",
        "Summarise order_total",
        "could you explain order_total?",
    ],
)
def test_a_question_edits_nothing(shop: RepositoryIndex, prompt: str) -> None:
    assert is_question(prompt)
    (step,) = machine_plan(prompt, shop)
    assert step == PlannedStep(prompt, (), ("shop/orders.py:order_total",), edits=False)


@pytest.mark.parametrize(
    "prompt",
    [
        "Make order_total round down",
        "Can you fix order_total?",
        "order_total should return a string",
        "Why is order_total slow? Fix it.",
        "Please, could you make order_total faster?",
        "Find the bug in order_total and fix it",
        "I want you to refactor order_total",
        "- fix order_total",
        "Explain nothing. Let order_total raise ValueError.",
        "order_total",
    ],
)
def test_a_request_is_one_step_with_what_it_names(shop: RepositoryIndex, prompt: str) -> None:
    assert not is_question(prompt)
    assert machine_plan(prompt, shop) == (
        PlannedStep(prompt, ("shop/orders.py",), ("shop/orders.py:order_total",)),
    )


def test_tests_and_prose_beside_code_are_read_and_not_changed(shop: RepositoryIndex) -> None:
    (step,) = machine_plan("Change `rounded` as README.md says; see tests/test_orders.py", shop)
    assert step.symbols == ("shop/rates.py:rounded",)
    assert step.reads == ("README.md", "tests/test_orders.py")
    (step,) = machine_plan("Add a section on rates to README.md", shop)
    assert step.files == ("README.md",)


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                "rename ",
                "order_total",
                " to ",
                "new_name",
                "add ",
                "--flag",
                "failing test",
                "?",
                "shop/cli.py",
                "`",
                "\n",
            ]
        )
        | st.text(max_size=8),
        max_size=12,
    ).map("".join),
    st.lists(
        st.builds(
            FailurePlace,
            st.sampled_from([*PYTHON, "gone.py"]),
            st.integers(-1, 40),
            st.none() | st.just("f"),
            st.sampled_from(["", "bad"]),
        ),
        max_size=4,
    ),
)
def test_there_is_always_a_plan(shop: RepositoryIndex, prompt: str, failures: list[FailurePlace]) -> None:
    steps = machine_plan(prompt, shop, failures)
    assert steps
    for step in steps:
        assert set(step.files) <= {*shop.paths, *new_files(prompt, shop)}
        assert all(shop.definitions_of(name) for name in step.symbols)


# A model's plan


def test_a_plan_of_a_model_is_looked_up(shop: RepositoryIndex) -> None:
    document = {
        "steps": [
            {"do": "1. Change the sum", "files": ["orders.py", "gone.py"], "symbols": ["total", "gone_too"]},
            {"do": "Read the report", "files": ["shop/report.py"], "symbols": []},
            {"do": "change the sum!", "files": [], "symbols": ["rounded()"]},
            {"do": "…", "files": ["…"], "symbols": ["…"]},
            {"do": "", "files": ["shop/cli.py"], "symbols": []},
            {"do": "Find main and change it", "symbols": "shop/cli.py:main, build_parser"},
        ]
    }
    expected = (
        PlannedStep(
            "Change the sum", ("shop/orders.py",), ("shop/orders.py:Order.total", "shop/rates.py:rounded")
        ),
        PlannedStep("Read the report", ("shop/report.py",), (), edits=False),
        PlannedStep("Find main and change it", (), ("shop/cli.py:main", "shop/cli.py:build_parser")),
    )
    assert parse_plan(document, shop) == expected
    assert parse_plan(json.dumps(document), shop) == expected
    assert parse_plan(document["steps"], shop) == expected


@pytest.mark.parametrize(
    "document",
    [
        None,
        "",
        "no plan",
        "[[[",
        "[" * 100_000,
        3,
        {},
        [],
        {"steps": []},
        {"steps": "a"},
        {"steps": [{"do": "…"}, 3, None]},
    ],
)
def test_what_is_no_plan(shop: RepositoryIndex, document: object) -> None:
    assert parse_plan(document, shop) is None


def test_a_plan_is_bounded(shop: RepositoryIndex) -> None:
    steps = [{"do": f"step {'x' * number} " + "word " * 100, "files": ["a"] * 500} for number in range(50)]
    found = parse_plan({"steps": steps}, shop)
    assert found is not None
    assert len(found) == 12
    assert all(len(step.text) <= 200 for step in found)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from(["orders.py", "total", "…", "Fix it now"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["steps", "do", "files", "symbols"]), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_document_is_a_plan_or_none(shop: RepositoryIndex, document: object) -> None:
    found = parse_plan(document, shop)
    assert found is None or 1 <= len(found) <= 12


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["a", "+", "a/", "a.", "`", '"', 'File "', "a:", "a.py::", "rename ", "x_y ", "\n"]
)
def test_hostile_prompts_take_no_time(shop: RepositoryIndex, piece: str) -> None:
    """Patterns for paths took minutes on a long row of one sign, such as pasted data has."""
    assert machine_plan(piece * 20_000, shop)
