"""``docs/agent.md``: its examples run, and what it names is there."""

from __future__ import annotations

import argparse
import builtins
import dataclasses
import functools
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_runs import DONE, EDIT, PLAN, SHOP, call, make_repository
from session_pair import TALKER

import pace_agent
from pace_agent import cli
from pace_agent.agent import Agent
from pace_agent.events import Ended
from pace_agent.headless import print_error
from pace_agent.plugins import GROUP
from pace_agent.reporting.run_summary import EXIT_CODES, RunSummary
from pace_agent.safety.permissions import Mode
from pace_agent.sessions.places import AGENTS_DIR_VARIABLE
from pace_agent.settings.config import KEYS, AgentConfig
from pace_agent.settings.config_file import read_settings
from pace_agent.style import CALLS_TOOLS_FROM
from pace_agent.tools import make_tools
from pace_local import Model
from pace_local import cli as library_cli
from pace_local.errors import ConfigError
from pace_local.models import model_info
from pace_local.testing import Script, tiny_model

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = (Path(__file__).parent.parent / "docs" / "agent.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TOMLS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROSE = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
QUOTED = re.findall(r"`([^`\n]+)`", PROSE)

FIXED = SHOP["shop/cart.py"].replace("prices[1:]", "prices")


class Reader:
    """Somebody who has a model, and runs what the page shows in the folder of their repository."""

    def __init__(self, folder: Path, loaded: list[str], written: Callable[[list[str]], None]) -> None:
        self.shop = make_repository(folder / "shop", SHOP)
        self.loaded = loaded
        self.script = written

    def runs(self, example: str) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(example, "docs/agent.md", "exec"), names)
        return names

    @property
    def cart(self) -> str:
        return (self.shop / "shop/cart.py").read_text(encoding="utf-8")


@pytest.fixture
def reader(tmp_path: Path, tiny_models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Models are tiny and say what a script has; a token of theirs is a byte, so the budget is larger."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", AGENTS_DIR_VARIABLE):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    loaded: list[str] = []
    lines: list[str] = []
    writer = Script(iter(lambda: lines.pop(0), None))
    load = Model.load

    def load_tiny(name: str) -> Model:
        loaded.append(name)
        return load(tiny_model(TALKER, tiny_models))

    def agent(*arguments: Any, config: AgentConfig | None = None, **named: Any) -> Agent:
        larger = (config or AgentConfig()).replace(budget=4096, position_cap=16384)
        return Agent(*arguments, config=larger, writer=writer, **named)

    monkeypatch.setattr(Model, "load", load_tiny)
    monkeypatch.setattr(pace_agent, "Agent", agent, raising=False)
    yield Reader(tmp_path, loaded, lines.extend)
    assert lines == [], "the example ended before the script did"


def test_there_are_three_examples() -> None:
    assert len(EXAMPLES) == 3


def test_a_task_is_run_and_its_events_are_printed(reader: Reader, capsys: pytest.CaptureFixture[str]) -> None:
    reader.script([PLAN, "I correct it.\n" + EDIT, DONE])
    reader.runs(EXAMPLES[0])
    out = capsys.readouterr().out
    assert reader.cart == FIXED
    assert out.startswith("I correct it.\n--- ")
    assert "+    for price in prices:\n" in out
    assert out.endswith("done: total adds all (3 turns, 0 plan misses)\n")


