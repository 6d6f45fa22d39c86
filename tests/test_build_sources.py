"""native/prepare.py, native/upstream.py and native/drift.py: the patched tree, from a small sdist."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[1] / "native"
sys.path.insert(0, str(NATIVE))

import drift
import prepare
from upstream import LLAMA, PARTS, PrepareError, read_pin, sweep

SOURCE = "".join(f"line {n}\n" for n in range(1, 21))
PATCH = """--- a/src/a.cpp
+++ b/src/a.cpp
@@ -9,4 +9,5 @@
 line 9
 line 10
+added
 line 11
 line 12
"""
# An sdist's build backend that needs nothing, so that pip can be run for real without a network.
BACKEND = """
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    import os
    os.mkdir(os.path.join(folder, "llama_cpp_python-9.9.9.dist-info"))
    with open(os.path.join(folder, "llama_cpp_python-9.9.9.dist-info", "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: llama-cpp-python\\nVersion: 9.9.9\\n")
    return "llama_cpp_python-9.9.9.dist-info"

def build_wheel(folder, config_settings=None, metadata_directory=None):
    raise NotImplementedError
"""


def make_sdist(folder: Path, source: str = SOURCE) -> Path:
    files = {part: "text\n" for part in PARTS if not part.endswith("/")}
    files |= {f"{part}a.cpp": source for part in PARTS if part.endswith("/")}
    files[f"{LLAMA}/models/big.gguf"] = "not wanted\n"
    files["backend.py"] = BACKEND
    files["pyproject.toml"] = (
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "llama_cpp_python-9.9.9.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"llama_cpp_python-9.9.9/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like ``native`` for a small sdist that pip finds in a local folder, and an empty cache."""
    sdist = make_sdist(tmp_path / "index")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(sdist.parent))
    monkeypatch.setenv("PACE_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "native"
    (folder / "patches").mkdir(parents=True)
    pin_to(folder, hashlib.sha256(sdist.read_bytes()).hexdigest())
    return folder


def pin_to(native: Path, sha256: str) -> None:
    (native / "upstream.txt").write_text(f"# why\nllama-cpp-python==9.9.9 --hash=sha256:{sha256}\n")


def add_patch(native: Path, text: str, name: str = "0001-x.patch") -> Path:
    path = native / "patches" / name
    path.write_text(text)
    return path


def run_prepare(native: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(NATIVE / "prepare.py"), "--native", str(native), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


# --- the tree


def test_tree_holds_the_patched_sources_and_nothing_else(native: Path) -> None:
    add_patch(native, PATCH)
    run = run_prepare(native)
    assert run.returncode == 0, run.stderr
    tree = Path(run.stdout.strip())
    assert (tree / LLAMA / "src/a.cpp").read_text() == SOURCE.replace("line 11\n", "added\nline 11\n")
    assert (tree / LLAMA / "ggml/a.cpp").read_text() == SOURCE
    assert (tree / "LICENSE.md").is_file()
    assert not (tree / LLAMA / "models").exists()


def test_tree_is_made_once(native: Path, tmp_path: Path) -> None:
    first = Path(run_prepare(native).stdout.strip())
    stamp = (first / "prepared.json").stat().st_mtime_ns
    shutil.rmtree(tmp_path / "index")  # nothing may be fetched again
    second = run_prepare(native)
    assert Path(second.stdout.strip()) == first
    assert (first / "prepared.json").stat().st_mtime_ns == stamp
    assert second.stderr == ""


def test_half_deleted_tree_is_made_again(native: Path) -> None:
    tree = prepare.prepare(native)
    (tree / LLAMA / "src/a.cpp").unlink()
    assert prepare.prepare(native) == tree
    assert (tree / LLAMA / "src/a.cpp").read_text() == SOURCE


def test_key_follows_pin_and_patches(native: Path) -> None:
    def key() -> str:
        return run_prepare(native, "--key").stdout.strip()

    keys = [key()]
    patch = add_patch(native, PATCH)
    keys.append(key())
    patch.write_text(PATCH.replace("added", "other"))
    keys.append(key())
    patch.rename(patch.with_name("0002-x.patch"))
    keys.append(key())
    pin_to(native, "0" * 64)
    keys.append(key())
    assert len(set(keys)) == 5
    assert key() == keys[-1]


def test_several_at_once_make_one_whole_tree(native: Path, tmp_path: Path) -> None:
    add_patch(native, PATCH)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: run_prepare(native), range(4)))
    assert [run.returncode for run in runs] == [0] * 4, [run.stderr for run in runs]
    (tree,) = {Path(run.stdout.strip()) for run in runs}
    assert prepare.is_whole(tree)
    assert list((tmp_path / "cache/upstream").iterdir()) == [tree]
    assert [path.name for path in (tmp_path / "cache/sdist").iterdir()] == ["llama_cpp_python-9.9.9.tar.gz"]


