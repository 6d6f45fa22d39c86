"""The plan of a trial: right, or wrong by so many percent."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pace_local.eval.trial import Entry
from pace_local.plan import Plan, Step

OTHER_WORK = "other work"
"""The step between reading the documents and a probe."""

Reads = tuple[str, ...]


def plan_of(
    probes: Sequence[Entry],
    *,
    after_other_work: bool,
    between: bool = False,
    reads: Sequence[Reads] | None = None,
) -> Plan:
    """One step for each probe, in order.

    Args:
        probes: of one session.
        after_other_work: whether a step comes first that reads nothing of them.
        between: whether such a step comes between one probe and the next.
        reads: what the plan says that each probe reads; None: what it needs.
    """
    other = Step(OTHER_WORK)
    steps = [other] if after_other_work else []
    said = [probe.reads for probe in probes] if reads is None else reads
    for number, (probe, names) in enumerate(zip(probes, said, strict=True)):
        if between and number:
            steps.append(other)
        steps.append(Step(probe.text, reads=names))
    return Plan(steps)


def n_wrong(percent: int, n_reads: int) -> int:
    """How many reads so many percent are, in whole reads: at least one, unless they are 0 percent."""
    return max(round(percent * n_reads / 100), min(1, percent, n_reads))


def wrong_reads(needed: Sequence[Reads], told: Sequence[str], percent: int, seed: int) -> list[Reads]:
    """What a plan says that is wrong in so many percent of its reads, in whole reads (:func:`n_wrong`).

    By turns, a read is wrong (the name of a document that the step does not need stands in its place),
    missing, or a step late. One that would come after the last step, or to a step that needs it as well, is
    missing, and so is a wrong one where the step needs every document. The reads are drawn by the seed, and
    those of a smaller percentage are among those of a greater one.

    Args:
        needed: what each step needs.
        told: names of all documents.
        percent: 0 to 100.
        seed: the same gives the same.
    """
    rng = random.Random(f"plan:{seed}")
    every = [(step, place) for step, names in enumerate(needed) for place in range(len(names))]
    chosen = rng.sample(every, len(every))[: n_wrong(percent, len(every))]
    others = {}
    for step, place in every:
        not_needed = [each for each in told if each not in needed[step]]
        others[step, place] = rng.choice(not_needed) if not_needed else None
    first = rng.randrange(3)
    said: list[list[str | None]] = [list(names) for names in needed]
    late: list[list[str]] = [[] for _ in needed]
    for number, (step, place) in enumerate(chosen, first):
        said[step][place] = others[step, place] if number % 3 == 0 else None
        name, following = needed[step][place], step + 1
        if number % 3 == 2 and following < len(needed) and name not in needed[following]:
            late[following].append(name)
    return [
        tuple(name for name in dict.fromkeys([*names, *after]) if name is not None)
        for names, after in zip(said, late, strict=True)
    ]
