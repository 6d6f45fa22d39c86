"""Plays a session on disk in processes that are killed at any instant, and checks each time what is left.

Run as a script: ``python session_killed.py FOLDER MODEL ROUNDS SEED``. One process loads the model; each
round is a child of it, which opens the session, checks it, and goes on until it is killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
import zlib
from array import array
from pathlib import Path

from pace_local import Model, Plan, Session, Step, events
from pace_local.sessions.folder import log_path

SETTINGS = {"budget": 96, "headroom": 16, "position_cap": 160, "threads": 1, "policy": "pace_focus"}
LONGEST_ROUND = 0.25
"""Seconds until a child is killed, at most, as long as children get as far as to find a session."""


def state(session: Session) -> str:
    """One line: how long the session is, and the checksum of its tokens."""
    return f"{session.session_length} {zlib.crc32(array('i', session.tokens).tobytes())}\n"


def check(session: Session, completed: str, heard: list[events.Event]) -> None:
    """All that was completed is there, with keys and values but for the last turn's."""
    session.check()
    length, checksum = map(int, completed.split())
    assert session.session_length >= length, f"{session.session_length} of {length} tokens are left"
    assert zlib.crc32(array("i", session.tokens[:length]).tobytes()) == checksum, "tokens have changed"
    rebuilt = sum(event.residents for event in heard if isinstance(event, events.Rebuilt))
    newest = max((part.turn for part in session.segments), default=0)
    last = sum(len(part) for part in session.segments if part.turn >= newest - 1)
    assert rebuilt <= last, f"{rebuilt} residents were computed again, and the last turn has {last} tokens"


def play(model: Model, folder: Path, completed: str, report: int, seed: int) -> None:
    heard: list[events.Event] = []
    random_ = random.Random(seed)
    if log_path(folder / "session").exists():  # before that there is no session yet
        session = Session.open(model, folder / "session", listener=heard.append)
        check(session, completed, heard)
        os.write(report, b"ok " + state(session).encode())
    else:
        session = Session(model, folder=folder / "session", **SETTINGS)
        session.append("be brief", kind="system")
    while True:
        number = random_.randrange(1000)
        action = random_.choice(["file", "talk", "answer", "step", "undo"])
        if action == "file":
            session.append(f"the RATE is {number} " * 2, name=f"spec:{number}", kind="file")
        elif action == "talk":
            session.append(f"{number} and so on")
        elif action == "answer":
            for _ in session.generate(f"what is {number}?", max_tokens=6):
                pass
        elif action == "step":
            names = [part.name for part in session.segments if part.kind == "file"]
            if names:
                session.plan = Plan([Step("next", reads=[random_.choice(names)])])
        else:
            checkpoint = session.checkpoint()
            session.append("this is withdrawn")
            session.restore(checkpoint)
            session.drop_checkpoint(checkpoint)
        os.write(report, state(session).encode())


def rounds(folder: Path, path: str, count: int, seed: int) -> int:
    """Kill so many children, and return how many of them had found a session."""
    model = Model.load(path)
    random_ = random.Random(seed)
    completed, opened = "0 0", 0
    longest = LONGEST_ROUND
    for number in range(count):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                play(model, folder, completed, write, seed * 1000 + number)
            except BaseException:
                os.write(write, ("failed " + traceback.format_exc()).encode())
            os._exit(1)
        os.close(write)
        time.sleep(random_.random() * longest)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        if "failed" in said:
            print(f"round {number}: {said[said.index('failed') :]}")
            return -1
        whole = said.split("\n")[:-1]
        has_opened = any(line.startswith("ok") for line in whole)
        opened += has_opened
        # On a busy machine they need longer to get there.
        longest = max(LONGEST_ROUND, longest * 0.95) if has_opened else min(8.0, longest * 1.2)
        if whole:
            # An undo makes a session shorter: what the last line says is what must be there.
            completed = whole[-1].removeprefix("ok ")
    print(f"opened {opened}")
    return opened


if __name__ == "__main__":
    sys.exit(0 if rounds(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])) > 0 else 1)
