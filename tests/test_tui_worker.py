"""The screen with a real process behind it, whose model says what a script says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from agent_runs import SHOP, make_repository
from session_pair import TALKER
from textual.pilot import Pilot
from tui_pilot import settle, shown, until, write

from pace_local.testing import tiny_model
from pace_tui.app import PaceApp
from pace_tui.connecting import connect_to
from pace_tui.repository import sources_of

PATIENCE = 60.0

pytestmark = pytest.mark.usefixtures("own_home")


def test_what_was_said_before_is_there_again(tmp_path: Path, tiny_models: Path) -> None:
    root = make_repository(tmp_path / "shop", SHOP)
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["It is [b]19[/b].", "It is still 19."]))
    model = str(tiny_model(TALKER, tiny_models))
    words = [
        "--repo",
        str(root),
        "--style",
        "tools",
        "--budget",
        "4096",
        "--model",
        model,
        "--script",
        str(script),
    ]

    def drive(steps: Callable[[PaceApp, Pilot[int]], Awaitable[None]], **options: str) -> PaceApp:
        app = PaceApp(connect_to(words), options=options, sources=sources_of(root))

        async def go() -> None:
            async with app.run_test(size=(140, 50)) as pilot:
                await until(pilot, lambda: app.state.phase == "ready", PATIENCE)
                await steps(app, pilot)

        asyncio.run(go())
        return app

    async def first(app: PaceApp, pilot: Pilot[int]) -> None:
        await write(pilot, "What is RATE?")
        await pilot.press("enter")
        await until(pilot, lambda: "✓ done" in "\n".join(shown(app)), PATIENCE)
        await write(pilot, "!echo of-the-shell")
        await pilot.press("enter")
        await until(pilot, lambda: "✓ shell echo of-the-shell" in "\n".join(shown(app)), PATIENCE)
        await until(pilot, lambda: "\n".join(shown(app)).count("of-the-shell") >= 2, PATIENCE)
        await write(pilot, "/inspect system")
        await pilot.press("enter")
        await until(pilot, lambda: "characters; Esc closes" in "\n".join(shown(app)), PATIENCE)
        await pilot.press("escape")

    session = drive(first).state.session
    assert session

    async def second(app: PaceApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "gone on with" in "\n".join(shown(app)), PATIENCE)
        await settle(app, pilot)
        text = "\n".join(shown(app))
        places = [text.index(each) for each in (
            "begun:", "▌ What is RATE?", "It is [b]19[/b].", "✓ done", "shell echo of-the-shell",
            "the session goes on below", "gone on with",
        )]  # fmt: skip
        assert places == sorted(places)
        assert text.count("It is [b]19[/b].") == 1
        assert len(app.state.history) == 1
        assert app.state.residents > 0

    drive(second, resume=session)
