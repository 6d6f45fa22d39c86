"""``pace inspect`` on sessions recorded with a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, is_one_line_error, refusal, run
from recorded_sessions import recorded
from session_pair import TALKER, tiny_session

from pace_local import Model, Plan, Step, terminal
from pace_local.commands import inspect
from pace_local.errors import CancelledError
from pace_local.explain import explain
from pace_local.policies import POLICIES, Observation
from pace_local.policies.base import check_range
from pace_local.policies.streaming import StreamingPolicy
from pace_local.policies.words import parse_parameters
from pace_local.recording import Recording, replay
from pace_local.session import Session
from pace_local.testing import tiny_model

TEXT = "for the return of self and other ships in the harbour; "
TURNS = 9


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[Any], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture(scope="module")
def recording(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine turns under ``pace``, with evictions."""
    path = tmp_path_factory.mktemp("inspect") / "session.jsonl"
    with recorded(model, path, recent=8) as session:
        session.append("Go.", name="rules", kind="system")
        session.append("RATE_X is 53", name="spec", kind="file", next_use=1)
        session.plan = Plan([Step("first"), Step("write", reads=["spec"])])
        for _ in range(3):
            session.append(TEXT, kind="file")
        list(session.generate("why so?", name="answer", max_tokens=12))
        session.step_done()
        list(session.generate("and now?", max_tokens=9))
    assert len(Recording.load(path).turns) == TURNS
    return path


@pytest.fixture
def inspected(tiny_models: Path, recording: Path) -> Callable[..., Run]:
    def inspected(*words: object, path: Path = recording) -> Run:
        return run("inspect", path, "--model", tiny_model(TALKER, tiny_models), "--quiet", *words)

    return inspected


def replayed(model: Model, path: Path, until: int | None = None, **settings: Any) -> Any:
    with tiny_session(model, **settings) as session:
        replay(Recording.load(path), session, until=until)
        return explain(session)


def test_json_is_the_explanation(model: Model, recording: Path, inspected: Callable[..., Run]) -> None:
    ended = inspected("--json")
    assert (ended.code, ended.err) == (0, "")
    told = replayed(model, recording, recent=8)
    assert told.evicted_at is not None
    expected = {"recording": str(recording), "model": model.name, **told.as_dict(), "would": []}
    assert ended.document == json.loads(json.dumps(expected))
    reasons = {part["reason"] for segment in ended.document["segments"] for part in segment["parts"]}
    assert {"sink", "pinned", "plan step 1"} <= reasons or {"sink", "pinned", "plan step 2"} <= reasons


def test_lines_are_the_explanation(
    model: Model, recording: Path, inspected: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = replayed(model, recording, recent=8)
    for columns, width in (("200", 120), ("90", 90)):
        monkeypatch.setenv("COLUMNS", columns)
        assert inspected().out.splitlines() == list(told.lines(width))
    assert inspected("--full").out.splitlines() == list(told.lines(90, full_text=True))


def test_until(model: Model, recording: Path, inspected: Callable[..., Run]) -> None:
    for until in (1, TURNS):
        document = inspected("--json", "--until", until).document
        assert document["session_tokens"] == replayed(model, recording, until, recent=8).session_tokens
    assert inspected("--json", "--until", 1).document["evicted_at"] is None


def test_another_policy_and_budget(model: Model, recording: Path, inspected: Callable[..., Run]) -> None:
    document = inspected(
        *("--json", "--policy", "streaming", "--budget", 80, "--position-cap", 2000, "--threads", 1)
    ).document
    told = replayed(model, recording, recent=8, policy="streaming", budget=80, position_cap=2000)
    assert document["segments"] == json.loads(json.dumps(told.as_dict()["segments"]))
    assert (document["policy"], document["budget"]) == ("streaming", 80)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], {}),
        (["a=1"], {"a": 1}),
        (["a=0.5", " b =1,2", "c=none", "d=true"], {"a": 0.5, "b": (1, 2), "c": None, "d": True}),
    ],
)
def test_parameters(settings: list[str], expected: dict[str, Any]) -> None:
    assert parse_parameters(settings) == expected


def test_recorded_parameters_are_those_of_the_recorded_policy(
    model: Model, tmp_path: Path, inspected: Callable[..., Run]
) -> None:
    name, parameter, value = next(
        (name, parameter, value)
        for name, kind in POLICIES.items()
        for parameter, value in kind().parameters().items()
        if type(value) is int and value > 1 and kind().observes is None
    )
    path = tmp_path / "session.jsonl"
    with recorded(model, path, policy=name, policy_options={parameter: value - 1}) as session:
        session.append("Go.")
    assert inspected("--json", path=path).document["parameters"][parameter] == value - 1
    changed = inspected("--json", "--set", f"{parameter}={value}", path=path)
    assert changed.document["parameters"][parameter] == value
    other = inspected("--json", "--policy", "none", path=path)
    assert other.document["policy"] == "none"


