"""Sessions written down turn by turn, and played again under any policy and budget."""

from pace_local.recording.reader import Recording
from pace_local.recording.recorder import RecordedSession, refuse_existing
from pace_local.recording.replay import force, replay
from pace_local.recording.turns import Appended, Generated, Pinned, Planned, StepDone, Turn

__all__ = [
    "Appended",
    "Generated",
    "Pinned",
    "Planned",
    "RecordedSession",
    "Recording",
    "StepDone",
    "Turn",
    "force",
    "refuse_existing",
    "replay",
]
