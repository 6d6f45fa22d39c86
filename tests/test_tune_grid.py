"""Grids, what a table of losses says, and the journal of finished points."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pace_local.errors import ConfigError, FileError, StorageError
from pace_local.policies import POLICIES
from pace_local.policies.base import check_range
from pace_local.policies.streaming import StreamingPolicy
from pace_local.policies.words import parse_values
from pace_local.tuning import (
    Axis,
    Flatness,
    Grid,
    Journal,
    Measurement,
    Sensitivity,
    check_parameters,
    default_grid,
    parse_axes,
)
from pace_local.tuning.sensitivity import standard_error


def point(*answers: Any, **fields: Any) -> Measurement:
    """A measurement with these losses of tokens, answer by answer."""
    counts = dict.fromkeys(("likeliest", "evictions", "evicted", "renumberings"), 0)
    figures = {**counts, "seconds": 1.0, "turns": 1, "run": "r"}
    answers = tuple(tuple(-float(loss) for loss in answer) for answer in answers)
    return Measurement(log_probabilities=answers, **{**figures, **fields})


# Grids


def test_axes_from_text() -> None:
    assert parse_axes("window=1024,512,512; pool_size = 128 ;decay=1e-1,.5;on=true,False,none;mode=b,a") == [
        Axis("window", (512, 1024)),
        Axis("pool_size", (128,)),
        Axis("decay", (0.1, 0.5)),
        Axis("on", (True, False, None)),
        Axis("mode", ("b", "a")),
    ]
    assert [type(value) for value in parse_values("1,1.0,-3", "x")] == [int, float, int]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("window", "grid 'window' is not NAME=VALUE,VALUE"),
        ("=1", "grid '=1' is not NAME=VALUE"),
        ("a=1;b", "grid 'b' is not NAME=VALUE"),
        ("a=", "a value of 'a' is empty"),
        ("a=1,,2", "a value of 'a' is empty"),
        ("a=1;a=2", "the grid names 'a' twice"),
        ("a=nan", "'nan' is no value for 'a'"),
        ("a=1,-inf", "'-inf' is no value for 'a'"),
        (" ; ", "the grid is empty"),
    ],
)
def test_text_that_is_no_grid(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_axes(text)


def test_a_product_and_its_neighbours() -> None:
    grid = Grid.product([Axis("a", (1, 2, 3)), Axis("b", ("x", "y"))])
    assert [tuple(grid.values(n).values()) for n in range(len(grid))] == [
        (1, "x"), (1, "y"), (2, "x"), (2, "y"), (3, "x"), (3, "y"),
    ]  # fmt: skip
    assert grid.values(3) == {"a": 2, "b": "y"}
    assert [grid.neighbours(n) for n in range(6)] == [[1, 2], [0, 3], [0, 3, 4], [1, 2, 5], [2, 5], [3, 4]]


def test_a_star_and_its_neighbours() -> None:
    grid = Grid.star([Axis("a", (1, 2, 3)), Axis("b", (4, 5))], (1, 0))
    assert [grid.values(n) for n in range(len(grid))] == [
        {"a": 2, "b": 4}, {"a": 1, "b": 4}, {"a": 3, "b": 4}, {"a": 2, "b": 5},
    ]  # fmt: skip
    assert [grid.neighbours(n) for n in range(4)] == [[1, 2, 3], [0], [0], [0]]


def test_the_edges_of_a_grid() -> None:
    axes = [Axis("a", (1, 2, 3)), Axis("b", (4,)), Axis("mode", ("x", "y")), Axis("on", (False, True))]
    grid = Grid.product([*axes, Axis("size", (5, None, 15))])
    found = {tuple(grid.values(n).values()): grid.edges(n) for n in range(len(grid))}
    assert found[1, 4, "x", False, 5] == found[3, 4, "y", True, 15] == ["a", "size"]
    assert found[2, 4, "x", True, 5] == ["size"]
    assert found[3, 4, "x", True, None] == ["a"]
    assert found[2, 4, "y", True, None] == []


def test_a_grid_without_axes_is_one_point() -> None:
    grid = Grid.product([])
    assert (len(grid), grid.values(0), grid.neighbours(0)) == (1, {}, [])


@dataclass
class Knobs(StreamingPolicy):
    """A policy with one parameter of each kind."""

    name = "knobs"
    count: int = 5
    share: float = 0.8
    off: float = 0.0
    size: int | None = None
    mode: str = "a"
    flag: bool = True
    layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_range("share", self.share, 0.0, 1.0)
        check_range("sinks", self.sinks, 4, 4)


@dataclass
class Many(Knobs):
    """Too many for all combinations."""

    name = "many"
    second: int = 8


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for policy in (Knobs, Many):
        monkeypatch.setitem(POLICIES, policy.name, policy)


def test_the_default_grid_has_half_same_and_double_where_the_policy_takes_them() -> None:
    grid = default_grid("knobs", {}, 100, [])
    assert grid.axes == (
        Axis("count", (2, 5, 10)),
        Axis("share", (0.4, 0.8)),  # 1.6 is refused
        Axis("size", (25, None, 75)),
    )
    assert len(grid) == 3 * 2 * 3


def test_the_default_grid_is_around_the_options_that_were_given() -> None:
    grid = default_grid("knobs", {"count": 40, "share": 0.3, "size": 10, "off": 2.0}, 100, [])
    assert grid.axes == (
        Axis("count", (20, 40, 80)),
        Axis("share", (0.15, 0.3, 0.6)),
        Axis("off", (1.0, 2.0, 4.0)),
        Axis("size", (5, 10, 20)),
    )
    assert grid.values(0) == {"count": 40, "share": 0.3, "off": 2.0, "size": 10}, "a star: 81 are too many"
    assert len(grid) == 1 + 4 * 2


def test_further_axes_of_a_default_grid() -> None:
    budget = Axis("budget", (64, 128))
    assert len(default_grid("knobs", {"share": 0.0, "count": 0}, 100, [budget])) == 3 * 2
    grid = default_grid("many", {}, 100, [budget])
    assert grid.values(0) == {"count": 5, "share": 0.8, "size": None, "second": 8, "budget": 64}
    assert len(grid) == 1 + 2 + 1 + 2 + 2 + 1
    assert default_grid("none", {}, 100, [budget]) == Grid.product([budget])


def test_unknown_parameters_are_refused() -> None:
    check_parameters("knobs", [Axis("mode", ("anything",))])
    with pytest.raises(ConfigError, match=r"policy 'knobs' has no parameter 'windw'; it has .*count, share"):
        check_parameters("knobs", [Axis("count", (1,)), Axis("windw", (1,))])
    with pytest.raises(ConfigError, match="policy 'none' has no parameter 'a'; it has none"):
        check_parameters("none", [Axis("a", (1,))])
    with pytest.raises(ConfigError, match="'kobs' is not one of"):
        default_grid("kobs", {}, 100, [])


# What the losses say


def test_figures_of_a_measurement() -> None:
    measured = point([1, 2], [], [6], likeliest=2, seconds=8.0, turns=4)
    assert (measured.tokens, measured.loss, measured.agreement) == (3, 3.0, 2 / 3)
    assert measured.seconds_per_turn == 2.0


def test_a_plateau_is_recommended_and_not_a_peak() -> None:
    grid = Grid.product([Axis("a", (1, 2, 3, 4, 5))])
    losses = [5.0, 1.0, 5.0, 2.0, 2.0]
    sensitivity = Sensitivity.of(grid, {n: point([loss, loss]) for n, loss in enumerate(losses)})
    assert sensitivity.neighbourhood == pytest.approx({0: 3.0, 1: 11 / 3, 2: 8 / 3, 3: 3.0, 4: 2.0})
    assert sensitivity.recommended == 4


def test_refused_points_are_no_neighbours() -> None:
    grid = Grid.product([Axis("a", (1, 2, 3))])
    sensitivity = Sensitivity.of(grid, {0: point([1.0]), 2: point([3.0])})
    assert sensitivity.neighbourhood == {0: 1.0, 2: 3.0}
    assert sensitivity.recommended == 0
    assert Sensitivity.of(grid, {}).recommended is None


def test_ties_go_to_the_lower_loss_and_then_to_the_first() -> None:
    grid = Grid.product([Axis("a", (1, 2))])
    assert Sensitivity.of(grid, {0: point([3.0]), 1: point([1.0])}).recommended == 1
    assert Sensitivity.of(grid, {0: point([2.0]), 1: point([2.0])}).recommended == 0


def test_the_standard_error_of_single_tokens() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=40), rng.normal(size=40)
    expected = np.std(one - other, ddof=1) / math.sqrt(40)
    assert standard_error(point(one), point(other)) == pytest.approx(expected)
    assert standard_error(point(one, []), point(other, [])) == pytest.approx(expected)


def test_the_standard_error_of_answers_that_lean_to_one_side() -> None:
    """Four answers of 100 tokens that all differ by the same: there are four samples, not 400."""
    shifts = [0.1, -0.1, 0.3, 0.2]
    found = standard_error(point(*([[2.0] * 100] * 4)), point(*([2.0 - shift] * 100 for shift in shifts)))
    assert found == pytest.approx(np.std(shifts, ddof=1) / math.sqrt(4))


def test_equal_points_are_flat() -> None:
    found = Flatness.of([point([1.0, 2.0]), point([1.0, 2.0]), point([1.0, 2.0])])
    assert found is not None
    assert (found.spread, found.threshold, found.is_flat) == (0.0, 0.0, True)


@pytest.mark.parametrize("points", [[], [point([1.0, 2.0])], [point([1.0]), point([2.0])]])
def test_too_little_to_tell(points: list[Measurement]) -> None:
    assert Flatness.of(points) is None


def test_chance_is_rarely_taken_for_a_difference_and_differences_are_found() -> None:
    rng = np.random.default_rng(7)

    def is_flat(gain: float) -> bool:
        tokens = rng.gamma(2.0, size=(6, 50))
        points = [tokens + rng.normal(scale=0.3, size=tokens.shape) for _ in range(9)]
        points[4] -= gain
        found = Flatness.of([point(*answers) for answers in points])
        assert found is not None
        return found.is_flat

    assert np.mean([is_flat(0.0) for _ in range(200)]) >= 0.9
    assert np.mean([is_flat(0.2) for _ in range(50)]) <= 0.1


# The journal


def test_points_survive(tmp_path: Path) -> None:
    first, second = point([1.25, 2.5], [], likeliest=1, run="one"), point([3.0], seconds=0.123456789)
    with Journal(tmp_path / "new" / "folder") as journal:
        assert (len(journal), journal.get("a")) == (0, None)
        journal.add("a", {"budget": 64}, first)
        lines = (tmp_path / "new" / "folder" / "points.jsonl").read_text().splitlines()
        assert [json.loads(line)["settings"] for line in lines] == [{"budget": 64}]
        journal.add("b", {}, second)
    with Journal(tmp_path / "new" / "folder") as journal:
        assert (len(journal), journal.torn) == (2, False)
        assert (journal.get("a"), journal.get("b")) == (first, second)


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    with Journal(tmp_path) as journal:
        journal.add("a", {}, point([1.0]))
        journal.add("b", {}, point([2.0]))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    with Journal(tmp_path) as journal:
        assert (len(journal), journal.torn) == (1, True)
        journal.add("b", {}, point([2.0]))
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "line", [b"hello", b"5", b"{}", b'{"key": "a", "point": {}}', b'{"key": "a", "point": {"size": 5}}']
)
def test_another_kind_of_file_is_left_alone(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_bytes(line + b"\nmore")
    with pytest.raises(
        FileError, match="line 1 is no finished point; delete the file or give another folder"
    ):
        Journal(tmp_path).__enter__()
    assert path.read_bytes() == line + b"\nmore"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(StorageError, match="being written by another process"):
        Journal(tmp_path).__enter__()
    with Journal(tmp_path):
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*points.jsonl"):
        Journal(tmp_path / "file").__enter__()


def test_without_a_folder_points_are_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Journal(None) as journal:
        journal.add("a", {}, point([1.0]))
        assert journal.get("a") == point([1.0])
    assert list(tmp_path.iterdir()) == []
