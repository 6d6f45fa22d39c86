"""The wheel: what is in it and how large it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel from the build folder that scripts/test has just used, so that little is compiled."""
    script = '. "$1/scripts/_setup.sh"; echo "$root/build/native-$(build_options | short_hash)"'
    environment = os.environ | {"PACE_VENV": sys.prefix}
    where = subprocess.run(
        ["bash", "-c", script, "setup", str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    build = Path(where.stdout.strip())
    if not (build / "build.json").is_file():
        pytest.skip("needs the build folder that scripts/test makes")
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
    ]
    command += [f"--config-settings=build-dir={build}", str(ROOT)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.slow
def test_wheel_is_small_and_holds_each_library_once(wheel: zipfile.ZipFile) -> None:
    """Version links became copies in the wheel and doubled its size."""
    size = sum(member.compress_size for member in wheel.infolist())
    assert size < 4 * MEGABYTE if json_in(wheel)["backends"] == ["ggml-cpu"] else size < 400 * MEGABYTE
    libraries = [name for name in wheel.namelist() if ".so" in name or ".dylib" in name]
    stems = Counter(Path(name).name.split(".")[0] for name in libraries)
    assert set(stems) >= {"libllama", "libggml", "libggml-base", "libggml-cpu"}
    assert set(stems.values()) == {1}


@pytest.mark.slow
def test_wheel_holds_the_packages_and_the_licences_and_nothing_of_the_build(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    packages = {"pace_agent", "pace_local", "pace_tui"}
    assert {Path(name).parts[0] for name in names} == packages | {"pace_local-0.1.0.dist-info"}
    assert {"pace_agent/calls/parsing.py", "pace_local/cli.py", "pace_tui/styles/main.tcss"} <= set(names)
    for licence in ["lib/LICENSE.llama.cpp", "lib/LICENSE.llama-cpp-python"]:
        assert f"pace_local/{licence}" in names
    assert "pace_local-0.1.0.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if name.endswith((".pyc", ".h", ".cmake", ".a"))]
    entry = wheel.read("pace_local-0.1.0.dist-info/entry_points.txt").decode()
    assert "pace = pace_tui.cli:main" in entry


@pytest.mark.slow
def test_libraries_are_looked_for_beside_each_other(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """The wheel works wherever it is unpacked, whatever other llama.cpp the system has."""
    if not sys.platform.startswith("linux"):
        pytest.skip("asks the Linux loader")
    wheel.extractall(tmp_path)
    listing = subprocess.run(
        ["ldd", str(tmp_path / "pace_local/lib/libllama.so")], capture_output=True, text=True, check=True
    )
    ours = [line for line in listing.stdout.splitlines() if "ggml" in line]
    assert len(ours) >= 2
    assert all(f"=> {tmp_path}/pace_local/lib/" in line for line in ours), listing.stdout
    assert "not found" not in listing.stdout


def json_in(wheel: zipfile.ZipFile) -> dict[str, object]:
    """The facts about the build that are in the wheel."""
    facts = json.loads(wheel.read("pace_local/lib/build.json"))
    assert isinstance(facts, dict)
    return facts
