from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_agent.events import EVENTS, AgentEvent, Called, Memory, StepStarted, Wrote, as_dict, from_dict
from pace_local.errors import ConfigError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3),
    max_leaves=6,
)
ARGUMENTS: dict[type, dict[str, Any]] = {
    Called: {"arguments": st.dictionaries(st.text(max_size=5), JSON, max_size=3)},
    Memory: {"event": st.dictionaries(st.text(max_size=5), JSON, max_size=3)},
}


@given(
    st.sampled_from(list(EVENTS.values())).flatmap(lambda kind: st.builds(kind, **ARGUMENTS.get(kind, {})))
)
def test_every_event_comes_back_from_its_line(event: AgentEvent) -> None:
    line = json.dumps(as_dict(event), allow_nan=True)
    back = from_dict(json.loads(line))
    assert type(back) is type(event)
    assert json.dumps(as_dict(back), allow_nan=True) == line


def test_names_are_unique_and_only_the_model_s_text_is_text() -> None:
    assert len(EVENTS) == len(AgentEvent.__subclasses__())
    assert Wrote("a").text == "a"
    assert StepStarted(1, 2, "look").text == ""


@pytest.mark.parametrize(
    "document", [{}, {"type": "no"}, {"type": "wrote"}, {"type": "step_started", "number": "x"}, {"type": 3}]
)
def test_what_is_no_event_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="event"):
        from_dict(document)


def test_fields_of_a_later_version_are_left_out() -> None:
    assert from_dict({"type": "wrote", "written": "a", "colour": "red"}) == Wrote("a")
