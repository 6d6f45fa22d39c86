from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from command_line import PATIENCE, environment, is_one_line_error, start
from git_repositories import repository

from pace_agent import cli
from pace_agent.commands import opening
from pace_agent.commands.run import read_prompt
from pace_agent.events import AgentEvent, Ended, EndReason, Wrote
from pace_agent.reporting.run_summary import EXIT_CODES
from pace_agent.settings.config import KEYS
from pace_agent.settings.config_file import Loaded
from pace_agent.settings.trust import TrustStore
from pace_agent.testing import FakeAgent
from pace_local import cli as library_cli
from pace_local.errors import CancelledError, ConfigError, ModelError, StorageError
from pace_local.models.choose import config_path

DONE = [Wrote("it is "), Ended("done", "it is done", 2, 1.5)]
OWN = ("run", "watch", "history", "config")

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "repository")


class Opened:
    """Stands for the opening of an agent, and remembers what was to be opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.agent = FakeAgent()
        self.arguments: list[argparse.Namespace] = []
        self.loaded: list[Loaded] = []
        self.closing: Exception | None = None
        monkeypatch.setattr(opening, "open_agent", self._open)

    def script(self, *runs: Iterable[AgentEvent]) -> None:
        self.agent = FakeAgent(runs)

    @contextlib.contextmanager
    def _open(
        self, arguments: argparse.Namespace, repository: Path, loaded: Loaded, stop: Any
    ) -> Iterator[Any]:
        self.arguments.append(arguments)
        self.loaded.append(loaded)
        with self.agent, stop.calling(self.agent.cancel):
            yield self.agent
        if self.closing is not None:
            raise self.closing


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    made = Opened(monkeypatch)
    made.script(DONE)
    return made


def run(root: Path, *words: str) -> int:
    return cli.main(["run", "--repo", str(root), *words])


# The command line


def test_the_agent_s_commands_come_with_the_library_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    names = re.findall(r"^    (\w+) ", out, re.MULTILINE)
    assert names == [*OWN, *(command.name for command in library_cli.COMMANDS)]
    assert len(set(names)) == len(names)


def test_the_library_alone_has_its_own_commands() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pace_local.cli", "--help"],
        capture_output=True,
        encoding="utf-8",
        env=environment(PYTHONPATH=str(Path(library_cli.__file__).parent.parent)),
    )
    assert ended.returncode == 0
    assert "ask about files" in ended.stdout
    assert not re.search(r"^    (run|watch|history|config) ", ended.stdout, re.MULTILINE)


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("frobnicate",), ()], ids=" ".join)
def test_what_needs_no_command_imports_none(words: Sequence[str]) -> None:
    heavy = [
        *("numpy", "llama_cpp", "psutil", "jinja2", "gguf", "pydantic", "tree_sitter", "watchdog"),
        *("pace_local._native", "pace_local.models", "pace_local.session", "pace_agent.events"),
    ]
    script = (
        "import sys\nfrom pace_agent import cli\n"
        f"try: cli.main({list(words)})\n"
        "except SystemExit: pass\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", env=environment(), check=True
    )
    assert ended.stderr.splitlines()[-1] == "[]"


def test_the_cheap_help_is_the_whole_help() -> None:
    parsers = [library_cli.build_parser(*names, more=cli.COMMANDS) for names in ((), ("",))]
    assert parsers[0].format_help() == parsers[1].format_help()


@pytest.mark.parametrize("name", OWN)
def test_help_of_each_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: pace {name} ")
    parser = library_cli.build_parser(name, more=cli.COMMANDS)
    below = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    command = below.choices[name]
    assert command.description
    assert all(action.help for action in command._actions)
    summary = next(each.summary for each in cli.COMMANDS if each.name == name)
    assert any(choice.dest == name and choice.help == summary for choice in below._choices_actions)


def test_help_says_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    out = capsys.readouterr().out
    assert all(re.search(rf"\b{code}\b", out) for code in (*EXIT_CODES.values(), 2))


def test_verbose_hears_the_agent_too(root: Path, opened: Opened, capsys: pytest.CaptureFixture[str]) -> None:
    loggers = [logging.getLogger(name) for name in ("pace_local", "pace_agent")]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    try:
        opened.script(iter(_logging(loggers[1])))
        assert run(root, "--verbose", "-p", "go") == 0
    finally:
        for logger, (level, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.handlers[:] = handlers
    assert "pace_agent: heard" in capsys.readouterr().err


def _logging(logger: logging.Logger) -> Iterator[AgentEvent]:
    logger.debug("heard")
    yield from DONE


# pace run


def test_a_run_prints_its_result(root: Path, opened: Opened, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "-p", "do it") == 0
    out, err = capsys.readouterr()
    assert out == "it is done\n"
    assert err.endswith("done  (1.5 s, 2 turns)\n")
    assert [one.prompt for one in opened.agent.taken] == ["do it"]
    assert opened.agent.is_closed


@pytest.mark.parametrize("reason", get_args(EndReason))
def test_how_a_run_ended_is_the_exit_code(root: Path, opened: Opened, reason: EndReason) -> None:
    opened.script([Ended(reason, "", 1, 1.0)])
    assert run(root, "-p", "go") == EXIT_CODES[reason]


def test_options_are_settings(root: Path, opened: Opened, tmp_path: Path) -> None:
    words = [
        "--mode",
        "auto",
        "--model",
        "m.gguf",
        "--budget",
        "1024",
        "--policy",
        "h2o",
        "--style",
        "guided",
    ]
    limits = ["--max-turns", "5", "--time-limit", "60", "--check", "make test", "--add-dir", str(tmp_path)]
    assert run(root, "-p", "go", *words, *limits) == 0
    config = opened.loaded[0].config
    assert (config.mode, config.model, config.budget, config.policy) == ("auto", "m.gguf", 1024, "h2o")
    assert (config.style, config.check, config.max_turns) == ("guided", "make test", 5)
    assert opened.arguments[0].add_dir == [str(tmp_path)]
    assert [(one.max_turns, one.time_limit) for one in opened.agent.taken] == [(5, 60.0)]


def test_the_prompt_may_come_from_stdin(root: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.script(DONE, DONE)
    for words in ([], ["-p", "-"]):
        with open(_file(root.parent / "prompt", "größer machen\n"), encoding="latin-1") as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert run(root, *words) == 0
    assert [one.prompt for one in opened.agent.taken] == ["größer machen\n"] * 2


@pytest.mark.parametrize(
    ("given", "message"),
    [(b"", "the prompt is empty"), (b" \n\t", "the prompt is empty"), (b"a\xff", "byte 0xFF at offset 1")],
)
def test_what_is_no_prompt(
    root: Path,
    opened: Opened,
    given: bytes,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = root.parent / "prompt"
    path.write_bytes(given)
    with path.open(encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert run(root) == 2
    err = capsys.readouterr().err
    assert is_one_line_error(err)
    assert message in err
    assert opened.arguments == []


def test_without_a_prompt_at_a_terminal_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(ConfigError, match="give -p PROMPT"):
        read_prompt(None)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigError, match="stdin is closed"):
        read_prompt(None)
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_prompt("a\udcff")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--repo", "nowhere"), "'nowhere' is not there; give a folder"),
        (("--repo", "~no-such-user-here"), "'~no-such-user-here' is not there; give a folder"),
        (("--repo", "file"), "'file' is a file, not a folder"),
        (("--add-dir", "file"), "--add-dir 'file' is no folder"),
        (("--add-dir", "~no-such-user-here"), "--add-dir '~no-such-user-here' is no folder"),
        (("--max-turns", "0"), "max_turns is 0"),
        (("--budget", "1"), "budget is 1"),
        (("--time-limit", "0"), "--time-limit 0 is out of range"),
        (("--time-limit", "nan"), "--time-limit nan is out of range"),
        (("-o", "."), "'.': it is a folder"),
        (("-o", "no/file"), "'no/file': no such folder"),
        (("-p", ""), "the prompt is empty"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_said_in_a_line(
    root: Path,
    opened: Opened,
    words: Sequence[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _file(root / "file", "x")
    monkeypatch.chdir(root)
    assert cli.main(["run", "-p", "go", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, is_one_line_error(err)) == ("", True)
    assert message in err
    assert cli.main(["run", "--output-format", "stream-json", "-p", "go", *words]) == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["type"], told["exit_code"]) == ("error", 2)
    assert message in told["message"]
    assert opened.arguments == []


@pytest.mark.parametrize(
    "words",
    [
        ("--mode", "yolo"),
        ("--policy", "lru"),
        ("--style", "free"),
        ("--output-format", "xml"),
        ("--max-turns", "many"),
        ("--continue", "--no-save"),
        ("--continue", "--resume", "a"),
        ("stray",),
    ],
    ids=" ".join,
)
def test_usage_errors(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["run", "-p", "go", *words])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: pace ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--continue",), "there is no session of"),
        (("--resume", "tide"), "there is no session tide"),
        (("--resume", ""), "'' is no name of a session"),
        (("--resume", "../tide"), "'../tide' is no name of a session"),
    ],
    ids=str,
)
def test_a_session_that_is_not_there_is_no_success(
    root: Path, words: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "-p", "go", *words, "--output-format", "json") == 2
    out, err = capsys.readouterr()
    assert message in err.splitlines()[-1]
    assert message in json.loads(out)["error"]


def test_an_error_of_a_run_is_told_once(
    root: Path, opened: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    def events() -> Iterator[AgentEvent]:
        raise ModelError("it is broken")
        yield

    opened.script(events())
    assert run(root, "-p", "go", "--output-format", "json") == 2
    assert json.loads(capsys.readouterr().out)["error"] == "it is broken"


def test_a_session_that_cannot_be_saved_is_no_success(
    root: Path, opened: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    opened.closing = StorageError("no room is left")
    assert run(root, "-p", "go", "--output-format", "json") == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["reason"] == "done"
    assert err.endswith("pace: no room is left\n")


def test_a_cancel_that_comes_too_late_changes_nothing(root: Path, opened: Opened) -> None:
    opened.closing = CancelledError("cancelled")
    assert run(root, "-p", "go") == 0


# Trust, and notes on the place


def test_a_folder_is_trusted_when_that_is_said(
    root: Path, opened: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    opened.script(DONE, DONE, DONE)
    _file(root / ".pace" / "config.toml", "budget = 1111\n")
    assert run(root, "-p", "go") == 0
    err = capsys.readouterr().err
    assert f"{root} is not trusted" in err
    assert "warning: " in err
    assert not TrustStore().is_trusted(root)
    assert run(root, "-p", "go", "--trust") == 0
    assert run(root, "-p", "go") == 0
    assert "not trusted" not in capsys.readouterr().err
    assert [loaded.config.budget for loaded in opened.loaded] == [2048, 1111, 1111]


def test_a_folder_without_git_works(
    tmp_path: Path, root: Path, opened: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    opened.script(DONE, DONE)
    plain = tmp_path / "plain"
    plain.mkdir()
    assert run(plain, "-p", "go") == 0
    assert "is in no git repository" in capsys.readouterr().err
    (root / "below").mkdir()
    assert run(root / "below", "-p", "go") == 0
    assert "is in no git repository" not in capsys.readouterr().err


# pace config


def test_config_shows_every_setting(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_BUDGET", "1500")
    assert cli.main(["config", "--repo", str(root)]) == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"^{key} = ", out, re.MULTILINE) for key in KEYS)
    assert "budget = 1500  (from PACE_BUDGET)" in out


def test_config_writes_a_file_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "--path"]) == 0
    path = Path(capsys.readouterr().out.rstrip("\n"))
    assert path == config_path()
    assert cli.main(["config", "--init"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text(encoding="utf-8")
    assert all(f"# {key} = " in text for key in KEYS)
    path.write_text("budget = 999\n", encoding="utf-8")
    assert cli.main(["config", "--init"]) == 2
    assert is_one_line_error(err := capsys.readouterr().err)
    assert "is there already" in err
    assert path.read_text(encoding="utf-8") == "budget = 999\n"
    assert cli.main(["config", "--repo", str(root)]) == 0
    assert f"budget = 999  (from {path})" in capsys.readouterr().out


def test_config_where_no_folder_can_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    config_path().parent.parent.parent.mkdir(parents=True)
    _file(config_path().parent.parent, "a file in its way")
    assert cli.main(["config", "--init"]) == 2
    assert is_one_line_error(err := capsys.readouterr().err)
    assert "cannot write" in err


def _file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# Processes

SCRIPT = """
import contextlib, sys, time
from pace_agent.cli import main
from pace_agent.commands import opening
from pace_agent.events import Called, Ended, Turned, Wrote
from pace_agent.testing import FakeAgent

