"""``pace top``: a session's memory as text, as JSON and live; also of a run in another process."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agent_runs import DONE, EDIT, FIX, PLAN, SHOP, Runs, call, make_repository
from command_line import PATIENCE, environment, is_one_line_error
from session_pair import TALKER
from test_agent_end_to_end import Pace, wait_for
from textual.pilot import Pilot
from tui_pilot import until

from pace_agent.events import Turned
from pace_agent.memory_view import memory_view
from pace_agent.sessions.following import SessionFollower
from pace_agent.sessions.log import SessionFolder, delete, session_path
from pace_local import Model
from pace_local.testing import TinySpec, tiny_model
from pace_tui import cli
from pace_tui.top import TopApp, TopScreen
from pace_tui.widgets.memory_panel import MemoryPanel

READS = [call("read", path=path) for path in ("shop/cart.py", "tests/test_cart.py", "README.md")]

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def runs_of(model: Model, tmp_path: Path, *more: str) -> Runs:
    """An agent whose budget makes it evict."""
    shop = make_repository(tmp_path / "shop", SHOP)
    return Runs(model, shop, [PLAN, *READS, EDIT, DONE, *more], session="cart", budget=2_048)


# As text and as JSON


def test_text_says_what_the_session_holds(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each number is that of the agent's own session; the default where stdout is no terminal."""
    with runs_of(model, tmp_path) as runs:
        runs.run(FIX)
        monkeypatch.chdir(tmp_path / "shop")
        assert cli.main(["top"]) == 0
        out = capsys.readouterr().out
        assert cli.main(["top", "--once", "cart"]) == 0
        assert capsys.readouterr().out == out
        view, turns = memory_view(runs.agent.session), runs.of(Turned)
        stats = runs.agent.session.stats
    facts = dict(
        line.split(maxsplit=1) for line in out.split("\n\n")[0].replace("looked at", "looked").split("\n")
    )
    assert facts["session"].startswith("cart, waits for a prompt; held by this process (")
    assert facts["about"] == str(tmp_path / "shop")
    assert facts["budget"].startswith(f"{view.resident_tokens:,} of 2,048 tokens resident (")
    assert facts["positions"].startswith(f"0–{view.next_position - 1:,}, cap 16,384; ")
    assert re.fullmatch(rf"[1-9]\d* \({view.evicted:,} tokens\), 0 renumberings", facts["evictions"])
    assert facts["tokens"].startswith(
        f"{sum(turn.reused for turn in turns):,} reused, {sum(turn.decoded for turn in turns):,} decoded"
    )
    assert facts["tokens"].endswith(
        f"{sum(turn.generated for turn in turns)} generated in {len(turns)} turns"
    )
    assert facts["speed"].startswith(f"read {turns[-1].decoded} in ")
    assert facts["cache"].startswith(f"keys {stats.key_bytes / 1000:.0f} kB, ")
    heads, *lines = out.split("\n\n")[1].rstrip().split("\n")
    assert heads.split() == ["SEGMENT", "KIND", "RESIDENT", "POSITIONS", "WHY"]
    rows = [re.split(r" {2,}", line) for line in lines if "  " in line]
    resident = [row for row in view.segments if row.resident]
    assert [row[0].split(" (")[0] for row in rows] == [row.name for row in resident]
    assert [row[2] for row in rows] == [f"{row.resident:,}/{row.tokens:,}" for row in resident]
    assert [row[3] for row in rows] == [f"{row.first_position}–{row.last_position}" for row in resident]
    assert [row[4] for row in rows] == [row.why for row in resident]
    assert rows[0][0] == "system (pinned)"
    markers = view.resident_tokens - sum(row.resident for row in resident)
    assert f"role markers: {markers} tokens" in lines
    gone = [row for row in view.segments if not row.resident]
    assert lines[-1] == f"evicted whole: {len(gone)} segments with {sum(row.tokens for row in gone):,} tokens"


