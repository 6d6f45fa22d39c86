"""The agent with a model that chooses its own tokens: random weights, so that calls come by chance alone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_runs import FIX, SHOP, make_repository
from session_pair import TALKER

from pace_agent import Agent, AgentConfig
from pace_agent.calls.formats import FORMATS, CallFormat
from pace_agent.calls.grammar import calling, object_grammar
from pace_agent.events import Ended, Turned
from pace_agent.tool_type import Tool
from pace_local import Model, Session
from pace_local.events import Finished
from pace_local.sampling import Sampling
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture(scope="module")
def tools(model: Model, tmp_path_factory: pytest.TempPathFactory) -> list[Tool]:
    folder = make_repository(tmp_path_factory.mktemp("shop"), SHOP, git=False)
    config = AgentConfig(budget=4096, position_cap=16384, style="tools", watch=False)
    with Agent(model, folder, config=config, session="", is_trusted=True) as agent:
        return list(agent._parts.tools)


def answer(session: Session, sampling: Sampling) -> str:
    *_, last = session.generate("go on", max_tokens=80, sampling=sampling)
    assert isinstance(last, Finished)
    return last.answer.strip()


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_the_grammar_of_all_tools_holds_a_call(model: Model, tools: list[Tool], form: CallFormat) -> None:
    """Held from its first token on, as it is behind the opening text, whatever the weights are."""
    held = dataclasses.replace(calling(tools, form), triggers=(), quiet=())
    with Session(model, budget=1024, position_cap=4096, policy="streaming") as session:
        body = (form.opening if form.starts_object else "") + answer(session, held)
    match = re.match(r'\{\s*"name"\s*:\s*"(\w+)"', body)
    assert match is not None, body
    assert match[1] in {tool.name for tool in tools}


def test_the_grammar_of_a_plan_holds_an_answer(model: Model, tools: list[Tool]) -> None:
    (plan,) = (tool for tool in tools if tool.name == "plan")
    with Session(model, budget=1024, position_cap=4096, policy="streaming") as session:
        text = answer(session, Sampling(grammar=object_grammar(plan.parameters)))
    assert re.match(r'\{\s*"steps"\s*:\s*\[', text), text


@pytest.mark.parametrize("style", ["tools", "guided"])
def test_a_run_ends_whatever_the_model_says(model: Model, tmp_path: Path, style: str) -> None:
    folder = make_repository(tmp_path / "shop", SHOP)
    options: dict[str, Any] = {"budget": 4096, "position_cap": 16384, "style": style, "mode": "plan"}
    config = AgentConfig(**options, max_tokens=40, watch=False)
    with Agent(model, folder, config=config, session="", is_trusted=True) as agent:
        events = list(agent.run(FIX, max_turns=6))
    assert isinstance(events[-1], Ended)
    assert events[-1].reason in ("format_errors", "turn_limit", "failed", "refused", "done", "question")
    assert any(isinstance(event, Turned) for event in events)
