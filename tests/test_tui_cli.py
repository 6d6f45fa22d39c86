"""The command ``pace`` without a command: what it says where the screen cannot be opened."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from pace_local.errors import ConfigError
from pace_tui import cli, launch, open_command
from pace_tui.connecting import connect_to
from pace_tui.launch import Launch, exit_code

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """What the screen would be opened with."""
    found: list[Launch] = []
    for module in (launch, open_command):
        monkeypatch.setattr(module, "open_screen", lambda launch: found.append(launch) or 0)
    return found


def test_without_a_terminal_it_says_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == ConfigError.exit_code
    assert "pace run" in capsys.readouterr().err


def test_without_words_nothing_is_imported_that_the_first_paint_does_not_need() -> None:
    code = (
        "import sys\nfrom pace_tui import cli, launch\n"
        "launch.open_screen = lambda launch: print(*sys.modules) or 0\ncli.main([])"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert not done.stderr
    loaded = set(done.stdout.split())
    assert "textual.app" in loaded
    slow = {"numpy", "pydantic", "llama_cpp", "pace_local.session", "pace_agent.agent", "tree_sitter_python"}
    assert not loaded & slow


def test_options_without_a_command_open_the_screen(launched: list[Launch], tmp_path: Path) -> None:
    words = [
        "--repo",
        str(tmp_path),
        "--model",
        "a",
        "--budget",
        "100",
        "--trust",
        "--add-dir",
        str(tmp_path),
    ]
    assert cli.main(words) == 0
    assert cli.main(["open", *words, "--no-save"]) == 0
    assert launched[0] == Launch(
        Path(os.path.realpath(tmp_path)),
        ("--add-dir", str(tmp_path)),
        {"model": "a", "budget": "100"},
        is_trusting=True,
    )
    assert not launched[1].is_kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "many"], "invalid int value"),
        (["--nonsense"], "unrecognized arguments"),
        (["nonsense"], "invalid choice"),
        (["--repo", "not-there"], "not there"),
        (["--resume", "not-there"], "not-there"),
        (["--continue"], "no session"),
    ],
)
def test_what_cannot_be_used_is_said_before_the_screen_is_opened(
    words: list[str], said: str, launched: list[Launch], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: Any = cli.main(words)
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert said in capsys.readouterr().err
    assert not launched


def test_the_help_names_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "open the screen" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "is_kept", "expected"),
    [
        ({}, True, []),
        ({}, False, ["--no-save"]),
        ({"resume": "s", "model": "-x"}, False, ["--model=-x", "--resume", "s"]),
        ({"trust": ""}, True, ["--trust"]),
    ],
)
def test_what_the_process_is_started_with(
    options: dict[str, str], is_kept: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Fake:
        def __init__(self, words: list[str], *, kept: list[str], listener: object) -> None:
            seen.extend([*words, *kept])

        def start(self) -> None:
            pass

    monkeypatch.setattr("pace_agent.worker.client.Worker", Fake)
    connect_to(["--repo", "r"], is_kept=is_kept)(options, lambda received: None)
    assert seen == ["--repo", "r", *expected]


@pytest.mark.parametrize(("act", "code"), [("crash", 1), ("quit", 0), ("signal", 143)])
def test_the_exit_code_says_that_the_screen_has_crashed(act: str, code: int) -> None:
    class Ending(App[int]):
        def on_mount(self) -> None:
            if act == "crash":
                raise ValueError("a fault")
            self.exit(code)

    async def run() -> tuple[Ending, int | None]:
        app = Ending()
        return app, await app.run_async(headless=True)

    assert exit_code(*asyncio.run(run())) == code
