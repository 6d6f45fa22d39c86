"""What a session knows of the steps to come: its plan, its pins, and bringing what a step reads."""

from __future__ import annotations

import time

import numpy as np

from pace_local.errors import ConfigError
from pace_local.memory import KeepPlan, Reason
from pace_local.plan import Plan
from pace_local.session_core import SessionCore


class SessionSteps(SessionCore):
    """The part of a session that follows a plan."""

    @property
    def plan(self) -> Plan:
        """Steps still to do; assign a new one at any time.

        Raises:
            PlanError: on assignment, if a step reads a segment that does not exist.
        """
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._check_plan(plan)
        self._start_plan(plan, is_next=plan.steps[:1] != self._plan.steps[:1])
        self._cache.told.clear()

    def revise(self, plan: Plan) -> None:
        """Change the plan while its nearest step goes on.

        What that one reads may differ, but it does not begin anew: what is resident for it stays.

        Raises:
            PlanError: if a step reads a segment that does not exist.
        """
        self._check_plan(plan)
        self._start_plan(plan, is_next=False)

    def _check_plan(self, plan: Plan) -> None:
        for step in plan:
            for name in step.reads:
                self.segments.named(name)

    def step_done(self) -> None:
        """The nearest step of the plan is done: go on to the next."""
        self._start_plan(self._plan.advance(), is_next=True)

    def _start_plan(self, plan: Plan, is_next: bool) -> None:
        self._plan = plan
        self._asked = []
        self._step_is_due = self._step_is_due or is_next
        self._tell_memory()
        if not self._working:
            self._write_down()

    def _tell_memory(self) -> None:
        if self.engine.ctx is not None:
            self._memory.plan_changed(
                [[self.segments.named(name).id for name in step.reads] for step in self._plan]
            )

    def recall(self, name: str) -> None:
        """Have a segment back now, as one that the current step reads; without a plan, the next answer does.

        Of several, what was asked for last comes first. What was saved is loaded; what was not is computed
        again, in isolation.

        Raises:
            PlanError: if there is no such segment.
            ConfigError: if it is too large for the budget.
            CancelledError, NativeError: as :meth:`append`.
        """
        segment = self.segments.named(name)
        working_set = self._memory.working_set
        with self._at_work():
            if not working_set.fits_alone(len(working_set.unit(segment.id))):
                raise ConfigError(
                    f"{name!r} has {len(segment)} tokens and does not fit beside what is pinned in a budget "
                    f"of {self.config.budget}; raise the budget"
                )
            self._asked = [*(asked for asked in self._asked if asked != segment.id), segment.id]
            for lost in working_set.bring({segment.id: "asked for"}):
                working_set.recompute(lost, "asked for, and not saved")

    def evict(self, name: str) -> None:
        """Evict a segment now; if the policy recalls, it is saved first and can come back.

        The role markers of its turn go too, unless other content of that turn is resident.

        Raises:
            PlanError: if there is no such segment.
            ConfigError: if it is pinned.
            NativeError: if the cache fails.
        """
        segment = self.segments.named(name)
        if segment.pinned:
            raise ConfigError(f"{name!r} is pinned; unpin it first")
        with self._at_work():
            began = time.perf_counter()
            self._asked = [asked for asked in self._asked if asked != segment.id]
            view = self._cache.view()
            others = (view.turn == segment.turn) & ~view.framing & (view.segment != segment.id)
            is_open = bool(self._pending) and segment.turn == self._n_turns - 1
            leaving = view.segment == segment.id
            if leaving.any() and not others.any() and not is_open:
                leaving |= view.framing & (view.turn == segment.turn)
            if leaving.any():
                keep = np.flatnonzero(~leaving).astype(np.uint32)
                reasons = np.where(leaving, Reason.EVICTED, Reason.SCORE).astype(np.int8)
                plan = KeepPlan(keep, reasons, np.zeros(len(view)))
                self._cache.leave_only(view, plan, tuple(self.reads()), began, 0.0)

    def pin(self, name: str, pinned: bool = True) -> None:
        """Keep a segment whatever happens, or no longer.

        What was evicted already comes back with the next turn, if the policy recalls and it was saved.

        Raises:
            PlanError: if there is no such segment.
            ConfigError: if pinned segments would leave no room to work in.
        """
        segment = self.segments.named(name)
        if pinned and not segment.pinned:
            self._check_pins(segment.name, self._price(segment))
        self.segments.set_pinned(segment.id, pinned)
        if not self._working:
            self._write_down()

    def _start_step(self, prompt: str | None = None) -> None:
        """Bring what the step at hand reads, before its prompt is read or its answer written.

        Args:
            prompt: what the user is about to ask; what it mentions is read too.
        """
        mentioned = [] if prompt is None else self._memory.mentioned(prompt)
        if prompt is not None:
            self._mentioned = mentioned
        now = [read.segment for read in self.reads() if read.step == 0]
        asked = [segment for segment in now if segment == self._prompt and self._role == "user"]
        reads = [segment for segment in now if segment != self._prompt and segment not in mentioned]
        working_set = self._memory.working_set
        if self._memory.recalls:
            pinned = sorted(self.segments.pinned - working_set.whole())
            working_set.bring(dict.fromkeys(pinned, "it is pinned"))
        if self._memory.focuses and self._step_is_due and len(self._plan):
            self._flush_pending()  # the end of the answer before leaves with it
            self._memory.focus.start(next(iter(self._plan)).text, reads + mentioned, asked)
        elif self._memory.recalls:
            for lost in working_set.bring(dict.fromkeys(asked + reads, "a step reads it")):
                if lost in reads and working_set.fits_alone(len(working_set.unit(lost))):
                    working_set.recompute(lost, "a step reads it, and it was not saved or is gone")
            working_set.bring(dict.fromkeys(mentioned, "the prompt mentions a name that it defines"))
        self._step_is_due = False
