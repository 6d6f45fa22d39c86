"""``scripts/gpu-check`` without network: what is packed, what is refused, and what the script asks for."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from pace_local.bench.gpu import offline
from pace_local.bench.gpu.offline import PackError, name_of

ROOT = Path(__file__).resolve().parents[1]
BINDINGS = '[project]\nname = "llama_cpp_python"\ndependencies = ["diskcache>=5.6.1", "numpy>=1.20.0"]\n'


def write_sdist(path: Path, project: str = BINDINGS) -> Path:
    """The bindings' sdist, as far as packing reads it."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("b-1/inner/pyproject.toml", "[other]\n"), ("b-1/pyproject.toml", project)):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


def write_wheel(folder: Path, name: str) -> Path:
    """A wheel that pip installs, with nothing in it."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What packing runs; fetching puts a wheel where it is asked to."""
    sdist = write_sdist(tmp_path / "llama_cpp_python-1.tar.gz")
    seen: list[list[str]] = []

    def output(command: list[str]) -> str:
        seen.append(command)
        if "--sdist" in command:
            return str(sdist)
        folder = next(word for word in command if word.startswith("--dest=")).removeprefix("--dest=")
        write_wheel(Path(folder), f"made_{len(seen)}")
        return ""

    monkeypatch.setattr(offline, "_output", output)
    return seen


@pytest.fixture
def packed(tmp_path: Path, commands: list[list[str]]) -> Path:
    path = tmp_path / "a pack.tar"
    offline.pack(ROOT, path, [offline.this_python()])
    return path


def names(requirements: Sequence[str]) -> set[str]:
    return {name_of(requirement) for requirement in requirements}


# What is packed


def test_all_that_setting_up_installs_is_packed(tmp_path: Path) -> None:
    wanted = names(offline.requirements(ROOT, write_sdist(tmp_path / "s.tar.gz")))
    project = offline.read_toml((ROOT / "pyproject.toml").read_text())
    for needed in (
        project["build-system"]["requires"],
        project["project"]["dependencies"],
        ["pip", "cmake", "ninja", "scikit-build-core", "pathspec"],
        ["pytest", "pytest-timeout", "hypothesis"],
        ["diskcache"],
    ):
        assert names(needed) - {"llama-cpp-python"} <= wanted
    # It comes as the sdist that native/upstream.txt pins; what judges code is not needed.
    assert not {"llama-cpp-python", "ruff", "mypy", "clang-format"} & wanted


def test_a_setup_that_changed_its_form_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/_setup.sh").write_text("tools=$(other)\n")
    with pytest.raises(PackError, match="has no line 'local tools="):
        offline.build_tools(tmp_path)


def test_wheels_for_another_python_come_with_what_its_conditions_need(tmp_path: Path) -> None:
    here = offline.download_command(["numpy>=1"], offline.this_python(), tmp_path)
    assert "--only-binary=:all:" in here
    assert not any("python-version" in word for word in here)
    there = offline.download_command(["numpy>=1"], "3.9", tmp_path)
    assert "--python-version=3.9" in there
    assert names(there[there.index("numpy>=1") :]) == {
        "numpy",
        "tomli",
        "exceptiongroup",
        "typing-extensions",
    }
    newer = offline.download_command(["numpy>=1"], "3.99", tmp_path)
    assert names(newer[newer.index("numpy>=1") :]) == {"numpy"}


