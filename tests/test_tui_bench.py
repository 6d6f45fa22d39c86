"""``scripts/bench tui``: what it reads off a terminal, and all of it in small. No speed is judged here."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_local.bench import cli
from pace_local.bench.cli import Benchmark, Options, Outcome
from pace_local.bench.subject import Subject
from pace_local.models import inspect_gguf
from pace_local.testing import TinySpec, tiny_model
from pace_tui.bench.drawing import StreamSizes
from pace_tui.bench.grid import Grid
from pace_tui.bench.measure import BENCHMARK, TuiSizes, measure_tui
from pace_tui.bench.replay import FILLED, history, stream, tokens_of
from pace_tui.bench.slowdown import SlowdownSizes
from pace_tui.bench.surroundings import environment, replay_words, stage_words
from pace_tui.bench.terminal import Terminal
from pace_tui.looks import Looks, Pen
from pace_tui.markdown_text import MarkdownText
from pace_tui.scribe import Scribe
from pace_tui.session_state import SessionState
from pace_tui.widgets.transcript import Transcript

WRITTEN = (
    "\x1b[?1049h\x1b[?25l\x1b]22;default\x07\x1b[1;1H\x1b[38;2;1;2;3mab漢\x1b[0m  \r\n\x1b[1mcd\x1b[2;5Hef"
    "\x1b[3;1Hxyz   \x1b[3;2H\x1b[K\x1bP+q544e\x1b\\"
)
"""As Textual writes, on six columns and three rows."""
SHOWN = ["ab漢", "cd  ef", "x"]

SMALL = TuiSizes(
    paints=1,
    stream=StreamSizes(entries=24, keys=6, seconds=0.5),
    slowdown=SlowdownSizes(tokens=8, pairs=1),
)


@given(st.lists(st.integers(0, len(WRITTEN.encode())), max_size=8))
def test_a_grid_shows_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    written, grid = WRITTEN.encode(), Grid(6, 3)
    places = [0, *sorted(cuts), len(written)]
    for start, end in itertools.pairwise(places):
        grid.feed(written[start:end])
    assert grid.lines() == SHOWN
    assert grid.shows("ef")
    assert not grid.shows("fe")


def test_a_grid_is_full_when_every_cell_was_written_to() -> None:
    grid = Grid(4, 2)
    for written, is_full in (
        ("\x1b[1;1Habcd", False),
        ("\x1b[2;1Hab", False),
        ("漢", True),
        ("\x1b[2J", False),
    ):
        grid.feed(written.encode())
        assert grid.is_full == is_full


def test_what_is_replayed_is_what_the_screen_knows() -> None:
    """A stream of what the screen passes over would cost nothing, and measure nothing."""
    state, transcript = SessionState(), Transcript()
    scribe = Scribe(transcript)
    streamed = [each for _, said in zip(range(800), stream(), strict=False) for each in said]
    kinds = set()
    for each in (*history(800), *streamed):
        scribe.take(each)
        state.take(each)
        kinds.add(each["type"])
    # 100 runs of 8, the note that they are all there, and two answers of 400 tokens with a call each.
    assert len(transcript.entries) == 800 + 1 + 4
    assert kinds >= {"prompted", "thought", "wrote", "called", "returned", "changed", "memory", "turned"}
    assert state.evictions == 800 // 187
    assert state.residents > 0
    assert sum(map(len, tokens_of("a b\n\n```python\ndef f(): ...\n"))) == len(
        "a b\n\n```python\ndef f(): ...\n"
    )


def test_long_code_looks_the_same_however_it_is_cut() -> None:
    """Regression: a long block had an empty line, and its file another fence, wherever it was cut."""
    code = "".join(f"def f{number}(x):\n    'Doc.'\n\n    return x + {number}\n\n\n" for number in range(150))
    source = f"Before\n\n```python\n{code}```\n\nafter\n"
    text = MarkdownText()
    for start in range(0, len(source), 7):
        text.append(source[start : start + 7])
    assert text.source == source
    lines = [strip.text.strip() for strip in text.lines(Pen(Looks(), 70))]
    wanted = ["Before", "", *code.rstrip("\n").split("\n"), "", "after"]
    assert lines == [line.strip() for line in wanted]


@pytest.mark.slow
def test_what_was_drawn_in_parts_is_what_is_drawn_at_once(tmp_path: Path) -> None:
    """Regression: an entry that was measured before it was drawn stayed invisible."""
    with Terminal(stage_words(replay_words(60.0, 40)), environment(tmp_path)) as terminal:
        terminal.read_until(lambda grid: grid.shows(FILLED), 60, FILLED)
        terminal.press(b"go on\r")
        for keys, seconds in ((b"", 3.0), (b"\x1b[5~", 1.0), (b"\x1b[1;5F", 2.0)):  # PgUp, Ctrl+End
            terminal.press(keys)
            terminal.read_for(seconds)
        terminal.press(b"\x1b")
        terminal.read_until(lambda grid: grid.shows("interrupted"), 60, "the end")
        terminal.read_for(1.5)
        in_parts = _without_bar(terminal)
        for columns in (110, 120):
            terminal.resize(columns, 40)
            terminal.read_for(2.0)
        assert terminal.grid.is_full
        assert _without_bar(terminal) == in_parts


def _without_bar(terminal: Terminal) -> list[str]:
    """What is shown, but for the transcript's bar: heights far away are estimated anew with each width."""
    return [line[:78] + line[80:] for line in terminal.grid.lines()]


