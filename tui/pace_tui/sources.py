"""What a screen asks of the agent's side before and beside its process; each is called in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pace_tui.wire import Received


class Prepared(Protocol):
    """What is known before the process is started."""

    @property
    def theme(self) -> str:
        """One of Textual's; empty: the default."""

    @property
    def editor(self) -> str:
        """Command of an editor; empty: as the environment has it."""

    @property
    def untrusted(self) -> Sequence[str]:
        """Files that would be used if the user trusted the repository; empty: there is nothing to ask."""

    def decline(self) -> None:
        """The user does not want them used; called in a thread."""


class History(Protocol):
    """Prompts from before."""

    def read(self) -> Sequence[str]:
        """The newest, oldest first."""

    def add(self, prompt: str) -> object:
        """Write one down."""


@dataclass(frozen=True)
class KeptSession:
    """A session that can be gone on with."""

    name: str
    first_prompt: str = ""
    """Empty if there was none yet."""

    prompts: int = 0
    last_used: float = 0.0
    """In seconds since 1970."""

    problem: str = ""
    """Why it cannot be gone on with now; empty: it can."""


Names = Callable[[], Sequence[str]]
PastOf = Callable[[str, float], Iterable[Received]]
"""The events of a session from before a time, in seconds since 1970, oldest first."""


def no_past(session: str, before: float) -> Iterable[Received]:
    """A past that nobody knows."""
    return ()


@dataclass(frozen=True)
class Sources:
    """Where a screen gets names and sessions from; :func:`pace_tui.repository.sources_of` has the real ones.

    Whatever they raise is shown to the user.
    """

    files: Names = tuple
    """Paths in the repository, with ``/``."""

    models: Names = tuple
    policies: Names = tuple
    sessions: Callable[[], Sequence[KeptSession]] = tuple
    """Of this repository, the one that was used last first."""

    past: PastOf = no_past
