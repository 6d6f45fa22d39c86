"""The session on the screen: begun, gone on with in another process, exchanged for another; with its past."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pace_tui.process_life import ProcessLife
from pace_tui.sources import PastOf, Prepared
from pace_tui.threads import call_soon, in_thread
from pace_tui.wire import Connect, Inbox, Options, Received

if TYPE_CHECKING:
    from pace_tui.app import PaceApp
    from pace_tui.entries import Entry
    from pace_tui.past import Past

_OFTEN = 30.0
"""Seconds between two deaths from which on the process is not started again by itself."""
_AT_A_TIME = 300
"""Entries of the past that are put into the transcript between two drawings."""


class SessionLife:
    """Decides what is started, and has the transcript show what was said before.

    Args:
        app: shows it.
        connect: starts a process.
        options: of the first.
        inbox: takes what processes say.
        past_of: the events of a session from before.
        prepare: says what is to be known before the first process is started; called in a thread.
    """

    def __init__(
        self,
        app: PaceApp,
        connect: Connect,
        options: Options,
        inbox: Inbox,
        past_of: PastOf,
        prepare: Callable[[], Prepared] | None,
    ) -> None:
        self._app = app
        self._past_of, self._prepare = past_of, prepare
        self.process = ProcessLife(connect, options, inbox, partial(call_soon, app, self._cannot_start))
        self.is_past_coming = False
        """Whether what a process says waits until what was said before is there."""
        self._shown = ""
        """The session that the transcript has from its beginning on."""
        self._is_begun = False
        """Whether a process was started; before, the user may still be asked for trust."""
        self._died_at = float("-inf")
        self._is_hopeless = False
        """Whether the process has said why it cannot go on."""

    # Starting

    def begin(self) -> None:
        """Start the first process, with what the user has set."""
        if self._prepare is None:
            self._start()
        else:
            in_thread(self._app, self._prepare, self._take_prepared, self._cannot_prepare)

    def _take_prepared(self, prepared: Prepared) -> None:
        app = self._app
        app.editor = app.editor or prepared.editor
        if prepared.theme in app.available_themes:
            app.theme = prepared.theme
        elif prepared.theme:
            app.warn(f"there is no theme {prepared.theme!r}; /theme lists those that there are")
        if not prepared.untrusted:
            self._start()
            return
        from pace_tui.screens.trust import TrustScreen

        def answered(is_trusted: bool | None) -> None:
            if not is_trusted:
                in_thread(app, prepared.decline, lambda _: None, app.warn)
            self._start(**({"trust": ""} if is_trusted else {}))

        app.push_screen(TrustScreen(prepared.untrusted, app.looks, grace=app.grace), answered)

    def _cannot_prepare(self, problem: str) -> None:
        self._app.warn(problem)
        self._start()

    def _start(self, **changes: str) -> None:
        self._app.state.phase = "starting"
        self._is_begun, self._is_hopeless = True, False
        self.process.start(**changes)
        session = self.process.options.get("resume", "")
        if session and session != self._shown:
            self.read_past(session)
        self._app.draw_soon()

    def _cannot_start(self, problem: str) -> None:
        self._app.state.phase = "dead"
        self._app.main.scribe.note(f"the agent cannot be started: {problem}", "error", sign="✗")
        self._app.draw_soon()

    def restart(self, **options: str) -> None:
        """Start another process, which goes on with this session unless ``resume`` names another, or none.

        Before the first one is started, it is that which will be as the options have it.
        """
        if not self._is_begun:
            self.process.change(**options)
            return
        app = self._app
        is_new = options.get("resume") == ""
        current = app.state.session or self.process.options.get("resume", "")
        session = options.setdefault("resume", current)
        app.approvals.forget()
        if is_new or session != current:
            app.forget_session()
            self._shown, self.is_past_coming = "", False
        app.state.began = app.state.reading = None
        app.state.open_calls.clear()
        app.main.scribe.restart()
        app.turns.break_off()
        self._start(**options)

    # The process

    def take(self, received: Received) -> None:
        """Learn from an object how the process does."""
        kind = received.get("type")
        if kind == "started":
            state = self._app.state
            self._shown = state.session
            state.mode = self.process.options.get("mode", state.mode)  # it may still be on its way
        elif kind == "error":
            self._is_hopeless |= bool(received.get("fatal"))
        elif kind == "died":
            self._died(received)

    def _died(self, received: Received) -> None:
        """The process is gone: say so, and go on with its session in another."""
        self.process.is_gone()
        self._app.approvals.forget()
        scribe, session = self._app.main.scribe, self._app.state.session
        scribe.restart()
        self._app.turns.break_off()
        signal, code = received.get("signal"), received.get("code")
        how = f"ended by {signal}" if signal else f"exit code {code}"
        scribe.note(f"the agent's process is gone: {how}", "error", sign="✗")
        if received.get("log"):
            scribe.note("\n".join(str(line) for line in received["log"]))
        now = time.monotonic()
        is_often, self._died_at = now - self._died_at < _OFTEN, now
        if session and not is_often and not self._is_hopeless:
            scribe.note(f"going on with session {session}", "warning", sign="↺")
            self.restart()
        else:
            scribe.note("/resume tries again; /model takes another model", "warning", sign="!")

    # The past

    def has_past(self, received: Received) -> bool:
        """Whether it begins a session of which the transcript does not have what was said before."""
        if received.get("type") != "started" or not received.get("resumed"):
            return False
        return str(received.get("session") or self._shown) != self._shown

    def read_past(self, session: str) -> None:
        """Show what was said before; what comes meanwhile is shown behind it."""
        from pace_tui.past import read_past

        self._shown = session
        self.is_past_coming = True
        past = partial(self._past_of, session, self.process.started_at)
        in_thread(
            self._app,
            lambda: read_past(past()),
            partial(self._take_past, session),
            partial(self._cannot_read_past, session),
        )

    def _take_past(self, session: str, past: Past) -> None:
        if session == self._shown:  # else another one was chosen meanwhile
            self._app.state.adopt(past.state)
            self._app.main.input.remember_before(past.prompts)
            self._app.run_worker(self._lay_past(session, past.entries))

    async def _lay_past(self, session: str, entries: Sequence[Entry]) -> None:
        for start in range(0, len(entries), _AT_A_TIME):
            for entry in entries[start : start + _AT_A_TIME]:
                self._app.main.transcript.add(entry)
            await asyncio.sleep(0)
            if session != self._shown:
                return
        self._past_is_there()

    def _cannot_read_past(self, session: str, problem: str) -> None:
        self._app.warn(f"what was said before cannot be shown: {problem}")
        if session == self._shown:
            self._past_is_there()

    def _past_is_there(self) -> None:
        self.is_past_coming = False
        self._app.take_all()
        self._app.draw_soon()
