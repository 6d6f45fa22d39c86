"""``speed``: how fast one session reads and writes under a policy, when its cache is full and evicts.

Sessions come one after the other, since several would not fit beside the weights on a card of 24 GB; so a
device that others use too is not cancelled out here, as it is in ``policies``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pace_local.bench.filler import Filler
from pace_local.bench.gpu.peak import Peak
from pace_local.bench.report import Row, median_row
from pace_local.bench.subject import Subject
from pace_local.bench.writer import Writer
from pace_local.config import SessionConfig
from pace_local.models import Say
from pace_local.plan import Plan, Step
from pace_local.policies import POLICIES
from pace_local.session import Session

_FRAMING = 64
"""Tokens of role markers in a turn, at most."""


@dataclass(frozen=True)
class SpeedSizes:
    """Sizes in tokens."""

    before: int = 4096
    """Read first, so that the cache is full."""
    text: int = 1024
    """Read in each turn."""
    answer: int = 64
    """Written in each turn, and timed but for the first token."""
    turns: int = 3
    budget: int = 2048
    headroom: int = 512
    position_cap: int = 8192

    def config(self, policy: str, threads: int | None) -> SessionConfig:
        """Settings of the session; a policy that evicts nothing gets a budget for all of it."""
        everything = self.before + (self.turns + 1) * (self.text + self.answer + 2 * _FRAMING)
        budget = self.budget if POLICIES[policy].evicts else everything
        return SessionConfig(
            policy=policy,
            budget=budget,
            headroom=self.headroom,
            position_cap=max(self.position_cap, budget + self.headroom),
            threads=threads,
        )


def prompt_row(policy: str) -> str:
    """Name of the row that says how fast a session reads."""
    return f"prompt_tokens_per_second.{policy}"


def decode_row(policy: str) -> str:
    """Name of the row that says how fast a session writes."""
    return f"decode_tokens_per_second.{policy}"


def measure_speed(
    subject: Subject, policy: str, *, threads: int | None, say: Say, sizes: SpeedSizes | None = None
) -> list[Row]:
    """Rows of both speeds, of the bytes of the KV state, and of the most memory used meanwhile.

    Args:
        subject: the model.
        policy: name of a policy.
        threads: None: the physical cores.
        say: takes lines of progress.
        sizes: None: the defaults.
    """
    sizes = sizes or SpeedSizes()
    read: list[float] = []
    written: list[float] = []
    config = sizes.config(policy, threads)
    with Peak() as peak, subject.loaded() as model, Session(model, config=config) as session:
        filler = Filler(model)
        session.append(filler.take(sizes.text // 4), name="fact", kind="file")
        session.plan = Plan([Step("use the fact", reads=["fact"])])
        while session.session_length < sizes.before:
            session.append(filler.take(min(sizes.text, sizes.before)), kind="file")
        model.endless = True
        for number in range(sizes.turns):
            text = filler.take(sizes.text)
            before, began = session.session_length, time.perf_counter()
            session.append(text, kind="file")
            read.append((session.session_length - before) / (time.perf_counter() - began))
            writer = Writer(session, None, max_tokens=sizes.answer)
            writer.write(1)
            count, seconds = writer.write(sizes.answer - 1)
            writer.finish()
            written.append(count / seconds)
            say(
                f"speed: {policy}, {number + 1} of {sizes.turns}: reads {read[-1]:,.0f} tokens/s, "
                f"writes {written[-1]:,.1f}"
            )
        assert session.engine.cache is not None
        held = session.engine.cache.bytes_held()
    kv = held.keys + held.values + held.references + held.attention
    return [
        median_row(prompt_row(policy), read, "tokens/s", "higher"),
        median_row(decode_row(policy), written, "tokens/s", "higher"),
        median_row(f"kv_bytes.{policy}", [kv], "bytes", "lower"),
        *peak_rows(peak, policy),
    ]


def peak_rows(peak: Peak, name: str) -> list[Row]:
    """Rows of the most memory used: of the devices, where there are any, and of this process."""
    rows = [median_row(f"host_peak_bytes.{name}", [peak.host_bytes], "bytes", "lower")]
    if peak.device_bytes:
        rows.insert(0, median_row(f"device_peak_bytes.{name}", [peak.device_bytes], "bytes", "lower"))
    return rows
