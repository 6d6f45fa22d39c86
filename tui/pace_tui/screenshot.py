"""A picture of a real session: ``python -m pace_tui.screenshot --model M --prompt TEXT --out FILE.svg``.

The app runs without a terminal, and all else as always: a process with the model, a repository, permissions,
which are given. The picture is what is on the screen when the last prompt is done.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from textual.pilot import Pilot

from pace_local.errors import FileError, TimeLimitError
from pace_tui.app import PaceApp
from pace_tui.connecting import connect_to
from pace_tui.repository import sources_of
from pace_tui.screens.approval import ApprovalScreen

_FONTS = re.compile(r"@font-face\s*{[^}]*}\s*")
_PAUSE = 0.1
_SETTLE = 1.0
"""Seconds in which the screen has drawn all that it was told."""


def main(argv: Sequence[str] | None = None) -> int:
    """Take the picture."""
    parser = argparse.ArgumentParser(prog="python -m pace_tui.screenshot", description=__doc__)
    parser.add_argument("--model", required=True, help="a name of `pace models list`, or a GGUF's path")
    parser.add_argument("--repo", type=Path, default=Path(), help="the repository to work in")
    parser.add_argument("--prompt", action="append", required=True, help="may be repeated")
    parser.add_argument("--budget", default="2048", help="tokens resident at most")
    parser.add_argument("--check", default="", help="command that says whether the work is right")
    parser.add_argument("--size", default="140x42", help="columns and rows")
    parser.add_argument("--theme", default="textual-dark", help="colours")
    parser.add_argument("--seconds", type=float, default=900.0, help="until it is given up")
    parser.add_argument("--out", type=Path, required=True, help="the SVG file")
    arguments = parser.parse_args(argv)
    columns, rows = (int(part) for part in arguments.size.split("x"))
    repository = Path(os.path.realpath(arguments.repo))
    if not repository.is_dir():
        raise FileError(f"the repository {str(arguments.repo)!r} is no folder; give one with --repo")
    app = PaceApp(
        connect_to(["--repo", str(repository)], is_kept=False),
        options={
            "model": arguments.model,
            "budget": arguments.budget,
            **({"check": arguments.check} if arguments.check else {}),
        },
        sources=sources_of(repository),
        theme=arguments.theme,
        grace=0.0,
    )
    asyncio.run(_take(app, arguments.prompt, (columns, rows), arguments.seconds, arguments.out))
    return 0


async def _take(
    app: PaceApp, prompts: Sequence[str], size: tuple[int, int], seconds: float, path: Path
) -> None:
    async with app.run_test(size=size) as pilot:
        end = time.monotonic() + seconds
        await _until(app, pilot, lambda: app.state.phase == "ready", end)
        for prompt in prompts:
            app.main.input.text = prompt
            await pilot.press("enter")
            await _until(app, pilot, lambda: app.state.is_running, end)
            await _until(app, pilot, lambda: not app.state.is_running, end)
        await pilot.pause(_SETTLE)
        # Fonts from elsewhere: whoever looks at it has some of their own.
        path.write_text(_FONTS.sub("", app.export_screenshot(title="pace")), encoding="utf-8")


async def _until(app: PaceApp, pilot: Pilot[int], is_so: Callable[[], bool], end: float) -> None:
    """Wait for something; say yes to what is asked meanwhile.

    Raises:
        TimeLimitError: if it takes too long.
    """
    while not is_so():
        if time.monotonic() > end:
            raise TimeLimitError("the session takes too long; give it more --seconds")
        if isinstance(app.screen, ApprovalScreen):
            await pilot.press("y")
        await pilot.pause(_PAUSE)


if __name__ == "__main__":
    sys.exit(main())
