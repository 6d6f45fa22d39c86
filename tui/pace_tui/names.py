"""Names for proposals: asked for when they are first needed, in a thread, and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.app import App

from pace_tui.session_state import MODES, SessionState
from pace_tui.sources import KeptSession, Sources
from pace_tui.threads import in_thread

_BUDGETS = (512, 1024, 2048, 4096, 8192, 16384, 32768)


class KnownNames:
    """Gives names of a kind: ``mode``, ``theme``, ``segment``, ``file``, ``model``, ``policy``,
    ``budget``, ``session``.

    Args:
        app: has the themes, and the thread that names are taken on.
        sources: where those come from that are looked for in a thread.
        state: of the session.
        found: called when names are there that were not when they were asked for.
        failed: called with why names of a kind cannot be had.
    """

    def __init__(
        self,
        app: App[int],
        sources: Sources,
        state: Callable[[], SessionState],
        found: Callable[[], object],
        failed: Callable[[str], object],
    ) -> None:
        self._app = app
        self._state = state
        self._tell_found, self._tell_failed = found, failed
        self._look: dict[str, Callable[[], Sequence[str]]] = {
            "file": sources.files,
            "model": sources.models,
            "policy": sources.policies,
            "session": lambda: _usable(sources.sessions()),
        }
        self._known: dict[str, Sequence[str]] = {}
        self._fresh: set[str] = set()
        """Kinds that are known or being looked for."""

    def __call__(self, kind: str) -> Sequence[str]:
        """Those that are known now; what is not is looked for."""
        if kind == "mode":
            return MODES
        if kind == "theme":
            return sorted(self._app.available_themes)
        if kind == "segment":
            return [str(each.get("name")) for each in self._state().view.get("segments", ())]
        if kind == "budget":
            cap = self._state().position_cap
            return [str(budget) for budget in _BUDGETS if cap is None or budget < cap]
        if kind in self._look and kind not in self._fresh:
            self._fresh.add(kind)
            in_thread(self._app, self._look[kind], partial(self._take, kind), self._tell_failed)
        return self._known.get(kind, ())

    def _take(self, kind: str, names: Sequence[str]) -> None:
        if list(names) != list(self._known.get(kind, ())):
            self._known[kind] = names
            self._tell_found()

    def forget(self, *kinds: str) -> None:
        """These may have changed; what is known of them counts until it is known better."""
        self._fresh.difference_update(kinds)


def _usable(sessions: Sequence[KeptSession]) -> Sequence[str]:
    return [each.name for each in sessions if not each.problem]
