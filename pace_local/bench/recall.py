"""``recall``: what it takes to have evicted tokens back, against decoding them again.

One session is filled to its budget. A segment near its beginning, role markers included, is evicted again and
again; the rest is renumbered compactly each time, so that there is no gap left where it was: whoever brings
it back has to move and turn all that lies behind it.

* *recall*: :meth:`~pace_local.session.Session.recall` with all that it does: finding what is missing,
  checking the saved block, opening a gap, loading, keeping its map. From main memory, and from a file that
  the store wrote and the system no longer holds in memory.
* *decoding*: the same tokens in one batch at the end of the other residents, by the bare engine.

The same session is then saved and opened again, see ``opening.py``; ``saving.py`` has the last row.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from pace_local import _native
from pace_local.bench.filler import Filler
from pace_local.bench.opening import Saved, measure_opening
from pace_local.bench.page_cache import drop_cached, worst
from pace_local.bench.report import Row, median_row, pair_ratios
from pace_local.bench.subject import Subject
from pace_local.config import SessionConfig
from pace_local.model import Model
from pace_local.models import Say
from pace_local.recall import Store
from pace_local.session import Session

LIMIT, AIM = 20.0, 100.0
DISK_LIMIT, DISK_AIM = 5.0, 20.0
LIMITED = ("05b", "15b")
"""Sizes of model that the limit was set for."""
_STORE_BYTES = 1 << 30
_DECODES = 3
_NAME = "recalled"


class Recaller:
    """A full session with one segment that goes and comes. Close it, or use it as a context manager.

    Args:
        model: must stay open.
        config: sizes; the residents fill the budget.
        tokens: of the segment with its role markers, as nearly as the filler can.
    """

    def __init__(self, model: Model, config: SessionConfig, tokens: int) -> None:
        self.session = Session(model, config=config)
        try:
            filler = Filler(model)
            start = self.session.append("You keep an order book.", kind="system")
            markers = len(self.session.residents) - len(start)
            self._segment = self.session.append(filler.take(tokens - markers), name=_NAME, kind="file").id
            while (left := config.budget - len(self.session.residents)) > markers:
                self.session.append(filler.take(min(left, config.headroom) - markers), kind="file")
            self._working_set = self.session._memory.working_set
            self._tokens = np.frombuffer(self.session._cache.tokens, dtype=np.int32).copy()
            self._unit = self._working_set.unit(self._segment)
            self.take_out()
        except BaseException:
            self.session.close()
            raise

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    def __enter__(self) -> Recaller:
        """The recaller itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    @property
    def tokens(self) -> int:
        """Tokens that go and come."""
        return len(self._unit)

    @property
    def store(self) -> Store:
        """Where the segment is brought back from."""
        return self._working_set.store

    def save(self, folder: Path) -> Saved:
        """Bring the segment back for good, and keep the session on disk from now on."""
        self.recall(self.store)
        assert len(self.session.residents) == len(self._tokens)
        return Saved(self.session.save(folder), self._tokens)

    def copy_to(self, store: Store) -> None:
        """Save in another store what is saved of the segment, under the same id."""
        (piece,) = self.store.pieces_of(self._segment)
        copied = store.put(piece.segment, piece.token_index, self.store.get(piece.id))
        assert (copied.id, copied.n_bytes) == (piece.id, piece.n_bytes)
        store.settle()

    def take_out(self) -> None:
        """Evict the segment, saved if it is not yet, and close the gap that it leaves."""
        self._working_set.remove(self._segment)
        n = len(self.session.residents)
        self.session._cache.move(np.arange(n, dtype=np.uint32), np.arange(n, dtype=np.int32))
        assert len(self._working_set.missing(self._segment)) == self.tokens

    def recall(self, store: Store) -> float:
        """Bring the segment back from a store, and return the seconds taken."""
        self._working_set.store, own = store, self.store
        try:
            began = time.perf_counter()
            self.session.recall(_NAME)
            self._wait()
            seconds = time.perf_counter() - began
        finally:
            self._working_set.store = own
        # Loaded and not computed: the tokens would have a piece of their own otherwise.
        assert len(self._working_set.missing(self._segment)) == 0
        assert not self.session.segments[self._segment].isolated
        return seconds

    def decode_again(self) -> float:
        """Decode the segment's tokens behind the residents, take them out again, and return the seconds."""
        return self._decode(self._tokens[self._unit])

    def first_decode(self) -> float:
        """What the next token takes, in what a token takes after it: more, if something was put off."""
        token = self._tokens[:1]
        first = self._decode(token)
        return first / statistics.median(self._decode(token) for _ in range(_DECODES))

    def _decode(self, tokens: npt.NDArray[np.int32]) -> float:
        engine, first = self.session.engine, self.session.next_position
        began = time.perf_counter()
        for start in range(0, len(tokens), engine.n_batch):
            engine.decode(tokens[start : start + engine.n_batch], first + start)
        self._wait()
        seconds = time.perf_counter() - began
        engine.remove_from(first)
        return seconds

    def _wait(self) -> None:
        _native.llama.llama_synchronize(self.session.engine.ctx)