def test_mirror_writes_only_what_differs(native: Path, tmp_path: Path) -> None:
    """A changed patch must not make the compiler see every file as new."""
    folder = tmp_path / "mirror"
    assert run_prepare(native, "--mirror", str(folder)).stdout.strip() == str(folder)
    (folder / "stray.h").write_text("left by an older upstream")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.cpp")}
    add_patch(native, PATCH)
    assert run_prepare(native, "--mirror", str(folder)).returncode == 0
    changed = [path for path, mtime in before.items() if path.stat().st_mtime_ns != mtime]
    assert changed == [folder / LLAMA / "src/a.cpp"]
    assert not (folder / "stray.h").exists()


def test_hunk_that_does_not_apply_names_patch_file_and_line(native: Path) -> None:
    add_patch(native, PATCH.replace(" line 11", " line eleven"))
    run = run_prepare(native)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        "prepare: error: 0001-x.patch:3: does not apply to src/a.cpp:11: "
        "expected 'line eleven', found 'line 11'"
    )


# --- the sdist


def test_wrong_hash_stops_the_build(native: Path, tmp_path: Path) -> None:
    pin_to(native, "0" * 64)
    run = run_prepare(native)
    assert run.returncode == 1
    assert run.stdout == ""
    assert "DO NOT MATCH THE HASHES" in run.stderr.splitlines()[-1]
    assert not (tmp_path / "cache/upstream").exists()


def test_damaged_download_in_the_cache_is_fetched_again(native: Path, tmp_path: Path) -> None:
    sdist = Path(run_prepare(native, "--sdist").stdout.strip())
    good = sdist.read_bytes()
    sdist.write_bytes(good[:-1])
    assert run_prepare(native).returncode == 0
    assert sdist.read_bytes() == good


def test_unreachable_index_is_one_line(native: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "index")
    run = run_prepare(native)
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert "prepare: error: pip could not download" in run.stderr.splitlines()[-1]


def test_pin_without_hash_is_refused(tmp_path: Path) -> None:
    (tmp_path / "upstream.txt").write_text("llama-cpp-python==9.9.9\n")
    with pytest.raises(PrepareError, match="found 0"):
        read_pin(tmp_path / "upstream.txt")


# --- drift


def test_drift_fails_when_a_patch_does_not_apply_to_the_pin(
    native: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_patch(native, PATCH)
    assert drift.check_pin(native) == 0
    add_patch(native, PATCH.replace(" line 11", " line eleven"), "0002-y.patch")
    assert drift.check_pin(native) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "0002-y.patch:3: does not apply to src/a.cpp:11: expected 'line eleven', found 'added'",
        "llama-cpp-python 9.9.9 (pinned): 1 of 2 patches apply",
    ]


def test_drift_on_the_newest_release_only_advises(
    native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drift.advise_on_latest(native)
    assert "9.9.9 is the newest release" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "index")
    drift.advise_on_latest(native)
    assert capsys.readouterr().out.startswith(
        "nothing is known about the newest release: pip could not download"
    )


def test_what_another_run_removed_is_swept_over(tmp_path: Path) -> None:
    """A build that ran beside another failed on the other's folder, listed and then gone."""
    (tmp_path / ".gone").symlink_to(tmp_path / "missing")
    (tmp_path / ".old").mkdir()
    os.utime(tmp_path / ".old", (0, 0))
    (tmp_path / ".new").mkdir()
    sweep(tmp_path)
    assert not (tmp_path / ".old").exists()
    assert (tmp_path / ".new").exists()
