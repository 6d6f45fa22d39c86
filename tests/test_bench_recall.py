"""The benchmark ``recall``: that it measures what it says, on a tiny model. No speed is judged here."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pace_local.bench import cli, page_cache
from pace_local.bench.page_cache import drop_cached
from pace_local.bench.recall import Recaller, measure_recall
from pace_local.bench.report import Report, Row, median_row
from pace_local.bench.saving import EVICT_EVERY, Saver, measure_saving
from pace_local.bench.subject import Subject
from pace_local.config import SessionConfig
from pace_local.models import ProgressLine, inspect_gguf
from pace_local.recall import Store
from pace_local.testing import TinySpec, tiny_model

BUDGET, HEADROOM, TOKENS = 512, 64, 48


@pytest.fixture(scope="module")
def subject(tiny_models: Path) -> Subject:
    path = tiny_model(TinySpec(arch="qwen3", n_layer=2), tiny_models)
    return Subject("tiny", inspect_gguf(path), "0" * 64)


@pytest.fixture
def recaller(subject: Subject) -> Iterator[Recaller]:
    config = SessionConfig(budget=BUDGET, headroom=HEADROOM, threads=1, host_bytes=1 << 20, disk_bytes=0)
    with subject.loaded() as model, Recaller(model, config, TOKENS) as recaller:
        yield recaller


def by_name(rows: list[Row]) -> dict[str, Row]:
    named = {row.name: row for row in rows}
    assert len(named) == len(rows)
    return named


# What is timed


def test_a_segment_goes_and_comes_and_all_behind_it_moves(recaller: Recaller) -> None:
    session = recaller.session
    n = len(session.residents)
    assert TOKENS - 4 <= recaller.tokens <= TOKENS
    assert BUDGET - 16 <= n + recaller.tokens <= BUDGET
    assert np.array_equal(session.residents.position, np.arange(n))
    (piece,) = recaller.store.pieces()
    for _ in range(3):
        assert recaller.recall(recaller.store) > 0
        assert len(session.residents) == n + recaller.tokens
        assert np.array_equal(session.residents.token_index, np.arange(n + recaller.tokens))
        assert np.array_equal(session.residents.position, np.arange(n + recaller.tokens))
        assert len(np.flatnonzero(session.residents.piece == piece.id)) == recaller.tokens
        session.check()
        recaller.take_out()
        # All that lies behind it has another position now, so that the next recall moves it again.
        assert np.array_equal(session.residents.position, np.arange(n))
        assert session.residents.token_index[-1] == n + recaller.tokens - 1
        session.check()
    assert [one.id for one in recaller.store.pieces()] == [piece.id]


def test_decoding_again_leaves_no_trace_and_decodes_as_many_tokens(recaller: Recaller) -> None:
    engine, decoded = recaller.session.engine, []
    plain = engine.decode
    engine.decode = lambda tokens, position: (
        decoded.append((len(tokens), position)),
        plain(tokens, position),
    )  # type: ignore[method-assign,func-returns-value]
    n = len(recaller.session.residents)
    assert recaller.decode_again() > 0
    assert decoded == [(recaller.tokens, n)]
    assert recaller.first_decode() > 0
    recaller.session.check()


def test_a_recall_from_another_store_reads_its_file(recaller: Recaller, tmp_path: Path) -> None:
    own = recaller.store
    with Store(host_bytes=0, disk_bytes=1 << 20, folder=tmp_path) as store:
        recaller.copy_to(store)
        for reads in (1, 2):
            recaller.recall(store)
            recaller.take_out()
            assert store.stats.read_pieces == reads
    assert recaller.store is own


def test_what_was_computed_anew_is_not_taken_for_recalled(recaller: Recaller) -> None:
    """Where the saved block is gone, a session computes the segment again: that must not be timed."""
    with Store(host_bytes=1 << 20, disk_bytes=0, folder=None) as empty, pytest.raises(AssertionError):
        recaller.recall(empty)


# The page cache


def write(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "file").write_bytes(b"x" * 100_000)
    (folder / "empty").touch()


def test_whether_files_were_dropped_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not taken from the call: it may do nothing, as on file systems that lie in memory."""
    write(tmp_path)
    drops = drop_cached(tmp_path)
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None, raising=False)
    assert (tmp_path / "below" / "file").read_bytes() == b"x" * 100_000
    assert drop_cached(tmp_path) == (page_cache.UNKNOWN if drops == page_cache.UNKNOWN else page_cache.HELD)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need not be able to")
def test_files_are_dropped_and_stay_dropped_when_they_are_looked_at(tmp_path: Path) -> None:
    write(tmp_path)
    if drop_cached(tmp_path) == page_cache.HELD:
        pytest.skip("the folder's file system lies in memory")
    monitored = [drop_cached(tmp_path) for _ in range(3)]
    assert monitored == 3 * [page_cache.DROPPED]


def test_a_system_that_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    assert drop_cached(tmp_path) == page_cache.HELD


def test_a_system_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setattr(page_cache.ctypes, "CDLL", lambda _: SimpleNamespace(mincore=lambda *_: -1))
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: None, raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    assert drop_cached(tmp_path) == page_cache.UNKNOWN


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["dropped", "dropped"], "dropped"),
        (["dropped", "perhaps dropped"], "perhaps dropped"),
        (["perhaps dropped", "not dropped", "dropped"], "not dropped"),
    ],
)
def test_one_read_that_was_none_of_the_disk_is_told(states: list[str], said: str) -> None:
    assert page_cache.worst(states) == said


# Saving


