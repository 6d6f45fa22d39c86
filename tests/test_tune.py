"""A tuning's numbers are those of the sessions that it played."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recorded_sessions import EXACT, TIGHT, TOLERANCE, recorded, scratch_logits, slow_log_probabilities
from session_pair import TALKER

from pace_local import Model, Plan, Session, Step
from pace_local.engine import Engine
from pace_local.errors import CancelledError, ConfigError, ContextFullError, FileError
from pace_local.policies import POLICIES
from pace_local.policies.base import CacheView, Policy, Scores, check_range
from pace_local.recording import Generated, Recording, replay
from pace_local.segments import Segment
from pace_local.session_cache import SessionCache
from pace_local.terminal import Stop
from pace_local.testing import TinySpec
from pace_local.tuning import Axis, Grid, Journal, Measurement, Tuning, as_document, measure, table, tune
from pace_local.tuning.run import point_key, reference_config

LONG = "return the self and other "
F32: dict[str, Any] = {"key_type": "f32", "value_type": "f32", "flash_attn": False}
ONE_LAYER = TinySpec(n_layer=1, n_head=2, n_head_kv=1, head_dim=8, n_ff=16, speech="text")
"""Keys and values depend on nothing but the token, so that what was evicted can be left out afterwards."""


@dataclass
class EveryNth(Policy):
    """Keeps every nth token; takes no more than half of the target for n."""

    name = "every_nth"
    n: int = 2

    def __post_init__(self) -> None:
        check_range("n", self.n, 1, 8)

    def check_target(self, target: int) -> None:
        check_range("n", self.n, 1, target // 2)

    def score(self, view: CacheView) -> Scores:
        return np.where(view.token_index % self.n == 0, view.token_index + 1e6, view.token_index)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, EveryNth.name, EveryNth)


def record(model: Model, path: Path, **settings: Any) -> Recording:
    """Six turns, 39 tokens of answers."""
    with recorded(model, path, **{**F32, **settings}) as session:
        session.append("Answer with care.", kind="system")
        session.append(LONG * 6, name="notes")
        session.plan = Plan([Step("a", ["notes"])])
        list(session.generate("what is it?", max_tokens=17))
        session.step_done()
        session.append(LONG * 4)
        list(session.generate("why?", max_tokens=22))
    return Recording.load(path)


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture(scope="module")
def recording(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(model, tmp_path_factory.mktemp("tune") / "session.jsonl")


def answers(recording: Recording) -> list[Generated]:
    return [turn for turn in recording.turns if isinstance(turn, Generated)]


def tuned(model: Model, recording: Recording, grid: Grid, journal: Journal, **others: Any) -> Tuning:
    usual: dict[str, Any] = {"settings": {}, "options": {}, "identity": "tiny"}
    return tune(model, recording, "every_nth", grid, journal=journal, **{**usual, **others})


# One point


def test_the_reference_is_what_the_whole_text_read_anew_gives(model: Model, recording: Recording) -> None:
    config = reference_config(model, recording, {})
    assert (config.policy, config.budget) == ("none", recording.length + 64)
    found = measure(model, recording, config, run="r")
    with Session(model, config=config) as session:
        replay(recording, session)
        tokens = list(session._cache.tokens)
        starts = [segment.start for segment in session.segments if segment.kind == "answer"]
    slow, likeliest = [], 0
    for start, turn in zip(starts, answers(recording), strict=True):
        for n, token in enumerate(turn.tokens):
            logits = scratch_logits(model, tokens[: start + n])
            slow.append(float(slow_log_probabilities(logits)[token]))
            likeliest += int(np.argmax(logits)) == token
    flat = [value for answer in found.log_probabilities for value in answer]
    print(f"largest difference {np.max(np.abs(np.subtract(flat, slow))):.2e}")
    assert np.max(np.abs(np.subtract(flat, slow))) < TOLERANCE
    assert found.loss == pytest.approx(-np.mean(slow), abs=TOLERANCE)
    assert (found.tokens, found.likeliest) == (39, likeliest)
    assert found.agreement == likeliest / 39
    assert (found.evictions, found.evicted, found.renumberings, found.turns) == (0, 0, 0, 5)
    assert [len(answer) for answer in found.log_probabilities] == [17, 22]


class Witness:
    """Sees each decode of a session: who was resident, what was read, and whether anyone was evicted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: list[tuple[list[int], list[int], list[int], bool]] = []
        self.evictions = 0
        plain = SessionCache.decode

        def decode(cache: SessionCache, tokens: Sequence[int], segment: Segment, *others: Any) -> None:
            resident, past = cache.map.token_index.tolist(), list(cache.tokens)
            plain(cache, tokens, segment, *others)
            self.evictions += len(cache.map) < len(resident) + len(tokens)
            self.before.append((resident, past, list(tokens), segment.kind == "answer"))

        monkeypatch.setattr(SessionCache, "decode", decode)


