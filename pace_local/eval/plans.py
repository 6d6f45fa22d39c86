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


def wrong_reads(needed: Sequence[Reads], told: Sequence[str], percent: int, seed: int) -> list[Reads]:
    """What a plan says that is wrong in so many percent of its reads, rounded to whole reads.

    By turns, a read is wrong (another document's name stands in its place), missing, or a step late. One that
    would come after the last step is missing. The reads are drawn by the seed, and those of a smaller
    percentage are among those of a greater one.

    Args:
        needed: what each step needs.
        told: names of all documents.
        percent: 0 to 100.
        seed: the same gives the same.
    """
    rng = random.Random(f"plan:{seed}")
    every = [(step, name) for step, names in enumerate(needed) for name in names]
    chosen = rng.sample(every, len(every))[: round(percent * len(every) / 100)]
    others = {
        name: rng.choice([each for each in told if each != name] or [name]) for _, name in sorted(every)
    }
    first = rng.randrange(3)
    said: list[list[str]] = [list(names) for names in needed]
    late: list[list[str]] = [[] for _ in needed]
    for number, (step, name) in enumerate(chosen, first):
        place = said[step].index(name)
        if number % 3 == 0:
            said[step][place] = others[name]
        else:
            del said[step][place]
            if number % 3 == 2 and step + 1 < len(needed):
                late[step + 1].append(name)
    return [tuple(dict.fromkeys(names + after)) for names, after in zip(said, late, strict=True)]
