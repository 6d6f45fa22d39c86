"""Random operations on a cache in any order, save, load and place among them, against a slow reference.

The reference knows of each resident its token, its position, its values as they were decoded, and, once
taken, its reference: neither values nor references ever change, and keys are rotations of the references.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from block_layout import parse
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from native_cache import CACHES, IDENTITY, SPECS, Cached, random_tokens

from pace_local._native import Block
from pace_local.errors import NativeError
from pace_local.testing import tiny_model

N_CELLS = 256
FURTHEST = 6000


@dataclass(frozen=True)
class Entry:
    """A resident, or a row of a block."""

    token: int
    position: int
    values: bytes
    reference: bytes | None = None
    """None: not taken yet."""
    reference_position: int = -1


class Saved(NamedTuple):
    block: Block
    entries: list[Entry]


class BlockMachine(RuleBasedStateMachine):
    """Two sequences of one cache; every rule compares all that can be seen of both."""

    llama: ClassVar[Any]
    models: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.model: Cached
        self.residents: list[list[Entry]] = [[], []]
        self.blocks: list[Saved] = []
        self.n_added = 0
        self.fails = "nowhere"
        self.may_shift = False

    @initialize(spec=st.sampled_from(["llama", "qwen3 yarn", "smollm3"]), cache=st.sampled_from(list(CACHES)))
    def open(self, spec: str, cache: str) -> None:
        path = tiny_model(SPECS[spec], self.models)
        options: dict[str, Any] = {"n_ctx": N_CELLS, "n_seq": 2, "unified": True}
        self.model = Cached(self.llama, path, SPECS[spec], **options, **CACHES[cache])
        # Upstream's own shift ends the process on other types of keys, and under YaRN it rescales all keys,
        # those that it does not turn too.
        self.may_shift = self.model.key_type in ("f16", "f32") and "yarn" not in spec

    def teardown(self) -> None:
        if hasattr(self, "model"):
            try:
                self.model.cache.fail_next("nowhere")
                for seq in (0, 1):
                    self.model.renumber(first=seq, seq=seq)
                    self.model.check_keys(seq)
            finally:
                self.model.close()

    @property
    def n_free(self) -> int:
        return N_CELLS - sum(map(len, self.residents))

    def some(self, data: st.DataObject, n: int) -> list[int]:
        """Increasing numbers under ``n``: mostly runs, as they are in use."""
        if n == 0:
            return []
        if data.draw(st.booleans()):
            first = data.draw(st.integers(0, n - 1))
            return list(range(first, data.draw(st.integers(first + 1, n))))
        return sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=20)))

    def positions(self, data: st.DataObject, n: int, taken: set[int]) -> list[int]:
        """Free ones, increasing, now dense and now with gaps."""
        seed, reach = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.sampled_from([2, 20]))
        first = data.draw(st.integers(0, FURTHEST))
        choice = np.setdiff1d(np.arange(first, first + reach * (n + len(taken)) + 1), list(taken))
        return sorted(np.random.default_rng(seed).choice(choice, n, replace=False).tolist())

    # Operations

    @precondition(lambda self: self.n_free > 0)
    @rule(seq=st.integers(0, 1), n=st.integers(1, 40))
    def add(self, seq: int, n: int) -> None:
        n = min(n, self.n_free)
        first = self.model.next_position(seq)
        tokens = random_tokens(n, seed=self.n_added)
        self.n_added += 1
        self.model.add(tokens, seq=seq)
        values = self.model.read("value", seq)[:, -n:]
        self.residents[seq] += [
            Entry(token, first + i, values[:, i].tobytes()) for i, token in enumerate(tokens)
        ]
        self.compare()

    @rule(seq=st.integers(0, 1), data=st.data())
    def evict(self, seq: int, data: st.DataObject) -> None:
        n = len(self.residents[seq])
        gone = set(self.some(data, n))
        kept = [rank for rank in range(n) if rank not in gone]
        if self.happens(lambda: self.model.retain(kept, seq), {"plan"}):
            self.residents[seq] = [self.residents[seq][rank] for rank in kept]
        self.compare()

    @rule(seq=st.integers(0, 1), data=st.data())
    def place(self, seq: int, data: st.DataObject) -> None:
        n = len(self.residents[seq])
        gone = set(self.some(data, n)) if data.draw(st.booleans()) else set()
        kept = [rank for rank in range(n) if rank not in gone]
        positions = self.positions(data, len(kept), set())
        if self.happens(lambda: self.model.place(positions, kept, seq), {"plan"}):
            self.residents[seq] = [
                replace(self.residents[seq][rank], position=position)
                for rank, position in zip(kept, positions, strict=True)
            ]
            self.take_references(0, range(len(self.residents[0])))
            self.take_references(1, range(len(self.residents[1])))
            cells = self.model.cache.residents(seq)["cell"].tolist()
            assert cells == list(range(len(kept)))
        self.compare()

    @precondition(lambda self: self.may_shift)
    @rule(seq=st.integers(0, 1), by=st.integers(1, 90), data=st.data())
    def shift(self, seq: int, by: int, data: st.DataObject) -> None:
        """By upstream's own means, with the rotation owed until the next decode or placing."""
        entries = self.residents[seq]
        if entries:
            start = entries[data.draw(st.integers(0, len(entries) - 1))].position
            self.model.shift(start, by, seq)
            self.residents[seq] = [
                replace(entry, position=entry.position + by) if entry.position >= start else entry
                for entry in entries
            ]
        self.compare()

    @rule(seq=st.integers(0, 1), data=st.data())
    def save(self, seq: int, data: st.DataObject) -> None:
        ranks = self.some(data, len(self.residents[seq]))
        blocks: list[Block] = []
        if self.happens(lambda: blocks.append(self.model.save(ranks, seq)), {"plan"}):
            self.take_references(seq, ranks)
            entries = [self.residents[seq][rank] for rank in ranks]
            self.compare_block(blocks[0], entries)
            self.blocks = [*self.blocks[-5:], Saved(blocks[0], entries)]
        self.compare()

    @precondition(lambda self: self.blocks)
    @rule(seq=st.integers(0, 1), data=st.data())
    def load(self, seq: int, data: st.DataObject) -> None:
        saved = data.draw(st.sampled_from(self.blocks))
        rows = self.some(data, len(saved.entries))
        positions = self.positions(data, len(rows), {entry.position for entry in self.residents[seq]})
        everything = rows == list(range(len(saved.entries))) and data.draw(st.booleans())
        if len(rows) > self.n_free:
            with pytest.raises(NativeError) as error:
                self.model.load(saved.block, positions, rows, seq)
            assert error.value.status == "NO_ROOM"
        elif self.happens(
            lambda: self.model.load(saved.block, positions, None if everything else rows, seq), {"plan"}
        ):
            loaded = [
                replace(saved.entries[row], position=position)
                for row, position in zip(rows, positions, strict=True)
            ]
            both = [*self.residents[seq], *loaded]
            self.residents[seq] = sorted(both, key=lambda entry: entry.position)
        self.compare()

    @rule()
    def fail_next(self) -> None:
        self.fails = "plan"
        self.model.cache.fail_next("plan")

    def happens(self, act: Any, fails_at: set[str]) -> bool:
        """Run an operation; whether it was done, and not refused by an injected failure."""
        if self.fails not in fails_at:
            act()
            return True
        self.fails = "nowhere"
        with pytest.raises(NativeError) as error:
            act()
        assert error.value.status == "NO_MEMORY"
        return False

    # What is seen

    def take_references(self, seq: int, ranks: Any) -> None:
        """Note the references that an operation has taken."""
        told = self.model.cache.residents(seq)
        fresh = [rank for rank in ranks if self.residents[seq][rank].reference is None]
        if not fresh:
            return
        references = parse(self.model.save(fresh, seq), self.model).references
        for i, rank in enumerate(fresh):
            self.residents[seq][rank] = replace(
                self.residents[seq][rank],
                reference=references[:, i].tobytes(),
                reference_position=int(told["reference_position"][rank]),
            )

    def compare_block(self, block: Block, entries: list[Entry]) -> None:
        got = parse(block, self.model)
        told = self.model.cache.read_block(block, IDENTITY)
        for i, entry in enumerate(entries):
            assert got.references[:, i].tobytes() == entry.reference
            assert got.values[:, i].tobytes() == entry.values
            assert tuple(told[i]) == (entry.position, -1, entry.token, entry.reference_position)

    def compare(self) -> None:
        used: list[int] = []
        for seq, entries in enumerate(self.residents):
            told, values = self.model.cache.residents(seq), self.model.read("value", seq)
            used += told["cell"].tolist()
            assert told["position"].tolist() == [entry.position for entry in entries]
            assert told["token"].tolist() == [entry.token for entry in entries]
            assert told["reference_position"].tolist() == [entry.reference_position for entry in entries]
            for i, entry in enumerate(entries):
                assert values[:, i].tobytes() == entry.values, f"values of rank {i}"
            if entries and all(entry.reference is not None for entry in entries):
                references = self.model.read("reference", seq)
                for i, entry in enumerate(entries):
                    assert references[:, i].tobytes() == entry.reference, f"reference of rank {i}"
        assert len(used) == len(set(used)), "no cell is used twice"


@pytest.mark.parametrize("attempt", range(2))
def test_any_order_of_operations(llama: Any, tiny_models: Path, attempt: int) -> None:
    machine = type("Machine", (BlockMachine,), {"llama": llama, "models": tiny_models})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
