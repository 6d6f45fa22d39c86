"""``pace history``: the agent's sessions are listed, shown and deleted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_runs import SHOP, Runs, call, make_repository, plan
from command_line import is_one_line_error
from session_pair import TALKER

from pace_agent import cli
from pace_agent.events import (
    AgentEvent,
    Called,
    Changed,
    Decided,
    Ended,
    Memory,
    Missed,
    Planned,
    Prompted,
    Returned,
    Started,
    StepStarted,
    StepView,
    Turned,
    Undone,
)
from pace_agent.sessions.log import SessionFolder, session_path
from pace_local import Model
from pace_local.sessions.folder import log_path
from pace_local.testing import TinySpec

DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d"


@pytest.fixture(autouse=True)
def own_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACE_AGENTS_DIR", str(tmp_path / "agents"))
    return tmp_path / "agents"


def kept(name: str, repository: Path, *events: AgentEvent, used: float = 1_800_000_000) -> Path:
    """A session that nobody has, with these events."""
    repository.mkdir(exist_ok=True)
    with SessionFolder.create(name, repository) as folder:
        for event in events:
            folder.log(event)
        folder.kv.mkdir()
        log_path(folder.kv).touch()
    os.utime(folder.path / "events.jsonl", (used, used))
    return folder.path


def history(*words: str) -> int:
    return cli.main(["history", *words])


def test_sessions_are_listed_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop, fleet = tmp_path / "shop", tmp_path / "fleet"
    kept("old", shop, Prompted("first", "prompt:1", 1), Prompted("second", "prompt:2", 2))
    kept("new", shop, Prompted("a\x1b[31m\n" + "b" * 200, "prompt:1", 1), used=1_800_000_060)
    kept("other", fleet, used=1_800_000_120)
    (kept("broken", shop) / "session.json").write_text("{")
    log_path(kept("dead", fleet, used=1_800_000_010) / "kv").unlink()
    with SessionFolder.open("old"):
        assert history("--repo", str(shop)) == 0
        lines = capsys.readouterr().out.splitlines()
        assert history("--repo", str(shop), "--json") == 0
        rows = json.loads(capsys.readouterr().out)
    assert len(lines) == 3
    assert re.fullmatch(r"ID +LAST USED +PROMPTS +FIRST PROMPT +STATE", lines[0])
    assert re.fullmatch(rf"new +{DATE}  1 +a·\[31m↵b+ … \d+ characters … b+  ready", lines[1])
    assert re.fullmatch(
        rf"old +{DATE}  2 +first +in use by this process \({os.getpid()}\) since .+", lines[2]
    )
    assert [row["id"] for row in rows] == ["new", "old"]
    assert (rows[1]["prompts"], rows[1]["first_prompt"], rows[1]["repository"]) == (2, "first", str(shop))
    assert [row["in_use"] and row["in_use"]["pid"] for row in rows] == [None, os.getpid()]

    assert history("--repo", "~no-such-user-here") == 0
    assert "no session is about" in capsys.readouterr().err
    assert history("--all") == 0
    everything = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in everything] == ["ID", "other", "new", "dead", "old", "broken"]
    assert re.fullmatch(rf"other +{fleet} +{DATE}  0 +–  +ready", everything[1])
    assert "broken: session dead was ended before it began" in everything[3]
    assert "broken: " in everything[5]


def test_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept("other", tmp_path / "fleet")
    monkeypatch.chdir(tmp_path)
    assert history() == 0
    assert history("--json") == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("[]\n", f"no session is about {tmp_path}; --all lists those of all repositories\n")
    assert history("delete", "other") == 0
    capsys.readouterr()
    assert history("--all") == 0
    assert capsys.readouterr() == ("", f"no session is in {tmp_path / 'agents'}\n")


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def test_what_an_agent_did_is_shown(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = make_repository(tmp_path / "shop", SHOP)
    edit = call("edit", path="shop/cart.py", search="prices[1:]", replacement="prices")
    steps = plan(("correct total", ["shop/cart.py"]), ("look at the readme", ["README.md"]))
    read = call("read", path="tests/test_cart.py")
    lines = [steps, read, edit, call("done", result="total adds all"), read, "The readme is right."]
    with Runs(model, shop, [*lines, "It is 19."], session="cart") as runs:
        assert runs.run("Correct total and look at the readme of the repository").reason == "done"
        assert history("show", "cart", "--json") == 0  # while it is in use
        now = json.loads(capsys.readouterr().out)
        runs.agent.undo()
        runs.run("What is RATE in shop/cart.py?")
    turned, ended = runs.of(Turned), runs.of(Ended)

    (shown,) = now["prompts"]
    assert now["in_use"]["pid"] == os.getpid()
    assert (now["repository"], now["style"], now["budget"]) == (str(shop), "tools", 4096)
    assert (shown["reason"], shown["undone"], shown["turns"]) == ("done", False, 6)
    assert [(step["text"], step["state"]) for step in shown["steps"]] == [
        ("correct total", "done"),
        ("look at the readme", "done"),
    ]
    assert [(one["tool"], one["state"]) for one in shown["calls"]] == [
        ("read", "ok"),
        ("edit", "ok"),
        ("done", "ok"),
        ("read", "ok"),
    ]
    assert shown["calls"][1]["arguments"]["replacement"] == "prices"
    assert shown["changed"] == ["shop/cart.py"]
    assert len(shown["misses"]) == ended[0].misses == 1
    assert len(shown["recalled"]) == ended[0].recalled >= 1
    assert shown["tokens"] == {
        "reused": sum(one.reused for one in turned[:6]),
        "decoded": sum(one.decoded for one in turned[:6]),
        "decoded_again": sum(one.decoded_again for one in turned[:6]),
        "generated": ended[0].generated,
    }
    assert shown["tokens"]["reused"] > shown["tokens"]["decoded"] > 0

    assert history("show", "cart") == 0
    text = capsys.readouterr().out
    first, second = text.split("\n\n")[1:]
    assert first.startswith("prompt 1  ")
    assert "(taken back)" in first
    assert second.startswith("prompt 1  ")
    assert "(taken back)" not in second
    assert "  step 1, done: correct total\n  step 2, done: look at the readme\n" in first
    assert "  call  edit shop/cart.py" in first
    assert "  changed  shop/cart.py\n" in first
    assert "  plan miss: file:tests/test_cart.py" in first
    assert f"{shown['tokens']['reused']:,} reused" in first
    assert second.endswith("  done\n  < It is 19.\n")


def test_what_went_wrong_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events: list[AgentEvent] = [
        Started("bad", "r", "tiny", "guided", "ask", "pace_focus", 2048, 8192),
        Prompted("clean\x1b[2J up\nall", "prompt:1", 1),
        Planned((StepView("sweep\x1b[2J"), StepView("mop")), "machine"),
        StepStarted(1, 2, "sweep"),
        Called(1, "shell", {"command": "rm -r \x1b[2J"}),
        Decided(1, False, "nobody", "mode ask"),
        Returned(1, "shell", False, "Refused", 0.1),
        Called(2, "read", {"path": "x"}),
        Returned(2, "read", False, "Error", 0.1),
        Called(3, "search", {"pattern": "y"}),
        Memory({"type": "recalled", "segment": "file:a", "means": "recomputed", "tokens": 40}),
        Missed("file:a", "recomputed", "it was read before"),
        Changed("notes.txt", "user", ""),
        Changed("a\x1b[2J.py", "shell", ""),
        Turned(1, 100, 1_020, 40, 7, 0, 0, 0, 0.0, 0.0),
    ]
    path = kept("bad", tmp_path / "r", *events)
    with (path / "events.jsonl").open("ab") as file:
        file.write(b"{damaged}\n")
    assert history("--json", "show", "bad") == 0
    document = json.loads(capsys.readouterr().out)
    (prompt,) = document["prompts"]
    assert (prompt["reason"], prompt["seconds"], document["unreadable_lines"]) == (None, None, 1)
    assert [(step["text"], step["state"]) for step in prompt["steps"]] == [
        ("sweep\x1b[2J", "running"),
        ("mop", "waiting"),
    ]
    assert [one["state"] for one in prompt["calls"]] == ["refused", "failed", "running"]
    assert prompt["changed"] == ["a\x1b[2J.py"]  # the user's own changes are not the agent's
    assert prompt["recalled"][0]["segment"] == "file:a"
    assert prompt["misses"] == [{"segment": "file:a", "means": "recomputed", "reason": "it was read before"}]

    assert history("show", "bad") == 0
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    assert "1 line of events.jsonl cannot be read" in text
    assert "tiny, guided style, mode ask, pace_focus with a budget of 2,048 tokens" in text
    assert "  > clean·[2J up\n  > all\n" in text
    assert "  call  shell rm -r ·[2J  (refused)\n  call  read x  (failed)\n" in text
    assert "100 reused, 1,020 decoded, of which 40 again, 7 generated" in text
    assert text.endswith("  broken off\n")
    with SessionFolder.open("bad"):
        assert history("show", "bad") == 0
    assert capsys.readouterr().out.endswith("  goes on\n")


def test_taking_back_a_prompt_takes_back_those_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = [Prompted(str(number), f"prompt:{number}", number) for number in (1, 2, 3)]
    again = Prompted("again", "prompt:2:2", 2)
    kept("back", tmp_path / "r", *prompts, Undone(3, (), ()), Undone(2, (), ()), again)
    assert history("show", "back", "--json") == 0
    shown = json.loads(capsys.readouterr().out)["prompts"]
    assert [(one["number"], one["undone"]) for one in shown] == [
        (1, False),
        (2, True),
        (3, True),
        (2, False),
    ]


def test_sessions_are_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "c"):
        kept(name, tmp_path / "r", Prompted("x", "prompt:1", 1))
    with SessionFolder.open("b"):
        assert history("delete", "a", "b", "c") == 2
    out, err = capsys.readouterr()
    assert re.fullmatch(r"a: [\d.]+ \w+ freed\nc: [\d.]+ \w+ freed\n", out)
    assert is_one_line_error(err)
    assert "in use" in err
    assert [session_path(name).exists() for name in ("a", "b", "c")] == [False, True, False]


@pytest.mark.parametrize("words", [("show", "tide"), ("delete", "tide")], ids=" ".join)
def test_one_that_is_not_there_is_an_error_that_says_what_to_do(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert history(*words) == 2
    out, err = capsys.readouterr()
    assert (out, is_one_line_error(err)) == ("", True)
    assert "there is no session tide" in err
    assert "`pace history --all` lists" in err
    assert history(words[0], "../tide") == 2
    assert "'../tide' is no name of a session" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("--repo", ".", "--all"), ("show",), ("delete",), ("burn", "a")], ids=" ".join
)
def test_usage_errors(words: tuple[str, ...], capsys: pytest.CaptureFixture[Any]) -> None:
    with pytest.raises(SystemExit) as caught:
        history(*words)
    assert caught.value.code == 2
    assert "usage: pace history" in capsys.readouterr().err