def test_saving_happens_in_the_blocks_that_are_to_save_and_in_no_other(
    subject: Subject, tmp_path: Path
) -> None:
    config = SessionConfig(
        budget=BUDGET, headroom=HEADROOM, threads=1, evict_every=EVICT_EVERY, host_bytes=0, disk_bytes=1 << 22
    )
    with subject.loaded() as model:
        model.endless = True
        saver = Saver(model, config, 6, tmp_path / "pieces")
        try:
            for saves in (True, False, True, True, False, True):
                evictions, written = saver.evictions, saver.store.stats.written_pieces
                assert saver.write(saves) > 0
                assert saver.evictions - evictions == 2
                assert (saver.store.stats.written_pieces > written) == saves
        finally:
            saver.close()


def test_blocks_in_which_nothing_is_saved_are_no_measurement(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SessionConfig(
        budget=BUDGET, headroom=HEADROOM, threads=1, evict_every=EVICT_EVERY, host_bytes=0, disk_bytes=1 << 22
    )
    with subject.loaded() as model:
        model.endless = True
        saver = Saver(model, config, 2, tmp_path / "pieces")
        try:
            monkeypatch.setattr(saver._working_set, "save", lambda *_: None)
            with pytest.raises(AssertionError, match="did not happen"):
                saver.write(True)
        finally:
            saver.close()


# The benchmark, once


def test_recall_runs(subject: Subject, tmp_path: Path) -> None:
    said: list[str] = []
    place = tmp_path / "new"
    rows = by_name(
        measure_recall(
            subject,
            samples=2,
            threads=1,
            say=said.append,
            folder=place,
            with_disk=True,
            residents=BUDGET,
            headroom=HEADROOM,
            tokens=TOKENS,
        )
    )
    assert list(rows) == [
        "recall_speedup_00b",
        "recall_ms_00b",
        "decode_again_ms_00b",
        "decode_after_recall_00b",
        "recall_disk_speedup",
        "recall_disk_ms",
        "open_speedup",
        "open_ms",
        "decode_residents_ms",
    ]
    assert all(row.samples == 2 and row.value > 0 for row in rows.values())
    assert (rows["recall_speedup_00b"].limit, rows["recall_speedup_00b"].aim) == (None, None)
    disk, opened = rows["recall_disk_speedup"], rows["open_speedup"]
    assert (disk.limit, disk.aim, disk.better) == (5, 20, "higher")
    assert (opened.limit, opened.aim, opened.better) == (20, 100, "higher")
    assert disk.note.startswith("page cache ")
    assert opened.note.startswith("page cache ")
    assert disk.as_dict()["note"] == disk.note
    assert os.listdir(place) == []


def test_without_the_disk_there_are_the_rows_of_memory_alone(subject: Subject, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"residents": BUDGET, "headroom": HEADROOM, "tokens": TOKENS}
    rows = measure_recall(
        subject, samples=1, threads=1, say=lambda _: None, folder=tmp_path, with_disk=False, **sizes
    )
    assert [row.name for row in rows] == [
        "recall_speedup_00b",
        "recall_ms_00b",
        "decode_again_ms_00b",
        "decode_after_recall_00b",
    ]


def test_saving_runs(subject: Subject, tmp_path: Path) -> None:
    rows = by_name(
        measure_saving(
            subject,
            samples=2,
            threads=1,
            say=lambda _: None,
            folder=tmp_path,
            budget=BUDGET,
            headroom=HEADROOM,
        )
    )
    slowdown = rows["save_slowdown"]
    assert (slowdown.limit, slowdown.aim, slowdown.better, slowdown.samples) == (1.03, 1.01, "lower", 2)
    # 2 layers × 2 heads × 32 × (key, value) × 2 bytes a token, with the headers of small files: as many
    # tokens are saved as are written, but for a segment at either end.
    assert 512 / 2 < rows["saved_bytes_per_token"].value < 512 * 3
    assert os.listdir(tmp_path) == []


def test_the_disk_and_saving_are_measured_with_the_first_model_alone(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, bool]] = []

    def measure(what: str) -> Any:
        def measured(of: Subject, **settings: Any) -> list[Row]:
            assert (settings["samples"], settings["threads"], settings["folder"]) == (4, 1, tmp_path)
            asked.append((what, of.name, settings.get("with_disk", True)))
            return [median_row(f"{what}_{of.name}", [1.0], "x", "lower")]

        return measured

    second = dataclasses.replace(subject, name="second")
    monkeypatch.setattr(cli, "measure_recall", measure("recall"))
    monkeypatch.setattr(cli, "measure_saving", measure("saving"))
    monkeypatch.setattr(cli.Options, "subjects", lambda *_: [subject, second])
    options = cli.Options(4, (), tmp_path, 1, 1, ProgressLine())
    subjects, rows = cli.BENCHES["recall"](options)
    assert asked == [("recall", "tiny", True), ("recall", "second", False), ("saving", "tiny", True)]
    assert [one.name for one in subjects] == ["tiny", "second"]
    assert [row.name for row in rows] == ["recall_tiny", "recall_second", "saving_tiny"]


def test_notes_are_in_the_report_where_there_are_any() -> None:
    assert "note" not in median_row("a", [1.0], "x", "lower").as_dict()
    noted = median_row("a", [1.0], "x", "lower", note="so it was")
    assert noted.as_dict()["note"] == "so it was"
    machine = {"cpu": "c", "threads": 1, "cores": 1, "load": 0}
    report = Report("recall", None, {}, machine, [{"name": "m", "sha256": "0"}], [noted])
    assert "\na: so it was\n" in report.table()