def test_a_pack_holds_wheels_of_all_versions_and_the_sdist_and_states_its_size(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    listing = offline.pack(ROOT, tmp_path / "pack.tar", ["3.10", "3.12"])
    assert listing["python"] == ["3.10", "3.12"]
    assert set(listing["files"]) == {
        "made_2-1.0-py3-none-any.whl", "made_3-1.0-py3-none-any.whl", "llama_cpp_python-1.tar.gz",
    }  # fmt: skip
    with tarfile.open(tmp_path / "pack.tar") as archive:
        assert archive.getnames()[0] == offline.LISTING
        assert len(archive.getnames()) == 4
    first = next(iter(offline.summary(listing)))
    assert first.startswith("3 files, 0 MB, for Python 3.10, 3.12 on ")
    assert [path.name for path in tmp_path.glob(".pack-*")] == []


@pytest.mark.parametrize("text", ["3.9", "2.7", "three", "", "3.12.1"])
def test_bad_versions_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert offline.main(["pack", "no-such-folder/pack.tar", "--python", text]) == 2
    assert "--python" in capsys.readouterr().err


# What is unpacked


def test_pip_installs_from_an_unpacked_pack_without_network(packed: Path, tmp_path: Path) -> None:
    """Also below a folder with a blank in its name, which pip's variable would take for two."""
    run = subprocess.run(
        [sys.executable, offline.__file__, "unpack", str(packed), str(tmp_path / "a folder")],
        capture_output=True,
        text=True,
        check=True,
    )
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": run.stdout.strip()}
    command = [sys.executable, "-m", "pip", "download", "made_2", "--dest", str(tmp_path / "got")]
    subprocess.run(command, env=environment, capture_output=True, check=True)
    assert [path.name for path in (tmp_path / "got").iterdir()] == ["made_2-1.0-py3-none-any.whl"]


def test_unpacking_again_writes_only_what_is_not_there(packed: Path, tmp_path: Path) -> None:
    wheels = offline.unpack(packed, tmp_path / "to")
    whole = wheels / "llama_cpp_python-1.tar.gz"
    broken = wheels / "made_2-1.0-py3-none-any.whl"
    before, content = whole.stat().st_mtime_ns, broken.read_bytes()
    broken.write_bytes(b"half")
    assert offline.unpack(packed, tmp_path / "to") == wheels
    assert whole.stat().st_mtime_ns == before
    assert broken.read_bytes() == content


def rewrite(pack: Path, **changes: object) -> None:
    """Change a pack's listing."""
    with tarfile.open(pack) as archive:
        content = [(m, archive.extractfile(m).read()) for m in archive]  # type: ignore[union-attr]
    listing = {**json.loads(content[0][1]), **changes}
    content[0] = (content[0][0], json.dumps(listing).encode())
    with tarfile.open(pack, "w") as archive:
        for member, data in content:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def test_a_pack_for_something_else_is_refused(packed: Path, tmp_path: Path) -> None:
    rewrite(packed, python=["3.99"])
    with pytest.raises(PackError, match=r"is for Python 3\.99, and this is .*PACE_PYTHON, or pack again"):
        offline.unpack(packed, tmp_path / "to")
    rewrite(packed, machine="pdp11")
    with pytest.raises(PackError, match="on pdp11, and this is"):
        offline.unpack(packed, tmp_path / "to")


@pytest.mark.parametrize("damage", ["cut", "changed", "other", "missing", "outside"])
def test_what_is_no_whole_pack_is_refused(damage: str, packed: Path, tmp_path: Path) -> None:
    data = packed.read_bytes()
    if damage == "cut":
        packed.write_bytes(data[: len(data) // 2])
    elif damage == "changed":
        packed.write_bytes(data.replace(b"Version: 1.0", b"Version: 1.1"))
    elif damage == "other":
        write_sdist(packed)
    elif damage == "missing":
        packed.unlink()
    else:
        rewrite(packed, files={"../../evil": {"bytes": 1, "sha256": ""}})
    with pytest.raises(PackError):
        offline.unpack(packed, tmp_path / "to")


# The script


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what setting up reads, at a path with a blank."""
    root = tmp_path / "a check out"
    for name in ("scripts", "native", "pace_local/bench/gpu"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "CMakeLists.txt"):
        shutil.copy(ROOT / name, root / name)
    return root


def run_script(
    root: Path, tools: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    path = f"{tools}:{os.environ['PATH']}"
    return subprocess.run(
        [str(root / "scripts/gpu-check"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": path, "HOME": str(root), "CUDA_HOME": str(tools / "no cuda"), **environment},
    )


def pretend_ready(root: Path, cmake_args: str) -> None:
    """A set-up that says what it is asked to run."""
    binaries = root / ".venv/bin"
    binaries.mkdir(parents=True)
    for name in ("python", "pace"):
        (binaries / name).write_text('#!/bin/sh\necho "ran with" "$@" "CMAKE_ARGS=$CMAKE_ARGS"\n')
        (binaries / name).chmod(0o755)
    script = f'. "{root}/scripts/_setup.sh"; fingerprint'
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "CMAKE_ARGS": cmake_args}
    made = subprocess.run(
        ["bash", "-c", script, str(root / "scripts/x")],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    (root / ".venv/pace-setup").write_text(f"run {made.stdout.strip()}\n")


def pretend_tool(folder: Path, name: str, says: str, code: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("card", "given", "arguments", "built", "requires", "said"),
    [
        (True, "", (), "-DGGML_CUDA=on", True, ""),
        (True, "-DX=1", (), "-DX=1 -DGGML_CUDA=on", True, ""),
        (True, "", ("--cpu",), "", False, "building for the CPU, as asked for"),
        (True, "-DGGML_VULKAN=1", (), "-DGGML_VULKAN=1", True, ""),
        (False, "", (), "", False, "no NVIDIA card is here: building for the CPU"),
        (False, "-DGGML_CUDA=ON -DGGML_OPENMP=off", (), "-DGGML_CUDA=ON -DGGML_OPENMP=off", True, ""),
        (False, "-DGGML_CUDA=off", (), "-DGGML_CUDA=off", False, ""),
    ],
)
def test_the_build_follows_the_card_and_a_device_that_was_asked_for_is_required(
    card: bool,
    given: str,
    arguments: tuple[str, ...],
    built: str,
    requires: bool,
    said: str,
    checkout: Path,
    tmp_path: Path,
) -> None:
    if sys.platform == "darwin":
        pytest.skip("llama.cpp builds for Metal there by itself")
    tools = tmp_path / "tools"
    pretend_tool(tools, "nvidia-smi", "GPU 0: A Card" if card else "no devices", 0 if card else 9)
    pretend_tool(tools, "nvcc", "")
    pretend_ready(checkout, built)
    run = run_script(checkout, tools, *arguments, "--shape", "a b", CMAKE_ARGS=given)
    assert run.returncode == 0, run.stderr
    required = " --require-device" if requires else ""
    assert run.stdout == f"ran with -m pace_local.bench.gpu --shape a b{required} CMAKE_ARGS={built}\n"
    assert said in run.stderr


def test_a_card_without_its_compiler_is_said_before_anything_is_built(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    pretend_tool(tools, "nvidia-smi", "GPU 0: A Card")
    for name in ("bash", "dirname", "basename", "grep"):
        (tools / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name}"))
    run = run_script(checkout, tools, PATH=str(tools))
    assert run.returncode == 2
    assert "a card is here, but no nvcc to build for it" in run.stderr
    assert not (checkout / ".venv").exists()


def test_the_time_limit_counts_what_setting_up_took(checkout: Path, tmp_path: Path) -> None:
    pretend_ready(checkout, "")
    run = run_script(checkout, tmp_path, "--cpu", "--time-limit", "600")
    assert run.returncode == 0, run.stderr
    spent = run.stdout.split("--spent ")[1].split()[0]
    assert "--time-limit 600 " in run.stdout
    assert 0 <= int(spent) < 60


def test_a_pack_that_cannot_be_used_is_said_before_anything_is_built(checkout: Path, tmp_path: Path) -> None:
    run = run_script(checkout, tmp_path, "--cpu", "--from", "no such pack.tar")
    assert run.returncode == 2
    assert "cannot unpack no such pack.tar" in run.stderr
    assert not (checkout / ".venv").exists()


def test_help_needs_no_set_up(checkout: Path, tmp_path: Path) -> None:
    run = run_script(checkout, tmp_path, "--help")
    assert (run.returncode, run.stderr) == (0, "")
    assert "scripts/gpu-check --pack FILE.tar" in run.stdout
    assert "_setup.sh" not in run.stdout
    assert not (checkout / ".venv").exists()


def test_an_option_without_its_value_is_refused(checkout: Path, tmp_path: Path) -> None:
    run = run_script(checkout, tmp_path, "--pack")
    assert (run.returncode, run.stderr) == (2, "gpu-check: --pack needs a value\n")
