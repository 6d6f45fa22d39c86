"""The file of a recording: what is written when, and what is refused when it is read."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import PATIENCE, QUESTION, SMALL, refusal, run, start, write_project
from recorded_sessions import TIGHT, WIDE, history, recorded
from session_pair import TALKER

from pace_local import Model, Plan, Session, Step, events
from pace_local.errors import CancelledError, ConfigError, FileError, ModelError, StorageError
from pace_local.recording import Appended, Generated, Pinned, Planned, Recording, StepDone, replay
from pace_local.testing import TinySpec, tiny_model

LONG = "return the self and other "


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def path(model: Model, tmp_path: Path) -> Path:
    """A recording with every kind of turn."""
    path = tmp_path / "session.jsonl"
    with recorded(model, path, policy="plan", sha256="ab" * 32) as session:
        session.append("Be brief.", kind="system")
        session.append("naïve 漢 \udcff", name="notes", next_use=2)
        session.plan = Plan([Step("look", ["notes"], "what?"), Step("end")])
        list(session.generate("what?", max_tokens=4, next_use=1))
        session.step_done()
        session.pin("notes")
    return path


def test_what_is_read_is_what_was_done(path: Path) -> None:
    recording = Recording.load(path)
    assert (recording.model, recording.sha256, recording.torn) == (path_model(path), "ab" * 32, None)
    assert recording.session_config().budget == TIGHT["budget"]
    assert recording.session_config(policy="none").policy == "none"
    system, notes, plan, answer, done, pin = recording.turns
    assert isinstance(system, Appended)
    assert (system.kind, system.name, system.pinned, system.next_use) == ("system", "system:0", True, None)
    assert isinstance(notes, Appended)
    assert (notes.text, notes.name, notes.next_use) == ("naïve 漢 \udcff", "notes", 2)
    assert plan == Planned((Step("look", ["notes"], "what?"), Step("end")))
    assert isinstance(answer, Generated)
    assert (answer.prompt, answer.finish, answer.next_use, len(answer.tokens)) == ("what?", "length", 1, 4)
    assert (done, pin) == (StepDone(), Pinned("notes", True))
    assert system.length < notes.length < answer.length == recording.length
    assert recording.answer_tokens == 4


def path_model(path: Path) -> str:
    return str(json.loads(path.read_text().splitlines()[0])["model"])


def test_settings_survive(model: Model, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        **TIGHT, "policy": "streaming", "soft_target": 0.5, "recent": 7, "bound_positions": True,
        "key_type": "f32", "evict_every": 9, "enable_thinking": False,
    }  # fmt: skip
    with recorded(model, tmp_path / "s", **settings) as session:
        config = session.config
    assert Recording.load(tmp_path / "s").session_config() == config


# Written turn by turn


def test_each_turn_is_in_the_file_when_it_is_over(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "s"

    def types() -> list[str]:
        return [turn.type for turn in Recording.load(path).turns]

    with recorded(model, path) as session:
        assert types() == []
        session.append("one")
        assert types() == ["append"]
        stream = session.generate("two", max_tokens=3)
        next(stream)
        assert types() == ["append"]
        list(stream)
        assert types() == ["append", "generate"]


def test_what_failed_and_was_withdrawn_is_not_written(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with recorded(model, path) as session:
        session.append("one")
        with pytest.raises(ConfigError):
            session.append(LONG * 20, pinned=True)
        with pytest.raises(ConfigError):
            session.generate(" ")
        session._listener = lambda event: session.cancel()
        with pytest.raises(CancelledError):
            session.append(LONG * 20)
        assert [event.type for event in session.generate(LONG * 20)][-1] == "finished"
        session._listener = None
        session.append("two")
        said = history(session)
    recording = Recording.load(path)
    assert [turn.type for turn in recording.turns] == ["append", "append"]
    with Session(model, **WIDE) as again:
        replay(recording, again)
        assert history(again) == said


def test_what_is_planned_and_pinned_while_a_turn_runs_comes_after_it(model: Model, tmp_path: Path) -> None:
    """Before it, the names of the turn are not there."""
    path = tmp_path / "s"
    with recorded(model, path) as session:
        session.append("one", name="one")

        def plan(event: events.Event) -> None:
            if isinstance(event, events.Progress) and event.done == event.total:
                session.plan = Plan([Step("a"), Step("b", ["two"])])
                session.step_done()
                session.pin("two")

        session._listener = plan
        session.append("two", name="two")
        session._listener = None
        for event in session.generate("three", name="three", max_tokens=2):
            if isinstance(event, events.Text):
                session.plan = Plan([Step("c", ["three"])])
        said = history(session)
    recording = Recording.load(path)
    assert [turn.type for turn in recording.turns] == ["append", "append", "pin", "plan", "generate", "plan"]
    assert recording.turns[3] == Planned((Step("b", ["two"]),))
    with Session(model, **WIDE) as again:
        replay(recording, again)
        assert history(again) == said


def test_a_plan_for_a_turn_that_was_withdrawn_is_not_written(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with recorded(model, path) as session:
        session.append("one", name="one")

        def plan(event: events.Event) -> None:
            if isinstance(event, events.Progress):
                session.plan = Plan([Step("b", ["two"])])
                session.pin("two")
                session.cancel()

        session._listener = plan
        with pytest.raises(CancelledError):
            session.append(LONG * 3, name="two")
        session._listener = None
        assert session.plan == Plan()
    assert [turn.type for turn in Recording.load(path).turns] == ["append"]


def test_a_plan_that_changes_nothing_is_not_written(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with recorded(model, path) as session:
        for _ in range(3):
            session.plan = Plan([Step("a")])
        session.step_done()
        session.plan = Plan()
        session.plan = Plan([Step("a")])
    assert [turn.type for turn in Recording.load(path).turns] == ["plan", "step_done", "plan"]


def test_a_killed_run_leaves_what_was_done(tiny_models: Path, load_tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "s"
    process = start(
        "import sys\n"
        "from pace_local import Model\n"
        "from pace_local.recording import RecordedSession\n"
        "with Model.load(sys.argv[1]) as model:\n"
        "    session = RecordedSession(model, sys.argv[2], budget=96, headroom=16, position_cap=160)\n"
        "    session.append('one')\n"
        "    list(session.generate('two', max_tokens=5))\n"
        "    for event in session.generate('three', max_tokens=10**9):\n"
        "        print(event.type, flush=True)\n",
        str(tiny_model(TALKER, tiny_models)),
        str(path),
    )
    assert any(line == "text\n" for line in process.stdout or ())
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    recording = Recording.load(path)
    assert [turn.type for turn in recording.turns] == ["append", "generate"]
    with Session(load_tiny(TALKER), **WIDE) as again:
        replay(recording, again)
        assert again.session_length == recording.length


def test_an_existing_file_is_left_alone(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(FileError, match="s is there already; give the recording another name or delete it"):
        recorded(model, path)
    assert path.read_text() == "precious"


def test_no_file_is_left_by_a_session_that_cannot_begin(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        recorded(model, tmp_path / "s", budget=1)
    with pytest.raises(ModelError):
        recorded(model, tmp_path / "s", enable_thinking=_Broken())
    assert list(tmp_path.iterdir()) == []


class _Broken:
    """Breaks the chat template."""

    def __hash__(self) -> int:
        raise ModelError("broken")


def test_a_folder_that_is_not_there(model: Model, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot write the recording .*: No such file or directory"):
        recorded(model, tmp_path / "none" / "s")


def test_a_full_disk(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session goes on; the recording ends before the turn, and nothing follows half a line."""
    path = tmp_path / "s"
    with recorded(model, path) as session:
        session.append("one")
        assert session._file is not None
        file = session._file._file
        assert file is not None
        write = file.write

        def half(text: str) -> int:
            write(text[:20])
            file.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(session._file, "_file", _Stream(file, half))
        with pytest.raises(StorageError, match="No space left on device"):
            session.append("two")
        assert "user:2" in session.segments
        session.append("three")
    recording = Recording.load(path)
    assert [turn.type for turn in recording.turns] == ["append"]
    assert recording.torn is not None


