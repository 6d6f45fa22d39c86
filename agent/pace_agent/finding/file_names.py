"""Which files a search is about, said by a pattern of their names."""

from __future__ import annotations

import os
import re

from pace_agent.errors import ToolError
from pace_agent.repository.ignore_patterns import Pattern, parse_pattern

_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST = 64
_LONGEST = 500


class FileNames:
    """Files whose names match a pattern with the meaning that it has in an ignore file.

    Without ``/`` it is compared with the last part of a path, else with all of it; ``!`` before it means the
    others; ``folder/`` is all that is below a folder; of ``{a,b}`` either may stand.

    Args:
        glob: None or empty: all files.

    Raises:
        ToolError: if it is too long, or stands for too many patterns.
    """

    def __init__(self, glob: str | None) -> None:
        self.glob = (glob or "").strip()
        plain = self.glob.removeprefix("!").removeprefix("./")
        if len(plain) > _LONGEST:
            raise ToolError(
                f"a pattern for names of {len(plain):,} characters is too long; give one as '*.py'"
            )
        self._is_negated = self.glob.startswith("!")
        self._patterns = [found for one in _alternatives(plain) if (found := _pattern(one))]

    def match(self, *paths: str) -> bool:
        """Whether a file is meant.

        Args:
            paths: of the same file, from different folders.
        """
        if not self._patterns:
            return True
        return self._is_negated != any(
            _fits(one, os.fsencode(path)) for one in self._patterns for path in paths
        )


def _fits(pattern: Pattern, path: bytes) -> bool:
    return pattern.regex.fullmatch(path.rpartition(b"/")[2] if pattern.by_name else path) is not None


def _pattern(glob: str) -> Pattern | None:
    glob += "**" if glob.endswith("/") else ""
    # In an ignore file these would begin a comment, or mean the others.
    raw = glob.encode("utf-8", "surrogateescape") if glob.isascii() else os.fsencode(glob)
    return parse_pattern(b"\\" + raw if raw[:1] in (b"#", b"!") else raw)


def _alternatives(glob: str) -> list[str]:
    """What a pattern with braces stands for; patterns of ignore files have none."""
    waiting, ready = [glob], []
    while waiting:
        one = waiting.pop()
        braces = _BRACES.search(one)
        if braces is None:
            ready.append(one)
        else:
            waiting += [one[: braces.start()] + each + one[braces.end() :] for each in braces[1].split(",")]
        if len(waiting) + len(ready) > _MOST:
            raise ToolError(f"{glob!r} stands for more than {_MOST} patterns; give one as '*.py'")
    return ready