def measure_recall(
    subject: Subject,
    *,
    samples: int,
    threads: int | None,
    say: Say,
    folder: Path,
    with_disk: bool,
    residents: int = 2048,
    headroom: int = 512,
    tokens: int = 256,
) -> list[Row]:
    """Rows of one model: ``recall_speedup`` with the model's suffix; those of the disk if they are asked for.

    Args:
        subject: the model.
        samples: recalls from each place.
        threads: None: the physical cores.
        say: takes lines of progress.
        folder: on the disk that is measured.
        with_disk: whether ``recall_disk_speedup`` and ``open_speedup`` are measured too.
        residents: with what is recalled; also the budget.
        headroom: cells above that.
        tokens: that are recalled.
    """
    config = SessionConfig(
        budget=residents,
        headroom=headroom,
        position_cap=4 * (residents + headroom),
        threads=threads,
        host_bytes=_STORE_BYTES,
        disk_bytes=_STORE_BYTES,
    )
    folder.mkdir(parents=True, exist_ok=True)
    say(f"recall: {subject.name} reads {residents} tokens")
    with (
        tempfile.TemporaryDirectory(prefix="recall-", dir=folder) as place,
        subject.loaded() as model,
    ):
        with Recaller(model, config, tokens) as recaller:
            rows = _recall_rows(recaller, subject, samples, Path(place), say, with_disk)
            saved = recaller.save(Path(place) / "session") if with_disk else None
        if saved is not None:
            rows += measure_opening(model, config, saved, samples, say)
    return rows


def _recall_rows(
    recaller: Recaller, subject: Subject, samples: int, place: Path, say: Say, with_disk: bool
) -> list[Row]:
    again: list[float] = []
    host: list[float] = []
    disk: list[float] = []
    first: list[float] = []
    dropped: list[str] = []
    pieces = place / "pieces"

    def from_host() -> None:
        host.append(recaller.recall(recaller.store))
        first.append(recaller.first_decode())
        recaller.take_out()

    def from_disk() -> None:
        dropped.append(drop_cached(pieces))
        disk.append(recaller.recall(on_disk))
        recaller.take_out()

    with Store(host_bytes=0, disk_bytes=_STORE_BYTES, folder=pieces) as on_disk:
        turns = [lambda: again.append(recaller.decode_again()), from_host]
        if with_disk:
            recaller.copy_to(on_disk)
            turns.append(from_disk)
        for number in range(samples + 1):
            # The one that begins changes, so that a drift of the machine's speed favours none.
            start = number % len(turns)
            for turn in turns[start:] + turns[:start]:
                turn()
            say(
                f"recall: {subject.name} {number} of {samples}: {recaller.tokens} tokens, decoded "
                f"{again[-1] * 1e3:.0f} ms, from memory {host[-1] * 1e3:.1f} ms"
                + (f", from disk {disk[-1] * 1e3:.1f} ms" if disk else "")
            )
        if with_disk:
            assert on_disk.stats.read_pieces == len(disk)
    # The first round allocates what the others use again.
    again, host, disk, first = again[1:], host[1:], disk[1:], first[1:]
    suffix = f"_{subject.suffix}"
    limit, aim = (LIMIT, AIM) if subject.suffix in LIMITED else (None, None)
    rows = [
        median_row(f"recall_speedup{suffix}", pair_ratios(again, host), "x", "higher", limit=limit, aim=aim),
        median_row(f"recall_ms{suffix}", [s * 1e3 for s in host], "ms", "lower"),
        median_row(f"decode_again_ms{suffix}", [s * 1e3 for s in again], "ms", "lower"),
        median_row(f"decode_after_recall{suffix}", first, "decodes", "lower"),
    ]
    if with_disk:
        ratios = pair_ratios(again, disk)
        note = f"page cache {worst(dropped)} before each read"
        rows += [
            median_row(
                "recall_disk_speedup", ratios, "x", "higher", limit=DISK_LIMIT, aim=DISK_AIM, note=note
            ),
            median_row("recall_disk_ms", [s * 1e3 for s in disk], "ms", "lower", note=note),
        ]
    return rows