def test_a_user_is_asked_and_a_tool_is_added(
    reader: Reader, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = ["a", "y"]
    monkeypatch.setattr(builtins, "input", lambda question: replies.pop(0))
    deploy = call("deploy", stage="test")
    reader.script([PLAN, EDIT, EDIT.replace("prices", "19"), deploy, call("done", result="it is there")])
    names = reader.runs(EXAMPLES[1])
    out = capsys.readouterr().out
    assert replies == []
    assert reader.cart == FIXED
    assert re.search(r"^edit: shop/cart\.py \(.+\)\n--- ", out, re.MULTILINE)
    assert re.search(r'^deploy: deploy {"stage": "test"} \(deploy may change something\)$', out, re.MULTILINE)
    assert out.endswith("it is there\n")
    assert names["ended"].reason == "done"


def test_a_reply_in_words_is_a_no(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "input", lambda question: "use sum() instead")
    reader.script([PLAN, EDIT, call("done", result="as you wish")])
    ended = reader.runs(EXAMPLES[1])["ended"]
    assert ended.reason == "refused"
    assert "use sum() instead" in ended.result
    assert reader.cart == SHOP["shop/cart.py"]


def test_a_session_is_kept_gone_on_with_and_undone(
    reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    reader.script([PLAN, EDIT, DONE, "It is 19."])
    names = reader.runs(EXAMPLES[2])
    out = capsys.readouterr().out
    assert out.endswith("It is 19.\nas before: shop/cart.py\n")
    assert reader.cart == SHOP["shop/cart.py"]
    assert names["undone"].number == 1


# What the page names


def parsers() -> Iterator[argparse.ArgumentParser]:
    top = library_cli.build_parser(more=cli.COMMANDS)
    below = next(each for each in top._actions if isinstance(each, argparse._SubParsersAction))
    own = {command.name for command in cli.COMMANDS}
    yield from (parser for name, parser in below.choices.items() if name in own)


def options(parser: argparse.ArgumentParser) -> set[str]:
    return {option for action in parser._actions for option in action.option_strings}


def test_options() -> None:
    there = set().union(*map(options, parsers()))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE))
    assert named <= there
    assert len(named) > 15
    run = next(parser for parser in parsers() if parser.prog.endswith(" run"))
    rarely = {
        "--help",
        "--verbose",
        "--repo",
        "--prompt",
        "--output",
    }  # those with a short form, and usual ones
    assert {option for option in options(run) if option.startswith("--")} - rarely <= named


def test_exit_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
    named = {int(code): set(re.findall(r"`([a-z_]+)`", words)) for code, words in rows}
    assert named.pop(2) == set()
    there: dict[int, set[str]] = {}
    for reason, code in EXIT_CODES.items():
        there.setdefault(code, set()).add(reason)
    assert named == there


def test_fields_of_a_result() -> None:
    (fields,) = re.findall(r"^The object has (.+?);", PAGE, re.MULTILINE | re.DOTALL)
    (parts,) = re.findall(r"`tokens`\s+\((.+?)\)", fields, re.DOTALL)
    summary = RunSummary()
    summary.take(Ended("done", "", 1, 0.0))
    document = summary.document()
    assert re.findall(r"`(\w+)`", parts) == list(document["tokens"])
    assert re.findall(r"`(\w+)`", fields.replace(parts, "")) == list(document)
    (broken,) = re.findall(r"could not start\s+(.+?)\. ", PAGE, re.DOTALL)
    out = io.StringIO()
    print_error(ConfigError("no"), "json", out)
    assert set(re.findall(r"`(\w+)`", broken)) == set(json.loads(out.getvalue()))


def test_modes_and_tools() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert [mode for mode, _ in rows] == [mode.value for mode in Mode]
    assert [mode for mode, words in rows if "default" in words] == [AgentConfig.mode]
    (line,) = re.findall(r"^The tools are (.+?)\. ", PAGE, re.MULTILINE)
    tools = make_tools(SimpleNamespace())  # type: ignore[arg-type]
    assert re.findall(r"`(\w+)`", line) == [tool.name for tool in tools]


def test_settings(tmp_path: Path) -> None:
    settings, plugin = TOMLS
    (tmp_path / "config.toml").write_text(settings, encoding="utf-8")
    config = AgentConfig(**read_settings(tmp_path / "config.toml"))
    assert model_info(config.model).parameters >= CALLS_TOOLS_FROM
    for setting in re.findall(r"`--([a-z]+)`, |`--([a-z]+)` and ", PROSE.split("are settings too")[0][-80:]):
        assert "".join(setting) in KEYS
    assert tomllib.loads(plugin) == {"project": {"entry-points": {GROUP: {"deploy": "shop_tools:deploy"}}}}
    assert f"{CALLS_TOOLS_FROM // 10**9} billion parameters" in PAGE
    assert f"`{AGENTS_DIR_VARIABLE}`" in PAGE


@pytest.mark.parametrize(
    "name", [each for each in QUOTED if re.fullmatch(r"(pace_agent|Agent)(\.\w+)+(\(\))?", each)]
)
def test_names_of_python_are_there(name: str) -> None:
    if name == GROUP:
        return
    words = name.removesuffix("()").split(".")
    if words[0] == "Agent":
        functools.reduce(getattr, words[1:], Agent)
    else:
        module = __import__(".".join(words[:-1]), fromlist=words[-1:])
        assert dataclasses.is_dataclass(getattr(module, words[-1]))


def test_models_in_examples_are_of_the_registry() -> None:
    names = re.findall(r'Model\.load\("(.+?)"\)', PAGE)
    assert len(names) == 3
    # A tool is added for a model that can call one.
    assert model_info(names[1]).parameters >= CALLS_TOOLS_FROM
    assert all(model_info(name) for name in names)
