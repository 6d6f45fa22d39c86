"""``python -m pace_local.bench.gpu``."""

from __future__ import annotations

import sys

from pace_local.bench.gpu.cli import main

sys.exit(main())
