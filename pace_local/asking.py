"""Files of any length, read through a session of a fixed budget, and questions about them.

Every file is cut into excerpts; each excerpt is one turn of the session and one segment. A question is a
step of a plan whose reads are the excerpts that it needs: those named by the caller, or those that
:func:`pace_local.excerpts.pick` finds. So when the question comes, what it needs is resident and near,
whatever was read in between.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from pace_local.errors import ConfigError, PlanError
from pace_local.events import Event
from pace_local.excerpts import Excerpt, ExcerptIndex, Pick, cut, pick
from pace_local.files import SourceText
from pace_local.plan import Plan, Step
from pace_local.sampling import Sampling
from pace_local.session import Session

SYSTEM_PROMPT = (
    "You are a precise coding assistant. The user shows you excerpts of files, and then asks. "
    "Answer from what the excerpts say, with exact names and numbers."
)

_EXCERPT_TOKENS = 400
_TURN_TOKENS = 24
"""What an excerpt costs beside its text: role markers, its label, code fences; rounded up."""
_ANSWER_ROOM = 128
"""Tokens of the budget left free of reads, beside the recent window, for the question and its answer."""


@dataclass(frozen=True)
class PlannedStep:
    """A question and the excerpts that it reads, the most relevant first."""

    step: Step
    picks: tuple[Pick, ...]
    answers: tuple[int, ...] = ()
    """Numbers of earlier steps, from 1, whose answers it reads."""

    @property
    def prompt(self) -> str:
        """What the model is asked."""
        return self.step.prompt or self.step.text


class Asking:
    """Reads files through a session and answers questions about them.

    Args:
        session: a fresh one.
        sources: the files, in the order in which they are read.
        proceed: called again and again while files are cut, counted and read; raises to stop that.
    """

    def __init__(
        self, session: Session, sources: Sequence[SourceText], proceed: Callable[[], None] = lambda: None
    ) -> None:
        self.session = session
        self._proceed = proceed
        size = min(_EXCERPT_TOKENS, max(32, session.config.soft_budget // 4))
        self.excerpts = [
            excerpt
            for source in sources
            if not source.is_blank
            for excerpt in cut(source, size, self._count)
            if excerpt.text.strip()
        ]
        self._index = ExcerptIndex(self.excerpts)
        self._segment_of: dict[Excerpt, str] = {}
        self._answers: list[str] = []

    @property
    def tokens_to_read(self) -> int:
        """Tokens of all excerpts, without what frames them."""
        return sum(self._count(excerpt.text) for excerpt in self.excerpts)

    @property
    def tokens_to_decode(self) -> int:
        """The same with the label, headings and fences that the model sees around each."""
        return sum(self._count(_shown(excerpt)) for excerpt in self.excerpts)

    def plan(self, steps: Sequence[Step]) -> list[PlannedStep]:
        """Resolve what each step reads: what it names, or else what its prompt needs.

        A read names a file (``orders.py``), lines of one (``orders.py:10-40``), a definition
        (``parse_order``, ``orders.py:parse_order``), or the answer to an earlier step (``answer:1``).

        Raises:
            PlanError: if a read names nothing that is there.
            ConfigError: if a prompt does not fit the budget.
        """
        planned = []
        for number, step in enumerate(steps, 1):
            prompt = step.prompt or step.text
            self._check_prompt(prompt)
            answers = tuple(
                self._answer_number(read, number) for read in step.reads if read.startswith("answer:")
            )
            named = [read for read in step.reads if not read.startswith("answer:")]
            picks: list[Pick] = []
            for read in named:
                for excerpt in self._named(read):
                    if all(excerpt is not taken.excerpt for taken in picks):
                        picks.append(Pick(excerpt, f"the plan reads {read}", self._count(excerpt.text), 0.0))
            if not step.reads and self.excerpts:
                picks = pick(prompt, self._index, self._room(prompt), self._cost)
            planned.append(PlannedStep(step, tuple(picks), answers))
        return planned

    def read(self, planned: Sequence[PlannedStep]) -> None:
        """Read all files, with the plan in force from the first excerpt on."""
        self.session.append(SYSTEM_PROMPT, name="system", kind="system")
        next_use: dict[Excerpt, int] = {}
        for distance, step in enumerate(planned):
            for taken in step.picks:
                next_use.setdefault(taken.excerpt, distance)
        for excerpt in self.excerpts:
            self._proceed()
            segment = self.session.append(
                _shown(excerpt), name=excerpt.label, kind="file", next_use=next_use.get(excerpt)
            )
            self._segment_of[excerpt] = segment.name
            self._follow(planned)

    def answer(
        self,
        planned: Sequence[PlannedStep],
        number: int,
        *,
        max_tokens: int,
        sampling: Sampling | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[Event]:
        """Ask the step of a number, from 0, and yield events while the model answers."""
        self._follow(planned[number:])
        name = f"answer:{number + 1}"
        readers = (away for away, step in enumerate(planned[number:]) if number + 1 in step.answers)
        yield from self.session.generate(
            planned[number].prompt,
            name=name,
            max_tokens=max_tokens,
            sampling=sampling,
            stop=stop,
            next_use=next(readers, None),
        )
        self._answers.append(name)

    def _follow(self, planned: Sequence[PlannedStep]) -> None:
        """Tell the session what is still to be read, as far as it is there already."""
        self.session.plan = Plan(
            Step(
                step.step.text,
                [self._segment_of[pick.excerpt] for pick in step.picks if pick.excerpt in self._segment_of]
                + [self._answers[number - 1] for number in step.answers if number <= len(self._answers)],
            )
            for step in planned
        )

    def _count(self, text: str) -> int:
        self._proceed()
        return len(self.session.model.tokenize(text))

    def _cost(self, text: str) -> int:
        return self._count(text) + _TURN_TOKENS

    def _check_prompt(self, prompt: str) -> None:
        config = self.session.config
        if self._cost(SYSTEM_PROMPT) + self._cost(prompt) > config.soft_budget:
            raise ConfigError(
                f"a prompt of {self._count(prompt)} tokens and a system prompt of "
                f"{self._count(SYSTEM_PROMPT)} do not fit a budget of {config.budget}; "
                "raise the budget or shorten the prompt"
            )

    def _room(self, prompt: str) -> int:
        config = self.session.config
        taken = config.recent_tokens + self._cost(SYSTEM_PROMPT) + self._cost(prompt) + _ANSWER_ROOM
        if taken >= config.soft_budget:
            raise ConfigError(
                f"a budget of {config.budget} tokens has no room beside the prompt of {self._count(prompt)}; "
                "raise the budget or shorten the prompt"
            )
        return config.soft_budget - taken

    def _answer_number(self, read: str, number: int) -> int:
        text = read.removeprefix("answer:")
        if number == 1:
            raise PlanError(f"step 1 reads {read!r}, and no step comes before it; leave it out")
        if not re.fullmatch(r"\d{1,9}", text) or not 1 <= int(text) < number:
            raise PlanError(f"step {number} reads {read!r}; use answer:K with K from 1 to {number - 1}")
        return int(text)

    def _named(self, read: str) -> list[Excerpt]:
        path, _, rest = read.rpartition(":")
        lines = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", rest) if path else None
        if lines:
            first, last = int(lines[1]), int(lines[2] or lines[1])
            found = [
                excerpt
                for excerpt in self._of_file(path)
                if excerpt.start_line <= last and excerpt.end_line >= first
            ]
        else:
            found = self._of_file(read) or self._defining(path, rest)
        if found:
            return found
        known = sorted(
            {excerpt.path for excerpt in self.excerpts} | {n for e in self.excerpts for n in e.names}
        )
        close = difflib.get_close_matches(read, known, n=3, cutoff=0.5)
        hint = (
            f"; did you mean {' or '.join(map(repr, close))}?"
            if close
            else "; name a file, file:lines or a definition"
        )
        raise PlanError(f"the plan reads {read!r}, which no file holds{hint}")

    def _of_file(self, path: str) -> list[Excerpt]:
        exact = [excerpt for excerpt in self.excerpts if excerpt.path == path]
        return exact or [excerpt for excerpt in self.excerpts if _ends_with(excerpt.path, path)]

    def _defining(self, path: str, name: str) -> list[Excerpt]:
        return [
            excerpt
            for excerpt in (self._of_file(path) if path else self.excerpts)
            if any(name in (definition.name, definition.leaf) for definition in excerpt.defines)
        ]


def _ends_with(path: str, end: str) -> bool:
    parts, wanted = PurePath(path).parts, PurePath(end).parts
    return bool(wanted) and parts[-len(wanted) :] == wanted


def _shown(excerpt: Excerpt) -> str:
    """What the model sees of an excerpt."""
    fence = "```"
    while fence in excerpt.text:
        fence += "`"
    head = f"{excerpt.head}\n…\n" if excerpt.head else ""
    text = excerpt.text.rstrip("\r\n")
    return f"{excerpt.label}\n{fence}\n{head}{text}\n{fence}"
