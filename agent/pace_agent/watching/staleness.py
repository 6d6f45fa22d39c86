"""Which segments hold text of files, and which of it a change has made stale."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pace_agent.repository.walk import shown
from pace_agent.watching.changes import Batch, Change, diff_of
from pace_local.errors import ConfigError
from pace_local.excerpts.layout import split_lines

SHORT_NOTE = 1_200
"""Characters of a note that shows what changed; where that takes more, files are named alone."""

_NAMED = 12


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file that a segment holds."""

    segment: str
    path: str
    """From the repository, with ``/``; absolute in another folder."""

    first: int
    """Line, from 1; 0: the outline of the file, which holds no lines."""

    last: int
    """Inclusive; ``first - 1``: no lines; 0 of an outline."""

    text_hash: str
    """Of the lines, whatever their ends are; of an outline, of all lines that it was made from."""

    line_sum: int
    """Sum of what each line is known by: where it is another, these lines need not be compared."""

    whole: bool
    """Whether these are all lines of the file."""

    @classmethod
    def of(cls, segment: str, path: str, first: int, last: int, content: str, whole: bool = False) -> Excerpt:
        """The record of lines that were read.

        Args:
            segment: that holds them.
            path: of their file.
            first: line, from 1; 0: an outline of the file was read.
            last: inclusive.
            content: the lines as they stand in the file; of an outline, all of them.
            whole: whether these are all.
        """
        lines = _plain_lines(content)
        return cls(segment, path, first, last, _hash(lines), sum(map(_number, lines)), whole)


