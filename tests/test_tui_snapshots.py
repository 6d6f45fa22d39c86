"""The main screens as they are drawn: pictures in ``__snapshots__``, one a screen, size and theme.

What is meant to look otherwise is taken anew with ``pytest tests/test_tui_snapshots.py --snapshot-update``,
and looked at before it is kept. A failure leaves ``snapshot_report.html`` behind, with both pictures.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from textual.pilot import Pilot
from tui_pilot import is_drawn, run_of, segment_of, shown, until

from pace_tui.app import PaceApp
from pace_tui.screens.approval import ApprovalScreen
from pace_tui.screens.help import HelpScreen
from pace_tui.screens.memory import MemoryScreen
from pace_tui.testing import FakeConnect, started
from pace_tui.wire import Received

SMALL, LARGE = (80, 24), (140, 42)
DARK, LIGHT = "textual-dark", "textual-light"


def in_(*sizes_and_themes: tuple[tuple[int, int], str]) -> pytest.MarkDecorator:
    """Run a test in some sizes and themes, which name its picture."""
    return pytest.mark.parametrize(
        ("size", "theme"),
        [
            pytest.param(size, theme, id=f"{size[0]}x{size[1]}-{theme.removeprefix('textual-')}")
            for size, theme in sizes_and_themes
        ],
    )


_FONTS = re.compile(r"@font-face\s*{[^}]*}\s*")
_AT = 1_800_000_000.0
_WORKED = 83.0
"""Seconds that the run has taken when the picture is taken."""

PROMPT = "total() leaves out the first price. Correct it, and add the tax."
THOUGHT = "The slice starts at one, so the first price is lost. The rate is in shop/tax.py.\n"
ANSWER = """\
`total` began its sum at the **second** price. Now:

1. it adds all prices,
2. `with_tax` multiplies by the rate:

```python
def with_tax(prices: list[float]) -> float:
    return total(prices) * (1 + RATE)  # 0.19
```

The tests run next.
"""
DIFF = """\
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -1,4 +1,8 @@
 from shop.tax import RATE
\x20
 def total(prices):
