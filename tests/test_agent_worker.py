"""What a worker is told and says, line by line; its channel, its descriptors and its log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_line import PATIENCE, environment

import pace_agent
from pace_agent.events import EVENTS, Ended, Warned, Wrote
from pace_agent.memory_view import HeldBytes, MemoryView, ResidentRun, SegmentRow
from pace_agent.worker.channel import Channel, read_lines
from pace_agent.worker.protocol import (
    COMMANDS,
    MESSAGES,
    Command,
    Died,
    GiveAnswer,
    Loading,
    Message,
    Note,
    Pin,
    Problem,
    Prompt,
    Quit,
    Ready,
    Reply,
    RunCommand,
    SegmentText,
    SetMode,
    SetPlan,
    View,
    as_dict,
    line_of,
    message_of,
    parse_command,
)
from pace_local.errors import ConfigError

VIEW = MemoryView(
    residents=(ResidentRun("system", "system", 0, 9, 10, "pinned", True),),
    budget=64,
    position_cap=None,
    next_position=10,
    session_tokens=20,
    resident_tokens=10,
    evicted=10,
    renumberings=1,
    segments=(SegmentRow("user:1", "user", 10, 0, None, None, False, False, "evicted"),),
    bytes=HeldBytes(1, 2, 3, 4, 5, 6, 7),
)


@pytest.mark.parametrize(
    "command",
    [
        Prompt("x\n\udc80\u2028", id="a"),
        GiveAnswer(7, "no", "use sum"),
        SetMode("accept-edits", id=3),
        SetPlan((("look", ("a.py", "b")), ("do", ()))),
        Note("[markup]"),
        RunCommand("ls | wc -l", id="b"),
        Quit(),
        *(COMMANDS[name]("a segment", id=1) for name in ("pin", "unpin", "evict", "recall", "inspect")),
        *(COMMANDS[name](id=1) for name in ("cancel", "undo", "quit")),
    ],
)
def test_commands_survive_the_pipe(command: Command) -> None:
    line = line_of(command)
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert parse_command(line) == command


@pytest.mark.parametrize(
    "message",
    [
        Loading(0.5, "a model"),
        Ready("s", "/log"),
        View(VIEW),
        Problem("no", True),
        SegmentText("a", "b"),
        Reply(3, False, "why"),
        Died(None, "SIGSEGV", ("last",), False),
        Wrote("x"),
        Ended("done", "r", 1, 2.0, ("a.py",)),
    ],
)
def test_messages_survive_the_pipe(message: Message) -> None:
    assert message_of(json.loads(line_of(message))) == message


def test_no_message_has_the_name_of_an_event() -> None:
    assert not set(MESSAGES) & set(EVENTS)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1]", "no JSON object"),
        (b"{}", "no command is of type None"),
        (b'{"type": "fly"}', "no command is of type 'fly'; known are prompt"),
        (b'{"type": ["prompt"]}', "no command is of type"),
        (b'{"type": "prompt"}', "'prompt' cannot be used: prompt: Field required"),
        (b'{"type": "prompt", "prompt": 5}', "prompt: Input should be a valid string"),
        (b'{"type": "mode", "mode": "yolo"}', "mode: Input should be 'plan'"),
        (b'{"type": "answer", "id": "x", "scope": "once"}', "id: Input should be a valid integer"),
        (b'{"type": "answer", "id": 1, "scope": "ever"}', "scope: Input should be 'once'"),
        (b'{"type": "plan", "steps": [["a"]]}', "steps.0"),
    ],
)
def test_a_broken_command_says_what_is_wrong_with_it(line: bytes, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_command(line)
    message = str(raised.value)
    assert said in message
    assert "\n" not in message
    assert len(message) < 500


def test_fields_of_a_later_version_are_left_out() -> None:
    assert parse_command(b'{"type": "pin", "segment": "a", "colour": 3}') == Pin("a")
    assert message_of({**as_dict(Ready("s")), "more": 1}) == Ready("s")


def test_lines_come_whole_and_long_ones_are_left_out() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, True)

    def write() -> None:
        for part in (b"a", b"bc\n\nd", b"e\n", b"x" * 200_000 + b"y\nz\n", b"no end"):
            os.write(writing, part)
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    assert list(read_lines(reading, 100_000)) == [b"abc", b"", b"de", None, b"z"]
    thread.join()
    os.close(reading)


def test_a_channel_waits_for_nobody_and_keeps_the_order() -> None:
    reading, writing = os.pipe()
    channel = Channel(writing)
    lines = [b"%d " % number + b"x" * 1_000_000 + b"\n" for number in range(8)]
    for number, line in enumerate(lines):  # nobody reads: if it waited, it would do so for ever
        channel.say_latest(b"view %d\n" % number)
        channel.say(line)
    assert not channel.flush(0.05)
    with open(reading, "rb") as file:
        # The first may have been on its way already; of those after it only the last is said.
        got = [file.readline() for _ in range(9)]
        if got[0] == b"view 0\n":
            got = [*got[1:], file.readline()]
        assert got == [*lines, b"view 7\n"]
        assert channel.flush(5)


def test_a_channel_that_nobody_reads_any_more_says_so_once() -> None:
    reading, writing = os.pipe()
    broken = threading.Semaphore(0)
    channel = Channel(writing, on_broken=broken.release)
    os.close(reading)
    channel.say(b"a\n")
    assert broken.acquire(timeout=5)
    channel.say(b"b\n")
    assert not channel.flush(1)
    assert not broken.acquire(timeout=0.1)


def start(*options: str, close: bool = False) -> subprocess.Popen[bytes]:
    """Start the real program by hand, without a client; with ``close``, its stderr is closed."""
    home = str(Path(pace_agent.__file__).parent.parent)
    command = [sys.executable, "-m", "pace_agent.worker", *options]
    words = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command] if close else command
    environ = environment()
    environ["PYTHONPATH"] = os.pathsep.join([home, environ["PYTHONPATH"]])
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=environ)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_models: Path) -> list[str]:
    """Options for a small folder and a tiny model."""
    from session_pair import TALKER

    from pace_local.testing import tiny_model

    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "PACE_AGENTS_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/a.py").write_text("RATE = 19\n")
    model = tiny_model(TALKER, tiny_models)
    return ["--repo", str(tmp_path / "shop"), "--model", str(model), "--budget", "4096"]


def test_broken_lines_are_answered_and_ignored_and_the_end_of_stdin_means_quit(
    place: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["It is 19."]))
    # By hand, without a client: what is said goes to stdout, and all else nowhere near it.
    process = start(*place, "--script", str(script), "--no-save")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"nonsense\n\n{}\n" + line_of(Prompt("What is RATE?", id=1)))
    process.stdin.flush()
    said: list[Message] = []
    while not any(isinstance(message, Ended) for message in said):
        said.append(message_of(json.loads(process.stdout.readline())))
    process.stdin.close()
    rest = process.stdout.read()
    assert process.wait(PATIENCE) == 0
    said += [message_of(json.loads(line)) for line in rest.splitlines()]
    problems = [message for message in said if isinstance(message, Problem)]
    assert [problem.fatal for problem in problems] == [False, False]
    assert "no JSON" in problems[0].message
    assert any(isinstance(message, Loading) and message.share == 1.0 for message in said)
    warned = [message.message for message in said if isinstance(message, Warned)]
    assert any("is not trusted" in message for message in warned)  # for a screen, not for the log
    assert next(message.result for message in said if isinstance(message, Ended)) == "It is 19."
    assert Reply(1, True) in said
    assert any(isinstance(message, View) for message in said)
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()


def test_a_script_that_cannot_be_read(place: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"a": 1}')
    for name, said in (("bad.json", "no JSON list of texts"), ("gone.json", "cannot be read")):
        with start(*place, "--script", str(tmp_path / name)) as process:
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()  # stdin stays open: its end would mean to quit
            assert process.wait(PATIENCE) == 2
        problem = message_of(json.loads(lines[-1]))
        assert isinstance(problem, Problem)
        assert problem.fatal
        assert said in problem.message


def test_without_a_stderr_nothing_gets_into_the_protocol(place: list[str]) -> None:
    with start(*place, close=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while not isinstance(message_of(json.loads(process.stdout.readline())), Ready):
            pass
        process.stdin.close()
        for line in process.stdout:
            message_of(json.loads(line))
        assert process.wait(PATIENCE) == 0
