"""A worker whose model says what a script says, and that does what no model does: print, crash, hang.

Run as a script: the words are the worker's options, and ``SCRIPT`` in the environment is a JSON list. A text
is an answer; an object is something to do before one: ``{"do": "abort", "say": "..."}``.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from typing import Any

from pace_agent.worker.main import run
from pace_local.testing import Script


def _print() -> None:
    """As native libraries do: past Python, on both descriptors; and as Python ones do."""
    os.write(1, b"printed on 1\n")
    os.write(2, b"printed on 2\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"put by C")
    libc.fflush(None)
    print("printed by Python")
    os.system("echo printed by a child; cat")  # which reads to the end of what it inherits


_ACTS = {
    "abort": os.abort,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "print": _print,
    "hang": lambda: time.sleep(600),
    "fail": lambda: [][0],
}


def line(document: Any) -> Any:
    """A line of the script."""
    if isinstance(document, str):
        return document

    def act(_sampling: object) -> str:
        _ACTS[document["do"]]()
        return str(document.get("say", ""))

    return act


if __name__ == "__main__":
    run(writer=Script([line(each) for each in json.loads(os.environ["SCRIPT"])]))
