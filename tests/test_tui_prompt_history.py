"""Prompts from before: written, read, and what is broken left out."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from pace_tui import prompt_history
from pace_tui.prompt_history import PromptHistory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prompts.jsonl"


def test_each_repository_has_its_own(path: Path) -> None:
    one, other = PromptHistory("one", path), PromptHistory("other", path)
    for prompt in ("a", "b\nof two lines [bold]\udc80", "b\nof two lines [bold]\udc80", "a"):
        one.add(prompt)
    other.add("c")
    assert one.read() == ["a", "b\nof two lines [bold]\udc80", "a"]
    assert other.read() == ["c"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_newest_are_given(path: Path) -> None:
    history = PromptHistory("one", path)
    for number in range(600):
        history.add(str(number))
    assert history.read() == [str(number) for number in range(100, 600)]


def test_what_is_broken_is_left_out(path: Path) -> None:
    history = PromptHistory("one", path)
    history.add("first")
    with path.open("ab") as file:
        file.write(b'\xff\n[]\n{"repository": "one", "prompt": 3}\n' + b"[" * 100_000 + b"\n\n")
    history.add("x" * 200_000)
    history.add("last")
    with path.open("ab") as file:
        file.write(b'{"repository": "one", "pro')
    assert history.read() == ["first", "last"]


def test_a_file_that_has_grown_too_long_loses_its_older_half(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_history, "_MOST_BYTES", 1000)
    history = PromptHistory("one", path)
    for number in range(40):
        history.add(str(number))
    kept = history.read()
    assert kept[-1] == "39"
    assert 10 < len(kept) < 30
    assert path.stat().st_size < 1000
    assert [json.loads(line)["prompt"] for line in path.read_text().splitlines()] == kept


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = PromptHistory("one", tmp_path / "file" / "prompts.jsonl")
    history.add("a")
    assert history.read() == []
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    PromptHistory("one", link).add("a")
    assert not (tmp_path / "target").exists()
