"""One line: model, mode, budget used, step, speed, time."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from pace_tui.looks import Looks
from pace_tui.plain_text import count, counted, duration, one_line
from pace_tui.session_state import SessionState
from pace_tui.widgets.steady import Steady


class StatusLine(Steady):
    """Draws the state; what has no room at the end is left out from the least needed on."""

    def show(self, state: SessionState, looks: Looks, *, waiting: int = 0, is_following: bool = True) -> None:
        """Draw it."""
        parts = status_parts(state, looks, waiting=waiting, is_following=is_following)
        self.put(joined(parts, max(self.size.width, 1), looks), layout=False)


def status_parts(
    state: SessionState, looks: Looks, *, waiting: int = 0, is_following: bool = True
) -> list[tuple[int, Text]]:
    """The parts in order, each with how much it is needed: 0 is needed most."""
    parts: list[tuple[int, Text]] = []

    def add(need: int, text: str, look: str = "") -> None:
        parts.append((need, Text(text, looks.style(look) if look else looks.faint)))

    add(0, *_phase(state))
    add(
        1,
        state.mode,
        {"plan": "secondary", "auto": "error", "accept-edits": "warning"}.get(state.mode, "primary"),
    )
    if state.model:
        add(5, one_line(state.model.rsplit("/", 1)[-1], 32))
    if state.budget:
        share = state.residents / state.budget
        add(2, f"{count(state.residents)}/{count(state.budget)} tokens", "warning" if share > 0.98 else "")
    if state.steps_of:
        add(3, f"step {state.step}/{state.steps_of}")
    if state.speed:
        add(4, f"{state.speed:.1f} tok/s")
    if waiting:
        add(2, f"{waiting} waiting", "warning")
    changed = {each.path for each in state.changes if each.stale and each.by != "agent"}
    if changed:
        add(6, f"{counted(len(changed), 'file')} changed, F3", "warning")
    if not is_following:
        add(1, "↓ End follows", "accent")
    return parts


def _phase(state: SessionState) -> tuple[str, str]:
    if state.phase == "loading":
        return f"loading {state.loading_share:.0%}", "warning"
    if state.phase in ("starting", "dead"):
        return state.phase, "error" if state.phase == "dead" else "warning"
    if state.began is None and state.open_calls:
        return "running a command", "accent"
    if state.began is None:
        return "ready" + (f" ({duration(state.last_seconds)})" if state.last_seconds else ""), "success"
    took = (
        duration(float(int(state.clock() - state.began)) or 0.0)
        if state.clock() - state.began >= 1
        else "0 s"
    )
    if state.reading is not None:
        done, total = state.reading
        return f"reading {count(done)}/{count(total)} {took}", "accent"
    return f"working {took}", "accent"


def joined(parts: list[tuple[int, Text]], width: int, looks: Looks) -> Text:
    """The parts with bars between, as many as fit."""
    chosen = list(parts)
    while len(chosen) > 1 and sum(cell_len(text.plain) + 3 for _, text in chosen) - 3 > width:
        chosen.remove(max(chosen, key=lambda part: part[0]))
    line = Text(" │ ", looks.faint).join([text for _, text in chosen])
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line
