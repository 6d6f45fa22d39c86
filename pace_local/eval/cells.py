"""What a run of ``pace eval`` measures: its settings, and the cells of its table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from pace_local.config import MEANS, SessionConfig
from pace_local.errors import ConfigError
from pace_local.eval.workload import MOST_QUESTIONS, SPECIFICATION_SETS, check_workload
from pace_local.policies import policy_named

N_SPECIFICATIONS = 8
CEILING = "ceiling"
"""Stands where a policy's name does: fresh sessions in which all that is read stands right before the
question, and nothing else but the system prompt."""

ANSWER_TOKENS = 300
"""Right answers take 60 to 150 for each specification."""

MOST_SEEDS = 1000
MOST_TOKENS = 2**30
NO_PLAN = 100
"""So many percent of the plan's reads are wrong where there is no plan at all."""

Apart = Literal["work", "positions"]


@dataclass(frozen=True)
class Cell:
    """One entry of the table."""

    specs: str
    """Name of the workload."""

    policy: str
    means: str | None
    """None for policies that do not start steps with what they read."""

    reads: int
    """Specifications that a probe needs; 1 for workloads whose questions read what they need."""

    gap: int | None = None
    """Tokens, or positions, between the documents and the probes; None: what the run has for all cells."""

    apart: Apart = "work"
    """What lies there: other work, or nothing but positions."""

    errors: int | None = None
    """Percent of the plan's reads that are wrong, missing or a step late; None: the plan is right."""

    @property
    def key(self) -> str:
        """Its name in files: ``alike/pace_focus/auto/2``, ``alike/pace/-/1@40000``, ``alike/pace/-/1~25``."""
        return f"{self.row}/{self.reads}{self._gap}{self._errors}"

    @property
    def row(self) -> str:
        """The same without the number of reads, the gap and the errors."""
        return f"{self.specs}/{self.policy}/{self.means or '-'}"

    @property
    def label(self) -> str:
        """Policy and means for people."""
        name = "positions alone" if self.apart == "positions" else self.policy
        return name if self.means is None else f"{name}, {self.means}"

    @property
    def column(self) -> tuple[int, bool, int, int]:
        """Reads, what lies apart, gap and errors, which tell the columns of the table apart."""
        gap, errors = (-1 if number is None else number for number in (self.gap, self.errors))
        return self.reads, self.apart == "positions", gap, errors

    @property
    def is_ceiling(self) -> bool:
        return self.policy == CEILING

    @property
    def keeps_everything(self) -> bool:
        return self.policy in (CEILING, "none")

    @property
    def stage(self) -> str:
        """Cells with the same stage read one session, residents included; each asks its probes aside.

        A policy that focuses starts each step from what the step reads, so that the session before it is the
        same however the probes will be grouped; others keep what the plan reads, which differs. Where
        positions alone lie between, each probe has a session of its own.
        """
        focuses = self.means is not None
        row = self.row if focuses else f"{self.row}/{self.reads}"
        return f"{row}{'@+' if self.apart == 'positions' else ''}{self._errors}"

    @property
    def _gap(self) -> str:
        mark = "@" if self.apart == "work" else "@+"
        return "" if self.gap is None else f"{mark}{self.gap}"

    @property
    def _errors(self) -> str:
        return "" if self.errors is None else f"~{self.errors}"

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
    """Of other work between the documents and the first probe."""

    policies: tuple[str, ...] = ("pace", "pace_focus")
    means: tuple[str, ...] = ("auto",)
    reads: tuple[int, ...] = (1,)
    specs: tuple[str, ...] = tuple(SPECIFICATION_SETS)
    """Workloads."""

    seeds: int = 1
    budget: int = SessionConfig.budget
    position_cap: int = SessionConfig.position_cap
    threads: int | None = None
    answer_tokens: int = ANSWER_TOKENS
    """Longest answer, for each specification that a probe reads."""

    specifications: int = N_SPECIFICATIONS
    """Told first, and every one asked for once, but for a last group that is not whole; of other workloads:
    questions."""

    between: int = 0
    """Tokens of other work between one probe and the next."""

    gaps: tuple[int, ...] = ()
    """Tokens of other work, or positions, at which all probes are asked, instead of ``tokens``."""

    apart: Apart = "work"
    errors: tuple[int, ...] = ()
    """Percent of the plan's reads that are wrong."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        _check_range("--tokens", self.tokens, 0, MOST_TOKENS)
        _check_range("--seeds", self.seeds, 1, MOST_SEEDS)
        _check_range("--answer-tokens", self.answer_tokens, 1, 2**20)
        _check_range("--between", self.between, 0, MOST_TOKENS)
        for gap in self.gaps:
            _check_range("--gaps", gap, 0, MOST_TOKENS)
        for errors in self.errors:
            _check_range("--errors", errors, 0, NO_PLAN)
        if self.gaps and self.between:
            raise ConfigError(
                "probes at gaps are asked aside, with nothing between them; leave --between out"
            )
        _check_words("--means", self.means, MEANS)
        _check_words("--specs", self.specs, tuple(MOST_QUESTIONS))
        for what in ("policies", "means", "reads", "specs"):
            _check_each_once(what, getattr(self, what), least=1)
        for what in ("gaps", "errors"):
            _check_each_once(what, getattr(self, what), least=0)
        for specs, reads in product(self.specs, self.reads):
            check_workload(specs, self.specifications, reads)
        for policy in self.policies:
            self.session_config(Cell("alike", policy, None, 1))

    def cells(self) -> list[Cell]:
        """All cells: the ceilings first, then stage by stage, by growing gaps."""
        return [cell for stage in self.stages() for cell in stage]

    def stages(self) -> list[list[Cell]]:
        """The cells in groups that share a session, in the order in which it reaches them."""
        groups: dict[str, list[Cell]] = {}
        for cell in self._every_cell():
            groups.setdefault(cell.stage, []).append(cell)
        return list(groups.values())

    def _every_cell(self) -> Iterator[Cell]:
        for specs, reads in product(self.specs, self.reads):
            yield Cell(specs, CEILING, None, reads)
        policies = ("none",) if self.apart == "positions" else self.policies
        for specs, policy in product(self.specs, policies):
            means = self.means if policy_named(policy).focuses else (None,)
            for each, errors in product(means, self.errors or (None,)):
                for gap, reads in product(sorted(self.gaps) or (None,), self.reads):
                    yield Cell(specs, policy, each, reads, gap, self.apart, errors)

    def session_config(self, cell: Cell) -> SessionConfig:
        """Settings of a cell's sessions, but for those that keep everything, whose budget is what they need.

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
    def identity(self) -> dict[str, Any]:
        """What results of different runs must have in common to stand in one table."""
        return {
            "tokens": None if self.gaps else self.tokens,
            "budget": self.budget,
            "position_cap": self.position_cap,
            "answer_tokens": self.answer_tokens,
            "specifications": self.specifications,
            "between": self.between,
        }


def _check_range(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(f"{option} {value} is out of range; use {least} to {most}")


def _check_each_once(what: str, values: tuple[Any, ...], least: int) -> None:
    if len(values) < least or len(set(values)) < len(values):
        raise ConfigError(f"--{what} {','.join(map(str, values))!r}: give at least one, each once")


def _check_words(option: str, words: tuple[str, ...], known: tuple[str, ...]) -> None:
    for word in words:
        if word not in known:
            raise ConfigError(f"{option} {word!r} is not one of {', '.join(known)}")
