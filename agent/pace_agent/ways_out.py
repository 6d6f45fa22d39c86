"""The ways out of a run, as exceptions: whoever finds out that it is over raises one, however deep.

::

    WayOut
    ├── Done             the task is done
    ├── NeedsUser        the user is asked something
    ├── OutOfTurns       the limit of turns is reached
    ├── Unreadable       three answers in a row could not be read
    ├── GoesInCircles    the same call had the same result five times
    ├── NotAllowed       a permission that nobody gave
    ├── OutOfTime        the time limit is reached
    ├── Stopped          the user cancelled
    └── Broken           an error
"""

from __future__ import annotations

from typing import ClassVar

from pace_agent.events import EndReason


class WayOut(Exception):  # noqa: N818 (most of them are no errors)
    """A run is over. Its text is the result: an answer, a question, or what went wrong."""

    reason: ClassVar[EndReason]


class Done(WayOut):
    """The task is done."""

    reason = "done"


class NeedsUser(WayOut):
    """The user is asked something."""

    reason = "question"


class OutOfTurns(WayOut):
    """The limit of turns is reached."""

    reason = "turn_limit"


class Unreadable(WayOut):
    """Three answers in a row could not be read."""

    reason = "format_errors"


class GoesInCircles(WayOut):
    """The same call had the same result five times."""

    reason = "repeated"


class NotAllowed(WayOut):
    """A permission that the task needs and that nobody gave."""

    reason = "refused"


class OutOfTime(WayOut):
    """The time limit is reached."""

    reason = "time"


class Stopped(WayOut):
    """The user cancelled."""

    reason = "cancelled"


class Broken(WayOut):
    """An error ended the run."""

    reason = "failed"
