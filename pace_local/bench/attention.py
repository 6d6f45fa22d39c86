"""``attention``: what measuring attention adds to decoding and to reading, with the default observation.

One context, filled once; attention is measured or not in turns of a few decodes. The first decode after each
change builds the graph anew and is not counted.
"""

from __future__ import annotations

import statistics

from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.bench.rig import Rig
from pace_local.bench.rounds import samples_by_round
from pace_local.bench.subject import Subject
from pace_local.config import SessionConfig
from pace_local.models import Say
from pace_local.policies import Observation

RESIDENTS, BATCH = 2048, 512
_DECODES = 16
"""Decodes of each turn; their median is the sample."""
DECODE_LIMIT, DECODE_AIM = 0.05, 0.025
PROMPT_LIMIT, PROMPT_AIM = 0.10, 0.05


def measure_attention(
    subject: Subject, *, samples: int, threads: int | None, say: Say, residents: int = RESIDENTS
) -> list[Row]:
    """Rows ``attention_decode_overhead`` and ``attention_prompt_overhead``: time added, as a share.

    Args:
        subject: the model.
        samples: pairs of turns.
        threads: None: the physical cores.
        say: takes lines of progress.
        residents: tokens in the cache throughout.
    """
    config = SessionConfig(
        budget=residents, headroom=BATCH, position_cap=4 * (residents + BATCH), threads=threads
    )
    decodes: tuple[list[float], list[float]] = ([], [])
    prompts: tuple[list[float], list[float]] = ([], [])
    for count in samples_by_round(samples):
        with subject.loaded() as model, Rig(model, config, residents) as rig:
            for number in range(count):
                # The side that begins changes, so that a drift of the machine's speed favours neither.
                for observes in (True, False) if number % 2 else (False, True):
                    decode, prompt = _turn(rig, observes)
                    decodes[observes].append(decode)
                    prompts[observes].append(prompt)
                say(
                    f"attention: sample {len(decodes[0])} of {samples}: a token takes "
                    f"{decodes[1][-1] / decodes[0][-1]:.3f} times as long, a batch "
                    f"{prompts[1][-1] / prompts[0][-1]:.3f}"
                )
    return [
        median_row(
            f"attention_{what}_overhead",
            [ratio - 1.0 for ratio in pair_ratios(with_it, without)],
            "share",
            "lower",
            limit=limit,
            aim=aim,
        )
        for what, (without, with_it), limit, aim in (
            ("decode", decodes, DECODE_LIMIT, DECODE_AIM),
            ("prompt", prompts, PROMPT_LIMIT, PROMPT_AIM),
        )
    ]


def _turn(rig: Rig, observes: bool) -> tuple[float, float]:
    """Seconds of a decode, and of a micro-batch of a prompt."""
    if observes:
        rig.cache.observe(**Observation().options())
    else:
        rig.cache.stop_observing()
    rig.decode()
    decode = statistics.median(rig.decode() for _ in range(_DECODES))
    return decode, rig.read_batch()
