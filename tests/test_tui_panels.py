from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from tui_pilot import PLANNED, STEP, TURNED, VIEW, drive, run_of, settle, shown, until

from pace_tui.app import PaceApp
from pace_tui.blocks import Block, blocks_of, cells_of
from pace_tui.screens.memory import MemoryScreen, series
from pace_tui.screens.text import TextScreen
from pace_tui.session_state import SessionState
from pace_tui.testing import FakeConnect, started
from pace_tui.widgets.memory_panel import MemoryPanel
from pace_tui.widgets.memory_strip import MemoryStrip

ALL = (PLANNED, STEP, TURNED, VIEW)


@given(st.lists(st.integers(1, 900), max_size=40), st.integers(0, 4000), st.integers(0, 200))
def test_cells_show_blocks_in_order_and_each_that_has_room(
    tokens: list[int], budget: int, cells: int
) -> None:
    blocks = [Block(str(index), "file", 0, each) for index, each in enumerate(tokens)]
    shares = cells_of(blocks, budget, cells)
    assert len(shares) == cells
    used = [each for each in shares if each is not None]
    assert used == sorted(used)
    assert shares[: len(used)] == used
    if len(blocks) <= cells:
        assert set(used) == set(range(len(blocks)))
    if blocks and cells and budget <= sum(tokens):
        assert len(used) == cells


def test_reads_are_marked_resident_recalled_or_missing() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL)
        await settle(app, pilot)
        text = "\n".join(line[70:] for line in shown(app))
        assert "● 1. fix total" in text
        assert "↺ file:cart  recalled" in text
        assert "■ file:kept  resident" in text
        assert "□ file:gone  missing" in text
        assert "shop/tax.py  not read yet" in text

    drive(steps)


def test_memory_shows_its_numbers_and_what_happens() -> None:
    events = [
        {"type": "evicted", "count": 120, "residents": 700, "segments": {}},
        {"type": "renumbered", "residents": 700, "from_position": 8000, "next_position": 700},
        {"type": "recalled", "segment": "file:[i]x[/i]", "means": "spliced", "tokens": 10},
    ]

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL, *({"type": "memory", "event": each} for each in events), VIEW)
        await settle(app, pilot)
        text = "\n".join(shown(app))
        for part in (
            "840 of 2,048 tokens", "0–839 of 8,192", "1 (120 tokens), 1 renumbering",
            "800 reused, 40 decoded",
            "20.0 tokens/s", "K 1.0 MiB", "host 3.0 MiB", "512.0 KiB in memory", "file:[b]gone[/b]",
            "400/400",
            "recalled file:[i]x[/i]",
        ):  # fmt: skip
            assert part in text, part
        assert "840/2,048 tokens" in shown(app)[-1]
        assert "step 1/2" in shown(app)[-1]

    drive(steps, size=(220, 50))


def test_keys_act_on_the_chosen_segment_and_its_text_is_shown() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL)
        await settle(app, pilot)
        panel = app.main.query_one(MemoryPanel)
        panel.table.focus()
        await pilot.press("right", "right")
        await pilot.pause()
        assert panel.strip.block is not None
        assert panel.strip.block.segment == "file:cart"
        assert panel.segment == "file:cart"
        await pilot.press("p", "e", "r")
        await pilot.press("left", "p")
        await pilot.press(*["down"] * 4, "r")
        await pilot.press("enter")
        await settle(app, pilot)
        assert [(each["type"], each["segment"]) for each in connect.worker.sent] == [
            ("pin", "file:cart"), ("evict", "file:cart"), ("recall", "file:cart"), ("unpin", "system"),
            ("recall", "file:[b]gone[/b]"), ("inspect", "file:[b]gone[/b]"),
        ]  # fmt: skip
        connect.worker.say({"type": "text", "segment": "file:[b]gone[/b]", "text": "[red]its text\x1b[2J"})
        await settle(app, pilot)
        assert isinstance(app.screen, TextScreen)
        text = "\n".join(shown(app))
        assert "[red]its text·[2J" in text
        assert "file:[b]gone[/b]" in text
        await pilot.press("escape")
        assert app.screen is app.main

    drive(steps)


def test_a_chosen_block_stays_chosen_when_others_come_and_go() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL)
        await settle(app, pilot)
        panel = app.main.query_one(MemoryPanel)
        panel.table.focus()
        await pilot.press("right", "right", "right")
        fewer = [each for each in VIEW["residents"] if each["segment"] != "file:cart"]
        segments = [each for each in VIEW["segments"] if each["name"] != "file:cart"]
        connect.worker.say({**VIEW, "residents": fewer, "segments": segments})
        await settle(app, pilot)
        assert panel.strip.block is not None
        assert panel.strip.block.segment == "file:kept"
        assert panel.segment == "file:kept"

    drive(steps)


def test_framing_is_a_block_and_no_row() -> None:
    framing = run_of("framing:1", "framing", 840, 4)
    assert blocks_of({"residents": [framing, run_of("none", "file", 0, 0)]}) == [
        Block("framing:1", "framing", 840, 4, "why framing:1", False)
    ]


def test_panels_fold_away_on_narrow_terminals_and_come_over_it_on_demand() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL)
        await settle(app, pilot)
        assert not app.main.query_one("#side").display
        await pilot.press("ctrl+k")
        await settle(app, pilot)
        assert "840 of 2,048" in "\n".join(shown(app))
        await pilot.press("ctrl+t")
        await settle(app, pilot)
        text = "\n".join(shown(app))
        assert "fix total" in text
        assert "840 of 2,048" not in text
        await pilot.press("escape")
        await settle(app, pilot)
        assert not app.main.query_one("#side").display
        await pilot.press("h", "i")
        assert app.main.input.text == "hi"
        await pilot.resize_terminal(140, 40)
        await settle(app, pilot)
        assert app.main.query_one("#side").display
        await pilot.press("ctrl+k", "ctrl+t")
        await settle(app, pilot)
        assert not app.main.query_one("#side").display

    drive(steps, size=(60, 20))


