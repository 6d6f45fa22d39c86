"""Which way of working suits a model: known by its size, or tried out once and remembered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_runs import call
from session_pair import TALKER

from pace_agent.style import probe, style_of
from pace_local import Model
from pace_local.testing import Script, TinySpec

READ = call("read", path="docs/notes.txt")
EDIT = call("edit", path="shapes.py", search="return width + height", replacement="return width * height")

THINKS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)
"""Opens the model's reasoning itself."""


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture(scope="module")
def thinker(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(dataclasses.replace(TALKER, chat_template=THINKS))


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([READ, EDIT], "it called two tools with the right arguments"),
        (["I will read it. " + READ, EDIT], "it called two tools with the right arguments"),
        (["I cannot read files."], "asked to call read, it wrote no call"),
        ([EDIT], "asked to call read, it called edit"),
        ([call("read", path="notes.txt")], "its call of read had the wrong path"),
        ([READ, READ], "asked to call edit, it called read"),
        (
            [READ, call("edit", path="shapes.py", search="width + height", replacement="width + height")],
            "its call of edit had the wrong replacement",
        ),
    ],
    ids=["right", "with prose", "no call", "another tool", "wrong path", "no edit", "wrong edit"],
)
def test_what_a_model_did_when_it_was_tried(answers: list[str], why: str, model: Model) -> None:
    can, said = probe(model, Script(answers))
    assert said == why
    assert can == ("two tools" in why)


def test_a_call_that_is_only_considered_is_none(thinker: Model) -> None:
    """Where the template opens the reasoning, the model's text has no opening of it."""
    considered = f"I could write\n{READ}\n</think>\n\nI cannot read files."
    assert probe(thinker, Script([considered])) == (False, "asked to call read, it wrote no call")
    thought = "I have to look.\n</think>\n\n"
    assert probe(thinker, Script([thought + READ, thought + EDIT]))[0]


def test_a_model_is_tried_once(model: Model, tmp_path: Path) -> None:
    assert style_of(model, folder=tmp_path, writer=Script([READ, EDIT]))[0] == "tools"
    assert style_of(model, folder=tmp_path, writer=Script([])) == ("tools", "it was tried before")
    (tmp_path / "styles.json").write_text("{ broken", encoding="utf-8")
    assert style_of(model, folder=tmp_path, writer=Script(["no"]))[0] == "guided"


def test_a_model_of_the_registry_is_known_by_its_size(model: Model, tmp_path: Path) -> None:
    for name, expected in (("qwen2.5-coder-1.5b", "guided"), ("qwen3-8b", "tools")):
        known = tmp_path / f"{name}.gguf"
        known.symlink_to(model.path)
        with Model.load(known) as loaded:
            assert style_of(loaded, folder=tmp_path, writer=Script([]))[0] == expected