class Deaf(FakeAgent):
    def cancel(self):
        print("asked to stop", file=sys.stderr, flush=True)

@contextlib.contextmanager
def open_agent(arguments, repository, loaded, stop):
    with AGENT as agent, stop.calling(agent.cancel):
        yield agent
    print("closed", file=sys.stderr, flush=True)

opening.open_agent = open_agent
EVENTS = [Called(number, "read", {"path": "a"}) for number in range(1, 10_000)]
AGENT = KIND([EVENTS], delay=0.02)
sys.exit(main())
"""


def started(root: Path, *words: str, kind: str = "FakeAgent") -> subprocess.Popen[str]:
    process = start(SCRIPT.replace("KIND", kind), "run", "--repo", str(root), "-p", "go", *words)
    assert process.stderr is not None
    while "read a" not in process.stderr.readline():
        assert process.poll() is None
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels(root: Path, number: signal.Signals) -> None:
    process = started(root, "--output-format", "json")
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert json.loads(out)["reason"] == "cancelled"
    assert "closed" in err
    assert "Traceback" not in err


def test_the_second_signal_ends_at_once(root: Path) -> None:
    process = started(root, kind="Deaf")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while process.stderr.readline() != "asked to stop\n":
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert "closed" not in err


def test_the_time_limit(root: Path) -> None:
    process = started(root, "--time-limit", "0.5", "--output-format", "stream-json")
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 124
    assert json.loads(out.splitlines()[-1])["reason"] == "time"


@pytest.mark.parametrize("output", ["text", "stream-json"])
def test_a_reader_that_goes_away_ends_the_run(root: Path, output: str) -> None:
    process = started(root, "--output-format", output)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE) == 1
    assert "cancelled" in err
    assert "closed" in err
    assert "Traceback" not in err
    assert "Exception ignored" not in err


def test_without_stdout_and_stderr(root: Path) -> None:
    script = "import sys; sys.stdout = sys.stderr = None\n" + SCRIPT.replace("KIND", "FakeAgent").replace(
        "10_000", "3"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, "run", "--repo", root, "-p", "go"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        env=environment(),
    )
    assert ended.returncode == 0, ended.stderr
    assert os.linesep.encode() not in ended.stdout