class _Stream:
    """A file whose ``write`` is another."""

    def __init__(self, file: Any, write: Callable[[str], int]) -> None:
        self.write, self.flush, self.close = write, file.flush, file.close


# Read


def test_a_torn_last_line_is_left_out_and_said(path: Path) -> None:
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    expected = Recording.load(path)
    for cut in (1, 30, len(lines[-1]) - 2):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:cut])
        recording = Recording.load(path)
        assert recording.turns == expected.turns[:-1]
        assert recording.torn == f"{path}: line {len(lines)} was never finished, and is left out"
        assert recording.digest != expected.digest
    path.write_bytes(whole[:-1])
    recording = Recording.load(path)
    assert (recording.turns, recording.torn, recording.digest) == (expected.turns, None, expected.digest)
    path.write_bytes(whole + b"\0" * 9)
    assert Recording.load(path).turns == expected.turns


def test_a_torn_line_in_the_midst_is_refused(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:20] + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(FileError, match=re.escape(f"{path}, line 3 is not valid JSON")):
        Recording.load(path)


@pytest.mark.parametrize("content", [b"", b'{"type":"sess'], ids=["empty", "torn"])
def test_a_file_without_a_whole_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(FileError, match="is no recording: it has no whole line"):
        Recording.load(tmp_path / "s")


