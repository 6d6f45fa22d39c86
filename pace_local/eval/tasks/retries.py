"""Waiting times before retries: doubled each time up to a limit, and given up after some attempts."""

from __future__ import annotations

import random

from pace_local.eval.specification import Specification, check_equal


def make(rng: random.Random) -> Specification:
    """The first three waits are doubled, the others are as long as any can be."""
    first = rng.randrange(13, 24)
    longest = rng.randrange(4 * first + 1, 8 * first)
    attempts, gone = rng.sample(range(24, 40), 2)
    text = (
        "# Waiting before a retry\n\n"
        "When the depot does not answer, the client tries again, and waits longer each time so that the "
        "depot can recover. Attempts are counted from 1.\n\n"
        f"- Before attempt 1, it waits {first} seconds.\n"
        f"- Each further attempt doubles the wait: {first} * 2 ** (attempt - 1) seconds.\n"
        f"- No wait is longer than {longest} seconds: where the doubled wait would be, it is {longest}.\n"
        f"- If attempt > {attempts}, the client gives up, and there is no wait but the code -{gone}.\n\n"
        "The function `retry_wait(attempt: int) -> int` returns the seconds, or the code when the client "
        "gives up. It does not wait itself, uses no random numbers, and raises nothing. No attempt is below "
        "1."
    )
    solution = (
        "def retry_wait(attempt: int) -> int:\n"
        f"    if attempt > {attempts}:\n        return -{gone}\n"
        f"    return min({first} * 2 ** (attempt - 1), {longest})\n"
    )

    def case(attempt: int) -> tuple[str, object]:
        wait = min(first * 2 ** (attempt - 1), longest)
        return f"retry_wait({attempt})", -gone if attempt > attempts else wait

    return Specification(
        name="spec:retries",
        title="waiting before a retry",
        text=text,
        function="retry_wait",
        signature="retry_wait(attempt: int) -> int",
        facts=(str(first), str(longest), str(attempts), str(gone)),
        checks=(
            check_equal(case(1)),
            check_equal(case(2), case(3)),
            check_equal(case(4), case(5)),
            check_equal(case(attempts)),
            check_equal(case(attempts + 1), case(attempts + 60)),
        ),
        solution=solution,
    )
