"""Run as a script: stores that write until they are killed, at instants drawn from a seed.

``recall_crash.py FOLDER TRIALS SEED`` makes a folder for each trial, in which a process puts, keeps, releases
and removes blocks until it gets SIGKILL. It prints a line of JSON a trial: the ids of those that a flush had
promised, and were not removed afterwards.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from recall_stores import block, tokens

from pace_local.recall import Store

SIZE = 50_000
FLUSHED = ".\n"


def write_for_ever(folder: Path, promised: int, seed: int) -> None:
    chance = random.Random(seed)
    store = Store(folder=folder, host_bytes=3 * SIZE, disk_bytes=12 * SIZE, in_flight_bytes=4 * SIZE)
    kept: list[int] = []
    for at in range(10_000):
        keep = chance.random() < 0.6
        piece = store.put(at, tokens(4 * at), block(at, SIZE), keep=keep)
        kept += [piece.id] * keep
        if len(kept) > 5:
            gone = kept.pop(chance.randrange(len(kept)))
            os.write(promised, f"-{gone}\n".encode())  # before it is: from now on either is right
            if chance.random() < 0.5:
                store.release(gone)
            else:
                store.drop(gone)
        if chance.random() < 0.4:
            store.flush()
            os.write(promised, "".join([f"+{one}\n" for one in kept] + [FLUSHED]).encode())


def main(root: Path, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    for trial in range(trials):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            write_for_ever(root / str(trial), writing, seed + trial)
            os._exit(1)
        os.close(writing)
        flushes, said = chance.randrange(4), b""
        while said.count(FLUSHED.encode()) < flushes:
            said += os.read(reading, 4096)
        time.sleep(chance.uniform(0, 0.01) if flushes else chance.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        with open(reading, "rb") as rest:
            lines = (said + rest.read()).decode().splitlines()
        withdrawn = {int(line[1:]) for line in lines if line.startswith("-")}
        there = {int(line[1:]) for line in lines if line.startswith("+")} - withdrawn
        print(json.dumps(sorted(there)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
