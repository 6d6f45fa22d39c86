from __future__ import annotations

from pathlib import Path

import pytest
from agent_runs import SHOP, make_repository

from pace_agent.editing.new_files import new_files
from pace_agent.planning.machine_plan import machine_plan
from pace_agent.planning.model_plan import parse_plan
from pace_agent.repository.index import RepositoryIndex


@pytest.fixture
def index(tmp_path: Path) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path, SHOP, git=False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write shop/money.py with euros(cents)", ("shop/money.py",)),
        ("Create a file notes.md and docs/more.md.", ("notes.md", "docs/more.md")),
        ("Add a test in tests/test_money.py", ("tests/test_money.py",)),
        ("Write shop/cart.py anew", ()),  # it is there
        ("Fix shop/gone.py", ()),  # nothing is said to be made
        ("Add what https://example.org/page.py says", ()),
        ("Write it, e.g. as os.path.join does", ()),
        ("Make ../other.py", ()),
        ("Add a.method(x) to the list", ()),
    ],
)
def test_files_that_a_text_wants_made(index: RepositoryIndex, text: str, expected: tuple[str, ...]) -> None:
    assert new_files(text, index) == expected


def test_plans_hold_them(index: RepositoryIndex) -> None:
    (step,) = machine_plan("Write a module shop/money.py with euros(cents)", index)
    assert step.files == ("shop/money.py",)
    steps = parse_plan(
        {
            "steps": [
                {"do": "Write the module", "files": ["shop/money.py"]},
                {"do": "Fix it", "files": ["no.py"]},
            ]
        },
        index,
    )
    assert steps is not None
    assert [step.files for step in steps] == [("shop/money.py",), ()]
