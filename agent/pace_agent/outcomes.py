"""What a tool's function can return: text alone, or something that the agent has to do for it."""

from __future__ import annotations

from dataclasses import dataclass

from pace_agent.safety.paths import Place
from pace_local.files import SourceText


@dataclass(frozen=True)
class Lines:
    """Lines of a file as they are now; they become a segment of their own, which plans can read."""

    text: str
    """As the model is shown them, with a line that says where they are."""

    path: str
    """From the repository, with ``/``."""

    first: int
    """1-based."""

    last: int
    """Inclusive."""

    content: str
    """The lines alone, as they stand in the file."""

    is_whole: bool = False
    """Whether these are all lines of the file."""


@dataclass(frozen=True)
class Held:
    """Lines that the model was shown before and that are as they were: their segment is brought back."""

    segment: str
    text: str


@dataclass(frozen=True)
class Proposal:
    """A file's new content; it is written once that is allowed."""

    place: Place
    before: SourceText | None
    """None: there is no file yet."""

    after: SourceText
    summary: str
    """What was done, for the model."""

    first: int = 1
    """First line that changes, as lines are counted afterwards."""

    last: int = 1


@dataclass(frozen=True)
class Failure:
    """The tool worked, and says that something is not as it should be, such as a command that failed."""

    text: str
    """For the model: no longer than one result may be."""

    output: str = ""
    """What a command printed, as far as the shell keeps it in memory."""


@dataclass(frozen=True)
class Replan:
    """A new plan for what is still to do, as the model wrote it."""

    document: object


@dataclass(frozen=True)
class Finish:
    """The step at hand is done."""

    summary: str


Outcome = str | Lines | Held | Proposal | Failure | Replan | Finish
