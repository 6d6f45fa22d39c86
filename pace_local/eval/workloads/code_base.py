"""A small code base: modules of one shape whose names, parameters and constants cannot be guessed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pace_local.eval.workloads.documents import Document

_DESKS = (
    ("freight", "pallet", "zone"),
    ("mooring", "metre", "night"),
    ("catering", "guest", "course"),
    ("printing", "sheet", "colour"),
    ("towing", "tonne", "mile"),
    ("hosting", "server", "month"),
    ("framing", "panel", "layer"),
    ("laundry", "bag", "floor"),
)
"""Name of a module, the thing that it prices, and what else the price depends on."""

MOST = len(_DESKS)
FIXED_FEE = "fixed fee in cents"
"""Comment of a constant of each module."""

_VERBS = ("quote", "assess", "reckon", "gauge", "derive", "settle", "appraise", "tally", "estimate", "figure")
_REFUSALS = (
    "Refused",
    "Declined",
    "Denied",
    "Barred",
    "Overrun",
    "Rejected",
    "Blocked",
    "Exceeded",
    "Vetoed",
)
_LIMITS = ("CEILING", "UPPER", "TOPMOST", "BRIM", "PEAK", "UTMOST", "SUMMIT", "HIGHEST", "VERGE")
_FEES = ("LUMP", "RESERVE", "SPARE", "STANDBY", "PENALTY", "SURETY", "FORFEIT", "TOLL", "LEVY")

_PRICES = (13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
"""Primes, so that the prices of two desks can be equal, or one cent apart."""


@dataclass(frozen=True)
class Desk:
    """One module: a function that prices a request, an exception, and four constants."""

    module: str
    unit: str
    """What it prices; the parameter is its plural."""

    other: str
    """The other parameter, in the singular in the name of its constant."""

    function: str
    refusal: str
    """Name of the exception class."""

    limit_name: str
    fee_name: str
    limit: int
    fee: int
    per_unit: int
    per_other: int
    units_first: bool
    """Order of the function's parameters."""

    @property
    def names(self) -> tuple[str, ...]:
        """What cannot be guessed, and is nowhere else in the code base."""
        return self.function, self.refusal, self.limit_name, self.fee_name

    @property
    def units(self) -> str:
        """Name of the parameter."""
        return f"{self.unit}s"

    @property
    def others(self) -> str:
        """Name of the other parameter."""
        return f"{self.other}s"

    @property
    def most(self) -> str:
        """Comment of the limit."""
        return f"most {self.units} of one request"

    def price(self, units: int, others: int) -> int | None:
        """What the module's function returns; None if it raises."""
        return None if units > self.limit else self.per_unit * units + self.per_other * others

    def call(self, units: str | None = None, others: str | None = None) -> str:
        """Source of a call with these arguments, by default the parameters' own names."""
        arguments = (units or self.units, others or self.others)
        return f"{self.function}({', '.join(arguments if self.units_first else arguments[::-1])})"

    @property
    def parameters(self) -> str:
        """As questions give them: always units first, so that they do not tell the module's order."""
        return f"{self.units}: int, {self.others}: int"

    @property
    def source(self) -> str:
        """The whole module."""
        parameters = [f"{self.units}: int", f"{self.others}: int"]
        order = ", ".join(parameters if self.units_first else parameters[::-1])
        return (
            f'"""Prices of the {self.module} desk."""\n\n'
            f"{self.limit_name} = {self.limit}  # {self.most}\n"
            f"{self.fee_name} = {self.fee}  # {FIXED_FEE}\n"
            f"PER_{self.unit.upper()} = {self.per_unit}\n"
            f"PER_{self.other.upper()} = {self.per_other}\n\n\n"
            f"class {self.refusal}(Exception):\n"
            f'    """More {self.units} than the desk takes."""\n\n\n'
            f"def {self.function}({order}) -> int:\n"
            f'    """Price in cents."""\n'
            f"    if {self.units} > {self.limit_name}:\n"
            f"        raise {self.refusal}({self.units})\n"
            f"    return PER_{self.unit.upper()} * {self.units} + PER_{self.other.upper()} * {self.others}\n"
        )

    @property
    def document(self) -> Document:
        """The module as the session is told it."""
        name = f"{self.module}.py"
        return Document(name, f"This is `{name}` of our code base.\n\n```python\n{self.source}```")


def desks(rng: random.Random) -> list[Desk]:
    """All modules in some order; no two share a name or a constant."""
    verbs, refusals = rng.sample(_VERBS, MOST), rng.sample(_REFUSALS, MOST)
    limits, fees = rng.sample(_LIMITS, MOST), rng.sample(_FEES, MOST)
    orders = [True, False] * (MOST // 2)
    rng.shuffle(orders)
    small, amounts = rng.sample(_PRICES, 2 * MOST), rng.sample(range(1001, 2000), MOST)
    bounds = rng.sample(range(12, 40), MOST)
    return [
        Desk(
            module=module,
            unit=unit,
            other=other,
            function=f"{verbs[i]}_{module}",
            refusal=f"{module.capitalize()}{refusals[i]}",
            limit_name=limits[i],
            fee_name=fees[i],
            limit=bounds[i],
            fee=amounts[i],
            per_unit=small[2 * i],
            per_other=small[2 * i + 1],
            units_first=orders[i],
        )
        for i, (module, unit, other) in enumerate(rng.sample(_DESKS, MOST))
    ]


def importable(modules: Sequence[Desk], in_scope: Sequence[Desk]) -> str:
    """Python source that makes modules importable, without any file.

    Args:
        modules: of the code base.
        in_scope: those whose names can also be used without an import.
    """
    sources = {desk.module: desk.source for desk in modules}
    shown = tuple(desk.module for desk in in_scope)
    return (
        "import sys as _sys, types as _types\n"
        f"for _name, _source in {sources!r}.items():\n"
        "    _module = _types.ModuleType(_name)\n"
        "    exec(compile(_source, _name + '.py', 'exec'), _module.__dict__)\n"
        "    _sys.modules[_name] = _module\n"
        f"    if _name in {shown!r}:\n"
        "        globals()[_name] = _module\n"
        "        globals().update({key: value for key, value in vars(_module).items() if key[0] != '_'})\n"
    )


@dataclass(frozen=True)
class CodeTask:
    """A function that is asked for."""

    signature: str
    wanted: str
    """What it must do, without any name of the modules' insides."""

    uses: Sequence[str]
    """Names of the modules that it cannot do without."""

    body: str
    checks: tuple[str, ...]


def check_raises(call: str, exception: str) -> str:
    """Source of a check that a call raises an exception of this name."""
    return (
        f"try:\n    _got = {call}\n"
        "except Exception as _error:\n"
        f"    assert type(_error).__name__ == {exception!r}, type(_error).__name__\n"
        f"else:\n    raise AssertionError({call!r} + ' gave ' + repr(_got) + ' and raised nothing')"
    )


def constant_of(desk: Desk, comment: str) -> str:
    """How a question points to a constant without its name."""
    return f"the constant in capitals of the {desk.module} module that is commented '{comment}'"


def price_of(desk: Desk) -> str:
    """How a question asks for a price without the name of the function."""
    return f"the price that the {desk.module} module computes for these {desk.units} and {desk.others}"
