"""``recall``'s last row: what saving evicted segments costs the generation that evicts them.

One session at its budget writes one endless answer, and evicts a small step at a time. In blocks of tokens,
what is evicted is saved or not, in turns: the one thing in which a session with ``recall`` differs while it
writes. So both are measured in one context, since two can differ by several per cent. Whole segments leave in
every block; what is saved goes through to the disk, so that the writer's thread is at work meanwhile.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pace_local.bench.filler import Filler
from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.bench.subject import EndlessModel, Subject
from pace_local.bench.writer import Writer
from pace_local.config import SessionConfig
from pace_local.events import Event, Evicted
from pace_local.models import Say
from pace_local.session import Session

LIMIT, AIM = 1.03, 1.01
EVICT_EVERY = 32
BLOCK = 2 * EVICT_EVERY
"""Tokens of each turn; two evictions are in it, and half a step behind the last to write what it saved."""
SEGMENT = 32
"""Tokens of each text: with its role markers fewer than a block evicts, so that each begins a new one."""
_DISK_BYTES = 1 << 30


class Saver:
    """A session that writes and evicts, and saves what it evicts or not.

    Args:
        model: must stay open; its answers must be endless.
        config: sizes.
        blocks: that it will write.
        folder: for what is saved; it need not exist.
    """

    def __init__(self, model: EndlessModel, config: SessionConfig, blocks: int, folder: Path) -> None:
        self.evictions = 0
        self.session = Session(model, config=config, listener=self._take)
        try:
            memory = self.session._memory
            memory.move_to(folder)
            self._working_set, self.store = memory.working_set, memory.store
            filler = Filler(model)
            while len(self.session.residents) < config.soft_budget or not self.evictions:
                self.session.append(filler.take(SEGMENT), kind="file")
            self._writer = Writer(self.session, None, (blocks + 1) * (BLOCK + 4) + 2 * EVICT_EVERY)
            before = self.evictions
            while self.evictions == before:
                self._writer.write(1)
            # From the middle between two evictions on.
            self._writer.write(EVICT_EVERY // 2)
        except BaseException:
            self.session.close()
            raise

    def _take(self, event: Event) -> None:
        self.evictions += isinstance(event, Evicted)

    def close(self) -> None:
        """End the answer, and close the session."""
        self._writer.close()
        self.session.close()

    def write(self, saves: bool) -> float:
        """Write a block, and return the seconds a token that it took."""
        self._working_set.saves_leaving = saves
        evictions, saved = self.evictions, len(self.store.pieces())
        tokens, seconds = self._writer.write(BLOCK)
        assert self.evictions > evictions
        assert (len(self.store.pieces()) > saved) == saves, "what is measured did not happen"
        self.store.settle()
        return seconds / tokens


def measure_saving(
    subject: Subject,
    *,
    samples: int,
    threads: int | None,
    say: Say,
    folder: Path,
    budget: int = 2048,
    headroom: int = 512,
) -> list[Row]:
    """Rows ``save_slowdown`` and ``saved_bytes_per_token``.

    Args:
        subject: the model.
        samples: pairs of blocks.
        threads: None: the physical cores.
        say: takes lines of progress.
        folder: on the disk that what is saved goes to.
        budget: most residents, in tokens.
        headroom: cells above that.
    """
    blocks = 2 * (samples + 1)
    config = SessionConfig(
        budget=budget,
        headroom=headroom,
        position_cap=8 * (budget + headroom) + blocks * (BLOCK + 4),
        evict_every=EVICT_EVERY,
        recall=True,
        threads=threads,
        host_bytes=0,
        disk_bytes=_DISK_BYTES,
    )
    seconds: tuple[list[float], list[float]] = ([], [])
    folder.mkdir(parents=True, exist_ok=True)
    say(f"recall: {subject.name} reads {budget} tokens to write behind them")
    with (
        tempfile.TemporaryDirectory(prefix="recall-", dir=folder) as place,
        subject.loaded() as model,
    ):
        model.endless = True
        saver = Saver(model, config, blocks, Path(place) / "pieces")
        try:
            for number in range(samples + 1):
                if number == 1:
                    before = saver.store.stats
                # The side that begins changes, so that a drift of the machine's speed favours neither.
                for saves in (True, False) if number % 2 else (False, True):
                    seconds[saves].append(saver.write(saves))
                say(
                    f"recall: {number} of {samples}: a token takes {seconds[0][-1] * 1e3:.1f} ms, "
                    f"{seconds[1][-1] / seconds[0][-1]:.3f} times that while what is evicted is saved"
                )
            stats = saver.store.stats
        finally:
            saver.close()
    assert stats.write_failures == 0
    assert stats.dropped_pieces == 0
    written = (stats.written_bytes - before.written_bytes) / (samples * BLOCK)
    return [
        median_row(
            "save_slowdown", pair_ratios(seconds[1][1:], seconds[0][1:]), "x", "lower", limit=LIMIT, aim=AIM
        ),
        median_row("saved_bytes_per_token", [written], "bytes", "lower"),
    ]
