"""The arithmetic of docs/larger-machines.md, computed again from the code."""

from __future__ import annotations

import re
from pathlib import Path

from pace_local.bench.flat import LIMIT
from pace_local.bench.gpu.cli import ROOT, build_parser
from pace_local.bench.gpu.full_shape import FULL_SHAPES, weight_bytes
from pace_local.bench.gpu.speed import decode_row, prompt_row
from pace_local.config import SessionConfig
from pace_local.models import model_info
from pace_local.policies import POLICIES
from pace_local.recall.sizes import MOST_DISK_BYTES, MOST_HOST_BYTES

PAGE = (Path(__file__).parents[1] / "docs" / "larger-machines.md").read_text(encoding="utf-8")
# A line may end anywhere.
TEXT = " ".join(PAGE.split())
INFO = model_info("qwen3-8b")
CELLS = SessionConfig().n_cells
TOKEN = INFO.kv_bytes_per_token()
STATE = TOKEN + INFO.reference_bytes_per_token()


def row(start: str) -> list[str]:
    """The cells of the table row that starts so."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip(" *") for cell in line.strip("|").split("|")]


def test_the_page_says_that_nothing_was_measured_on_a_gpu() -> None:
    assert "**Nothing on this page was measured on a GPU yet.**" in PAGE
    assert "Arithmetic, not measurement" in PAGE


def test_memory_on_the_card() -> None:
    assert SessionConfig.budget == 2048
    assert f"budget of 2,048 and headroom of {SessionConfig.headroom} there are {CELLS:,} cells" in TEXT
    weights = weight_bytes(FULL_SHAPES["qwen3-8b"])
    assert row("weights, FP16")[1] == f"{weights / 1e9:.2f} GB"
    assert f"{INFO.parameters:,} parameters" in row("weights, FP16")[2]
    kv = row("keys and values")
    assert kv[1] == f"{CELLS * TOKEN / 1e9:.2f} GB"
    assert f"{TOKEN:,} bytes ({TOKEN // 1024} KiB) a token" in kv[2]
    shape = INFO.kv
    assert f"2 × {shape.layers} layers × {shape.kv_heads} heads × {shape.head_dim} × 2 bytes" in kv[2]
    references = row("reference keys")
    assert references[1] == f"{CELLS * INFO.reference_bytes_per_token() / 1e9:.2f} GB"
    assert f"{INFO.reference_bytes_per_token():,} bytes" in references[2]
    together = row("**KV state together")
    assert together[1] == f"{CELLS * STATE / 1e9:.2f} GB"
    assert together[2] == f"{CELLS:,} × {STATE:,} bytes"
    assert f"A card of 24 GB has {(24e9 - weights - CELLS * STATE) / 1e9:.0f} GB left" in TEXT


def test_memory_of_keeping_everything() -> None:
    assert f"{TOKEN * 10**6 / 1e9:.0f} GB of keys and values at a million tokens" in TEXT
    assert f"{TOKEN * 2 * 10**6 / 1e9:.0f} GB at two million" in TEXT


def test_smaller_weights() -> None:
    sizes = [f"{model_info(name).size_bytes / 1e9:.1f} GB" for name in ("qwen3-8b-q8_0", "qwen3-8b-q4_k_m")]
    assert f"`--model qwen3-8b-q8_0` has {sizes[0]} of weights, `--model qwen3-8b-q4_k_m` {sizes[1]}" in TEXT


def test_main_memory_and_disk() -> None:
    memory, disk = row("main memory"), row("disk")
    assert memory[1:] == ["a quarter of what is free, at most 8 GB", f"{MOST_HOST_BYTES // TOKEN:,}"]
    assert disk[1:] == ["a tenth of what is free, at most 32 GB", f"{MOST_DISK_BYTES // TOKEN:,}"]
    assert (MOST_HOST_BYTES, MOST_DISK_BYTES) == (8 * 10**9, 32 * 10**9)
    evicted = 100_000 * TOKEN
    assert f"evicts {evicted / 1e9:.1f} GB in all" in TEXT
    assert MOST_HOST_BYTES < evicted < MOST_HOST_BYTES + MOST_DISK_BYTES < 10**6 * TOKEN
    recalling = [name for name, policy in POLICIES.items() if policy.recalls]
    assert f"Policies that recall ({', '.join(f'`{name}`' for name in recalling)})" in TEXT
    assert f"({INFO.size_bytes / 1e9:.1f} GB of model, 32 GB of store)" in TEXT


def test_the_table_of_times_is_what_the_formula_gives() -> None:
    assert "N / p + q · a / d seconds" in TEXT
    probes, answer = map(int, re.findall(r"(\d+) probes, answers of (\d+) tokens", TEXT)[0])
    (head,) = [line for line in PAGE.splitlines() if line.startswith("| assumed p, d")]
    lengths = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) tokens \|", head)]
    assert lengths == [100_000, 1_000_000, 2_000_000]
    rows = re.findall(r"^\| ([\d,]+), (\d+) \| (.*) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 3
    minutes = []
    for p, d, cells in rows:
        prompt, decode = int(p.replace(",", "")), int(d)
        seconds = [length / prompt + probes * answer / decode for length in lengths]
        assert cells.split(" | ") == [f"{round(each + 1e-9):,} s" for each in seconds]
        minutes.append(15 * seconds[0] / 60)
    first, second, third = (f"{round(each)}" for each in minutes)
    assert f"15 times the first column: {first}, {second} and {third} minutes" in TEXT
    (command,) = [line for line in PAGE.splitlines() if line.startswith("$") and "--tokens 100000 " in line]
    policies = command.split("--policies ")[1].split()[0].split(",")
    assert len(policies) * int(command.split("--seeds ")[1].split()[0]) == 15


def test_what_the_page_names_of_the_check_is_there() -> None:
    for name in (prompt_row("pace"), decode_row("pace"), "device_peak_bytes.pace", "flat_ratio"):
        assert f"`{name}`" in TEXT
    assert f"at most {LIMIT:.2f}" in TEXT
    parser = build_parser()
    assert f"`{parser.get_default('out').relative_to(ROOT)}`" in TEXT
    assert f"{parser.get_default('tokens'):,} session tokens" in TEXT
