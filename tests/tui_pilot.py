"""Drives the front end in tests: an app with a fake worker, in a terminal of any size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.pilot import Pilot

from pace_tui.app import PaceApp
from pace_tui.testing import GREETING, FakeConnect, ended
from pace_tui.wire import Received

DIFF = (
    "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1,4 +1,4 @@ def total\n def total(prices):\n"
    "-    return sum(prices[1:])\n+    return sum(prices)\n \n # [red]end[/red]\n"
)
ASKED: Received = {
    "type": "asked", "id": 1, "tool": "edit", "what": "shop/cart.py", "reason": "the mode asks", "diff": DIFF,
    "offers": [{"tool": "edit", "prefix": []}],
}  # fmt: skip
CALLED: Received = {"type": "called", "id": 1, "tool": "edit", "arguments": {"path": "shop/cart.py"}}
RETURNED: Received = {
    "type": "returned", "id": 1, "tool": "edit", "ok": True, "result": "changed\nmark-of-the-result",
    "seconds": 0.2, "segment": "tool:1",
}  # fmt: skip
TURNED: Received = {
    "type": "turned", "number": 1, "reused": 800, "decoded": 40, "decoded_again": 3, "generated": 60,
    "session_tokens": 900, "residents": 840, "next_position": 840, "reading_seconds": 1.0,
    "generating_seconds": 3.0,
}  # fmt: skip
PLANNED: Received = {
    "type": "planned", "by": "model", "reason": "",
    "steps": [
        {"text": "fix total", "reads": ["file:cart", "file:kept", "file:gone"], "wanted": ["shop/tax.py"],
         "state": "running"},
        {"text": "run the tests", "reads": [], "wanted": [], "state": "waiting"},
    ],
}  # fmt: skip
STEP: Received = {
    "type": "step_started", "number": 1, "of": 2, "step": "fix total",
    "reads": {"file:cart": "spliced", "file:kept": "kept", "file:gone": "absent"},
}  # fmt: skip


def run_of(name: str, kind: str, first: int, tokens: int, *, is_read: bool = False) -> dict[str, Any]:
    return {
        "segment": name, "kind": kind, "first_position": first, "tokens": tokens, "reason": f"why {name}",
        "is_read": is_read,
    }  # fmt: skip


def segment_of(
    name: str, kind: str, tokens: int, first: int | None, *, pinned: bool = False
) -> dict[str, Any]:
    return {
        "name": name, "kind": kind, "tokens": tokens, "resident": 0 if first is None else tokens,
        "first_position": first, "last_position": None if first is None else first + tokens - 1,
        "pinned": pinned, "isolated": kind == "file", "why": f"why {name}",
    }  # fmt: skip


VIEW: Received = {
    "type": "memory_view", "budget": 2048, "position_cap": 8192, "next_position": 840,
    "residents": [
        run_of("system", "system", 0, 300),
        run_of("file:cart", "file", 300, 400, is_read=True),
        run_of("file:kept", "file", 700, 100, is_read=True),
        run_of("prompt:1", "user", 800, 40),
    ],
    "segments": [
        segment_of("system", "system", 300, 0, pinned=True),
        segment_of("file:cart", "file", 400, 300),
        segment_of("file:kept", "file", 100, 700),
        segment_of("prompt:1", "user", 40, 800),
        segment_of("file:[b]gone[/b]", "file", 900, None),
    ],
    "bytes": {"keys": 2**20, "values": 2**20, "references": 2**20, "host": 3 * 2**20, "device": 0,
              "saved_host": 2**19, "saved_disk": 0},
}  # fmt: skip

Steps = Callable[[PaceApp, Pilot[int], FakeConnect], Awaitable[None]]


def drive(
    steps: Steps,
    *,
    runs: Sequence[Sequence[Received]] = (),
    size: tuple[int, int] = (120, 40),
    settings: Sequence[dict[str, Any]] | None = None,
    is_threaded: bool = False,
    **options: Any,
) -> FakeConnect:
    """Run steps against an app; what the app raises comes out."""
    first = {"greeting": GREETING, "runs": runs, "is_threaded": is_threaded}
    connect = FakeConnect(*(settings or [first]))

    async def go() -> None:
        app = PaceApp(connect, **options)
        async with app.run_test(size=size) as pilot:
            await settle(app, pilot)
            await steps(app, pilot, connect)

    asyncio.run(go())
    return connect


async def settle(app: PaceApp, pilot: Pilot[int], seconds: float = 0.35) -> None:
    """Wait until what was received is drawn, and not for ever if it goes on coming."""
    await pilot.pause(seconds)
    for _ in range(200):
        if is_drawn(app):
            break
        await pilot.pause(0.02)
    await pilot.pause()


def is_drawn(app: PaceApp) -> bool:
    """Whether nothing waits to be drawn; on a busy machine it may wait for a second."""
    if not app.is_running or not app.screen_stack:
        return True
    transcript = app.main.transcript
    return not (app._inbox._waiting or app._is_drawing_soon or transcript._is_waiting or transcript._dirty)


async def until(pilot: Pilot[int], holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something holds; fails if it does not in time."""
    for _ in range(int(seconds / 0.02)):
        if holds():
            return
        await pilot.pause(0.02)
    raise AssertionError("it did not come to hold in time")


async def write(pilot: Pilot[int], text: str) -> None:
    """Type a text."""
    names = {" ": "space", "/": "slash", "@": "at", "!": "exclamation_mark", ".": "full_stop", "\n": "ctrl+j"}
    await pilot.press(*(names.get(letter, letter) for letter in text))


def shown(app: PaceApp) -> list[str]:
    """The lines of the screen as they are drawn, all screens over each other."""
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def answered(*objects: Received) -> list[Received]:
    """A run of these objects and its end."""
    return [*objects, ended()]


def wrote(text: str) -> Received:
    return {"type": "wrote", "written": text}
