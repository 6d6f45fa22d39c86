"""The evaluations of ``pace eval``: what each measures, and its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pace_local.config import MEANS, SessionConfig
from pace_local.errors import ConfigError
from pace_local.eval.cells import ANSWER_TOKENS, N_SPECIFICATIONS, NO_PLAN, EvalSettings
from pace_local.eval.workload import MOST_QUESTIONS, SPECIFICATION_SETS

T = TypeVar("T")

_METHOD = """\
The session reads {told}, then other work: functions of Python's standard library, with
questions and answers about them. Then come the probes, which {probes}.
The ceiling, measured first, is the same probe with nothing else but the system prompt and what it reads.
Answers are greedy. Stopped with Ctrl-C or killed, the same command goes on from there. Further {rows}
may be asked for later in the same folder."""

_SPECIFIED = {
    "told": "specifications",
    "probes": "ask for the functions that the\n"
    "specifications define; hidden tests run on what the model writes",
}

POLICIES = "streaming,context_shift,h2o,h2o_grace,hybrid,plan,bounded,pace,pace_focus"
"""The rivals, each half of PACE, and both."""

KIND_POLICIES = "none,truncate,attention,merge,hybrid,pace,pace_focus"
"""Keeping everything, the strategies of the second source document, and ours."""

KINDS = ("codegen", "dialogue", "knowledge", "planning")


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: what it is for, and its options with their defaults."""

    name: str
    help: str
    rows: str
    """What may be asked for later in the same folder."""

    options: tuple[str, ...]
    """Beside those that all have."""

    defaults: dict[str, Any] = field(default_factory=dict)
    """Of options, and of what it has no option for."""

    told: dict[str, str] = field(default_factory=lambda: _SPECIFIED)

    @property
    def description(self) -> str:
        """For ``--help``."""
        return f"{self.help[0].upper()}{self.help[1:]}.\n\n{_METHOD.format(rows=self.rows, **self.told)}"

    @property
    def measured(self) -> tuple[str, ...]:
        """Options that say what is measured, in the order in which a command shows them."""
        return tuple(name for name in _ORDER if name in (*self.options, *_COMMON))


_COMMON = ("policies", "seeds", "budget", "position_cap")
_ORDER = (
    *("tokens", "gaps", "apart", "policies", "means", "reads", "errors", "specs", "probes", "between"),
    *("seeds", "budget", "position_cap"),
)


def _of_kind(name: str, specs: tuple[str, ...], help: str, told: str, probes: str) -> Evaluation:
    return Evaluation(
        name,
        help,
        "policies and seeds",
        ("tokens", "probes", "between"),
        {"tokens": 16_000, "policies": KIND_POLICIES, "specs": ",".join(specs)},
        {"told": told, "probes": probes},
    )


EVALUATIONS = (
    Evaluation(
        "spec",
        "policies against one another in a long session",
        "policies and seeds",
        ("tokens", "specs", "probes", "between"),
        {"tokens": 64_000, "policies": POLICIES, "specs": "unlike"},
    ),
    Evaluation(
        "gap",
        "how far a definition can lie from its use",
        "gaps, policies and seeds",
        ("gaps", "apart", "specs", "probes"),
        {
            "gaps": "2000,8000,16000,32000,64000,90000",
            "policies": "streaming,h2o,plan,bounded,pace,pace_focus",
            "specs": "unlike",
        },
    ),
    Evaluation(
        "recall",
        "by which means what a step reads comes back best",
        "policies, means, reads and seeds",
        ("tokens", "means", "reads", "specs"),
        {"tokens": 12_000, "policies": "pace,pace_focus", "specs": ",".join(SPECIFICATION_SETS)},
    ),
    Evaluation(
        "plans",
        "what wrong plans cost",
        "percentages, policies and seeds",
        ("tokens", "errors", "specs", "probes"),
        {
            "tokens": 12_000,
            "errors": f"0,10,25,50,{NO_PLAN}",
            "policies": "pace,pace_focus",
            "specs": "unlike",
        },
    ),
    _of_kind(
        "facts",
        ("facts",),
        "whether constants that were told early are told right late",
        "specifications",
        "ask for their constants by\nname, and are graded by program",
    ),
    _of_kind(
        "codegen",
        ("codegen",),
        "code that must use what was defined early",
        "the source of modules",
        "ask for functions that use them;\nhidden tests run on what the model writes",
    ),
    _of_kind(
        "dialogue",
        ("dialogue",),
        "what a user has decided and changed in a long talk",
        "what a user says and changes",
        "ask what holds now, and are graded\nby program",
    ),
    _of_kind(
        "knowledge",
        ("knowledge",),
        "questions about entries of documents",
        "documents of many like entries",
        "ask for some of them, and are\ngraded by program",
    ),
    _of_kind(
        "planning",
        ("planning",),
        "orders under rules, and days after changes, that were told early",
        "tasks with their rules",
        "ask for orders, in which every rule is\nchecked by program, and for the days that hold now",
    ),
    _of_kind(
        "kinds",
        KINDS,
        "all four kinds of agent work, against keeping everything",
        "in a session for each kind what it needs",
        "are graded by\nprogram",
    ),
)


