"""``python -m pace_local.bench``."""

from __future__ import annotations

import sys

from pace_local.bench.cli import main

sys.exit(main())
