"""What checks of text answers use: values of names, orders and days, in the forms that models write."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pace_local.eval.workloads import plan_checks, text_checks
from pace_local.eval.workloads.documents import plan_prelude, value_prelude

NAMES = ("rate", "limit", "rate at Hill")


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ("rate: 1,318", [1318]),
        ("rate: 1 318 000".replace(" ", "\u202f"), [1318000]),
        ("rate: 1_318", [1318]),
        ("rate: $53.", [53]),
        ("rate: 53.0", [53]),
        ("rate: 53.5", [53.5]),
        ("rate: −53", [-53]),
        ("rate: 53 cents", [53]),
        ("rate: `53` (in cents)", [53]),
        ("rate, in version 2, is 53", [53]),
        ("rate → 53", [53]),
        ("**Rate**\n\n53", [53]),
        ("the rate of 53", [53]),
        ("rate: 20 + 33 = 53", [53]),
        ("rate: 53 (was 20)", [53]),
        ("rate: ~~20~~ 53", [53]),
        ("rate: 53, because 20 < 53", [53]),
        ("rate: 53 or 54", [53, 54]),
        ("rate: 53\nrate: 54", [53, 54]),
        ("rates: 53", []),
        ("rate: KX-53", []),
        ("rate: 53px", []),
        ("rate: 14:20", []),
        ("limit: 53", []),
        ("rate at Hill: 53", []),
        ("rate: 53. A limit of 20.", [53]),
        ("rate = 53, limit = 20", [53]),
        ("limit and rate are 20 and 53", [53]),
        ("| limit | rate |\n|---|---|\n| 20 | 53 |", [53]),
        ("| rate at Hill | rate |\n|:-:|:-:|\n| 20 | 53 |\n\nlimit: 7", [53]),
        ('{"limit": 20, "rate": 53}', [53]),
        ("", []),
    ],
)
def test_the_numbers_that_an_answer_gives_to_a_name(answer: str, values: list[float]) -> None:
    assert text_checks.values_of(answer, "rate", NAMES) == values


@pytest.mark.parametrize(
    ("answer", "minutes", "stock"),
    [
        ("IN-7: 210 minutes\nHill: stock 35", [210], [35]),
        ("in-7: 210 Minutes, cause pump", [210], []),
        ("IN-7: minutes 210 and cause is pump.", [210], []),
        ("- **IN-7**: 210 minutes; the cause: pump", [210], []),
        ("IN-7 has 210 minutes", [210], []),
        ("IN-8: 210 minutes", [], []),
        ("IN-71: 210 minutes", [], []),
        ("IN-7: 210", [], []),
        ("IN-7: 210 minutes at Hill", [], []),
        ("IN-7: stock 35", [], []),
        ("Hill: 35 stock, 210 minutes", [], []),
        ("minutes of IN-7: 210\nIN-7: 211 minutes", [210, 211], []),
    ],
)
def test_values_behind_an_entry_belong_to_its_fields(
    answer: str, minutes: list[float], stock: list[float]
) -> None:
    names = ("minutes of IN-7", "cause of IN-7", "cause of IN-8", "stock at Hill")
    assert text_checks.values_of(answer, names[0], names) == minutes
    assert text_checks.values_of(answer, names[3], names) == stock


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("site: Hill", True),
        ("Site: **hill**", True),
        ("site: Hill (Dale has 20)", True),
        ("site: Hill, not Dale", True),
        ("site: Hill, because 20 is less than 30 at Dale", True),
        ("site: Dale", False),
        ("site: Hill or Dale", False),
        ("site: not Hill", False),
        ("site: Hillside", False),
        ("Hill", False),
        ("site: Hill\nsite: Dale", False),
    ],
)
def test_the_word_that_an_answer_gives_to_a_name(answer: str, right: bool) -> None:
    if right:
        text_checks.check_word(answer, "site", "Hill", ("Dale",), ("site",))
    else:
        with pytest.raises(AssertionError, match="site is"):
            text_checks.check_word(answer, "site", "Hill", ("Dale",), ("site",))


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ("saw\nglue\nsand", ["saw", "glue", "sand"]),
        ("1) Saw\n2) Glue\n3) Sand", ["saw", "glue", "sand"]),
        ("saw, glue, sand", ["saw", "glue", "sand"]),
        ("First saw, then glue and last sand.", ["saw", "glue", "sand"]),
        ("saw - the wood\nglue - the parts", ["saw", "glue"]),
        ("saw\nglue\nglue", ["saw", "glue", "glue"]),
        ("Sand comes after glue.\n\n- saw\n- glue\n- sand", ["saw", "glue", "sand"]),
        ("sawing\ngluing", []),
        ("", []),
    ],
)
def test_the_order_of_an_answer(answer: str, order: list[str]) -> None:
    assert plan_checks.order_of(answer, ("glue", "sand", "saw")) == order


@pytest.mark.parametrize(
    ("answer", "days"),
    [
        ("saw: 4\nglue: 6", {"saw": 4, "glue": 6}),
        ("1. saw: 4\n2. glue: 6", {"saw": 4, "glue": 6}),
        ("saw: days 4 – 5", {"saw": 4}),
        ("glue (3 days): from day 6", {"glue": 6}),
        ("saw: after glue, 4", {}),
        ("saw: soon", {}),
        ("saw: 4, glue: 6", {"saw": 4, "glue": 6}),
        ("seesaw: 4", {}),
        ("see-saw: 4", {}),
    ],
)
def test_the_days_of_an_answer(answer: str, days: dict[str, int]) -> None:
    assert plan_checks.days_of(answer, ("glue", "saw")) == days


def test_two_days_for_a_task_are_an_error() -> None:
    with pytest.raises(AssertionError, match="two days for saw"):
        plan_checks.days_of("saw: 4\nsaw: 5", ("saw",))


@pytest.mark.parametrize("prelude", [value_prelude(), plan_prelude()], ids=["values", "plans"])
def test_a_prelude_needs_the_standard_library_only(prelude: str) -> None:
    loaded = "import sys; print(sorted(name for name in sys.modules if name.startswith('pace')))"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{prelude}\n{loaded}"], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
