from __future__ import annotations

from pathlib import Path

import pytest
from agent_repositories import GO, PYTHON, SCRIPT, line_count, make_repository
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.view import repository_view


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> RepositoryIndex:
    return RepositoryIndex(make_repository(tmp_path_factory.mktemp("shop"), PYTHON), deadline=60)


def test_files_and_what_they_define(shop: RepositoryIndex) -> None:
    view = repository_view(shop, 10_000, line_count).splitlines()
    assert "shop/" in view
    assert (
        "  orders.py: Order, order_total(), describe(), SHIPPING_COST, Order.total(), Order.is_empty()"
        in view
    )
    assert "  rates.py: rounded(), unrelated_rate(), VAT_RATE, OTHER_RATE" in view
    assert "  README.md" in view
    assert "  test_orders.py" in view
    assert not any("generated" in line or "SECRET" in line for line in view)


def test_what_matters_most_is_there_with_little_room(shop: RepositoryIndex) -> None:
    view = repository_view(shop, 14, line_count)
    assert "cli.py" in view  # where the program begins
    assert "test_orders" not in view
    assert "more files" in view


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 120), st.sampled_from([line_count, len]))
def test_the_budget_is_never_exceeded(shop: RepositoryIndex, budget: int, count: object) -> None:
    assert callable(count)
    view = repository_view(shop, budget, count)
    assert count(view) <= budget


def test_more_room_shows_no_less(shop: RepositoryIndex) -> None:
    sizes = [len(repository_view(shop, budget, len)) for budget in range(0, 800, 40)]
    assert sizes[0] == 0
    assert sizes == sorted(sizes)
    assert sizes[-1] > 300


def test_typescript_and_go(tmp_path: Path) -> None:
    script = RepositoryIndex(make_repository(tmp_path / "script", SCRIPT), deadline=60)
    assert "  cart.ts: CartItem, Cart, emptyCart(), Cart.grandTotal()" in repository_view(
        script, 500, line_count
    )
    go = RepositoryIndex(make_repository(tmp_path / "go", GO), deadline=60)
    assert "  line.go: Line, roundedSum(), taxPercent, Line.PriceWithTax()" in repository_view(
        go, 500, line_count
    )


def test_an_empty_repository(tmp_path: Path) -> None:
    assert repository_view(RepositoryIndex(tmp_path), 100, line_count) == ""


def test_very_many_files_and_odd_names(tmp_path: Path) -> None:
    files = {f"d{number % 7}/f{number}.py": f"def name_{number}(): pass\n" for number in range(400)}
    index = RepositoryIndex(make_repository(tmp_path, files | {"odd\nname.py": "x = 1\n"}), deadline=60)
    view = repository_view(index, 300, line_count)
    assert line_count(view) <= 300
    assert "more files" in view
    assert "odd\\nname.py" in repository_view(index, 100_000, line_count)
