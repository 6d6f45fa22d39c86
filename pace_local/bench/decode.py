"""``decode``: our loop against upstream's, token for token.

Ours is ``Session.generate`` as a user gets it: events, text, counters, room made in the cache. Upstream's is
``llama_cpp.Llama.generate``, the loop of the high-level bindings, which yields bare token ids. Both run on
the same library with the same model, prompt tokens, cells, threads, micro-batch and fused attention, both
greedy, and take turns in blocks of some tokens. The same tokens are resident on both sides throughout.
Model, context and session are made anew for each round.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from pace_local import _native
from pace_local.bench.filler import Filler
from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.bench.rounds import samples_by_round
from pace_local.bench.subject import Subject
from pace_local.bench.surroundings import threads_used
from pace_local.bench.writer import Writer
from pace_local.config import SessionConfig
from pace_local.models import Say
from pace_local.session import Session

LIMIT, AIM = 0.97, 1.0
_PROMPT = "Write down the next orders in the same form, as many as you can."
_AROUND = 64
"""Tokens of prompt and role markers, roughly."""


@dataclass(frozen=True)
class DecodeSizes:
    """Sizes in tokens."""

    residents: int = 1024
    """In the cache when the answer begins, roughly."""
    block: int = 32
    """Written by one side before it is the other's turn."""
    budget: int = 2048
    headroom: int = 512

    def config(self, samples: int, threads: int | None) -> SessionConfig:
        """Settings under which nothing is evicted while ``samples`` blocks and one more are written."""
        budget = max(self.budget, self.residents + _AROUND + (samples + 2) * self.block)
        return SessionConfig(
            budget=budget, headroom=self.headroom, position_cap=4 * (budget + self.headroom), threads=threads
        )


class UpstreamLoop:
    """``llama_cpp.Llama.generate`` on prompt tokens, advanced block by block."""

    def __init__(self, subject: Subject, prompt: list[int], config: SessionConfig) -> None:
        assert _native.llama  # loads our library before the bindings can load another
        from llama_cpp import Llama

        threads = threads_used(config.threads)
        self._llama: Any = Llama(
            str(subject.path),
            n_gpu_layers=-1,
            n_ctx=config.n_cells,
            n_batch=config.headroom,
            n_ubatch=config.headroom,
            n_threads=threads,
            n_threads_batch=threads,
            flash_attn=config.flash_attn,
            no_perf=True,
            verbose=False,
        )
        self._tokens: Iterator[int] = self._llama.generate(prompt, top_k=1, temp=0.0)
        self.written: list[int] = []

    def write(self, count: int) -> float:
        """Write ``count`` tokens and return the seconds taken."""
        began = time.perf_counter()
        for _ in range(count):
            self.written.append(next(self._tokens))
        return time.perf_counter() - began

    def close(self) -> None:
        """Free model and context."""
        self._tokens = iter(())
        self._llama.close()


def measure_decode(
    subject: Subject, *, samples: int, threads: int | None, say: Say, sizes: DecodeSizes | None = None
) -> list[Row]:
    """Rows ``decode_ratio`` (ours through theirs) and both speeds.

    Args:
        subject: the model.
        samples: blocks of each side.
        threads: None: the physical cores.
        say: takes lines of progress.
        sizes: None: the defaults.
    """
    sizes = sizes or DecodeSizes()
    our_rates: list[float] = []
    their_rates: list[float] = []
    prompt: list[int] | None = None
    for number, count in enumerate(samples_by_round(samples), 1):
        config = sizes.config(count, threads)
        say(f"decode: round {number}: {subject.name} reads about {sizes.residents} tokens, twice")
        with ExitStack() as stack:
            theirs = None
            # Every other round upstream's buffers are allocated first.
            if prompt is not None and number % 2 == 0:
                theirs = stack.enter_context(closing(UpstreamLoop(subject, prompt, config)))
            model = stack.enter_context(subject.loaded())
            session = stack.enter_context(Session(model, config=config))
            session.append(Filler(model).take(sizes.residents - _AROUND), kind="file")
            model.endless = True
            ours = Writer(session, _PROMPT, max_tokens=config.budget)
            stack.callback(ours.close)
            ours.write(1)
            prompt = _tokens_of(session)[:-1]
            if theirs is None:
                theirs = stack.enter_context(closing(UpstreamLoop(subject, prompt, config)))
            theirs.write(1)
            for our_rate, their_rate in _alternate(ours, theirs, sizes.block, count):
                our_rates.append(our_rate)
                their_rates.append(their_rate)
                say(
                    f"decode: block {len(our_rates)} of {samples}: "
                    f"{our_rate:.1f} and {their_rate:.1f} tokens/s"
                )
            _compare(_tokens_of(session)[len(prompt) :], theirs.written, say)
    return [
        median_row("decode_ratio", pair_ratios(our_rates, their_rates), "x", "higher", limit=LIMIT, aim=AIM),
        median_row("decode_tokens_per_second", our_rates, "tokens/s", "higher"),
        median_row("upstream_tokens_per_second", their_rates, "tokens/s", "higher"),
    ]


def _alternate(ours: Writer, theirs: UpstreamLoop, block: int, samples: int) -> Iterator[tuple[float, float]]:
    """Tokens a second of each pair of blocks; the pair before them warms up."""
    for number in range(samples + 1):
        our_rate = their_rate = 0.0
        # The side that begins changes, so that a drift of the machine's speed favours neither.
        for side in (ours, theirs) if number % 2 else (theirs, ours):
            if side is ours:
                count, seconds = ours.write(block)
                our_rate = count / seconds
            else:
                their_rate = block / theirs.write(block)
        if number:
            yield our_rate, their_rate


def _tokens_of(session: Session) -> list[int]:
    return [token for segment in session.segments for token in session.tokens_of(segment)]


def _compare(ours: list[int], theirs: list[int], say: Say) -> None:
    """Say how long both wrote the same: evidence that both did the same work, not a condition."""
    shorter = min(len(ours), len(theirs))
    same = next((i for i in range(shorter) if ours[i] != theirs[i]), shorter)
    say(f"decode: the first {same} of {shorter} tokens are the same on both sides")
