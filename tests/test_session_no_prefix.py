"""Templates that write nothing before an answer, such as ``[INST] … [/INST]``: its first token is chosen from
what the whole session says, not from whatever happens to have been decoded last."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from chat_templates import TEMPLATES
from session_pair import TALKER
from working_set_views import ROOM, working_session

from pace_local import Model, Plan, Session, Step
from pace_local.errors import CancelledError
from pace_local.testing import TinySpec

ASKED = "what is the rate of orders?"


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    model = load_tiny(dataclasses.replace(TALKER, chat_template=TEMPLATES["alternating"], weights="F32"))
    assert model.chat_template().generation_prefix("user") == ""
    return model


def session_of(model: Model, folder: Path | None = None) -> Session:
    return Session(model, threads=1, check=True, folder=folder, **ROOM)


def answer(session: Session, prompt: str | None = None) -> str:
    return "".join(event.text for event in session.generate(prompt, max_tokens=8))


def rows(session: Session) -> list[bytes]:
    cache = session.engine.cache
    assert cache is not None
    return [cache.read_rows(kind, 0).tobytes() for kind in ("key", "value")]


def test_an_answer_is_the_same_after_going_back_aside_and_from_disk(model: Model, tmp_path: Path) -> None:
    with session_of(model) as session:
        expected = answer(session, ASKED)
    with session_of(model, tmp_path / "kept") as session:
        session.append(ASKED)
        before = rows(session)
        checkpoint = session.checkpoint()
        assert answer(session) == expected
        session.restore(checkpoint)
        with session.aside():
            session.append("tell me of whales", kind="file")
            answer(session)
        assert rows(session) == before
        with session.aside():
            assert answer(session) == expected
    with Session.open(model, tmp_path / "kept") as session:
        assert answer(session) == expected


def test_an_answer_behind_an_isolated_text_sees_all_residents(model: Model) -> None:
    with working_session(model, key_type="f32", value_type="f32", flash_attn=False) as session:
        session.append("the limit is seven and the region is north, they said")
        spec = session.append("class Orders: RATE = 53", name="spec", kind="file")
        assert spec.isolated
        alone = session.engine.logits()
        kept, length = rows(session), session.session_length
        session._cache.look_again()
        seen = session.engine.logits()
        assert rows(session) == kept
        session.check()
        residents = session.residents
        with session.aside():  # the same by upstream alone: the last token is taken out and decoded again
            last = int(residents.position[-1])
            session.engine.remove_from(last)
            session.engine.decode([session.tokens[length - 1]], last)
            expected = session.engine.logits()
        assert np.abs(seen - expected).max() < 1e-4 < 0.1 < np.abs(seen - alone).max()


def test_an_answer_sees_what_its_step_has_brought_back(model: Model) -> None:
    with working_session(model, key_type="f32", value_type="f32", flash_attn=False) as session:
        session.append("class Orders: RATE = 53", name="spec", kind="file")
        session.append(ASKED)
        session.evict("spec")
        session.plan = Plan([Step("answer", reads=["spec"])])
        looks = []
        session.write(session.model.tokenize("53"), look=lambda _, logits: looks.append(logits))
        assert len(session.residents.token_index) == session.session_length
    with working_session(model, key_type="f32", value_type="f32", flash_attn=False) as session:
        session.append("class Orders: RATE = 53", name="spec", kind="file")
        session.append(ASKED)
        session._cache.look_again()
        assert np.abs(looks[0] - session.engine.logits()).max() < 1e-3


def test_cancelling_the_look_takes_nothing(model: Model) -> None:
    with session_of(model) as session:
        session.append(ASKED)
        kept = rows(session)
        session.engine.cancel()
        with pytest.raises(CancelledError):
            session._cache.look_again()
        session.engine.resume()
        assert rows(session) == kept
        session.check()
