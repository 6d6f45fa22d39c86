"""What a run of ``pace eval`` measures: its settings, and the cells of its table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from pace_local.config import MEANS, SessionConfig
from pace_local.errors import ConfigError
from pace_local.eval.specifications import MOST_LOOK_ALIKES, Specification, kinds, look_alikes
from pace_local.eval.tasks import KINDS
from pace_local.policies import policy_named

N_SPECIFICATIONS = 8
MOST_SPECIFICATIONS = {"alike": MOST_LOOK_ALIKES, "unlike": len(KINDS)}
SPECIFICATION_SETS = tuple(MOST_SPECIFICATIONS)
CEILING = "ceiling"
"""Stands where a policy's name does: fresh sessions in which all that is read stands right before the
question, and nothing else but the system prompt."""

ANSWER_TOKENS = 300
"""Right answers take 60 to 150 for each specification."""

MOST_SEEDS = 1000


@dataclass(frozen=True)
class Cell:
    """One entry of the table: how many of which specifications a probe reads, by which policy and means."""

    specs: str
    """``alike`` or ``unlike``."""

    policy: str
    means: str | None
    """None for policies that do not start steps with what they read."""

    reads: int

    @property
    def key(self) -> str:
        """Its name in files: ``alike/pace_focus/auto/2``."""
        return f"{self.row}/{self.reads}"

    @property
    def row(self) -> str:
        """The same without the number of reads."""
        return f"{self.specs}/{self.policy}/{self.means or '-'}"

    @property
    def label(self) -> str:
        """Policy and means for people."""
        return self.policy if self.means is None else f"{self.policy}, {self.means}"

    @property
    def is_ceiling(self) -> bool:
        return self.policy == CEILING

    @property
    def stage(self) -> str:
        """Cells with the same stage have the same session up to the first probe, residents included.

        A policy that focuses starts each step from what the step reads, so that the session before it is the
        same however the probes will be grouped; others keep what the plan reads, which differs.
        """
        return self.row if self.means is not None else self.key

    def n_probes(self, specifications: int) -> int:
        """Whole groups of so many reads."""
        return specifications // self.reads


@dataclass(frozen=True)
class EvalSettings:
    """What ``pace eval`` was asked to measure.

    Raises:
        ConfigError: when a value is out of range, with the value and the range.
    """

    tokens: int = 12_000
    """Of other work between the specifications and the first probe."""

    policies: tuple[str, ...] = ("pace", "pace_focus")
    means: tuple[str, ...] = ("auto",)
    reads: tuple[int, ...] = (1,)
    specs: tuple[str, ...] = SPECIFICATION_SETS
    seeds: int = 1
    budget: int = SessionConfig.budget
    position_cap: int = SessionConfig.position_cap
    threads: int | None = None
    answer_tokens: int = ANSWER_TOKENS
    """Longest answer, for each specification that a probe reads."""

    specifications: int = N_SPECIFICATIONS
    """Told first; every one is asked for once, but for a last group that is not whole."""

    between: int = 0
    """Tokens of other work between one probe and the next."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        if not 0 <= self.tokens <= 2**30:
            raise ConfigError(f"--tokens {self.tokens} is out of range; use 0 to {2**30}")
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise ConfigError(f"--seeds {self.seeds} is out of range; use 1 to {MOST_SEEDS}")
        if not 1 <= self.answer_tokens <= 2**20:
            raise ConfigError(f"--answer-tokens {self.answer_tokens} is out of range; use 1 to {2**20}")
        if not 0 <= self.between <= 2**30:
            raise ConfigError(f"--between {self.between} is out of range; use 0 to {2**30}")
        for specs in self.specs:
            most = MOST_SPECIFICATIONS.get(specs, self.specifications)
            if not 1 <= self.specifications <= most:
                raise ConfigError(
                    f"{self.specifications} {specs} specifications are out of range; use 1 to {most}"
                )
        for reads in self.reads:
            if not 1 <= reads <= self.specifications:
                raise ConfigError(f"--reads {reads} is out of range; use 1 to {self.specifications}")
        _check_words("--means", self.means, MEANS)
        _check_words("--specs", self.specs, SPECIFICATION_SETS)
        for what in ("policies", "means", "reads", "specs"):
            values = getattr(self, what)
            if not values or len(set(values)) < len(values):
                raise ConfigError(f"--{what} {','.join(map(str, values))!r}: give at least one, each once")
        for policy in self.policies:
            self.session_config(Cell("alike", policy, None, 1))

    def cells(self) -> list[Cell]:
        """All cells: the ceilings first, then row by row."""
        ceilings = [Cell(specs, CEILING, None, reads) for specs in self.specs for reads in self.reads]
        return ceilings + [
            Cell(specs, policy, means, reads)
            for specs in self.specs
            for policy in self.policies
            for means in (self.means if policy_named(policy).focuses else (None,))
            for reads in self.reads
        ]

    def stages(self) -> list[list[Cell]]:
        """The cells in groups that share a session up to the first probe."""
        return [list(cells) for _, cells in groupby(self.cells(), key=lambda cell: cell.stage)]

    def session_config(self, cell: Cell) -> SessionConfig:
        """Settings of a cell's sessions, but for ceilings, whose budget is what they need.

        Raises:
            ConfigError: for an unknown policy, or a number out of range.
        """
        policy = "none" if cell.is_ceiling else cell.policy
        policy_named(policy)
        return SessionConfig(
            policy=policy,
            means=cell.means or "auto",
            budget=self.budget,
            position_cap=self.position_cap,
            threads=self.threads,
        )

    @property
    def identity(self) -> dict[str, int]:
        """What results of different runs must have in common to stand in one table."""
        return {
            "tokens": self.tokens,
            "budget": self.budget,
            "position_cap": self.position_cap,
            "answer_tokens": self.answer_tokens,
            "specifications": self.specifications,
            "between": self.between,
        }


def specifications_of(specs: str, number: int, seed: int) -> list[Specification]:
    """So many specifications of a set."""
    return look_alikes(number, seed) if specs == "alike" else kinds(seed)[:number]


def _check_words(option: str, words: tuple[str, ...], known: tuple[str, ...]) -> None:
    for word in words:
        if word not in known:
            raise ConfigError(f"{option} {word!r} is not one of {', '.join(known)}")
