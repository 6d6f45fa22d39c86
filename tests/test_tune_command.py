"""``pace tune``: options, the table and the JSON, and going on after a kill or Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import PACE, PATIENCE, QUESTION, SMALL, refusal, run, start, write_project
from session_pair import TALKER

from pace_local import Model
from pace_local.errors import ConfigError
from pace_local.models import REGISTRY
from pace_local.recording import Recording
from pace_local.testing import TinySpec, tiny_model
from pace_local.tuning import measure

POINTS = ("--policy", "streaming", "--grid", "sinks=4", "--soft-target", "0.5,0.6,0.7,0.8,0.9")


@pytest.fixture(scope="module")
def tiny(tiny_models: Path) -> Path:
    return tiny_model(TALKER, tiny_models)


@pytest.fixture(scope="module")
def path(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of 3,700 tokens, some 0.4 s of reading, with 12 tokens of an answer."""
    folder = tmp_path_factory.mktemp("recorded")
    words = ("ask", "-p", QUESTION, "--model", tiny, *SMALL, *write_project(folder))
    assert run(*words, "--record", folder / "s.jsonl").code == 0
    return folder / "s.jsonl"


def tune(path: Path, tiny: Path, *words: object) -> Any:
    return run("tune", path, "--model", tiny, *words)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "points.jsonl").read_text().splitlines()]


# What it shows


def test_the_table_and_the_json_are_of_what_was_measured(
    path: Path, tiny: Path, load_tiny: Callable[[TinySpec], Model]
) -> None:
    words = ("--policy", "streaming", "--grid", "sinks=4,16", "--budget", "512,1024")
    shown = tune(path, tiny, *words, "--json")
    assert shown.code == 0
    document = shown.document
    assert (document["policy"], document["model"]) == ("streaming", tiny.stem)
    assert document["axes"] == {"sinks": [4, 16], "budget": [512, 1024]}
    recording = Recording.load(path)
    for point in document["points"]:
        config = recording.session_config(
            policy="streaming",
            policy_options={"sinks": point["values"]["sinks"]},
            budget=point["values"]["budget"],
        )
        found = measure(load_tiny(TALKER), recording, config, run="r")
        assert (point["loss"], point["agreement"]) == (found.loss, found.agreement)
        assert (point["evictions"], point["evicted"]) == (found.evictions, found.evicted)
    plain = tune(path, tiny, *words)
    rows = plain.out.splitlines()
    assert rows[0].split() == [
        "sinks",
        "budget",
        "NATS",
        "TO",
        "NONE",
        "AROUND",
        "TOP-1",
        "EVICTIONS",
        "TIME",
    ]
    for row, point in zip(rows[2:], document["points"], strict=False):
        cells = row.replace("→", "").replace(",", "").split()
        assert cells[:3] == [*map(str, point["values"].values()), f"{point['loss']:.4f}"]
        assert cells[3] == f"{point['loss'] - document['reference']['loss']:+.4f}"
        assert cells[5] == f"{100 * point['agreement']:.1f}"
        assert cells[7] == str(point["evictions"])
    assert rows[2 + document["recommended"]].startswith("→")
    assert "4 points of streaming and a reference" in plain.err
    assert "1 of 5, reference: " in plain.err
    assert " left\n" in plain.err
    assert "5 of 5, sinks=16 budget=1024: " in plain.err


def test_the_recorded_policy_and_its_default_grid(path: Path, tiny: Path) -> None:
    document = tune(path, tiny, "--json", "--quiet").document
    assert document["policy"] == "pace"
    assert document["points"][0]["loss"] > 0


def test_quiet(path: Path, tiny: Path) -> None:
    shown = tune(path, tiny, *POINTS, "--quiet")
    assert (shown.code, shown.err) == (0, "")


def test_every_point_refused(path: Path, tiny: Path) -> None:
    shown = tune(path, tiny, "--policy", "none", "--json")
    assert shown.code == 1
    (point,) = shown.document["points"]
    assert point["refused"].startswith("policy 'none' evicts nothing and the budget of 1024 tokens is full")
    assert shown.document["recommended"] is None


def test_a_torn_recording_is_used_and_said(path: Path, tiny: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.write_bytes(path.read_bytes() + b'{"type":"app')
    shown = tune(torn, tiny, "--policy", "streaming", "--grid", "sinks=4")
    assert shown.code == 0
    assert f"{torn}: line " in shown.err
    assert "was never finished, and is left out" in shown.err


def test_some_settings_refused(path: Path, tiny: Path) -> None:
    words = ("--policy", "streaming", "--grid", "sinks=4", "--position-cap", 900, "--budget", "8,512,1024")
    points = tune(path, tiny, *words, "--json", "--quiet").document["points"]
    assert [point["values"]["budget"] for point in points if point["refused"] is None] == [512]
    assert "budget 8 is too small" in points[0]["refused"]
    assert "position cap 900 is below budget + headroom = 1152" in points[2]["refused"]


# What it refuses


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--grid", "sinks"), "grid 'sinks' is not NAME=VALUE,VALUE"),
        (("--grid", "windw=5"), "policy 'streaming' has no parameter 'windw'"),
        (("--budget", "many"), "--budget 'many' is out of range; use whole numbers of tokens"),
        (("--budget", "1024,none"), "--budget '1024,none' is out of range"),
        (("--budget", "1"), "budget 1 is too small"),
        (("--budget", "true"), "--budget 'true' is out of range"),
        (("--soft-target", "x"), "--soft-target 'x' is out of range; use shares from 0.25 to 1"),
        (("--soft-target", "2"), "soft target 2 is out of range"),
        (("--evict-every", "0"), "evict every 0 is out of range"),
        (("--evict-every", "0.5"), "--evict-every '0.5' is out of range"),
        (("--threads", "0"), "threads 0 is out of range"),
        (("--time-limit", "0"), "--time-limit 0 is out of range"),
    ],
)
@pytest.mark.parametrize("grid", [(), ("--grid", "sinks=4")], ids=["default grid", "grid"])
def test_bad_options(
    words: tuple[str, ...], said: str, grid: tuple[str, ...], path: Path, tiny: Path
) -> None:
    grid = () if words[0] == "--grid" else grid
    assert said in refusal(tune(path, tiny, "--policy", "streaming", *grid, *words))