@pytest.mark.slow
def test_all_of_it_runs_in_small(tiny_models: Path, tmp_path: Path) -> None:
    """Regression: Enter that comes in one go with a prompt sends what was not yet typed."""
    path = tiny_model(TinySpec(arch="qwen3"), tiny_models)
    subject = Subject("tiny", inspect_gguf(path), "0" * 64)
    rows = measure_tui(subject, samples=1, threads=1, folder=tmp_path, say=lambda line: None, sizes=SMALL)
    named = {row.name: row for row in rows}
    assert len(named) == len(rows)
    limits = {name: row.limit for name, row in named.items() if row.limit is not None}
    assert limits == {
        "first_paint_ms": 500.0,
        **{f"echo_p95_ms{suffix}": 50.0 for suffix in ("", "_24")},
        **{f"draw_core_share{suffix}": 0.1 for suffix in ("", "_24")},
        "generation_slowdown": 0.03,
    }
    assert set(named) - set(limits) == {
        "bare_paint_ms", "first_paint_ratio", "first_paint_bytes", "first_paint_cpu_ms", "bare_paint_cpu_ms",
        "bare_echo_p95_ms",
        *(f"{name}{suffix}" for name in ("echo_p50_ms", "idle_core_share", "stream_bytes")
          for suffix in ("", "_24")),
        "generation_speed",
    }  # fmt: skip
    for row in rows:
        assert math.isfinite(row.value)
        assert row.min <= row.value <= row.max
        if row.name not in ("generation_slowdown", *(each for each in named if "core_share" in each)):
            assert row.value > 0, row.name


def test_it_is_one_of_the_benchmarks_and_prints_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(options: Options) -> Outcome:
        from pace_local.bench.report import median_row

        assert options.samples == 3
        path = tiny_model(TinySpec(), tmp_path)
        return [Subject("tiny", inspect_gguf(path), "1")], [
            median_row("first_paint_ms", [random.Random(0).random()], "ms", "lower", limit=500.0)
        ]

    words = ["tui", "--json", "--samples", "3"]
    assert cli.main(words, more=[Benchmark("tui", run, BENCHMARK.help)]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["bench"] == "tui"
    assert report["rows"][0]["name"] == "first_paint_ms"
    assert report["rows"][0]["ok"]
    with pytest.raises(SystemExit):
        cli.main(["--help"], more=[BENCHMARK])
    said = capsys.readouterr().out
    assert "  tui        first paint" in said
    assert BENCHMARK.help.splitlines()[-1] in said
