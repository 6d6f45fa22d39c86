"""A process that plays a session on disk is killed a hundred times; nothing that was completed is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from session_pair import TALKER

from pace_local.testing import tiny_model

ROUNDS = 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forks of one process with the model")
def test_killed_a_hundred_times(tiny_models: Path, tmp_path: Path) -> None:
    script = Path(__file__).with_name("session_killed.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(tiny_model(TALKER, tiny_models)), str(ROUNDS), "1"],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    opened = re.search(r"opened (\d+)", done.stdout)
    assert opened is not None
    assert int(opened[1]) > ROUNDS // 4, "else it was killed before it had looked at what was left"
