from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from command_line import is_one_line_error, pace

from pace_local import Session, _native, cli, self_test
from pace_local.commands import doctor
from pace_local.errors import NativeError
from pace_local.models import Device, inspect_gguf
from pace_local.models.testing import gguf_bytes
from pace_local.self_test import SelfTest, run_self_test
from pace_local.testing import TinySpec, tiny_model

SECTIONS = ("build", "machine", "model", "memory", "recall", "self-test")
PASSED = SelfTest(100, 4, 0.5, True, True)
CARD = Device("a card", 24 * 2**30)


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """No accelerators, much memory, and settings and a store of this test's own."""
    monkeypatch.setenv("PACE_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PACE_MODEL", raising=False)
    monkeypatch.setattr(doctor, "accelerators", list)
    monkeypatch.setattr(doctor, "available_memory", lambda: 32_000_000_000)
    monkeypatch.setattr(doctor, "default_host_bytes", lambda: 8_000_000_000)
    monkeypatch.setattr(doctor, "default_disk_bytes", lambda: 7_000_000_000)


@pytest.fixture
def quick(monkeypatch):
    """Without the self-test, which other tests here run."""
    monkeypatch.setattr(doctor, "run_self_test", lambda: PASSED)


@pytest.fixture
def tiny(tiny_models) -> Path:
    return tiny_model(TinySpec(n_layer=2, head_dim=16, n_ff=32), tiny_models)