def test_would(model: Model, recording: Path, inspected: Callable[..., Run]) -> None:
    ended = inspected("--json", "--would", "streaming", "--would", "pace")
    streaming, pace = ended.document["would"]
    assert (streaming["policy"], pace["policy"]) == ("streaming", "pace")
    assert pace["only_own"] == pace["only_other"] == 0
    text = inspected("--would", "streaming").out
    assert "\n\nstreaming would keep " in text


class NeedyPolicy(StreamingPolicy):
    name = "needy"

    @property
    def observes(self) -> Observation | None:
        return Observation()


def test_would_of_a_policy_that_needs_attention_measures_it(
    inspected: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    class Watched(Session):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            seen.append(settings["config"].observe)
            super().__init__(*arguments, **settings)

    monkeypatch.setitem(POLICIES, "needy", NeedyPolicy)
    monkeypatch.setattr(inspect, "Session", Watched)
    ended = inspected("--json", "--would", "needy")
    assert ended.code == 0
    assert [one["policy"] for one in ended.document["would"]] == ["needy"]
    inspected("--json", "--would", "streaming")
    assert seen == [True, False]


# Refusals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--until", "0"], "--until 0 is out of range; use 1 turn or more"),
        (["--until", "99"], "--until 99 is out of range; "),
        (["--set", "window"], "--set 'window' is no parameter; give NAME=VALUE"),
        (["--set", "=3"], "--set '=3' is no parameter; give NAME=VALUE"),
        (["--set", "a=1", "--set", "a=2"], "--set names 'a' twice; give it one value"),
        (["--set", "colour="], "a value of 'colour' is empty"),
        (["--set", "colour=1"], "policy 'pace' has no parameter 'colour'"),
        (["--budget", "3"], "budget 3 is too small"),
        (["--time-limit", "0"], "--time-limit 0 is out of range"),
    ],
)
def test_bad_options(inspected: Callable[..., Run], words: list[str], message: str) -> None:
    assert message in refusal(inspected(*words))


class WidePolicy(StreamingPolicy):
    name = "wide"

    def check_target(self, target: int) -> None:
        check_range("window", 500, 0, target)


@pytest.mark.parametrize("option", ["--policy", "--would"])
def test_a_policy_that_does_not_fit_is_refused_before_the_model_is_loaded(
    inspected: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setitem(POLICIES, "wide", WidePolicy)
    monkeypatch.setattr(inspect, "prepare_model", None)
    assert refusal(inspected(option, "wide")) == "window 500 is out of range; use 0 to 87"


@pytest.mark.parametrize("option", ["--policy", "--would"])
def test_an_unknown_policy(inspected: Callable[..., Run], option: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        inspected(option, "best")
    assert caught.value.code == 2


def test_a_file_that_is_no_recording(inspected: Callable[..., Run], tmp_path: Path) -> None:
    assert "cannot read the recording" in refusal(inspected(path=tmp_path / "missing"))
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    assert "bad.jsonl, line 1" in refusal(inspected(path=bad))


def test_a_model_that_is_no_registered_name(recording: Path) -> None:
    ended = run("inspect", recording, "--quiet")
    assert "give its file with --model" in refusal(ended)


def test_a_session_that_does_not_fit(inspected: Callable[..., Run]) -> None:
    ended = inspected("--policy", "none")
    assert ended.code == 1
    assert "evicts nothing" in ended.err
    assert is_one_line_error(ended.err)


def test_a_torn_line_is_said(
    recording: Path, tmp_path: Path, tiny_models: Path, inspected: Callable[..., Run]
) -> None:
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(recording.read_bytes()[:-9])
    ended = run("inspect", torn, "--json", "--model", tiny_model(TALKER, tiny_models))
    assert ended.code == 0
    assert "torn.jsonl: line " in ended.err
    assert "was never finished" in ended.err
    assert inspected("--json", path=torn).err == ""


def test_it_stops_when_asked(inspected: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(work: Callable[[terminal.Stop], Any], _limit: float | None) -> Any:
        stop = terminal.Stop()

        def turned(_done: int, _total: int) -> None:
            stop.request(CancelledError("cancelled"))

        def play(*arguments: Any, on_turn: Callable[[int, int], None], **named: Any) -> None:
            def both(done: int, total: int) -> None:
                turned(done, total)
                on_turn(done, total)

            replay(*arguments, on_turn=both, **named)

        monkeypatch.setattr(inspect, "replay", play)
        return work(stop)

    monkeypatch.setattr(inspect, "run_stoppable", at_once)
    ended = inspected()
    assert (ended.code, ended.out) == (130, "")
    assert is_one_line_error(ended.err)


def test_progress_is_said_after_a_while(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    clock = [0.0]
    monkeypatch.setattr(inspect.time, "monotonic", lambda: clock[0])
    progress = inspect._Progress(terminal.Stop(), quiet=False)
    for done in range(1, 6):
        clock[0] += 6
        progress(done, 5)
    progress.close()
    assert capsys.readouterr().err == "played 2 of 5 turns\nplayed 4 of 5 turns\n"
