"""native/cmake/PaceInstructionSets.cmake: instruction sets by running a probe for each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[1] / "native"


def cmake() -> str:
    found = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("no cmake")
    return found


@pytest.fixture
def probe(tmp_path: Path) -> Callable[..., str]:
    """Runs the probes of a copy of native/probe on a project without sources; returns what it reports."""
    if os.uname().machine != "x86_64" or sys.platform != "linux":
        pytest.skip("probes run on x86-64 Linux")
    native = tmp_path / "native"
    shutil.copytree(NATIVE / "probe", native / "probe")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(probe LANGUAGES C)\n"
        'set(PACE_ISA "" CACHE STRING "")\nset(PACE_NATIVE_DIR "${CMAKE_CURRENT_SOURCE_DIR}/native")\n'
        f'include("{NATIVE}/cmake/PaceInstructionSets.cmake")\n'
        'message(STATUS "used=${PACE_ISA_USED} avx2=${GGML_AVX2} fma=${GGML_FMA} native=${GGML_NATIVE}")\n'
    )

    def run(*options: str) -> str:
        command = [cmake(), "-S", str(tmp_path), "-B", str(tmp_path / "b"), "--fresh", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    return run


def let_all_pass(sources: Path) -> None:
    """Have every probe succeed, whatever processor there is."""
    for path in sources.glob("*.c"):
        path.write_text("int main(void) { return 0; }\n")


def test_probe_that_crashes_or_does_not_compile_or_fails_turns_the_set_off(
    probe: Callable[..., str], tmp_path: Path
) -> None:
    """A machine that advertises AMX and traps on it died in the first decode of a build that believed it."""
    sources = tmp_path / "native/probe"
    let_all_pass(sources)
    (sources / "avx512_vbmi.c").write_text("int main(void) { __builtin_trap(); }\n")
    (sources / "avx512_bf16.c").write_text("does not compile\n")
    (sources / "avx_vnni.c").write_text("int main(void) { return 1; }\n")
    (sources / "amx_int8.c").write_text("int main(void) { *(volatile int *) 0 = 0; return 0; }\n")
    report = probe()
    assert "used=sse42;avx;avx2;avx512;avx512_vnni avx2=ON" in report, report
    assert "avx_vnni: refused" in report
    assert "avx512_vbmi: Illegal instruction" in report
    assert "avx512_bf16: the compiler lacks it" in report
    assert "amx_int8: Segmentation fault" in report
    assert "amx_bf16: needs amx_int8" in report


def test_probes_find_no_more_than_the_processor_advertises(probe: Callable[..., str]) -> None:
    flags = Path("/proc/cpuinfo").read_text().split("flags\t\t:")[1].split("\n")[0].split()
    named = {"sse42": "sse4_2", "avx512": "avx512f", "avx512_vbmi": "avx512vbmi"}
    report = probe()
    used = report.split("used=")[1].split()[0].split(";")
    assert "sse42" in used
    assert {named.get(name, name) for name in used} <= set(flags)
    assert ("avx2" in used) == ("avx2" in flags)


def test_named_sets_bring_what_they_build_on(probe: Callable[..., str]) -> None:
    assert "used=sse42;avx;avx2;avx512 avx2=ON fma=ON native=OFF" in probe("-DPACE_ISA=avx512")
    assert "used= avx2=OFF fma=OFF native=OFF" in probe("-DPACE_ISA=none")


def test_unknown_set_is_refused(probe: Callable[..., str]) -> None:
    assert "PACE_ISA names 'avx9', which is not one of: sse42" in probe("-DPACE_ISA=avx9")


def test_given_ggml_options_win(probe: Callable[..., str], tmp_path: Path) -> None:
    let_all_pass(tmp_path / "native/probe")
    report = probe("-DGGML_AVX2=OFF")
    assert "used=sse42;avx avx2=OFF" in report, report
    assert "avx2: off by GGML_AVX2" in report
    assert "used=native" in probe("-DGGML_NATIVE=ON")
