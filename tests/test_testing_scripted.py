"""A script in a model's place: the session around it is real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from session_pair import TALKER, tiny_session

from pace_local import Model, Sampling, Session
from pace_local.errors import ConfigError
from pace_local.events import Finished
from pace_local.testing import Script, TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def said(session: Session, prompt: str, **settings: object) -> Finished:
    *_, last = session.generate(prompt, **settings)  # type: ignore[arg-type]
    assert isinstance(last, Finished)
    return last


def test_answers_come_in_order_and_are_decoded_as_any_other(model: Model) -> None:
    script = Script(["first", "", lambda sampling: f"at {sampling.temperature}"])
    with tiny_session(model, writer=script, check=True) as session:
        first = said(session, "one")
        assert (first.answer, first.reason) == ("first", "stop")
        assert session.text_of(session.segments[len(session.segments) - 1]) == "first"
        assert said(session, "two").answer == ""
        third = said(session, "three", sampling=Sampling(temperature=0.5))
        assert third.answer == "at 0.5"
        assert first.stats.generated_tokens == len(model.tokenize("first"))
        assert script.said == ["first", "", "at 0.5"]
        with pytest.raises(ConfigError, match="the script has no answer after its 3; add one"):
            said(session, "four")
        session.append("and on")


def test_what_is_written_counts_for_the_budget(model: Model) -> None:
    with tiny_session(model, writer=Script(["self and other " * 80] * 3), policy="streaming") as session:
        for _ in range(3):
            said(session, "go on", max_tokens=2000)
            assert session.n_residents <= session.config.budget
        assert session.stats.evicted_in_session > 0


def test_an_answer_without_end_is_cut_at_the_limit(model: Model) -> None:
    with tiny_session(model, writer=Script(["on and on"], ends=False)) as session:
        last = said(session, "go on", max_tokens=30)
        assert last.reason == "length"
        assert last.answer.startswith("on and ononon")


def test_an_opened_session_goes_on_with_a_script_of_its_own(model: Model, tmp_path: Path) -> None:
    with tiny_session(model, writer=Script(["first"]), folder=tmp_path / "kept") as session:
        said(session, "one")
    with Session.open(model, tmp_path / "kept", writer=Script(["second"])) as session:
        assert said(session, "two").answer == "second"
