"""Counts with their intervals against known values, and where a probe's chain broke."""

from __future__ import annotations

import json
import math

import pytest

from pace_local.eval.measures import (
    Break,
    ProbeMeasure,
    ReadMeasure,
    Share,
    paired_difference,
    residency,
    where_it_broke,
    wilson,
)


def read(resident: int = 100, farthest: int | None = 500, name: str = "spec:a") -> ReadMeasure:
    return ReadMeasure(name, 100, resident, None if farthest is None else 20, farthest, "kept", None)


def probe(**changes: object) -> ProbeMeasure:
    fields: dict[str, object] = {
        "run": "r",
        "cell": "alike/pace/-/2",
        "seed": 1,
        "number": 1,
        "reads": (read(), read(name="spec:b", farthest=900)),
        "checks": ((True, True), (True, False)),
        "facts_recalled": 5,
        "facts_total": 6,
        "missing_facts": ("41",),
        "failures": ("check 4: no",),
        "broke": "facts not reused",
        "finish": "stop",
        "prompt_tokens": 80,
        "generated_tokens": 120,
        "seconds": 2.5,
        "focus_seconds": 0.5,
        "residents": 300,
        "next_position": 1000,
        "session_tokens": 5000,
        "kv_bytes": 10,
        "host_bytes": 20,
        "device_bytes": 0,
        "answer": "é\n\u2028 code",
    }
    return ProbeMeasure(**{**fields, **changes})  # type: ignore[arg-type]


# Values of the score interval without continuity correction as textbooks give them: Newcombe (1998), table I,
# has 81 of 263 and 15 of 148 and 0 of 20 and 1 of 29.
@pytest.mark.parametrize(
    ("passed", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons(passed: int, total: int, low: float, high: float) -> None:
    assert wilson(passed, total) == pytest.approx((low, high), abs=5e-5)


def test_its_ends_solve_the_equation_that_defines_it() -> None:
    z = 1.959963984540054
    for passed, total in ((1, 3), (20, 40), (39, 40), (24, 24), (0, 7)):
        for end in wilson(passed, total):
            if 0 < end < 1:
                spread = z * math.sqrt(end * (1 - end) / total)
                assert abs(passed / total - end) == pytest.approx(spread, abs=1e-9)


def test_all_and_none_reach_the_end_and_mirror_each_other() -> None:
    for total in (1, 7, 40):
        assert wilson(0, total)[0] == 0
        assert wilson(total, total)[1] == 1
        for passed in range(total + 1):
            low, high = wilson(passed, total)
            assert wilson(total - passed, total) == pytest.approx((1 - high, 1 - low))
    assert wilson(0, 0) == (0, 1)


def test_shares_add_up() -> None:
    both = Share(3, 5) + Share(5, 5)
    assert (both, both.rate, both.interval) == (Share(8, 10), 0.8, wilson(8, 10))
    assert Share(0, 0).rate == 0


def test_a_probe_counts_checks_tasks_and_facts_apart() -> None:
    measured = probe()
    assert measured.check_share == Share(3, 4)
    assert measured.task_share == Share(1, 2)
    assert measured.fact_share == Share(5, 6)
    assert (measured.residency, measured.farthest) == (1.0, 900)
    assert probe(reads=(read(), read(resident=50))).residency == 0.75
    assert probe(reads=(read(resident=0, farthest=None),)).farthest is None


def test_a_probe_survives_a_file() -> None:
    measured = probe()
    assert ProbeMeasure.from_document(json.loads(json.dumps(measured.as_document()))) == measured


def test_residency_of_nothing() -> None:
    assert residency(()) == 1


@pytest.mark.parametrize(
    ("reads", "checks", "facts", "trained", "broke"),
    [
        ((read(99), read()), Share(5, 5), Share(0, 3), 100, None),  # what works is not broken
        ((read(99), read()), Share(4, 5), Share(3, 3), 0, "not resident"),
        ((read(farthest=101),), Share(4, 5), Share(0, 3), 100, "too far"),
        ((read(farthest=100),), Share(4, 5), Share(2, 3), 100, "facts not reused"),
        ((read(farthest=10**6),), Share(4, 5), Share(2, 3), 0, "facts not reused"),
        ((read(),), Share(0, 5), Share(3, 3), 32768, "code wrong"),
    ],
)
def test_where_it_broke(
    reads: tuple[ReadMeasure, ...], checks: Share, facts: Share, trained: int, broke: Break | None
) -> None:
    assert where_it_broke(reads, checks, facts, trained) == broke


def test_paired_differences() -> None:
    """Against the mean, and against the normal approximation, which is close with many pairs."""
    ones, others = [0.2 * (i % 6) for i in range(120)], [0.25 * (i % 5) for i in range(120)]
    found = paired_difference(ones, others)
    each = [one - other for one, other in zip(ones, others, strict=True)]
    mean = sum(each) / 120
    error = math.sqrt(sum((value - mean) ** 2 for value in each) / 119 / 120)
    assert (found.mean, found.pairs) == (pytest.approx(mean), 120)
    assert (found.low, found.high) == pytest.approx(
        (mean - 1.96 * error, mean + 1.96 * error), abs=0.1 * error
    )
    assert paired_difference(ones, others) == found
    back = paired_difference(others, ones)
    assert (back.mean, back.low, back.high) == pytest.approx((-found.mean, -found.high, -found.low))


def test_pairs_that_all_differ_alike_have_no_width() -> None:
    found = paired_difference([0.75, 1.0, 0.5], [0.25, 0.5, 0.0])
    assert (found.mean, found.low, found.high, found.pairs) == (0.5, 0.5, 0.5, 3)
