"""Runs ``pace``, in this process or one of its own; a small project whose answer stands in its first file."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest.mock
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pace_local
from pace_local.cli import main

SMALL = (
    *("--budget", "1024", "--headroom", "128", "--position-cap", "2048"),
    *("--threads", "1", "--max-tokens", "12"),
)
"""A cache that a tiny model, whose tokens are about a byte each, fills soon."""

PATIENCE = 300
"""Seconds after which a process that should have ended long ago is given up."""

QUESTION = "What does `surcharge` charge, and what is PIER_FEE?"

_TERMS = '''\
"""Harbour fees."""

PIER_FEE = 4171


def surcharge(tonnes):
    """What a ship pays beside the pier fee."""
    return PIER_FEE + 29 * tonnes
'''

_FILLER = '''\
def berth_{n}(ships):
    """Berths of quay {n}, longest ship first."""
    rows = sorted(ships, key=len, reverse=True)
    return [row for row in rows if len(row) > {n}]


'''


def write_project(folder: Path, *, filler: int = 24) -> list[str]:
    """Two files: short terms first, then much that has nothing to do with them. Returns their paths."""
    terms, quays = folder / "terms.py", folder / "quays.py"
    terms.write_text(_TERMS, encoding="utf-8")
    quays.write_text("".join(_FILLER.format(n=n) for n in range(filler)), encoding="utf-8")
    return [str(terms), str(quays)]


def environment(**changes: str) -> dict[str, str]:
    """The environment of a child: it imports the package that this process has, and speaks UTF-8."""
    home = str(Path(pace_local.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1", **changes}


def pace(
    *arguments: str | os.PathLike[str], stdin: bytes = b"", **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run ``pace`` to its end; ``changes`` are those of the environment."""
    ended = subprocess.run(
        [sys.executable, "-m", "pace_local.cli", *arguments],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        env=environment(**changes),
    )
    return subprocess.CompletedProcess(
        ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode()
    )


def start(script: str, *arguments: str | os.PathLike[str]) -> subprocess.Popen[str]:
    """Start a script with pipes for stdout and stderr, and with SIGINT as in the foreground of a terminal.

    A process that runs in the background of a shell script, as tests may, hands on to its children that
    SIGINT is to be ignored.
    """
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    return subprocess.Popen(
        [sys.executable, "-c", f"{heed}\n{script}", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(),
    )


PACE = "import sys; from pace_local.cli import main; sys.exit(main())"
"""The script for :func:`start` that runs ``pace`` with the arguments."""


def is_one_line_error(text: str) -> bool:
    """Whether a text is what a command says when it fails: one line, and no traceback."""
    return text.startswith("pace: ") and text.count("\n") == 1 and text.endswith("\n")


@dataclass(frozen=True)
class Run:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Its one JSON object."""
        assert self.out.count("\n") == 1
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Its JSON lines."""
        assert self.out.endswith("\n")
        return [json.loads(line) for line in self.out.splitlines()]


def run(*words: object, stdin: str | bytes | None = None) -> Run:
    """Run ``pace`` in this process. Its stdin is a terminal unless it is given."""
    out, err = io.StringIO(), io.StringIO()
    data = stdin.encode() if isinstance(stdin, str) else stdin or b""
    typed = io.TextIOWrapper(io.BytesIO(data), encoding="latin-1")  # as some locales have it
    typed.isatty = lambda: stdin is None  # type: ignore[method-assign]
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        unittest.mock.patch.object(sys, "stdin", typed),
    ):
        code = main([str(word) for word in words])
    return Run(code, out.getvalue(), err.getvalue())


def refusal(ended: Run, code: int = 2) -> str:
    """The one line of an error that is all that was said, but for the choice of a model."""
    assert ended.code == code
    assert ended.out == ""
    lines = ended.err.splitlines(keepends=True)
    assert is_one_line_error(lines[-1])
    assert all(line.startswith("model: ") for line in lines[:-1])
    return lines[-1].removeprefix("pace: ").rstrip("\n")
