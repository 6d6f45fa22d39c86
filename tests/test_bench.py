"""Benchmarks: what they time, and each of them once on a tiny model. No speed is judged here."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pace_local import Session, _native
from pace_local.bench.decode import DecodeSizes, measure_decode
from pace_local.bench.filler import Filler
from pace_local.bench.flat import Cycle, FlatSizes, flat_ratios, measure_flat
from pace_local.bench.memory import measure_memory
from pace_local.bench.renumber import measure_renumber, move_all, move_all_fresh, turn_all
from pace_local.bench.report import Row
from pace_local.bench.rig import Rig
from pace_local.bench.shift import measure_shift, shift_all
from pace_local.bench.side import Bounds, Samples, Side
from pace_local.bench.subject import Subject, find_subject
from pace_local.bench.writer import Writer
from pace_local.config import SessionConfig
from pace_local.errors import ModelError, PaceError
from pace_local.models import GgufHeader, inspect_gguf, model_info
from pace_local.testing import TinySpec, tiny_model

SIZES = FlatSizes(
    late=1000, early=160, fact=32, piece=200, write=8, budget=128, headroom=64, position_cap=320
)


def quiet(_line: str) -> None:
    """Takes a line of progress."""


def subject_of(path: Path) -> Subject:
    return Subject("tiny", inspect_gguf(path), "0" * 64)


@pytest.fixture(scope="module")
def subject(tiny_models: Path) -> Subject:
    return subject_of(tiny_model(TinySpec(arch="qwen3"), tiny_models))


@pytest.fixture
def rig(load_tiny: Callable[[TinySpec], Any]) -> Any:
    config = SessionConfig(budget=128, headroom=64, threads=1)
    with Rig(load_tiny(TinySpec(arch="qwen3")), config, 100) as rig:
        yield rig


def by_name(rows: list[Row]) -> dict[str, Row]:
    named = {row.name: row for row in rows}
    assert len(named) == len(rows)
    for row in rows:
        assert math.isfinite(row.value) or "shift" in row.name
        assert row.min <= row.value <= row.max
    return named


# Subjects


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("qwen2.5-coder-0.5b", "05b"),
        ("qwen2.5-coder-1.5b", "15b"),
        ("qwen3-8b", "82b"),
        ("smollm2-135m", "01b"),
    ],
)
@pytest.mark.parametrize("doubled", [1.0, 1.3])
def test_rows_are_named_by_size_also_where_a_file_holds_a_matrix_twice(name, suffix, doubled):
    info = model_info(name)
    header = GgufHeader(
        Path("m.gguf"), 3, info.architecture, None, None, int(info.parameters * doubled), 1, info.kv
    )
    assert Subject("m", header, "").suffix == suffix


def test_a_shape_with_thin_weights_is_not_taken_for_the_real_model(tmp_path):
    found = find_subject("shape:qwen2.5-coder-0.5b", tmp_path, progress=lambda *_: None, say=quiet)
    assert found.header.kv == model_info("qwen2.5-coder-0.5b").kv
    assert found.suffix == "00b"
    assert found.path.parent == tmp_path
    assert re.fullmatch("[0-9a-f]{64}", found.sha256)


def test_an_unknown_model_is_an_error_of_ours(tmp_path):
    with pytest.raises(ModelError):
        find_subject("qwen2.5-coder-0.6b", tmp_path, progress=lambda *_: None, say=quiet)


def test_filler_is_the_same_each_time_and_as_long_as_asked(load_tiny):
    model = load_tiny(TinySpec())
    first, again = Filler(model), Filler(model)
    texts = [first.take(count) for count in (1, 300, 5000)]
    assert texts == [again.take(count) for count in (1, 300, 5000)]
    for text, count in zip(texts, (1, 300, 5000), strict=True):
        assert len(model.tokenize(text)) == count
    assert Filler(model, seed=1).take(300) != texts[1]


def test_an_endless_answer_gives_one_text_a_token(tiny_models):
    """A block must not end early because the model ends its turn, nor run on where a token has no text."""
    endings = subject_of(tiny_model(TinySpec(arch="qwen3", speech="ends"), tiny_models))
    with endings.loaded() as model:
        for endless in (False, True):
            with Session(model, budget=256, headroom=64, threads=1) as session:
                session.append("Say something.")
                model.endless = endless
                writer = Writer(session, None, max_tokens=129)
                if not endless:
                    with pytest.raises(PaceError, match="ended after"):
                        writer.write(129)
                    continue
                writer.write(1)
                before = session.session_length
                assert [writer.write(count)[0] for count in (64, 64)] == [64, 64]
                assert session.session_length - before == 128
                writer.finish()
                assert session.stats.generated_tokens == 129


# Operations that are timed


def test_moving_takes_every_resident_to_another_cell(rig):
    for move in (move_all, move_all_fresh):
        before = rig.cache.read_rows("value", 0)
        assert move(rig) > 0
        after = rig.cache.residents()
        assert np.array_equal(after["cell"], np.arange(100))
        assert np.array_equal(after["position"], np.arange(100))
        assert np.array_equal(rig.cache.read_rows("value", 0)[:-1], before[1:])
    assert rig.first_position == 0


def test_turning_leaves_residents_in_their_cells(rig):
    move_all(rig)
    keys = rig.cache.read_rows("key", 0)
    turn_all(rig)
    assert np.array_equal(rig.cache.residents()["position"], np.arange(1, 101))
    assert np.array_equal(rig.cache.residents()["cell"], np.arange(100))
    assert not np.array_equal(rig.cache.read_rows("key", 0), keys)
    turn_all(rig)
    assert np.array_equal(rig.cache.read_rows("key", 0), keys)


def test_upstreams_shift_really_happens(load_tiny):
    """``seq_add`` alone only notes the distance: unless the keys turn, nothing was timed."""
    config = SessionConfig(budget=192, headroom=64, threads=1)
    with Rig(load_tiny(TinySpec(arch="qwen3")), config, 255) as rig:
        keys = rig.cache.read_rows("key", 0)
        for first in (1, 0, 1):
            shift_all(rig)
            assert rig.first_position == first
            assert np.array_equal(rig.cache.residents()["position"], np.arange(first, first + 255))
        moved = rig.cache.read_rows("key", 0)
        assert np.max(np.abs(moved - keys), axis=1).min() > 0
        shift_all(rig)
        # Back again, within the rounding of four shifts in place.
        assert np.allclose(rig.cache.read_rows("key", 0), keys, atol=0.02)


def test_a_rig_is_filled_with_the_content_of_another(rig, load_tiny):
    config = SessionConfig(budget=64, headroom=64, threads=1)
    with Rig(load_tiny(TinySpec(arch="qwen3")), config, 90, rig.content()) as other:
        for kind in ("key", "value"):
            assert np.array_equal(other.cache.read_rows(kind, 1), rig.cache.read_rows(kind, 1)[:90])
        assert np.array_equal(other.cache.residents()["cell"], np.arange(90))
        assert other.next_position == 90


def test_a_decode_that_is_timed_leaves_no_trace(rig):
    before = rig.cache.residents()
    assert rig.neighbour() > 0
    assert np.array_equal(rig.cache.residents(), before)


# Bounds


@pytest.mark.parametrize(
    ("residents", "highest", "violations"), [(128, 319, 0), (129, 319, 1), (128, 320, 1)]
)
def test_bounds_count_what_goes_over_budget_or_cap(residents, highest, violations):
    rows = np.zeros(residents, dtype=_native.RESIDENT)
    rows["position"] = np.arange(highest - residents + 1, highest + 1)
    session: Any = SimpleNamespace(
        config=SessionConfig(budget=128, headroom=64, position_cap=320),
        engine=SimpleNamespace(cache=SimpleNamespace(residents=lambda: rows)),
    )
    bounds = Bounds()
    bounds.look(session)
    assert (bounds.looks, bounds.violations) == (1, violations)


def test_an_old_session_meets_a_young_one_at_its_position(subject):
    config = SIZES.config(threads=1)
    with subject.loaded() as model:
        side = Side.begin("old", model, config, SIZES.fact)
        with side.session as session:
            side.lengthen(1000, 100, quiet)
            assert session.session_length >= 1000
            for position in (250, 200, 201):
                side.meet(position)
                assert abs(session.next_position - position) <= 2
            assert session.stats.renumberings_in_session > 1
            # Each micro-batch of content was looked at, and the fact stayed.
            assert side.bounds.looks >= session.session_length // SIZES.headroom
            assert side.bounds.violations == 0
            assert session.stats.residency == 1


# Each benchmark, once


def test_decode_runs(subject):
    said: list[str] = []
    sizes = DecodeSizes(residents=128, block=8, budget=128, headroom=64)
    rows = by_name(measure_decode(subject, samples=2, threads=1, say=said.append, sizes=sizes))
    assert list(rows) == ["decode_ratio", "decode_tokens_per_second", "upstream_tokens_per_second"]
    assert (rows["decode_ratio"].limit, rows["decode_ratio"].better, rows["decode_ratio"].samples) == (
        0.97,
        "higher",
        2,
    )
    # 1 + 2 blocks of 8 a round: the same library, prompt and residents must write the same.
    same = [line for line in said if "are the same" in line]
    assert same == 2 * ["decode: the first 17 of 17 tokens are the same on both sides"]


def test_decode_makes_room_for_all_samples():
    sizes = DecodeSizes()
    assert sizes.config(9, None).budget == 2048
    assert sizes.config(99, None).budget >= 1024 + 100 * 32


def test_renumber_runs(subject):
    rows = by_name(measure_renumber(subject, samples=2, threads=1, say=quiet, residents=128, headroom=64))
    assert list(rows) == [
        "renumber_per_token_00b",
        "renumber_fresh_per_token_00b",
        "renumber_turned_per_token_00b",
        "renumber_ms_00b",
        "decode_ms_00b",
        "decode_after_renumber_00b",
    ]
    assert all(row.samples == 2 and row.limit is None and row.value > 0 for row in rows.values())


@pytest.mark.parametrize(
    ("name", "limit", "aim"), [("qwen2.5-coder-1.5b", 0.35, 0.15), ("smollm2-135m", None, None)]
)
def test_renumber_is_held_to_its_limit_on_the_coders_only(subject, name, limit, aim):
    info = model_info(name)
    header = dataclasses.replace(
        subject.header, architecture=info.architecture, kv=info.kv, parameters=info.parameters
    )
    named = Subject(name, header, "")
    rows = measure_renumber(named, samples=1, threads=1, say=quiet, residents=64, headroom=64)
    assert (rows[0].name, rows[0].limit, rows[0].aim) == (f"renumber_per_token_{named.suffix}", limit, aim)


def test_shift_runs(subject):
    rows = by_name(measure_shift(subject, samples=2, threads=1, say=quiet, residents=256, headroom=64))
    ratio = rows["renumber_vs_shift_qwen3_8b"]
    assert (ratio.limit, ratio.aim, ratio.better, ratio.samples) == (1.0, 0.5, "lower", 2)
    assert rows["renumber_ms_qwen3_8b"].value > 0


def test_flat_runs(subject):
    said: list[str] = []
    rows = by_name(measure_flat(subject, samples=2, threads=1, say=said.append, sizes=SIZES))
    assert rows["flat_ratio"].value == max(rows["flat_read_ratio"].value, rows["flat_write_ratio"].value)
    assert (rows["flat_ratio"].limit, rows["flat_ratio"].aim) == (1.05, 1.02)
    assert (rows["violations"].value, rows["violations"].limit) == (0, 0)
    cycle = SIZES.position_cap - SIZES.config(1).soft_budget
    assert rows["session_tokens"].value >= SIZES.late + cycle
    assert rows["renumberings"].value >= SIZES.late // SIZES.position_cap
    for when in ("early", "late"):
        assert 0 < rows[f"amortised_ms_{when}"].value < math.inf
    # From the first sample on, both are at the same position and so renumber at the same moments.
    positions = [re.findall(r"position (\d+)", line) for line in said if " of 2:" in line]
    assert len(positions) == 4
    for long, clock in positions:
        assert abs(int(long) - int(clock)) <= 2


def test_flat_compares_late_with_early_and_cancels_what_the_clock_shows():
    """A context whose pages lie badly is slower at every age: that must not count, and growth must."""
    early = Cycle(
        Samples([2.2, 2.2], [4.0, 4.0], [10.0, 10.0], [5, 5]),
        Samples([2.0, 2.0], [4.0, 4.0], [8.0, 8.0], [5, 5]),
    )
    # The machine is twice as slow now; reading costs 10 % more than it did, writing the same.
    late = Cycle(
        Samples([4.84, 4.84], [8.0, 8.0], [20.0, 20.0], [5, 5]),
        Samples([4.0, 4.0], [8.0, 8.0], [16.0, 16.0], [5, 5]),
    )
    rows = {row.name: row.value for row in flat_ratios(early, late)}
    assert rows == pytest.approx(
        {"flat_ratio": 1.1, "flat_read_ratio": 1.1, "flat_write_ratio": 1.0, "flat_amortised_ratio": 1.0}
    )


def test_memory_counts_what_is_allocated(subject):
    rows = by_name(measure_memory(subject, threads=1, say=quiet, budget=192, headroom=64))
    # 4 layers, 2 KV heads of 32, 2 bytes: 1 KiB of K and V a cell.
    assert rows["kv_bytes"].value == 2 * 256 * 4 * 2 * 32 * 2
    assert rows["reference_bytes"].value == rows["kv_bytes"].value // 2
    assert rows["total_bytes"].value == rows["kv_bytes"].value + rows["reference_bytes"].value
    assert rows["scratch_bytes"].value > 0
    assert (rows["total_bytes"].limit, rows["total_bytes"].aim) == (0.7e9, 0.6e9)