def logits_without(model: Model, resident: list[int], past: list[int], tokens: list[int]) -> Any:
    """Logits after tokens, with all that is not resident taken out of a cache of its own."""
    with Session(model, **EXACT) as session:
        for first in range(0, len(past), session.engine.n_batch):
            session.engine.decode(past[first : first + session.engine.n_batch], first)
        assert session.engine.cache is not None
        if past:
            session.engine.cache.retain(np.array(resident, dtype=np.uint32), len(past))
        session.engine.decode(tokens, len(past))
        return session.engine.logits().astype(np.float64)


def test_under_evictions_the_numbers_are_those_of_what_was_resident(
    load_tiny: Callable[[TinySpec], Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_tiny(ONE_LAYER)
    recording = record(model, tmp_path / "s")
    config = recording.session_config(policy="every_nth", policy_options={"n": 3}, check=False)
    with monkeypatch.context() as patch:
        witness = Witness(patch)
        found = measure(model, recording, config, run="r")
    slow, likeliest, recorded_tokens = [], 0, [t for turn in answers(recording) for t in turn.tokens]
    for (resident, past, tokens, _), (_, _, following, is_answer) in zip(
        witness.before, witness.before[1:], strict=False
    ):
        if is_answer:
            logits = logits_without(model, resident, past, tokens)
            (token,) = following
            slow.append(float(slow_log_probabilities(logits)[token]))
            likeliest += int(np.argmax(logits)) == token
    assert len(slow) == len(recorded_tokens) == found.tokens
    flat = [value for answer in found.log_probabilities for value in answer]
    print(f"largest difference {np.max(np.abs(np.subtract(flat, slow))):.2e}")
    assert np.max(np.abs(np.subtract(flat, slow))) < TOLERANCE
    assert (found.likeliest, found.evictions) == (likeliest, witness.evictions)
    assert found.evictions > 3
    reference = measure(model, recording, reference_config(model, recording, {}), run="r")
    assert abs(found.loss - reference.loss) > 1e-3, "or it would not matter what was resident"


def test_the_recorded_policy_finds_its_own_greedy_answers_likeliest(
    model: Model, recording: Recording
) -> None:
    assert measure(model, recording, recording.session_config(), run="r").agreement == 1.0


def test_a_replay_has_no_chance_in_it(model: Model, recording: Recording) -> None:
    config = recording.session_config(policy="every_nth")
    one, other = (measure(model, recording, config, run="r") for _ in range(2))
    assert one.log_probabilities == other.log_probabilities
    assert one.seconds > 0


def test_measuring_is_not_timed(model: Model, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("pace_local.tuning.measure")
    plain, decode = module.log_probability, Engine.decode
    now = decodes = 0

    def look(token: int, logits: Any) -> float:
        nonlocal now
        now += 1_000
        return plain(token, logits)

    def turned(done: int, total: int) -> None:
        nonlocal now
        now += 1_000

    def decoding(engine: Engine, tokens: Any, position: int) -> None:
        nonlocal now, decodes
        now, decodes = now + 1, decodes + 1
        decode(engine, tokens, position)

    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(module, "log_probability", look)
    monkeypatch.setattr(Engine, "decode", decoding)
    found = measure(model, recording, recording.session_config(), run="r", on_turn=turned)
    assert found.seconds == decodes > 0


def test_a_request_stops_it(model: Model, recording: Recording) -> None:
    stop, turns = Stop(), []

    def on_turn(done: int, total: int) -> None:
        turns.append((done, total))
        if done == 2:
            stop.request(CancelledError("enough"))

    with pytest.raises(CancelledError):
        measure(model, recording, recording.session_config(), run="r", stop=stop, on_turn=on_turn)
    assert turns == [(1, 7), (2, 7)]
    with pytest.raises(CancelledError, match="enough"):
        measure(model, recording, recording.session_config(), run="r", stop=stop)


# A grid


def test_every_point_and_the_reference_are_measured(model: Model, recording: Recording) -> None:
    grid = Grid.product([Axis("n", (1, 3)), Axis("budget", (96, 128))])
    seen: list[tuple[int, bool]] = []
    with Journal(None) as journal:
        tuning = tuned(
            model,
            recording,
            grid,
            journal,
            on_point=lambda number, outcome, stored: seen.append((number, stored)),
        )
    assert seen == [(-1, False), (0, False), (1, False), (2, False), (3, False)]
    for number in range(4):
        values = grid.values(number)
        config = recording.session_config(
            policy="every_nth", policy_options={"n": values["n"]}, budget=values["budget"]
        )
        again = measure(model, recording, config, run="r")
        found = tuning.measured[number]
        assert found.log_probabilities == again.log_probabilities
        assert (found.evictions, found.likeliest) == (again.evictions, again.likeliest)
    losses = {round(point.loss, 6) for point in tuning.measured.values()}
    assert len(losses) == 4, "the points differ"
    reference = tuning.reference.measured
    assert reference is not None
    document = as_document(tuning)
    json.dumps(document, allow_nan=False)
    for number, point in enumerate(document["points"]):
        measured = tuning.measured[number]
        assert point["values"] == grid.values(number)
        assert point["loss"] == measured.loss
        assert point["to_reference"] == measured.loss - reference.loss
        assert point["relative_seconds"] == measured.seconds_per_turn / tuning.measured[0].seconds_per_turn
        around = [tuning.measured[other].loss for other in (number, *grid.neighbours(number))]
        assert point["neighbourhood"] == pytest.approx(np.mean(around))
    best = document["recommended"]
    assert document["points"][best]["neighbourhood"] == min(p["neighbourhood"] for p in document["points"])
    assert document["reference"]["loss"] == reference.loss


def test_refused_points_do_not_stop_the_others(model: Model, recording: Recording) -> None:
    grid = Grid.product([Axis("n", (2, 9)), Axis("budget", (16, 96)), Axis("soft_target", (0.5,))])
    with Journal(None) as journal:
        tuning = tuned(model, recording, grid, journal)
    assert [outcome.refused for outcome in tuning.outcomes] == [
        "budget 16 is too small; at least 64 tokens are needed",
        None,
        "budget 16 is too small; at least 64 tokens are needed",
        "n 9 is out of range; use 1 to 8",
    ]
    assert list(tuning.measured) == [1]
    lines = table(tuning).splitlines()
    assert lines[2].endswith("refused: budget 16 is too small; at least 64 tokens are needed")
    assert lines[5].endswith("refused: n 9 is out of range; use 1 to 8")
    assert as_document(tuning)["points"][3] == {
        "values": {"n": 9, "budget": 96, "soft_target": 0.5},
        "refused": "n 9 is out of range; use 1 to 8",
    }


def test_what_the_budget_cannot_hold_is_refused_in_the_midst(model: Model, tmp_path: Path) -> None:
    """A pinned text is known to be too large only when it comes."""
    with recorded(model, tmp_path / "s", budget=256, position_cap=512) as session:
        session.append("one")
        session.append(LONG * 8, name="kept", pinned=True)
        list(session.generate("two", max_tokens=3))
    recording = Recording.load(tmp_path / "s")
    with Journal(None) as journal:
        tuning = tuned(model, recording, Grid.product([Axis("budget", (64, 256))]), journal)
        assert journal.get(point_key(recording, "tiny", recording.session_config())) is None
    assert "'kept' takes" in (tuning.outcomes[0].refused or "")
    assert tuning.outcomes[1].measured is not None


def test_where_no_reference_is_possible_that_is_said(
    load_tiny: Callable[[TinySpec], Model], tmp_path: Path
) -> None:
    model = load_tiny(
        TinySpec(n_layer=1, n_head=2, n_head_kv=1, head_dim=8, n_ff=16, speech="text", n_ctx_train=128)
    )
    recording = record(model, tmp_path / "s")
    with Journal(None) as journal:
        tuning = tuned(model, recording, Grid.product([Axis("n", (1, 2))]), journal)
    said = f"the session has {recording.length:,} tokens and {model.name} was trained for 128 at a time"
    assert tuning.reference.refused == said
    assert f"There is no reference: {said}." in table(tuning)
    document = as_document(tuning)
    assert (document["reference"], document["no_reference"]) == (None, said)
    assert [point["to_reference"] for point in document["points"]] == [None, None]


def test_the_reference_holds_a_session_of_pinned_texts(model: Model, tmp_path: Path) -> None:
    with recorded(model, tmp_path / "s", budget=512, position_cap=1024) as session:
        session.append(LONG * 12, kind="system")
        list(session.generate("two", max_tokens=3))
    recording = Recording.load(tmp_path / "s")
    assert measure(model, recording, reference_config(model, recording, {}), run="r").evictions == 0


def test_none_refuses_a_session_longer_than_its_budget(model: Model, recording: Recording) -> None:
    with pytest.raises(ContextFullError):
        measure(model, recording, recording.session_config(policy="none"), run="r")
    with Journal(None) as journal:
        tuning = tune(
            model, recording, "none", Grid.product([]),
            settings={}, options={}, identity="tiny", journal=journal,
        )  # fmt: skip
    assert "policy 'none' evicts nothing" in (tuning.outcomes[0].refused or "")
    assert as_document(tuning)["recommended"] is None
    assert "No point could be measured." in table(tuning)


def test_a_recording_without_an_answer(model: Model, tmp_path: Path) -> None:
    with recorded(model, tmp_path / "s") as session:
        session.append("one")
    recording = Recording.load(tmp_path / "s")
    with Journal(None) as journal, pytest.raises(FileError, match="has no answer in it"):
        tuned(model, recording, Grid.product([]), journal)


def test_a_recording_of_another_model_is_no_refused_point(
    load_tiny: Callable[[TinySpec], Model], recording: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    path.write_text(recording.path.read_text().replace("and other", "and ohter", 1))
    with Journal(None) as journal, pytest.raises(FileError, match="its tokens are others"):
        tuned(load_tiny(TALKER), Recording.load(path), Grid.product([]), journal)


# Going on


def test_finished_points_are_not_measured_again(
    model: Model, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = (Grid.product([Axis("n", values)]) for values in ((1, 3), (1, 2, 3)))
    with Journal(tmp_path) as journal:
        before = tuned(model, recording, small, journal)
    stored: list[tuple[int, bool]] = []
    with Journal(tmp_path) as journal:
        after = tuned(
            model, recording, large, journal, on_point=lambda n, _outcome, was: stored.append((n, was))
        )
    assert stored == [(-1, True), (0, True), (1, False), (2, True)]
    assert (after.measured[0], after.measured[2]) == (before.measured[0], before.measured[1])
    assert after.reference == before.reference
    assert "measured in an earlier run" in table(after)
    assert "measured in an earlier run" not in table(before)


def test_what_a_stored_point_belongs_to(model: Model, recording: Recording, tmp_path: Path) -> None:
    config = recording.session_config()
    key = point_key(recording, "tiny", config)
    assert key == point_key(Recording.load(recording.path), "tiny", recording.session_config())
    longer = tmp_path / "s"
    longer.write_bytes(recording.path.read_bytes() + b'{"type":"step_done"}\n')
    others = {
        point_key(Recording.load(longer), "tiny", config),
        point_key(recording, "other", config),
        point_key(recording, "tiny", config.replace(soft_target=0.5)),
        point_key(recording, "tiny", config.replace(policy="every_nth")),
        point_key(recording, "tiny", config.replace(policy="every_nth", policy_options={"n": 3})),
    }
    assert len(others) == 5
    assert key not in others


def test_settings_and_options_reach_every_session(model: Model, recording: Recording) -> None:
    grid = Grid.product([Axis("budget", (80, 96))])
    with Journal(None) as journal:
        tuning = tuned(
            model, recording, grid, journal, settings={"soft_target": 0.5, "recent": 5}, options={"n": 3}
        )
    for number, budget in enumerate((80, 96)):
        config = recording.session_config(
            policy="every_nth", policy_options={"n": 3}, budget=budget, soft_target=0.5, recent=5
        )
        assert (
            tuning.measured[number].log_probabilities
            == measure(model, recording, config, run="r").log_probabilities
        )


# The table


def fake(values: Sequence[Measurement | None], axes: Sequence[Axis]) -> Tuning:
    from pace_local.tuning import Outcome

    outcomes = [Outcome(value, None if value else "bad") for value in values]
    return Tuning("every_nth", Grid.product(axes), outcomes[0], tuple(outcomes[1:]))


def test_the_table_to_the_letter() -> None:
    def point(loss: float, seconds: float, evictions: int) -> Measurement:
        return Measurement(((-loss, -loss), (-loss - 1, -loss + 1)), 3, evictions, 9, 1, seconds, 2, "r")

    tuning = fake(
        [point(1, 1, 0), point(2, 2, 1200), None, point(1.5, 1, 7), point(1.25, 3, 8)],
        [Axis("n", (1, 2)), Axis("mode", ("a", None))],
    )
    assert table(tuning).splitlines()[:6] == [
        "           n  mode    NATS  TO NONE  AROUND   TOP-1  EVICTIONS  TIME",
        "   reference        1.0000  +0.0000          75.0 %          0  0.50",
        "           1     a  2.0000  +1.0000  1.7500  75.0 %      1,200  1.00",
        "           1  none  refused: bad",
        "           2     a  1.5000  +0.5000  1.5833  75.0 %          7  0.50",
        "→          2  none  1.2500  +0.2500  1.3750  75.0 %          8  1.50",
    ]
    assert "→ n=2 mode=none: the best neighbourhood, 1.3750 nats." in table(tuning)
    assert "The losses differ by up to 0.7500 nats; a difference up to 0.0000 nats can be chance." in table(
        tuning
    )
    said = "It is at the edge of the grid in n; what lies beyond was not tried."
    assert said in table(tuning)
    assert as_document(tuning)["at_edge"] == ["n"]


def test_a_flat_table_says_so() -> None:
    rng = np.random.default_rng(3)
    tokens = rng.gamma(2.0, size=60)
    points = [
        Measurement((tuple(-tokens - rng.normal(scale=0.1, size=60)),), 3, 1, 9, 1, 1.0, 2, "r")
        for _ in range(4)
    ]
    tuning = fake(points, [Axis("n", (1, 2, 3))])
    assert as_document(tuning)["flat"] is True
    assert "can be chance with 60 tokens. Any of these points will do." in table(tuning)
    assert "edge" not in table(tuning)


def test_one_token_is_too_little_to_tell(model: Model) -> None:
    tuning = fake([Measurement(((-1.0,),), 1, 0, 0, 0, 1.0, 1, "r")] * 3, [Axis("n", (1, 2))])
    assert as_document(tuning)["flat"] is None
    assert "Too little was measured to tell differences from noise." in table(tuning)


def test_a_refused_configuration_is_an_error_of_ours(model: Model, recording: Recording) -> None:
    with pytest.raises(ConfigError):
        recording.session_config(**{**TIGHT, "budget": 1})
