"""What a folder of results holds: one line a turn and a probe, and which cells are finished.

A cell with one seed is the unit that is finished or not. The session that it reads is gone on with from its
last turn; its probes, which are asked aside, are asked again from the first if a run was stopped among them.
Lines of an earlier try stay in the file and count no more once there are newer ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pace_local.errors import ConfigError, FileError
from pace_local.eval.cells import N_SPECIFICATIONS
from pace_local.eval.measures import ProbeMeasure
from pace_local.line_file import LineFile, read_lines

NAME = "turns.jsonl"
_ONCE_FIXED = {"specifications": N_SPECIFICATIONS, "between": 0}
"""What the first results do not say, because there was no choice."""


class Results:
    """The lines of a folder of results, put in order.

    Args:
        lines: as they are in the file.

    Raises:
        FileError: if one of them is none of ``pace eval``.
    """

    def __init__(self, lines: Iterable[Mapping[str, Any]]) -> None:
        self.runs: dict[str, Mapping[str, Any]] = {}
        """Run -> its header, in order of time."""
        self.sessions: dict[tuple[str, int, int | None], Mapping[str, Any]] = {}
        """Stage, seed and gap -> the session up to the first probe."""
        self.turns: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        """Stage and seed -> its turns before the probes, in order."""
        self._probes: dict[tuple[str, int], list[ProbeMeasure]] = {}
        self._ended: dict[tuple[str, int], Mapping[str, Any]] = {}
        for number, line in enumerate(lines, 1):
            try:
                self.take(line)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise FileError(
                    f"{NAME}, line {number} is none of `pace eval`; delete the file or give another folder"
                ) from None

    def is_finished(self, cell: str, seed: int) -> bool:
        """Whether a cell was measured to its end, or refused."""
        return (cell, seed) in self._ended

    def refusal(self, cell: str, seed: int) -> str | None:
        """Why a cell cannot be measured; None if it can, or if that is not known."""
        refused: str | None = self._ended.get((cell, seed), {}).get("refused")
        return refused

    def is_settled(self, cell: str, seed: int, run: str | None = None) -> bool:
        """Whether nothing is left to try: what another run refused may go now, with more memory say."""
        ended = self._ended.get((cell, seed))
        return ended is not None and (ended.get("refused") is None or ended["run"] == run)

    def finished_in(self, run: str) -> list[str]:
        """Cells that a run measured to their end, or refused, in its order."""
        return list(dict.fromkeys(cell for (cell, _), line in self._ended.items() if line["run"] == run))

    def probes(self, cell: str, seed: int) -> list[ProbeMeasure]:
        """Of the newest try of a cell; those so far if it is not finished."""
        return self._probes.get((cell, seed), [])

    @property
    def header(self) -> Mapping[str, Any]:
        """Of the newest run.

        Raises:
            FileError: if there was none.
        """
        if not self.runs:
            raise FileError(f"there are no results in this {NAME}; run without --report-only first")
        return next(reversed(self.runs.values()))

    def take(self, line: Mapping[str, Any]) -> None:
        """Take one more line.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: if it is of no known form.
        """
        kind = line["type"]
        if kind == "run":
            self.runs[line["run"]] = {**line, "identity": {**_ONCE_FIXED, **line["identity"]}}
        elif kind == "turn":
            turns = self.turns.setdefault((line["stage"], int(line["seed"])), [])
            number = int(line["number"])
            while turns and turns[-1]["number"] >= number:  # of a try that was begun anew
                turns.pop()
            turns.append(line)
        elif kind == "session":
            self.sessions[line["stage"], int(line["seed"]), line.get("gap")] = line
        elif kind == "probe":
            probe = ProbeMeasure.from_document(line)
            key = probe.cell, probe.seed
            if key in self._ended:
                if self._ended[key].get("refused") is None or self._ended[key]["run"] == probe.run:
                    raise ValueError("measured again")
                del self._ended[key]
            found = self._probes.setdefault(key, [])
            if found and found[-1].run != probe.run:
                found.clear()
            found.append(probe)
        elif kind == "done":
            self._ended[line["cell"], int(line["seed"])] = line
        else:
            raise ValueError(kind)


def load_results(folder: Path) -> Results:
    """The results in a folder, also while they are being written.

    Raises:
        FileError: if there are none.
    """
    lines, _ = read_lines(folder / NAME)
    return Results(lines)


class Journal:
    """Writes what one run measures. Use it as a context manager.

    Args:
        folder: made if it is not there.
        header: of this run, with ``run`` and ``identity``.

    Raises:
        ConfigError: on entering, if the folder holds results of another model, length or budget.
        FileError: if what is in it are no results.
        StorageError: as :class:`~pace_local.line_file.LineFile`.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self.folder = folder
        self.run = str(header["run"])
        self.results = Results(())
        self._header = header
        self._file = LineFile(folder / NAME)

    def __enter__(self) -> Journal:
        """Read what is there and begin this run."""
        self._file.__enter__()
        try:
            self.results = Results(self._file.lines)
            self._check_identity()
            self._add({"type": "run", **self._header}, sync=True)
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def was_torn(self) -> bool:
        """Whether the file ended in the midst of a line, which was cut off."""
        return self._file.was_torn

    def add_turn(self, stage: str, seed: int, measured: Mapping[str, Any]) -> None:
        """A turn before the probes was read."""
        self._add({"type": "turn", "run": self.run, "stage": stage, "seed": seed, **measured})

    def add_session(
        self, stage: str, seed: int, *, gap: int | None, tokens: int, digest: str, seconds: float
    ) -> None:
        """All turns before the probes at a gap were read.

        Raises:
            FileError: if other cells had other tokens there.
        """
        for (other, other_seed, other_gap), session in self.results.sessions.items():
            same = (other_seed, other_gap, other.split("/")[0]) == (seed, gap, stage.split("/")[0])
            if same and session["digest"] != digest:
                raise FileError(
                    f"the session of {stage} with seed {seed} has {tokens:,} tokens, and that of {other} "
                    f"{session['tokens']:,} others; all cells must read the same: give another folder"
                )
        line = {"gap": gap, "tokens": tokens, "digest": digest, "seconds": seconds}
        self._add({"type": "session", "run": self.run, "stage": stage, "seed": seed, **line})

    def add_probe(self, probe: ProbeMeasure) -> None:
        """A probe was answered and graded."""
        self._add({"type": "probe", **probe.as_document()}, sync=True)

    def end_cell(self, cell: str, seed: int, refused: str | None = None) -> None:
        """A cell is measured, or cannot be, with the reason."""
        self._add(
            {"type": "done", "run": self.run, "cell": cell, "seed": seed, "refused": refused}, sync=True
        )

    def _add(self, line: Mapping[str, Any], *, sync: bool = False) -> None:
        self._file.add(line, sync=sync)
        self.results.take(self._file.lines[-1])

    def _check_identity(self) -> None:
        for header in self.results.runs.values():
            for what, value in self._header["identity"].items():
                had = header["identity"].get(what)
                if had != value:
                    raise ConfigError(
                        f"{self.path.parent} holds results with {what.replace('_', ' ')} {had}, not {value}; "
                        "give another folder"
                    )