def test_bad_recordings(path: Path, tiny: Path, tmp_path: Path) -> None:
    assert "cannot read the recording" in refusal(tune(tmp_path / "none", tiny))
    header = path.read_bytes().splitlines(keepends=True)[0]
    (tmp_path / "s").write_bytes(header)
    assert "has no answer in it" in refusal(tune(tmp_path / "s", tiny))


def test_a_model_that_is_no_name(path: Path, tiny: Path) -> None:
    said = refusal(run("tune", path))
    assert said == (
        f"the session was recorded with {tiny.stem!r}, which is no name of `pace models list`; "
        "give its file with --model"
    )


def test_the_recorded_model_is_the_default(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that is known to be another file is said to be."""
    import pace_local.commands.tune as command

    name = next(name for name, info in REGISTRY.items() if info.sha256)
    lines = path.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "model": name})
    (tmp_path / "s").write_text("\n".join(lines) + "\n")
    asked: list[str] = []

    def prepare(reference: str, stop: object, *, quiet: bool) -> None:
        asked.append(reference)
        raise ConfigError("as far as that")

    monkeypatch.setattr(command, "prepare_model", prepare)
    assert refusal(run("tune", tmp_path / "s")) == "as far as that"
    assert asked == [name]


def test_a_recording_of_another_model(path: Path, tiny: Path, tmp_path: Path) -> None:
    text = path.read_text().replace("precise coding", "coding precise", 1)
    (tmp_path / "s").write_text(text)
    shown = tune(tmp_path / "s", tiny, *POINTS)
    assert shown.code == 2
    assert "turn 1: its tokens are others" in shown.err.splitlines()[-1]


# Going on


def wait_for_points(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    """Until a process has finished so many points; it must not be over then."""
    until = time.monotonic() + PATIENCE
    file = folder / "points.jsonl"
    while not file.exists() or file.read_bytes().count(b"\n") < count:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.01)


SLOW = (
    "import time\n"
    "import pace_local.tuning.measure as module, importlib\n"
    "module = importlib.import_module('pace_local.tuning.measure')\n"
    "plain = module.replay\n"
    "def replay(*arguments, on_turn, **others):\n"
    "    def slowly(*done): time.sleep(0.05); on_turn(*done)\n"
    "    plain(*arguments, on_turn=slowly, **others)\n"
    "module.replay = replay\n"
)
"""Makes each point take more than a second, so that there is time to stop it in the midst."""


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_a_run_that_was_stopped_goes_on(how: str, path: Path, tiny: Path, tmp_path: Path) -> None:
    words = [str(word) for word in ("tune", path, "--model", tiny, *POINTS, "--out", tmp_path)]
    process = start(SLOW + PACE, *words)
    wait_for_points(process, tmp_path, 3)
    os.kill(process.pid, signal.SIGKILL if how == "kill" else signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert out == ""
    if how == "kill":
        assert process.returncode == -signal.SIGKILL
        with (tmp_path / "points.jsonl").open("ab") as file:
            file.write(b'{"key": "half a l')  # what a kill in the midst of writing leaves
        before = [json.loads(line) for line in (tmp_path / "points.jsonl").read_text().splitlines()[:-1]]
    else:
        assert process.returncode == 130
        assert err.splitlines()[-2:] == [
            f"finished points are in {tmp_path / 'points.jsonl'}; the same command goes on from there",
            "pace: cancelled",
        ]
        assert "Traceback" not in err
        before = lines_of(tmp_path)
    assert 3 <= len(before) < 6

    shown = tune(path, tiny, *POINTS, "--out", tmp_path, "--json")
    assert shown.code == 0
    after = lines_of(tmp_path)
    assert after[: len(before)] == before
    assert len(after) == len({line["key"] for line in after}) == 6
    assert shown.err.count("measured before") == len(before)
    assert ("the last line was never finished; that point is measured again" in shown.err) == (how == "kill")
    assert len({line["point"]["run"] for line in after}) == 2

    fresh = tune(path, tiny, *POINTS, "--json").document
    for name in ("loss", "agreement", "evictions", "neighbourhood"):
        assert [p[name] for p in shown.document["points"]] == [p[name] for p in fresh["points"]]
    assert shown.document["recommended"] == fresh["recommended"]


def test_a_time_limit(path: Path, tiny: Path, tmp_path: Path) -> None:
    words = [str(word) for word in ("tune", path, "--model", tiny, *POINTS, "--out", tmp_path)]
    process = start(SLOW + PACE, *words, "--time-limit", "2")
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (124, "")
    assert err.splitlines()[-1] == "pace: the time limit of 2 s was reached"


def test_another_file_of_the_model_is_another_model(path: Path, tiny: Path, tmp_path: Path) -> None:
    words = ("--policy", "streaming", "--grid", "sinks=4", "--out", tmp_path)
    assert tune(path, tiny, *words).code == 0
    assert tune(path, tiny, *words).err.count("measured before") == 2
    copy = tmp_path / tiny.name
    copy.write_bytes(tiny.read_bytes())
    os.utime(copy, ns=(1, 1))
    assert tune(path, copy, *words).err.count("measured before") == 0
