"""Run as a script: a store in a process that may write no file beyond a size, as on a disk that is full."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from recall_stores import block, tokens

from pace_local.errors import StorageError
from pace_local.recall import Store


def main(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    with Store(folder=folder, host_bytes=100_000, disk_bytes=1 << 20, in_flight_bytes=40_000) as store:
        small = store.put(0, tokens(0), block(0, 1_000), keep=True)
        store.flush()
        large = store.put(1, tokens(4), block(1, 20_000), keep=True)
        try:
            store.flush()
            raised = ""
        except StorageError as error:
            raised = str(error)
        spilled = [store.put(at, tokens(4 * at), block(at, 20_000)).id for at in range(2, 8)]
        store.settle()
        right = all(
            store.get(piece.id).tolist() == block(piece.segment, piece.n_bytes).tolist()
            for segment in range(8)
            for piece in store.pieces_of(segment)
        )
        print(
            json.dumps(
                {
                    "raised": raised,
                    "small": [piece.where for piece in store.pieces_of(small.segment)],
                    "large": [piece.where for piece in store.pieces_of(large.segment)],
                    "spilled": sum(len(store.pieces_of(segment)) for segment in spilled),
                    "right": right,
                    "dropped": store.stats.dropped_pieces,
                    "failures": store.stats.write_failures,
                    "files": sorted(path.name for path in folder.iterdir()),
                }
            )
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
