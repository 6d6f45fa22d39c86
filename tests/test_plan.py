"""Plans, and their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pace_local import Plan, Step
from pace_local.errors import PlanError
from pace_local.plan import load_plan

GOOD = """
[[step]]
prompt = "Write orders.py"
reads = ["spec:orders", "notes"]

[[step]]
text = "check it"
"""


def test_a_step() -> None:
    step = Step("write it", reads=["a", "b"], prompt="Write it.")
    assert (step.text, step.reads, step.prompt) == ("write it", ("a", "b"), "Write it.")
    assert Step("x").reads == ()
    assert Step("x").prompt is None
    assert Step("x", iter(["a"])) == Step("x", ("a",))
    assert hash(Step("x", ["a"])) == hash(Step("x", ["a"]))


def test_one_name_is_a_name_and_not_its_letters() -> None:
    assert Step("x", reads="spec").reads == ("spec",)


def test_a_plan_is_its_steps_nearest_first() -> None:
    steps = [Step("a"), Step("b"), Step("c")]
    plan = Plan(iter(steps))
    assert (len(plan), list(plan), plan.steps) == (3, steps, tuple(steps))
    assert list(plan.advance()) == steps[1:]
    assert len(plan) == 3, "the plan itself stays as it is"
    assert Plan().advance() == Plan() == Plan([])


def test_next_use_is_that_of_the_nearest_step() -> None:
    plan = Plan([Step("a", ["x"]), Step("b"), Step("c", ["y", "x"]), Step("d", ["y", "z", "z"])])
    assert plan.next_use() == {"x": 0, "y": 2, "z": 3}
    assert plan.advance().next_use() == {"y": 1, "x": 1, "z": 2}
    assert Plan().next_use() == {}


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "plan.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_file(tmp_path: Path) -> None:
    plan = load_plan(written(tmp_path, GOOD))
    assert plan == Plan(
        [Step("Write orders.py", ["spec:orders", "notes"], prompt="Write orders.py"), Step("check it")]
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no steps; add a [[step]] table"),
        ("step = 3", "has no steps"),
        ("step = [3]", "step 1 of the plan"),
        ("[[step]]\nprompt = 'x'\n[[other]]", "unknown keys: other; use [[step]] tables"),
        ("[[step]]\nprompt = 'x'\nread = ['a']", "unknown keys: read; known are prompt, reads, text"),
        ("[[step]]\nreads = ['a']", "needs a prompt"),
        ("[[step]]\nprompt = 'x'\n[[step]]\ntext = ' '", "step 2 of the plan"),
        ("[[step]]\ntext = 'x'\nprompt = 3", "prompt must be a string, not 3"),
        ("[[step]]\ntext = 'x'\nprompt = ' '", "empty prompt"),
        ("[[step]]\nprompt = 'x'\nreads = 'a'", "reads must be a list of names, not 'a'"),
        ("[[step]]\nprompt = 'x'\nreads = [1]", "reads must be a list of names, not [1]"),
        ("[[step", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
    ],
)
def test_files_that_are_no_plan(tmp_path: Path, text: str | bytes, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PlanError) as raised:
        load_plan(path)
    assert says in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"cannot read the plan .*missing.toml: No such file"):
        load_plan(tmp_path / "missing.toml")
    with pytest.raises(PlanError, match="cannot read the plan"):
        load_plan(tmp_path)