-    return sum(prices[1:])
+    return sum(prices)
+
+
+def with_tax(prices):
+    return total(prices) * (1 + RATE)
"""
STEPS = [
    {"text": "correct total", "reads": ["file:shop/cart.py"], "wanted": [], "state": "done"},
    {"text": "add with_tax", "reads": ["file:shop/cart.py", "file:shop/tax.py", "file:README.md"],
     "wanted": ["tests/test_tax.py"], "state": "waiting"},
    {"text": "run the tests", "reads": [], "wanted": [], "state": "waiting"},
]  # fmt: skip
VIEW: Received = {
    "type": "memory_view", "budget": 2048, "position_cap": 8192, "next_position": 2310,
    "session_tokens": 9_800, "evicted": 5_412, "renumberings": 1,
    "residents": [
        run_of("system", "system", 0, 420),
        run_of("framing:1", "framing", 420, 6),
        run_of("prompt:1", "user", 426, 61, is_read=True),
        run_of("file:shop/cart.py", "file", 520, 388, is_read=True),
        run_of("file:shop/tax.py", "file", 1_010, 154, is_read=True),
        run_of("tool:7", "tool", 1_402, 310),
        run_of("reasoning:8", "reasoning", 1_760, 92),
        run_of("plan:1", "plan", 1_900, 48),
        run_of("answer:8", "answer", 2_010, 300),
    ],
    "segments": [
        segment_of("system", "system", 420, 0, pinned=True),
        segment_of("framing:1", "framing", 6, 420),
        segment_of("prompt:1", "user", 61, 426),
        segment_of("file:shop/cart.py", "file", 388, 520),
        segment_of("file:shop/tax.py", "file", 154, 1_010),
        segment_of("tool:7", "tool", 310, 1_402),
        segment_of("reasoning:8", "reasoning", 92, 1_760),
        segment_of("plan:1", "plan", 48, 1_900),
        segment_of("answer:8", "answer", 300, 2_010),
        segment_of("file:README.md", "file", 640, None),
    ],
    "bytes": {"keys": 25 << 20, "values": 25 << 20, "references": 25 << 20, "host": 630 << 20, "device": 0,
              "saved_host": 7 << 20, "saved_disk": 66 << 20},
}  # fmt: skip


def turn(number: int) -> Received:
    """A turn of a session that grows, fills its budget after eight and renumbers at the sixteenth."""
    since = number if number < 16 else number - 12
    return {
        "type": "turned", "number": number, "reused": 150 * number, "decoded": 120 + 11 * (number % 5),
        "decoded_again": 3 * (number % 3), "generated": 90, "session_tokens": 400 * number,
        "residents": min(250 * number, 2_040 - 7 * (number % 4)), "next_position": 470 * since + 430,
        "reading_seconds": 0.4 + 0.13 * (number % 7), "generating_seconds": 3.6,
    }  # fmt: skip


def view(number: int) -> Received:
    """What is known of the memory after a turn."""
    sizes = {name: min(3 * number, 25) << 20 for name in ("keys", "values", "references")}
    return {**VIEW, "evicted": 0, "renumberings": 0, "bytes": {**VIEW["bytes"], **sizes}}


def call(number: int, tool: str, result: str = "", seconds: float = 0.1, **arguments: Any) -> list[Received]:
    """A call, and its return if it has a result."""
    called = {"type": "called", "id": number, "tool": tool, "arguments": arguments}
    returned = {
        "type": "returned", "id": number, "tool": tool, "ok": True, "result": result, "seconds": seconds,
        "segment": f"tool:{number}",
    }  # fmt: skip
    return [called, returned] if result else [called]


def memory(kind: str, **facts: Any) -> Received:
    return {"type": "memory", "event": {"type": kind, **facts}}


BEGUN: list[Received] = [
    *(each for number in range(1, 25) for each in (turn(number), view(number))),
    {"type": "planned", "by": "model", "reason": "", "steps": STEPS},
    {"type": "step_started", "number": 2, "of": 3, "step": "add with_tax", "reads": {
        "file:shop/cart.py": "kept", "file:shop/tax.py": "spliced", "file:README.md": "absent"}},
    {"type": "thought", "written": THOUGHT},
    *call(1, "read", "from shop.tax import RATE\n", path="shop/cart.py"),
    *call(2, "search", "shop/tax.py:3: RATE = 0.19\n", pattern="RATE", limit=20),
    memory("evicted", count=512, residents=1_779),
    memory("renumbered", from_position=7_950, next_position=2_180),
    memory("recalled", segment="file:shop/tax.py", means="spliced", tokens=154),
    VIEW,
]  # fmt: skip
EDIT = call(3, "edit", "changed shop/cart.py", 0.3, path="shop/cart.py")
ASKED: Received = {
    "type": "asked", "id": 3, "tool": "edit", "what": "shop/cart.py", "reason": "the mode asks first",
    "diff": DIFF, "offers": [{"tool": "edit", "prefix": []}],
}  # fmt: skip
WORK: list[Received] = [
    *BEGUN,
    *EDIT,
    {"type": "changed", "path": "shop/cart.py", "by": "agent", "diff": DIFF, "stale": [], "at": _AT},
    {"type": "wrote", "written": ANSWER},
    *call(4, "shell", command="python -m pytest -q tests"),
    {"type": "output", "id": 4, "written": "......\n"},
]
WHERE_IT_STOPS: Received = {"type": "pause"}

Steps = Callable[[PaceApp, Pilot[int]], Awaitable[None]]


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the terminal or the settings of whoever runs the tests."""
    for name in ("NO_COLOR", "COLORTERM", "COLUMNS", "LINES", "UNICODE_VERSION", "TEXTUAL_THEME",
                 "TEXTUAL_COLOR_SYSTEM", "TEXTUAL_ANIMATIONS", "TEXTUAL_DIM_FACTOR"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def looks_as_kept(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """Compare a session that was told to do something, after further steps, with its picture."""

    def compare(said: Sequence[Received], steps: Steps, *, size: tuple[int, int], theme: str = DARK) -> bool:
        greeting = (started(session="shop-1", model="qwen3-0.6b", budget=2_048), {"type": "ready"})
        connect = FakeConnect({"greeting": greeting, "runs": [[*said, WHERE_IT_STOPS]]})
        app = PaceApp(connect, theme=theme, grace=0.0)
        app.state.clock = lambda: _AT
        picture = app.export_screenshot
        # Without the fonts from elsewhere, which no two machines draw alike.
        app.export_screenshot = lambda **options: _FONTS.sub("", picture(**options))  # type: ignore[method-assign]

        async def work(pilot: Pilot[int]) -> None:
            await until(pilot, lambda: app.state.phase == "ready")
            app.main.input.area.cursor_blink = False
            app.main.input.text = PROMPT
            await pilot.press("enter")
            await until(pilot, lambda: app.state.is_running and not app._inbox._waiting)
            app.state.began = _AT - _WORKED
            await steps(app, pilot)
            app.draw_soon()
            await until(pilot, lambda: is_drawn(app))

        return snap_compare(app, terminal_size=size, run_before=work)

    return compare


async def look(app: PaceApp, pilot: Pilot[int]) -> None:
    await until(pilot, lambda: any("… shell" in line for line in shown(app)))


async def be_asked(app: PaceApp, pilot: Pilot[int]) -> None:
    await until(pilot, lambda: isinstance(app.screen, ApprovalScreen) and "once" in "\n".join(shown(app)))


async def see_the_memory(app: PaceApp, pilot: Pilot[int]) -> None:
    await pilot.press("f2")
    await until(pilot, lambda: isinstance(app.screen, MemoryScreen))


async def see_the_help(app: PaceApp, pilot: Pilot[int]) -> None:
    await pilot.press("f1")
    await until(pilot, lambda: isinstance(app.screen, HelpScreen))


@in_((SMALL, DARK), (SMALL, LIGHT), (LARGE, DARK), (LARGE, LIGHT))
def test_a_session_at_work(looks_as_kept: Callable[..., bool], size: tuple[int, int], theme: str) -> None:
    assert looks_as_kept(WORK, look, size=size, theme=theme)


@in_((SMALL, DARK), (LARGE, LIGHT))
def test_a_question_with_a_diff(
    looks_as_kept: Callable[..., bool], size: tuple[int, int], theme: str
) -> None:
    assert looks_as_kept([*BEGUN, EDIT[0], ASKED], be_asked, size=size, theme=theme)


@in_((SMALL, LIGHT), (LARGE, DARK))
def test_the_memory_on_a_whole_screen(
    looks_as_kept: Callable[..., bool], size: tuple[int, int], theme: str
) -> None:
    assert looks_as_kept(WORK, see_the_memory, size=size, theme=theme)


@in_((SMALL, DARK), (LARGE, LIGHT))
def test_the_help(looks_as_kept: Callable[..., bool], size: tuple[int, int], theme: str) -> None:
    assert looks_as_kept(WORK, see_the_help, size=size, theme=theme)


def test_without_colours(looks_as_kept: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert looks_as_kept(WORK, look, size=LARGE)


def test_forty_columns(looks_as_kept: Callable[..., bool]) -> None:
    assert looks_as_kept(WORK, look, size=(40, 24))
