"""A prompt brings back what alone defines a name that it mentions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from session_pair import TALKER
from working_set_views import Hearing, chatter, is_whole, ranks_of, working_session

from pace_local import Model, Plan, Session, Step, events, session_memory
from pace_local.testing import TinySpec

FILES = {
    "stock.py": "def restock_shelf(item, amount):\n    return amount < 7\n",
    "mail.py": "def send_letter(letter):\n    return letter.stamp\n",
    "notes.md": "Nothing here but plain words of no great weight.",
}
REASON = "the prompt mentions a name that it defines"
PROMPT = "what does restock_shelf return?"


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def hearing() -> Hearing:
    return Hearing()


def filled(model: Model, hearing: Hearing, policy: str, **settings: object) -> Session:
    """A session that read three files, all of which have left the cache since."""
    session = working_session(model, hearing, policy=policy, **settings)
    for name, text in FILES.items():
        session.append(text, kind="file", name=name)
    chatter(session, 12)
    assert not any(is_whole(session, name) for name in FILES)
    hearing.heard.clear()
    return session


def asked(session: Session, prompt: str, by_generate: bool) -> None:
    if by_generate:
        list(session.generate(prompt, max_tokens=3))
    else:
        session.append(prompt)


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
@pytest.mark.parametrize("by_generate", [False, True])
def test_the_only_definer_comes_back(model: Model, hearing: Hearing, policy: str, by_generate: bool) -> None:
    with filled(model, hearing, policy) as session:
        asked(session, PROMPT, by_generate)
        (event,) = hearing.of(events.Recalled)
        assert (event.segment, event.means, event.reason) == ("stock.py", "spliced", REASON)
        assert event.tokens > len(session.segments.named("stock.py")), "with its role markers"
        assert is_whole(session, "stock.py")
        assert not is_whole(session, "mail.py")


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
@pytest.mark.parametrize("prompt", ["and now the weather", "what does amount mean?", "call unknown_name(3)"])
def test_a_prompt_that_mentions_nothing_brings_nothing(
    model: Model, hearing: Hearing, policy: str, prompt: str
) -> None:
    """Words that files only use, or that nothing defines, are no mention of what a file defines."""
    with filled(model, hearing, policy) as session:
        asked(session, prompt, by_generate=True)
        assert not hearing.recalled()
        assert not np.isin(
            session.residents.segment, [session.segments.named(name).id for name in FILES]
        ).any()


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
def test_what_is_resident_is_not_brought_again(model: Model, hearing: Hearing, policy: str) -> None:
    with filled(model, hearing, policy) as session:
        session.append(PROMPT)
        stays = set(session.residents.stay[ranks_of(session, "stock.py")].tolist())
        session.append("once more, restock_shelf")
        assert hearing.recalled() == [("stock.py", "spliced")]
        assert stays & set(session.residents.stay.tolist()), "the same that came first"


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
def test_a_name_that_many_texts_define_brings_none(model: Model, hearing: Hearing, policy: str) -> None:
    with working_session(model, hearing, policy=policy) as session:
        for name in ("stock.py", "depot.py", "yard.py", "barn.py"):
            session.append(FILES["stock.py"], kind="file", name=name)
        chatter(session, 12)
        hearing.heard.clear()
        session.append(PROMPT)
        assert not hearing.recalled()


@pytest.mark.parametrize(("policy", "settings"), [("pace", {"recall": False}), ("h2o", {})], ids=str)
def test_where_nothing_is_recalled_a_mention_brings_nothing(
    model: Model, hearing: Hearing, policy: str, settings: dict[str, object]
) -> None:
    with filled(model, hearing, policy, **settings) as session:
        session.append(PROMPT)
        assert not hearing.recalled()
        assert not is_whole(session, "stock.py")


def test_a_text_that_is_only_read_mentions_nothing(model: Model, hearing: Hearing) -> None:
    with filled(model, hearing, "pace_focus") as session:
        session.append("x = restock_shelf(1, 2)", kind="file", name="use.py")
        assert not hearing.recalled()
        assert not is_whole(session, "stock.py")


def test_what_a_prompt_mentions_is_read_with_its_step(model: Model, hearing: Hearing) -> None:
    """Behind what the plan says, as one sequence in the order of the session."""
    with filled(model, hearing, "pace_focus") as session:
        session.plan = Plan([Step("send it", reads=["mail.py"])])
        session.append(PROMPT)
        (started,) = hearing.of(events.Focused)
        assert started.reads == {"mail.py": "together", "stock.py": "spliced"}
        assert is_whole(session, "stock.py")
        assert is_whole(session, "mail.py")
        assert started.residents < session.n_residents


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
def test_what_was_not_saved_does_not_come_back(model: Model, hearing: Hearing, policy: str) -> None:
    with filled(model, hearing, policy, host_bytes=0, disk_bytes=0) as session:
        session.append(PROMPT)
        assert not hearing.recalled()
        session.check()


def test_names_of_a_long_session_from_disk_are_known_after_some_prompts(
    model: Model, hearing: Hearing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read long before the session was opened again was never found by its names."""
    monkeypatch.setattr(session_memory, "NAMED_AT_ONCE", 16)
    with filled(model, hearing, "pace", folder=tmp_path / "it") as session:
        behind = len(session.segments) - session.segments.named("stock.py").id
    assert behind > 32
    with Session.open(model, tmp_path / "it", listener=hearing) as session:
        for _ in range((behind - 1) // 16):
            session.append(PROMPT)
            assert not hearing.recalled()
        session.append(PROMPT)
        assert hearing.recalled() == [("stock.py", "spliced")]
        session.append("what does send_letter take?")
        assert hearing.recalled()[1:] == [("mail.py", "spliced")]