def add_options(group: argparse._ArgumentGroup, evaluation: Evaluation) -> dict[str, Any]:
    """Add the options that say what an evaluation measures.

    Returns:
        Values of what it has no option for.
    """
    defaults: dict[str, Any] = {
        "reads": "1",
        "means": "auto",
        "between": 0,
        "probes": N_SPECIFICATIONS,
        "gaps": "",
        "apart": "work",
        "errors": "",
        "tokens": 0,
        **evaluation.defaults,
    }
    for name in (*evaluation.options, *_COMMON):
        option = _OPTIONS[name]
        default = defaults.get(name, option.get("default"))
        group.add_argument(f"--{name.replace('_', '-')}", **{**option, "default": default})
    group.add_argument(
        "--answer-tokens",
        type=int,
        default=ANSWER_TOKENS,
        metavar="N",
        help="longest answer, for each specification that a probe needs; default: %(default)s",
    )
    has = (*evaluation.options, *_COMMON)
    return {name: value for name, value in defaults.items() if name not in has}


_MOST = ", ".join(f"{number} {specs}" for specs, number in MOST_QUESTIONS.items())
_OPTIONS: dict[str, dict[str, Any]] = {
    "tokens": {"type": int, "metavar": "N", "help": "of other work; default: %(default)s"},
    "gaps": {
        "metavar": "N,N",
        "help": "tokens of other work at which all probes are asked; default: %(default)s",
    },
    "apart": {
        "choices": ("work", "positions"),
        "help": "work: one session, probed at each gap; positions: nothing but positions in "
        "between, everything resident whatever the policy",
    },
    "policies": {"metavar": "P,P", "help": "default: %(default)s"},
    "means": {
        "metavar": "M,M",
        "help": f"of policies that start a step with what it reads: {', '.join(MEANS)}; default: %(default)s",
    },
    "reads": {"metavar": "K,K", "help": "specifications that a probe needs; default: %(default)s"},
    "errors": {
        "metavar": "P,P",
        "help": "percent of the plan's reads that are wrong, missing or a step late; "
        f"{NO_PLAN}: no plan at all; default: %(default)s",
    },
    "specs": {
        "metavar": "S,S",
        "help": "alike: of one form; unlike: of different kinds; default: %(default)s",
    },
    "probes": {"type": int, "metavar": "N", "help": f"at most {_MOST}; default: %(default)s"},
    "between": {
        "type": int,
        "metavar": "N",
        "help": "tokens of other work between probes; default: %(default)s",
    },
    "seeds": {"type": int, "default": 1, "metavar": "N", "help": "sessions a cell; default: %(default)s"},
    "budget": {
        "type": int,
        "default": SessionConfig.budget,
        "metavar": "N",
        "help": "most tokens resident; default: %(default)s",
    },
    "position_cap": {
        "type": int,
        "default": SessionConfig.position_cap,
        "metavar": "N",
        "help": "no position reaches it, where the policy bounds them; default: %(default)s",
    },
}


def settings_of(arguments: argparse.Namespace) -> EvalSettings:
    """What the options ask for.

    Raises:
        ConfigError: for a value out of range.
    """
    gaps = _words(arguments.gaps, int, "--gaps")
    return EvalSettings(
        tokens=max(gaps, default=arguments.tokens),
        policies=_words(arguments.policies, str, "--policies"),
        means=_words(arguments.means, str, "--means"),
        reads=_words(arguments.reads, int, "--reads"),
        specs=_words(arguments.specs, str, "--specs"),
        seeds=arguments.seeds,
        budget=arguments.budget,
        position_cap=arguments.position_cap,
        threads=arguments.threads,
        answer_tokens=arguments.answer_tokens,
        specifications=arguments.probes,
        between=arguments.between,
        gaps=gaps,
        apart=arguments.apart,
        errors=_words(arguments.errors, int, "--errors"),
    )


def _words(text: str, kind: Callable[[str], T], option: str) -> tuple[T, ...]:
    try:
        return tuple(kind(word.strip()) for word in text.split(",") if word.strip())
    except ValueError:
        raise ConfigError(
            f"{option} {text!r} is out of range; use whole numbers with commas between"
        ) from None
