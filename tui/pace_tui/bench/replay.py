"""A process that says what a worker would: ``python -m pace_tui.bench.replay RATE ENTRIES``.

It fills the transcript with ``ENTRIES`` entries first. Each prompt is answered with a stream of ``RATE``
tokens a second, until it is cancelled: Markdown with code, and, as with a model, evictions and a view of the
memory every few seconds, and a call of a tool when an answer has reached its length.
"""

from __future__ import annotations

import json
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Iterator

from pace_tui.wire import Received

FILLED = "the history is complete"
"""Said when all entries were."""
_CYCLE = 8
"""Entries of one piece of history."""
_ANSWER = 400
"""Tokens of one answer."""
_EVICTED = 187
"""Tokens of one eviction, and between two: what the default soft budget leaves free of 2,048."""
_BUDGET = 2048

TEXT = """\
## What goes wrong

The loop in `total` leaves the *first* price out, since the slice begins at **1**. It follows that

1. an order with one line costs nothing,
2. a discount is taken from the wrong sum,
3. and the test that has two equal prices passes all the same.

```python
def total(prices: list[int], discount: float = 0.0) -> int:
    \"\"\"The sum of all prices, in cents, after the discount.\"\"\"
    whole = sum(prices[1:])
    return round(whole * (1.0 - discount))
```

> The test says `assert total([5, 5]) == 5`, which is what the code does, not what the shop wants.

| prices | is | should be |
|--------|----|-----------|
| 5      | 0  | 5         |
| 5, 5   | 5  | 10        |

So I take the slice away, and mend the test beside it. Nothing else calls this function, as a search shows.

"""

DIFF = """\
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -1,4 +1,4 @@
 def total(prices: list[int], discount: float = 0.0) -> int:
     \"\"\"The sum of all prices, in cents, after the discount.\"\"\"
-    whole = sum(prices[1:])
+    whole = sum(prices)
     return round(whole * (1.0 - discount))
"""


def tokens_of(text: str) -> list[str]:
    """A text in pieces about as long as a model's tokens."""
    return re.findall(r"\s?\w{1,6}|\s+|[^\w\s]{1,2}", text)


def greeting() -> Iterator[Received]:
    """What is said when a session begins."""
    yield {"type": "loading", "share": 1.0, "what": ""}
    yield {
        "type": "started", "session": "replayed", "repository": "shop", "model": "replayed", "style": "tools",
        "mode": "ask", "policy": "pace_focus", "budget": _BUDGET, "position_cap": 8192, "resumed": False,
    }  # fmt: skip