def test_names_of_others_do_nothing_to_a_terminal(
    tmp_path: Path, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    with Runs(model, make_repository(tmp_path / "shop", SHOP), [], session="cart") as runs:
        runs.agent.session.append("x", name="file:\x1b[31m\nred\u202e", kind="file")
        runs.run("?")
        assert cli.main(["top", "cart"]) == 0
    out = capsys.readouterr().out
    assert "file:·[31m↵red· (isolated)" in out
    assert "\x1b" not in out


def test_a_session_without_a_view_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of a version before there were views, and one that was just begun."""
    SessionFolder.create("old", tmp_path).close()
    assert cli.main(["top", "old"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("session    old, ended\n")
    assert "\nlooked at  never" in out
    assert "SEGMENT" not in out
    assert cli.main(["top", "old", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["view"], document["holder"], document["history"]) == (None, None, [])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no session is running, and"),
        (("nothing",), "there is no session nothing in"),
        (("../up",), "is no name of a session"),
        (("--repo", "missing"), "the repository 'missing' is not there"),
        (("--repo", "~no-such-user-here"), "the repository '~no-such-user-here' is not there"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["top", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert is_one_line_error(err)
    assert says in err


# Live


def shown(app: TopApp) -> str:
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


Steps = Callable[[TopApp, Pilot[int]], Awaitable[None]]


def drive(follower: SessionFollower, steps: Steps, size: tuple[int, int] = (160, 50)) -> int | None:
    """Run steps against the view of a session; returns what the app would exit with."""

    async def go() -> int | None:
        app = TopApp(follower, pause=0.02)
        async with app.run_test(size=size, notifications=True) as pilot:
            await steps(app, pilot)
        return app.return_value

    return asyncio.run(go())


def test_the_view_follows_a_session_until_it_has_ended_and_is_deleted(model: Model, tmp_path: Path) -> None:
    runs = runs_of(model, tmp_path, "It is 19.")

    async def steps(app: TopApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "waits for a prompt; held by this process" in shown(app))
        assert app.state.session == "cart"
        assert not app.state.history
        runs.run(FIX)
        await until(pilot, lambda: len(app.state.history) == len(runs.of(Turned)))
        view = memory_view(runs.agent.session)
        await until(pilot, lambda: f"{view.resident_tokens:,} of 2,048 tokens" in shown(app))
        assert f"0–{view.next_position - 1} of 16.4k" in shown(app)
        panel = app.screen.query_one(MemoryPanel)
        assert panel.table.row_count == len(view.segments)
        assert "tokens resident, and the budget" in shown(app)
        assert {point.bytes for point in app.state.history} == {
            view.bytes.keys + view.bytes.values + view.bytes.references
        }
        before = len(app.state.history)
        runs.run("What is RATE in shop/cart.py?")
        await until(pilot, lambda: len(app.state.history) > before)
        runs.agent.close()
        await until(pilot, lambda: "the session is over: ended" in shown(app))
        assert f"{app.state.residents:,} of 2,048 tokens" in shown(app)  # what it held last stays
        delete("cart")
        await until(pilot, lambda: "the session is over: deleted" in shown(app))
        await pilot.press("q")

    with runs, SessionFollower(session_path("cart")) as follower:
        assert drive(follower, steps) == 0


def test_keys_choose_blocks_and_change_nothing(model: Model, tmp_path: Path) -> None:
    async def steps(app: TopApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "system ⚑" in shown(app))  # it has been read before anything is asked
        panel = app.screen.query_one(MemoryPanel)
        await until(pilot, lambda: getattr(panel.strip.block, "segment", "") == "system")
        at = panel.strip.chosen
        assert at is not None
        await pilot.press("right")
        assert panel.strip.chosen == at + 1
        before = memory_view(runs.agent.session)
        for key in ("p", "e", "r", "enter"):
            await pilot.press(key)
        await until(pilot, lambda: "only looks on" in shown(app))
        after = memory_view(runs.agent.session)
        assert (after.residents, after.segments) == (before.residents, before.segments)
        assert isinstance(app.screen, TopScreen)
        await pilot.press("escape")

    with runs_of(model, tmp_path) as runs, SessionFollower(session_path("cart")) as follower:
        assert drive(follower, steps, (100, 40)) == 0


def test_what_has_no_room_is_reached_by_pages(model: Model, tmp_path: Path) -> None:
    """A small terminal begins at the strip; the plots are below."""

    async def steps(app: TopApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: bool(app.state.history) and "█system" in shown(app))
        assert "seconds a turn" not in shown(app)
        assert "╭─ Memory" in shown(app).split("\n")[0]
        for _ in range(4):
            await pilot.press("pagedown")
        await until(pilot, lambda: "seconds a turn" in shown(app))
        assert "q quits" in shown(app).split("\n")[-1]
        for _ in range(4):
            await pilot.press("pageup")
        await until(pilot, lambda: "╭─ Memory" in shown(app).split("\n")[0])

    with runs_of(model, tmp_path) as runs, SessionFollower(session_path("cart")) as follower:
        runs.run(FIX)
        drive(follower, steps, (100, 24))


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (300, 90)])
@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q", "escape"])
def test_it_fits_terminals_and_quits(tmp_path: Path, size: tuple[int, int], key: str) -> None:
    async def steps(app: TopApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "the session is over" in shown(app))
        await pilot.press(key)

    SessionFolder.create("old", tmp_path).close()
    with SessionFollower(session_path("old")) as follower:
        assert drive(follower, steps, size) == 0


def test_another_session_of_the_name_begins_anew(tmp_path: Path) -> None:
    turn = Turned(1, 5, 10, 0, 4, 19, 19, 19, 1.0, 1.0)
    with SessionFolder.create("one", tmp_path) as first:
        first.log(turn)
        first.log(turn)

    async def steps(app: TopApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: len(app.state.history) == 2)
        delete("one")
        with SessionFolder.create("one", tmp_path) as second:
            second.log(turn)
            await until(pilot, lambda: len(app.state.history) == 1)
            assert app.state.decoded == 10

    with SessionFollower(session_path("one")) as follower:
        drive(follower, steps)


# In processes of their own


@pytest.fixture
def pace(tmp_path: Path, tiny_models: Path, monkeypatch: pytest.MonkeyPatch) -> Pace:
    path = tiny_model(dataclasses.replace(TALKER, n_ctx_train=16_384), tiny_models)
    return Pace(make_repository(tmp_path / "shop", SHOP), path, monkeypatch)


def top(folder: Path, *words: str) -> dict[str, Any]:
    """What ``pace top --once --json`` prints in a folder."""
    ended = subprocess.run(
        [sys.executable, "-m", "pace_tui.cli", "top", "--once", "--json", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        env=environment(),
        cwd=folder,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def test_a_run_in_another_process_is_looked_at_while_it_works_and_after_it_was_killed(pace: Pace) -> None:
    lines = [PLAN, READS[0], EDIT, call("shell", command="sleep 600")]
    with pace.started(lines, "run", "--mode", "auto", "-p", FIX) as run:
        wait_for(run, "sleep 600")
        document = top(pace.root)
        assert document["holder"]["pid"] == run.pid
        assert document["state"].startswith(f"works on prompt 1; held by process {run.pid} since ")
        assert document["repository"] == str(pace.root)
        assert (document["settings"]["budget"], document["totals"]["turns"]) == (4096, 4)
        view = document["view"]
        assert view["resident_tokens"] == sum(each["tokens"] for each in view["residents"]) > 0
        assert view["session_tokens"] >= document["history"][-1]["session_tokens"] > 0
        assert document["viewed"] >= document["history"][-1]["at"]
        assert [each["name"] for each in view["segments"][:3]] == ["system", "repository", "prompt:1"]
        run.send_signal(signal.SIGKILL)
        run.wait(PATIENCE)
    after = top(pace.root, document["session"])
    assert (after["holder"], after["state"]) == (None, "broken off")
    assert after["view"] == view
    assert after["totals"] == document["totals"]