def test_changed_files_are_listed_newest_first() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        for path, by in (("a.py", "user"), ("[b]b.py", "shell"), ("a.py", "user")):
            connect.worker.say({"type": "changed", "path": path, "by": by, "diff": "", "stale": ["file:a"]})
        await pilot.press("f3")
        await settle(app, pilot)
        lines = [line[75:] for line in shown(app) if ".py  " in line[75:]]
        assert ["a.py  you" in lines[0], "[b]b.py  a command" in lines[1], len(lines)] == [True, True, 2]
        assert "stale: file:a" in "\n".join(shown(app))

    drive(steps)


def test_a_block_that_is_clicked_shows_its_text() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL)
        await settle(app, pilot)
        await pilot.click(MemoryStrip, offset=(20, 0))
        await settle(app, pilot)
        assert isinstance(app.screen, TextScreen)
        assert [each["segment"] for each in connect.worker.told("inspect")] == ["file:cart"]
        assert app.main.query_one(MemoryPanel).segment == "file:cart"

    drive(steps)


def test_the_step_that_begins_is_in_view() -> None:
    names = [f"step {number}" for number in range(60)]
    plan = {
        "type": "planned", "by": "user", "reason": "",
        "steps": [{"text": name, "reads": [], "wanted": [], "state": "waiting"} for name in names],
    }  # fmt: skip

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(plan)
        await settle(app, pilot)
        for number in (40, 55, 2):
            connect.worker.say({**STEP, "number": number + 1, "of": 60, "step": names[number]})
            await settle(app, pilot)
            assert f"● {number + 1}. step {number}" in "\n".join(shown(app))
            connect.worker.say(
                {"type": "step_ended", "number": number + 1, "state": "done", "summary": ""},
            )

    drive(steps)


def test_the_whole_screen_of_memory_scrolls_to_its_plots_where_it_is_small() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL, {**TURNED, "session_tokens": 2000})
        await pilot.press("f2")
        await settle(app, pilot)
        seen = "\n".join(shown(app))
        for _ in range(6):
            await pilot.press("pagedown")
            await settle(app, pilot, 0.1)
            seen += "\n".join(shown(app))
        for title in ("tokens resident", "next position", "MiB of keys", "seconds a turn", "file:cart"):
            assert title in seen, title

    drive(steps, size=(46, 20))


def test_the_whole_screen_of_memory_has_the_history() -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        for turn in range(1, 6):
            connect.worker.say({**TURNED, "session_tokens": 1000 * turn, "residents": 300 * turn}, VIEW)
        await pilot.press("f2")
        await settle(app, pilot)
        assert isinstance(app.screen, MemoryScreen)
        text = "\n".join(shown(app))
        for title in (
            "tokens resident, and the budget",
            "next position, and the cap",
            "MiB of keys",
            "seconds a turn",
        ):
            assert title in text
        assert series("residents", app.state.history)[1] == [300.0, 600.0, 900.0, 1200.0, 1500.0]
        assert series("bytes", app.state.history)[1] == [3.0] * 5
        larger = dict.fromkeys(("keys", "values", "references"), 300 << 20)
        connect.worker.say({**VIEW, "bytes": larger})  # it belongs to the last turn, which was drawn
        await until(pilot, lambda: "945.0┤" in "\n".join(shown(app)))
        await pilot.press("escape")
        assert app.screen is app.main

    drive(steps, size=(140, 50))


def test_a_long_history_is_thinned_out_and_keeps_its_end() -> None:
    state = SessionState()
    state.take(started())
    for turn in range(5000):
        state.take({**TURNED, "session_tokens": turn})
    assert len(state.history) <= 2000
    tokens = [point.session_tokens for point in state.history]
    assert tokens == sorted(tokens)
    assert tokens[-1] == 4999


def test_what_is_not_known_is_passed_over() -> None:
    state = SessionState()
    before = SessionState()
    for received in ({"type": "later"}, {}, {"type": "memory", "event": {"type": "later"}}, {"type": None}):
        state.take(received)
    assert state == before


@pytest.mark.parametrize("size", [(40, 12), (300, 60)])
@pytest.mark.parametrize("theme", ["textual-light", "textual-dark", "textual-ansi"])
def test_small_and_large_terminals_in_light_and_dark(size: tuple[int, int], theme: str) -> None:
    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL)
        await settle(app, pilot)
        lines = shown(app)
        assert all(len(line) <= size[0] for line in lines)
        assert "ready" in lines[-1]
        await pilot.press("f1")
        await settle(app, pilot)
        assert "Help" in "\n".join(shown(app))

    drive(steps, size=size, theme=theme)


def test_no_color_means_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps(app: PaceApp, pilot: Pilot[int], connect: FakeConnect) -> None:
        connect.worker.say(*ALL)
        await settle(app, pilot)
        colours = set()
        for strip in app.screen._compositor.render_strips():
            for line_filter in app._filters:
                strip = strip.apply_filter(line_filter, app.screen.background_colors[1])
            for each in strip:
                if each.style is not None:
                    colours |= {each.style.color, each.style.bgcolor}
        assert all(colour is None or colour.is_default for colour in colours)

    drive(steps)