def history(entries: int) -> Iterator[Received]:
    """Events that make so many entries, rounded up to whole runs."""
    for number in range(-(-entries // _CYCLE)):
        yield _prompted(f"mend the total of order {number}, and the test beside it", number + 1)
        yield {"type": "thought", "written": f"Order {number} has a wrong total. " * 12}
        yield {"type": "wrote", "written": TEXT}
        yield from _call(2 * number, "read", {"path": f"shop/cart{number}.py"}, "def total(prices):\n" * 8)
        yield from _call(2 * number + 1, "shell", {"command": "pytest -q"}, f"{number} passed\n" * 4)
        path = f"shop/cart{number}.py"
        yield {"type": "changed", "path": path, "by": "agent", "diff": DIFF, "stale": []}
        yield {"type": "wrote", "written": f"Order {number} is mended: `{path}` sums all prices now.\n"}
        yield _ended()
    yield {"type": "noted", "note": FILLED}


def _prompted(prompt: str, number: int) -> Received:
    return {"type": "prompted", "prompt": prompt, "segment": f"prompt:{number}", "number": number}


def _call(number: int, tool: str, arguments: dict[str, str], result: str) -> Iterator[Received]:
    yield {"type": "called", "id": number, "tool": tool, "arguments": arguments}
    yield {"type": "returned", "id": number, "ok": True, "result": result, "seconds": 0.2}


def _ended(reason: str = "done") -> Received:
    return {
        "type": "ended", "reason": reason, "result": "", "turns": 3, "seconds": 4.5,
        "changed": ["shop/cart.py"], "misses": 0, "recalled": 0, "decoded": 900, "generated": 300,
    }  # fmt: skip


def _turned(generated: int, session_tokens: int) -> Received:
    return {
        "type": "turned", "reused": 1500, "decoded": 120, "decoded_again": 0, "generated": generated,
        "session_tokens": session_tokens, "residents": 2000, "next_position": 2000 + session_tokens % 6000,
        "reading_seconds": 1.0, "generating_seconds": generated / 30,
    }  # fmt: skip


def memory_view(step: int) -> Received:
    """A memory with thirty segments, of which the older ones are resident in part; it differs each step."""
    kinds = ("user", "file", "tool", "answer", "reasoning")
    residents, segments, position = [], [], 0
    for number in range(30):
        name, kind, tokens = f"{kinds[number % 5]}:{number}", kinds[number % 5], 120
        kept = max(0, tokens - 8 * ((step + 3 * number) % 15))
        if kept:
            residents.append(
                {"segment": name, "kind": kind, "first_position": position, "tokens": kept,
                 "reason": "the plan reads it", "is_read": number % 7 == 0, "index": number * tokens}
            )  # fmt: skip
        first, last = (position, position + kept - 1) if kept else (None, None)
        segments.append(
            {"name": name, "kind": kind, "tokens": tokens, "resident": kept, "why": "the plan reads it",
             "first_position": first, "last_position": last,
             "pinned": number == 0, "isolated": kind == "file"}
        )  # fmt: skip
        position += kept
    return {
        "type": "memory_view", "budget": _BUDGET, "position_cap": 8192, "next_position": position,
        "residents": residents, "segments": segments,
        "bytes": {"keys": 2**24, "values": 2**24, "references": 2**24, "host": 3 * 2**24, "device": 0,
                  "saved_host": 2**22, "saved_disk": 2**23},
    }  # fmt: skip


def stream() -> Iterator[list[Received]]:
    """What is said with each token, without end."""
    pieces = tokens_of(TEXT)
    number = 0
    while True:
        said: list[Received] = [{"type": "wrote", "written": pieces[number % len(pieces)]}]
        number += 1
        if number % _EVICTED == 0:
            event = {"type": "evicted", "count": _EVICTED, "residents": _BUDGET - _EVICTED}
            said += [{"type": "memory", "event": event}, memory_view(number // _EVICTED)]
        if number % _ANSWER == 0:
            call = 1_000_000 + number
            said += [_turned(_ANSWER, number), *_call(call, "read", {"path": "shop/cart.py"}, "a\nb\n")]
        yield said


def main(rate: float, entries: int) -> None:
    """Serve until told to quit."""
    commands: queue.SimpleQueue[str] = queue.SimpleQueue()

    def hear() -> None:
        for line in sys.stdin:
            commands.put(str(json.loads(line).get("type")))
        commands.put("quit")

    threading.Thread(target=hear, daemon=True).start()
    for each in (*greeting(), *history(entries), memory_view(0), {"type": "ready", "session": "replayed"}):
        _say(each)
    while (command := commands.get()) != "quit":
        if command == "prompt":
            _say(_prompted("go on", 1))
            _answer(rate, commands)


def _answer(rate: float, commands: queue.SimpleQueue[str]) -> None:
    due = time.monotonic()
    for said in stream():
        for each in said:
            _say(each)
        due += 1 / rate
        try:
            command = commands.get(timeout=max(0.0, due - time.monotonic()))
        except queue.Empty:
            continue
        if command in ("cancel", "quit"):
            _say(_ended("cancelled"))
            if command == "quit":
                commands.put(command)
            return


def _say(received: Received) -> None:
    os.write(1, json.dumps(received, separators=(",", ":")).encode("ascii") + b"\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
