"""The page about the screen says what is so: its keys and commands are those that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from pace_tui.commands import COMMANDS
from pace_tui.keys import KEYS, PLACES, Place

PAGE = (Path(__file__).parent.parent / "docs" / "screen.md").read_text(encoding="utf-8")


def rows_after(heading: str) -> list[tuple[str, str]]:
    """The rows of the first table behind a line."""
    lines = PAGE[PAGE.index(f"\n{heading}\n") :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    found = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        key, _, does = line.strip("| ").partition(" | ")
        found.append((key, does))
    return found


@pytest.mark.parametrize("place", PLACES)
def test_the_page_has_all_keys(place: Place) -> None:
    assert rows_after(f"{PLACES[place]}:") == [(key.shown, key.help) for key in KEYS if key.place == place]


def test_the_page_has_all_commands() -> None:
    assert rows_after("## Commands") == [(f"`{one.usage}`", one.help) for one in COMMANDS]