class Excerpts:
    """All excerpts of a session, one for each segment. Iterating gives them in the order they were added."""

    def __init__(self) -> None:
        self._all: dict[str, Excerpt] = {}
        self._stale: dict[str, bool] = {}  # whether it has been taken

    def __iter__(self) -> Iterator[Excerpt]:
        return iter(tuple(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def add(self, excerpt: Excerpt) -> None:
        """Take in lines that were just read; a segment of that name held others before."""
        self.drop(excerpt.segment)
        self._all[excerpt.segment] = excerpt

    def drop(self, segment: str) -> None:
        """Forget a segment, if it is known."""
        self._all.pop(segment, None)
        self._stale.pop(segment, None)

    def of_path(self, path: str) -> tuple[Excerpt, ...]:
        """Those of a file, stale ones included."""
        return tuple(one for one in self if one.path == path)

    @property
    def paths(self) -> tuple[str, ...]:
        """Files that there are excerpts of."""
        return tuple(dict.fromkeys(one.path for one in self))

    def is_stale(self, segment: str) -> bool:
        """Whether a segment holds text that its file no longer has."""
        return segment in self._stale

    def holding(self, path: str, content: str) -> Excerpt | None:
        """The newest that holds exactly these lines and is not stale; None if there is none."""
        wanted = _hash(_plain_lines(content))
        found = (one for one in reversed(self.of_path(path)) if one.first and one.text_hash == wanted)
        return next((one for one in found if not self.is_stale(one.segment)), None)

    def overlapping(self, path: str, first: int, last: int) -> tuple[str, ...]:
        """Segments that are not stale and hold some of these lines."""
        return tuple(
            one.segment
            for one in self.of_path(path)
            if one.first <= last and first <= one.last and not self.is_stale(one.segment)
        )

    def moved(self, names: Mapping[str, str]) -> None:
        """Files have other names, new by old, all at once: their lines are still there."""
        for one in self:
            if one.path in names:
                self._all[one.segment] = replace(one, path=names[one.path])

    def changed(self, path: str, text: str | None) -> tuple[str, ...]:
        """Compare a file's excerpts with its text.

        Lines that stand elsewhere in it are not stale: their numbers are brought up to date. Those of a stale
        one that are there again are as they were. An outline is stale as soon as anything has changed.

        Args:
            path: of the file.
            text: all of it; None: it is gone.

        Returns:
            Segments that are stale and were not before.
        """
        excerpts = self.of_path(path)
        lines = None if text is None or not excerpts else _plain_lines(text)
        sums = [0, *accumulate(map(_number, lines or ()))]
        found = []
        for one in excerpts:
            now = None if lines is None else _now(one, lines, sums)
            if now is not None:
                self._stale.pop(one.segment, None)
                self._all[one.segment] = now
            elif one.segment not in self._stale:
                self._stale[one.segment] = False
                found.append(one.segment)
        return tuple(found)

    def take_stale(self) -> tuple[str, ...]:
        """Stale segments that were not taken before."""
        taken = tuple(segment for segment, is_taken in self._stale.items() if not is_taken)
        self._stale.update(dict.fromkeys(taken, True))
        return taken

    def as_document(self) -> list[dict[str, Any]]:
        """All of them as plain values, with whether each is stale and has been taken."""
        return [
            {
                **dataclasses.asdict(one),
                "stale": self.is_stale(one.segment),
                "taken": self._stale.get(one.segment, False),
            }
            for one in self
        ]

    def take_document(self, document: Sequence[Mapping[str, Any]]) -> None:
        """Hold what :meth:`as_document` gave, and nothing else.

        Raises:
            ConfigError: if it is something else; nothing has changed then.
        """
        try:
            kept = [_ADAPTER.validate_python(one) for one in document]
        except (ValidationError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(f"the list of excerpts is not as it should be: {reason}") from None
        names = [field.name for field in dataclasses.fields(Excerpt)]
        self._all = {one.segment: Excerpt(**{name: getattr(one, name) for name in names}) for one in kept}
        self._stale = {one.segment: one.taken for one in kept if one.stale}


@dataclass(frozen=True)
class _Kept(Excerpt):
    """An excerpt as it is kept."""

    stale: bool
    taken: bool


_ADAPTER = TypeAdapter(_Kept)


def _now(excerpt: Excerpt, lines: Sequence[str], sums: Sequence[int]) -> Excerpt | None:
    """An excerpt as it stands in a file now; None if it does not. Arguments as for :func:`_place`."""
    if not excerpt.first:
        return excerpt if excerpt.text_hash == _hash(lines) else None
    place = _place(excerpt, lines, sums)
    if place is None:
        return None
    count = excerpt.last - excerpt.first + 1
    whole = excerpt.whole and count == len(lines)
    return replace(excerpt, first=place + 1, last=place + count, whole=whole)


def _place(excerpt: Excerpt, lines: Sequence[str], sums: Sequence[int]) -> int | None:
    """Index of the line where an excerpt stands now, the nearest to where it stood; None: nowhere.

    Args:
        excerpt: what to look for.
        lines: of the file, without their ends.
        sums: of the numbers of the lines before each, and of all.
    """
    count = excerpt.last - excerpt.first + 1
    before = excerpt.first - 1
    if count < 1:
        return min(before, len(lines))
    ends = zip(range(len(lines)), sums, sums[count:], strict=False)
    found = [index for index, start, end in ends if end - start == excerpt.line_sum]
    found.sort(key=lambda index: abs(index - before))
    return next((i for i in found if _hash(lines[i : i + count]) == excerpt.text_hash), None)


def _number(line: str) -> int:
    """What a line is known by: 64 bits."""
    data = line.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def _plain_lines(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in split_lines(text)]


def _hash(lines: Sequence[str]) -> str:
    text = "".join(line + "\n" for line in lines)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def note_of(
    batch: Batch,
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    *,
    limit: int = SHORT_NOTE,
    whose: str = "not by you",
) -> str | None:
    """What a model is told of changes that are not its own writes; None if there are none.

    Few are shown as diffs, many or long ones named. Where another branch or commit is checked out, one line
    says so.

    Args:
        batch: the changes.
        before: texts of files by their path before; None: there was none. A file whose text is not in it, or
            not in ``after``, is named alone.
        after: texts of files by their path now.
        limit: characters.
        whose: who made them, as the note says it.
    """
    changes = batch.by_user
    if batch.head is not None:
        files = f"; {_counted(changes)} differ: {_named(changes)}" if changes else ""
        return _cut(f"Checked out now: {shown(str(batch.head))}{files}", limit)
    if not changes:
        return None
    parts = [f"Changed meanwhile, {whose}:"]
    for change in changes:
        parts.append(_part(change, before, after, limit))
        if sum(len(part) + 1 for part in parts) > limit:
            return _cut(
                f"Changed meanwhile, {whose}: {_counted(changes)}: {_named(changes)}."
                " Read again what you need of them.",
                limit,
            )
    return "\n".join(part.rstrip("\n") for part in parts)


def _part(
    change: Change, before: Mapping[str, str | None], after: Mapping[str, str | None], limit: int
) -> str:
    old = change.old_path or change.path
    if change.kind == "deleted" or old not in before or change.path not in after:
        return str(change)
    text = diff_of(change.path, before[old], after[change.path], limit)
    if change.kind != "moved":
        return text
    return str(change) if before[old] == after[change.path] else f"{change}\n{text}"


def _named(changes: Sequence[Change]) -> str:
    more = f" and {len(changes) - _NAMED:,} more" if len(changes) > _NAMED else ""
    return ", ".join(map(str, changes[:_NAMED])) + more


def _counted(changes: Sequence[Change]) -> str:
    return "1 file" if len(changes) == 1 else f"{len(changes):,} files"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