@pytest.mark.parametrize("content", [b"hello\n", b"\xff\xfe\n", b"\n", b"[" * 100_000 + b"\n"])
def test_another_kind_of_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(FileError, match="line 1 is not valid JSON"):
        Recording.load(tmp_path / "s")


@pytest.mark.parametrize("name", ["none", "."])
def test_a_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot read the recording"):
        Recording.load(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "append"}, "it is not the header of a recording"),
        ({"format": 2}, "format 2 is not known; this version reads format 1"),
        ({"format": "1"}, "'format' is '1'; it must be of type int"),
        ({"model": None}, "'model' is None; it must be of type str"),
        ({"sha256": 5}, "'sha256' is 5; it must be of type str"),
        ({"config": []}, r"'config' is \[\]; it must be of type dict"),
        ({"config": {"policy": ["pace"]}}, r"'policy' is \['pace'\]; it must be of type str"),
        ({"config": {"policy": "pace", "budget": 1}}, "budget 1 is too small"),
        ({"config": {"policy": "pace", "size": 1}}, "unknown setting 'size'"),
    ],
)
def test_a_header_that_is_wrong(change: dict[str, Any], said: str, path: Path) -> None:
    lines = path.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), **change})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FileError, match=f"{re.escape(str(path))}, line 1: {said}"):
        Recording.load(path)


@pytest.mark.parametrize(
    ("number", "change", "said"),
    [
        (2, {"type": "forget"}, "turn 'forget' is not one of append, plan, step_done, pin, generate"),
        (2, {"text": 5}, "'text' is 5; it must be of type str"),
        (2, {"kind": "framing"}, "'kind' is 'framing', not one of system, user"),
        (2, {"pinned": 1}, "'pinned' is 1; it must be of type bool"),
        (3, {"next_use": True}, "'next_use' is True; it must be of type int"),
        (3, {"length": -1}, "'length' is -1; it must be 0 or more"),
        (3, {"checksum": None}, "'checksum' is None; it must be of type int"),
        (4, {"steps": {}}, "'steps' is {}; it must be of type list"),
        (4, {"steps": [5]}, "5 is no JSON object"),
        (4, {"steps": [{"text": "a", "reads": [1]}]}, "'reads' is [1]; it must be a list of strings"),
        (5, {"tokens": [1, "2"]}, "'tokens' is [1, '2']; it must be a list of token ids"),
        (5, {"tokens": [-1]}, "'tokens' is [-1]; it must be a list of token ids"),
        (5, {"end_token": 1.5}, "'end_token' is 1.5; it must be of type int"),
        (5, {"finish": "bored"}, "'finish' is 'bored', not one of stop, length, cancelled"),
        (7, {"name": "x" * 99, "pinned": "y" * 99}, f"'pinned' is '{'y' * 46}…; it must be of type bool"),
    ],
)
def test_a_turn_that_is_wrong(number: int, change: dict[str, Any], said: str, path: Path) -> None:
    lines = path.read_text().splitlines()
    lines[number - 1] = json.dumps({**json.loads(lines[number - 1]), **change})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FileError, match=f"{re.escape(str(path))}, line {number}: {re.escape(said)}"):
        Recording.load(path)


# ``pace ask --record``


def test_ask_records_its_session(tiny_models: Path, tmp_path: Path) -> None:
    tiny = tiny_model(TALKER, tiny_models)
    path = tmp_path / "asked.jsonl"
    words = ("ask", "-p", QUESTION, "--model", tiny, *SMALL, *write_project(tmp_path))
    plain, shown = run(*words), run(*words, "--record", path)
    assert (shown.code, shown.out) == (0, plain.out)
    recording = Recording.load(path)
    assert (recording.model, recording.sha256) == (tiny.stem, None)
    assert recording.session_config().budget == 1024
    *_, answer = recording.turns
    assert isinstance(answer, Generated)
    assert (answer.prompt, answer.text) == (QUESTION, shown.out.removesuffix("\n"))
    assert {turn.type for turn in recording.turns} == {"append", "plan", "generate"}
    with (
        Model.load(tiny) as model,
        Session(model, config=recording.session_config(policy="streaming", budget=512)) as again,
    ):
        replay(recording, again)
        assert again.session_length == recording.length
        assert again.text_of(again.segments.named("answer:1")) == answer.text


def test_ask_leaves_an_existing_recording_alone(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text("precious")
    said = refusal(run("ask", "-p", "x", "--model", "no/such.gguf", "--record", path))
    assert said == f"{path} is there already; give the recording another name or delete it"
    assert path.read_text() == "precious"
