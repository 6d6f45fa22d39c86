"""``flat``: time per token at 200,000 session tokens against 4,096.

One session is measured early, brought to 200,000 tokens, and measured again. Two things besides its length
change its speed, and a second session of the same model that stays short, the *clock*, cancels both: how
busy the machine is, since the two take turns; and where the pages of each cache lie, which makes one of them
faster by some per cent for as long as it lives, since the clock is there both times. So each ratio is

    (long session / clock, late)  /  (long session / clock, early).

Both sessions have the same settings and a plan that reads one segment from the beginning. Each time they
begin at the same position, so that they evict and renumber at the same moments, and go on for a whole cycle
of renumbering, some 6,300 tokens: both read the same text, then both write an answer.

``flat_ratio`` is the worse of two medians, per token read (with its evictions) and per token written. The
amortised rows are all the time of a cycle through all its tokens, renumbering and role markers included.
Throughout both sessions, residents and positions are compared with budget and cap after every micro-batch
and every token written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pace_local.bench.filler import Filler
from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.bench.side import LEAST_READ, Samples, Side
from pace_local.bench.subject import Subject
from pace_local.config import SessionConfig
from pace_local.model import Model
from pace_local.models import Say

LIMIT, AIM = 1.05, 1.02


@dataclass(frozen=True)
class FlatSizes:
    """Sizes in tokens."""

    late: int = 200_000
    early: int = 4096
    fact: int = 256
    """The segment that the plan reads."""
    piece: int = 2000
    """Of one text that is read in bulk."""
    write: int = 32
    """Written in each sample, and timed."""
    budget: int = 2048
    headroom: int = 512
    position_cap: int = 8192

    def config(self, threads: int | None) -> SessionConfig:
        """Settings of both sessions."""
        return SessionConfig(
            budget=self.budget, headroom=self.headroom, position_cap=self.position_cap, threads=threads
        )

    def read(self, samples: int, config: SessionConfig) -> int:
        """Tokens to read in each sample, so that all samples make one cycle of renumbering."""
        cycle = config.position_cap - config.soft_budget
        return max(LEAST_READ, math.ceil(cycle / samples) - self.write)


@dataclass
class Cycle:
    """Both sessions, measured at one length of the long one."""

    long: Samples = field(default_factory=Samples)
    clock: Samples = field(default_factory=Samples)


def measure_flat(
    subject: Subject, *, samples: int, threads: int | None, say: Say, sizes: FlatSizes | None = None
) -> list[Row]:
    """Rows ``flat_ratio``, its two parts, the amortised ratio, times per token, and ``violations``.

    Args:
        subject: the model.
        samples: parts that one cycle of renumbering is measured in.
        threads: None: the physical cores.
        say: takes lines of progress.
        sizes: None: the defaults.
    """
    sizes = sizes or FlatSizes()
    config = sizes.config(threads)
    with subject.loaded() as model:
        sides: list[Side] = []
        try:
            for name in ("long", "clock"):
                sides.append(Side.begin(name, model, config, sizes.fact))
                sides[-1].lengthen(sizes.early, sizes.piece, say)
            long, clock = sides
            model.endless = True
            early = _measure_cycle(model, long, clock, samples, sizes, say)
            long.lengthen(sizes.late, sizes.piece, say)
            long.meet(clock.session.next_position)
            late = _measure_cycle(model, long, clock, samples, sizes, say)
            return [*flat_ratios(early, late), *_times(early.long, late.long), *_bounds(long, clock)]
        finally:
            for side in sides:
                side.session.close()


def _measure_cycle(model: Model, long: Side, clock: Side, samples: int, sizes: FlatSizes, say: Say) -> Cycle:
    """Samples of both in turns; the one before them warms up and brings evictions into step."""
    cycle = Cycle()
    texts = Filler(model, seed=1)
    length = sizes.read(samples, long.session.config)
    for number in range(samples + 1):
        text = texts.take(length if number else 2 * sizes.headroom)
        # The side that begins changes, so that a drift of the machine's speed favours neither.
        order = ((long, cycle.long), (clock, cycle.clock))[:: 1 if number % 2 else -1]
        before = {side.name: side.session.session_length for side, _ in order}
        took = dict.fromkeys(before, 0.0)
        for action in ("read", "write"):
            for side, taken in order:
                began = time.perf_counter()
                if action == "read":
                    taken.read.append(side.read(text))
                else:
                    taken.write.append(side.write(sizes.write))
                took[side.name] += time.perf_counter() - began
        for side, taken in order:
            taken.seconds.append(took[side.name])
            taken.tokens.append(side.session.session_length - before[side.name])
        if number == 0:
            cycle = Cycle()
            continue
        say(
            f"flat: {number} of {samples}: "
            + "; ".join(
                f"{side.name} at {side.session.session_length:,} tokens, "
                f"position {side.session.next_position:,}, {taken.read[-1] * 1e3:.2f} ms/token read, "
                f"{taken.write[-1] * 1e3:.2f} written"
                for side, taken in ((long, cycle.long), (clock, cycle.clock))
            )
        )
    return cycle


def flat_ratios(early: Cycle, late: Cycle) -> list[Row]:
    read = _ratio_row("flat_read_ratio", *((c.long.read, c.clock.read) for c in (late, early)))
    write = _ratio_row("flat_write_ratio", *((c.long.write, c.clock.write) for c in (late, early)))
    worse = max(read, write, key=lambda row: row.value)
    return [
        Row("flat_ratio", worse.value, "x", "lower", worse.samples, worse.min, worse.max, LIMIT, AIM),
        read,
        write,
        _ratio_row(
            "flat_amortised_ratio", *(([c.long.amortised], [c.clock.amortised]) for c in (late, early))
        ),
    ]


def _ratio_row(
    name: str, late: tuple[Sequence[float], Sequence[float]], early: tuple[Sequence[float], Sequence[float]]
) -> Row:
    return median_row(name, pair_ratios(pair_ratios(*late), pair_ratios(*early)), "x", "lower")


def _times(early: Samples, late: Samples) -> list[Row]:
    """Milliseconds per token of the long session, as the clock on the wall has them."""
    rows = []
    for name, taken in (("early", early), ("late", late)):
        for what, seconds in (("read", taken.read), ("write", taken.write)):
            values = [value * 1e3 for value in seconds]
            rows.append(median_row(f"{what}_ms_{name}", values, "ms/token", "lower"))
        each = [value * 1e3 for value in taken.per_token()]
        amortised = taken.amortised * 1e3
        rows.append(
            Row(f"amortised_ms_{name}", amortised, "ms/token", "lower", len(each), min(each), max(each))
        )
    return rows


def _bounds(long: Side, clock: Side) -> list[Row]:
    looks = long.bounds.looks + clock.bounds.looks
    violations = long.bounds.violations + clock.bounds.violations
    return [
        Row("violations", violations, "count", "lower", looks, violations, violations, limit=0),
        median_row("session_tokens", [long.session.session_length], "tokens", "higher"),
        median_row("renumberings", [long.session.stats.renumberings_in_session], "count", "lower"),
    ]
