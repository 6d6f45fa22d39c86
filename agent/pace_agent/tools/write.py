"""The tool ``write``."""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from pathlib import Path

from pace_agent.editing.code_blocks import is_elided
from pace_agent.editing.edited import check_storable, with_line_ends
from pace_agent.errors import ToolError
from pace_agent.outcomes import Outcome, Proposal
from pace_agent.safety.paths import Place
from pace_agent.tool_type import Tool, tool
from pace_agent.watching.staleness import Excerpt
from pace_agent.workbench import Workbench
from pace_local.excerpts.layout import split_lines
from pace_local.files import SourceText


def make(bench: Workbench) -> Tool:
    """Makes a file, or gives one that was read a new content."""
    written: set[Path] = set()

    @tool("propose")
    def write(path: str, content: str) -> Outcome:
        """Write a whole file. For parts of a file use edit.

        Args:
            path: of the file
            content: all of it
        """
        place = bench.place(path)
        check_storable(content, place.shown)
        if place.path.is_dir():
            raise ToolError(f"{place.shown!r} is a folder; name a file")
        before: SourceText | None = None
        if place.path.exists():
            bench.files.check_fresh(place.path)
            _, before = bench.open(path)
            if is_elided(content) and not is_elided(before.text):
                raise ToolError(
                    f"the content of {place.shown!r} leaves lines out; write all of it, or use edit"
                )
            _check_seen(bench, place, before.text, content, written)
        if content and not content.endswith("\n") and (before is None or _ends_with_a_line_end(before)):
            content += "\n"
        if before is None:
            after = SourceText(place.shown, content, "utf-8", "\n")
        else:
            after = dataclasses.replace(before, text=with_line_ends(content, before.newline or "\n"))
            if after.text == before.text:
                raise ToolError(f"{place.shown!r} has that content already; go on")
        written.add(place.path)
        n_lines = len(split_lines(content))
        what = "made" if before is None else "written anew"
        return Proposal(
            place, before, after, f"{place.shown} is {what}: {n_lines} lines.", 1, max(1, n_lines)
        )

    return write


def _check_seen(bench: Workbench, place: Place, text: str, content: str, written: Container[Path]) -> None:
    """Refuse a content that leaves out lines of a file that the model was not shown, nor wrote itself.

    Args:
        bench: knows what was shown.
        place: of the file.
        text: of the file.
        content: that it is to have.
        written: files that the model wrote whole.

    Raises:
        ToolError: with how many lines would be lost.
    """
    excerpts = bench.excerpts.of_path(place.shown.replace("\\", "/"))
    # What the agent alone has changed since it was shown is known as well.
    is_own = bench.files.is_own_write(place.path, bench.files.known_hash(place.path))
    if is_own and (place.path in written or any(one.whole for one in excerpts)):
        return
    lines = split_lines(text)

    def still_stands(one: Excerpt) -> bool:  # the watcher may not have said so yet
        held = bench.excerpts.holding(one.path, "".join(lines[one.first - 1 : one.last]))
        return is_own or held is not None

    seen = {number for one in excerpts if still_stands(one) for number in range(one.first, one.last + 1)}
    kept = {line.strip() for line in ("", *split_lines(content))}
    lost = [n for n, line in enumerate(lines, 1) if n not in seen and line.strip() not in kept]
    if lost:
        raise ToolError(
            f"{place.shown!r} has {len(lines)} lines and you have not seen {len(lost)} of them, from line "
            f"{lost[0]} on; they would be lost: use edit, or read them first"
        )


def _ends_with_a_line_end(source: SourceText) -> bool:
    return not source.text or source.text.endswith(("\n", "\r"))
