"""All benchmarks: the library's, and the screen's beside them."""

from __future__ import annotations

import sys

from pace_local.bench import cli
from pace_tui.bench.measure import BENCHMARK

if __name__ == "__main__":
    sys.exit(cli.main(more=[BENCHMARK]))