@pytest.fixture
def report(capsys):
    """Runs the doctor; gives its exit code and its report."""

    def examine(*arguments: object) -> tuple[int, dict]:
        code = cli.main(["doctor", "--json", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert err == ""
        found = json.loads(out)
        assert tuple(found) == ("ok", *SECTIONS)
        assert found["ok"] == (code == 0) == all(found[name]["status"] == "ok" for name in SECTIONS)
        return code, found

    return examine


def failed(found: dict) -> list[str]:
    return [name for name in SECTIONS if found[name]["status"] != "ok"]


# A sound installation


def test_all_is_well(tiny, report):
    code, found = report("--model", tiny)
    assert code == 0
    assert found["build"]["llama_cpp_python"] == _native.read_build().facts["llama_cpp_python"]
    assert found["build"]["instruction_sets"] == _native.read_build().isa
    assert found["machine"]["devices"]
    assert found["model"]["file"] == str(tiny)
    assert found["model"]["architecture"] == "llama"
    assert found["model"]["trained_context"] == 32768
    assert found["self-test"]["values"] == "bit for bit as before"
    assert found["self-test"]["decoding"] == "goes on behind them"


def test_all_is_well_for_people(tiny, quick, capsys):
    assert cli.main(["doctor", "--model", str(tiny)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    heads = [line for line in out.splitlines() if not line.startswith("  ")]
    assert heads == [f"{name}: ok" for name in SECTIONS]
    for line in (
        "  chosen: ",
        "  instruction sets: ",
        "  keys and values: ",
        "  unbounded cache would take: ",
        "  main memory: at most 8.0 GB, for ",
        "  disk: at most 7.0 GB, for ",
    ):
        assert line in out
    assert "{" not in out


def test_in_a_process_of_its_own(tiny):
    ended = pace("doctor", "--json", "--model", tiny)
    found = json.loads(ended.stdout)
    # Its devices and its memory are this machine's.
    assert [name for name in failed(found) if name != "memory"] == []
    assert ended.stderr == ""


# What will fit


def test_memory_of_the_target_model(quick, report):
    """Figures of the paper: 147,456 bytes a token, 0.30 GB at 2,048 tokens, under 0.7 GB with references."""
    code, found = report("--model", "qwen3-8b")
    assert code == 0
    memory = found["memory"]
    assert memory["bytes"]["a_token"] == 2 * 36 * 8 * 128 * 2 == 147_456
    assert memory["bytes"]["keys_and_values"] == (2048 + 512) * 147_456
    assert memory["bytes"]["references"] == (2048 + 512) * 147_456 // 2
    cache = memory["bytes"]["keys_and_values"] + memory["bytes"]["references"]
    assert cache < 0.7e9
    assert memory["bytes"]["weights"] == 16_388_000_000
    assert memory["bytes"]["all_together"] == 16_388_000_000 + cache
    assert "147,456 bytes a token" in memory["keys_and_values"]
    assert memory["cells"] == "budget 2,048 + headroom 512 = 2,560 tokens"
    assert memory["unbounded_cache_would_take"] == "147.5 GB at a million tokens"


def test_memory_follows_budget_and_headroom(quick, report):
    """2,048 resident tokens take about 0.30 GB."""
    memory = report("--model", "qwen3-8b", "--budget", 2032, "--headroom", 16)[1]["memory"]
    assert memory["bytes"]["keys_and_values"] == 2048 * 147_456 == 301_989_888
    assert memory["keys_and_values"].startswith("302 MB ")


def test_a_budget_above_the_usual_cap_can_be_worked_out_too(quick, report):
    assert report("--model", "qwen3-8b", "--budget", 20_000)[0] == 0


@pytest.mark.parametrize(("model", "weights"), [("qwen3-8b", 16_388_000_000), ("smollm2-135m", 98_362_432)])
def test_a_model_that_is_not_here_yet(model, weights, quick, report):
    code, found = report("--model", model)
    assert code == 0
    assert f"pace models pull {model}" in found["model"]["file"]
    assert found["memory"]["bytes"]["weights"] == weights


def test_names_have_no_case(quick, report):
    assert report("--model", "Qwen3-8B")[1]["memory"]["bytes"]["a_token"] == 147_456


def test_a_model_that_cannot_fit(quick, report, monkeypatch):
    monkeypatch.setattr(doctor, "available_memory", lambda: 16_500_000_000)
    code, found = report("--model", "qwen3-8b")
    assert code == 1
    assert failed(found) == ["memory"]
    assert found["memory"]["problem"] == "weights and cache do not fit; choose a smaller model"
    assert found["memory"]["all_together"] == "17.0 GB, of 16.5 GB that can be had"


def test_a_card_has_room_where_the_host_has_not(quick, report, monkeypatch):
    monkeypatch.setattr(doctor, "available_memory", lambda: 4_000_000_000)
    monkeypatch.setattr(doctor, "accelerators", lambda: [CARD])
    code, found = report()
    assert code == 0
    assert found["model"]["chosen"].startswith("qwen3-8b (F16, 16.4 GB), chosen for a card with 25.8 GB")
    assert found["memory"]["bytes"]["to_be_had"] == CARD.total_bytes


def test_a_cache_that_no_header_tells(quick, report, tiny_models, monkeypatch):
    """Its weights can be judged all the same."""
    path = tiny_model(TinySpec(arch="lfm2"), tiny_models)
    code, found = report("--model", path)
    assert code == 0
    assert "known once loaded" in found["memory"]["note"]
    assert found["recall"]["main_memory"] == "at most 8.0 GB"
    assert "known once the model is loaded" in found["recall"]["note"]
    monkeypatch.setattr(doctor, "available_memory", lambda: 1_000_000)
    code, found = report("--model", path)
    assert (code, failed(found)) == (1, ["memory"])


@pytest.mark.parametrize(
    ("model", "token", "host", "disk"),
    # 8 GB and 7 GB by bytes a token, to two digits.
    [("qwen3-8b", 147_456, "54,000", "47,000"), ("smollm2-135m", 23_040, "340,000", "300,000")],
)
def test_what_evicted_segments_may_take(model, token, host, disk, quick, report):
    """A saved token has its reference key and its value: for Qwen3-8B, 144 KiB."""
    recall = report("--model", model)[1]["recall"]
    assert recall["bytes"] == {"host": 8_000_000_000, "disk": 7_000_000_000, "a_token": token}
    assert recall["main_memory"] == f"at most 8.0 GB, for {host} evicted tokens"
    assert recall["disk"] == f"at most 7.0 GB, for {disk} evicted tokens more"
    assert recall["a_token"] == f"{token:,} bytes, reference key and value in F16"
    assert recall["past_that"] == "a segment keeps its text alone, and is computed again when it is read"


def test_what_evicted_segments_may_take_where_there_is_no_room(quick, report, monkeypatch):
    monkeypatch.setattr(doctor, "default_host_bytes", lambda: 147_456 * 7)
    monkeypatch.setattr(doctor, "default_disk_bytes", lambda: 0)
    code, found = report("--model", "qwen3-8b")
    assert code == 0
    assert found["recall"]["main_memory"] == "at most 1 MB, for 7 evicted tokens"
    assert found["recall"]["disk"] == "at most 0 B, for 0 evicted tokens more"


def test_a_saved_token_is_as_large_as_doctor_says(tmp_path, load_tiny):
    """Beside a few bytes each for its id and checksum, and a header of the block."""
    spec = TinySpec(n_layer=2)
    model = load_tiny(spec)
    token = inspect_gguf(model.path).kv.bytes_per_token()
    with Session(model, budget=256, headroom=64, threads=1) as session:
        session.append("some words to be saved, and a few more of them", name="a", kind="file")
        n = len(session.residents)
        cache = session.engine.cache
        block = cache.save(np.arange(n, dtype=np.uint32), n, session.engine.identity)
    assert n * token <= len(block) <= n * (token + 32) + 4096


# What can be wrong


def test_a_model_that_nobody_knows(quick, report):
    code, found = report("--model", "qwen3-8")
    assert code == 1
    assert failed(found) == ["model", "memory", "recall"]
    assert "did you mean qwen3-8b" in found["model"]["problem"]


def test_a_model_that_is_cut_short(quick, report, tmp_path):
    path = tmp_path / "short.gguf"
    path.write_bytes(gguf_bytes(tensor_bytes=4096)[:-1000])
    code, found = report("--model", path)
    assert code == 1
    assert "cut short" in found["model"]["problem"]


@pytest.mark.parametrize("arguments", [("--budget", "3"), ("--headroom", "0"), ("--budget", "9" * 12)])
def test_settings_out_of_range(arguments, capsys):
    assert cli.main(["doctor", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert is_one_line_error(err)


def test_a_library_for_another_processor(tiny, quick, report, monkeypatch):
    build = _native.Build(_native.library_folder(), {"isa": ["avx2", "avx512_vnni", "amx_int8"]})
    monkeypatch.setattr(_native, "read_build", lambda: build)
    monkeypatch.setattr(_native, "cpu_flags", lambda: {"avx2"})
    code, found = report("--model", tiny)
    assert code == 1
    assert failed(found) == ["build"]
    assert found["build"]["problem"] == (
        "this CPU lacks avx512_vnni, amx_int8; run scripts/pace to build the library anew"
    )


def test_a_library_for_the_compilers_own_processor_says_nothing_of_others(monkeypatch):
    """``CMAKE_ARGS=-DGGML_NATIVE=on`` gave a library that was refused, and building it anew gave the same."""
    monkeypatch.setattr(_native, "cpu_flags", lambda: {"avx2"})
    native = _native.Build(_native.library_folder(), {"isa": ["native"]})
    assert _native.missing_instruction_sets(native) == []
    both = _native.Build(_native.library_folder(), {"isa": ["native", "avx512_vnni"]})
    assert _native.missing_instruction_sets(both) == ["avx512_vnni"]


@pytest.mark.skipif(_native.cpu_flags() is None, reason="this system does not say what its CPU lacks")
def test_a_library_for_another_processor_is_never_loaded(tiny, tmp_path):
    """It would die of an illegal instruction."""
    for file in _native.library_folder().iterdir():
        (tmp_path / file.name).symlink_to(file)
    facts = {**_native.read_build().facts, "isa": ["sse9"]}
    (tmp_path / "build.json").unlink()
    (tmp_path / "build.json").write_text(json.dumps(facts))
    examined = pace("doctor", "--model", tiny, PACE_LIBRARY_DIR=str(tmp_path))
    assert examined.returncode == 1
    assert "build: FAILED" in examined.stdout
    assert "this CPU lacks sse9" in examined.stdout
    assert examined.stderr == ""
    asked = pace("ask", "-p", "x", "--model", tiny, PACE_LIBRARY_DIR=str(tmp_path))
    assert asked.returncode == 2
    assert is_one_line_error(asked.stderr.splitlines(keepends=True)[-1])
    assert "was built for sse9, which this CPU lacks" in asked.stderr
    assert asked.stdout == ""


def test_a_library_that_is_not_there(tmp_path):
    examined = pace("doctor", "--json", PACE_LIBRARY_DIR=str(tmp_path))
    assert examined.returncode == 1
    assert examined.stderr == ""
    found = json.loads(examined.stdout)
    assert failed(found) == list(SECTIONS)
    assert f"PACE_LIBRARY_DIR is {tmp_path}" in found["build"]["problem"]


def test_amx_that_is_advertised_and_does_not_run(tiny, quick, report, monkeypatch):
    monkeypatch.setattr(_native, "cpu_flags", lambda: {"avx2", "amx_tile", "amx_int8"})
    built = _native.Build(_native.library_folder(), {"isa": ["avx2"]})
    monkeypatch.setattr(_native, "read_build", lambda: built)
    assert "could not run it; it is off" in report("--model", tiny)[1]["build"]["note"]


def test_a_system_that_fails_is_a_finding(tiny, quick, report, monkeypatch):
    def fail():
        raise PermissionError(13, "Permission denied", "somewhere")

    monkeypatch.setattr(doctor, "run_self_test", fail)
    code, found = report("--model", tiny)
    assert (code, failed(found)) == (1, ["self-test"])
    assert "Permission denied" in found["self-test"]["problem"]


# The self-test


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ({"largest_difference": 1.01}, ("keys", "within 1.01 of the rounding error that is allowed")),
        ({"largest_difference": float("nan")}, ("keys", "within nan of the rounding error that is allowed")),
        ({"values_kept": False}, ("values", "CHANGED")),
        ({"decodes": False}, ("decoding", "BROKEN")),
    ],
)
def test_a_self_test_that_fails(wrong, shown, tiny, report, monkeypatch):
    monkeypatch.setattr(doctor, "run_self_test", lambda: dataclasses.replace(PASSED, **wrong))
    code, found = report("--model", tiny)
    assert (code, failed(found)) == (1, ["self-test"])
    assert found["self-test"][shown[0]] == shown[1]
    assert "computes wrong results" in found["self-test"]["problem"]


def test_the_self_test_passes_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(self_test.tempfile, "tempdir", str(tmp_path))
    test = run_self_test()
    assert test.passed
    assert test.residents == 145
    assert test.renumberings == 4
    assert 0 < test.largest_difference <= 1
    assert os.listdir(tmp_path) == []


def test_the_self_test_sees_keys_turned_wrongly(monkeypatch):
    plain = self_test.rotate_by
    monkeypatch.setattr(self_test, "rotate_by", lambda keys, delta, rope: plain(keys, delta + 1, rope))
    test = run_self_test()
    assert test.largest_difference > 10
    assert not test.passed


def test_the_self_test_sees_values_that_moved_wrongly(monkeypatch):
    plain = _native.NativeCache.read_rows
    calls = []

    def read_rows(cache, kind, layer, seq=0):
        rows = plain(cache, kind, layer, seq)
        calls.append(kind)
        return rows[::-1] if kind == "value" and calls.count("value") == 5 else rows

    monkeypatch.setattr(_native.NativeCache, "read_rows", read_rows)
    test = run_self_test()
    assert not test.values_kept
    assert not test.passed


def test_the_self_test_sees_keys_that_are_no_numbers(monkeypatch):
    plain = _native.NativeCache.read_rows
    calls = []

    def read_rows(cache, kind, layer, seq=0):
        rows = plain(cache, kind, layer, seq)
        calls.append(kind)
        if kind == "key" and calls.count("key") == 6:
            rows[7, 3] = np.nan
        return rows

    monkeypatch.setattr(_native.NativeCache, "read_rows", read_rows)
    assert not run_self_test().passed


def test_a_native_failure_in_the_self_test_is_a_finding(tiny, report, monkeypatch):
    def renumber(cache, *arguments):
        raise NativeError("COMPUTE", "the graph failed")

    monkeypatch.setattr(_native.NativeCache, "renumber", renumber)
    code, found = report("--model", tiny)
    assert (code, failed(found)) == (1, ["self-test"])
    assert found["self-test"]["problem"] == "the graph failed"
