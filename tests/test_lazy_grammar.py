"""A grammar that begins behind a trigger: prose around, no trigger in reasoning, odd cuts of tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from byte_tokens import bytes_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_local import Model, _native
from pace_local.errors import ConfigError
from pace_local.lazy_grammar import LazyGrammar
from pace_local.sampling import NativeSampler, Sampling
from pace_local.testing import TinySpec

CALL = 'root ::= "{\\"n\\":" [0-9]{1,3} "}" "</call>"'
QUIET = (("<think>", "</think>"),)


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TinySpec(n_layer=1))


@pytest.fixture
def lazy(model: Model) -> Iterator[LazyGrammar]:
    grammar = LazyGrammar(_native.llama, model.vocab, CALL, ("<call>", "CALL:"), QUIET)
    yield grammar
    grammar.close()


def takes(lazy: LazyGrammar, tokens: list[int]) -> bool:
    for token in tokens:
        if not lazy.allows(token):
            return False
        lazy.accept(token)
    return True


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("prose { } </call> 7", True),
        ('before <call>{"n":12}</call> after', True),
        ('CALL:{"n":1}</call><call>{"n":2}</call> and <call>{"n":3}</call>', True),
        ("before <call> after", False),
        ('<call>{"n":1234}', False),
        ('<call>{"n":1}</call><call>no', False),
        ("<think> I could <call>anything</call> here </think> done", True),
        ('<think> or not </think><call>{"n":5}</call>', True),
        ("<think> </think><call>no", False),
        ("<cal<call>no", False),
        ('<cal<call>{"n":9}</call>', True),
        ("<call", True),
        ("</think><call>no", False),
        ("<think>ä<call>ö</think>ü", True),
    ],
)
def test_prose_is_free_and_a_call_once_begun_is_well_formed(
    model: Model, lazy: LazyGrammar, text: str, fits: bool
) -> None:
    assert takes(lazy, bytes_of(model, text)) == fits
    lazy.reset()
    assert takes(lazy, model.tokenize(text)) == fits


def test_an_answer_can_end_in_prose_and_not_in_a_call(model: Model, lazy: LazyGrammar) -> None:
    end = next(token for token in range(model.shape.n_vocab) if model.is_end(token))
    assert lazy.allows(end)
    assert takes(lazy, bytes_of(model, "well <call>"))
    assert lazy.is_active
    assert not lazy.allows(end)
    assert takes(lazy, bytes_of(model, '{"n":1}</call>'))
    assert not lazy.is_active
    assert lazy.allows(end)


def test_asking_changes_nothing(model: Model, lazy: LazyGrammar) -> None:
    every = range(model.shape.n_vocab)
    rng = random.Random(0)
    text = 'a <think> <call>b </think> c <call>{"n":12}</call> d'
    for token in bytes_of(model, text):
        asked = rng.sample(every, 40)
        before = [lazy.allows(each) for each in asked]
        assert [lazy.allows(each) for each in asked] == before
        assert lazy.allows(token)
        lazy.accept(token)


WORDY = 'root ::= "urn" [a-f]{1,3} " the"'
"""The vocabulary has tokens such as ``return`` and `` and`` that run past these marks, or over their ends."""


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_how_a_text_is_cut_into_tokens_does_not_matter(model: Model, data: st.DataObject) -> None:
    """Whatever tokens of several characters cut a mark, or run past it."""
    parts = ["ret", "urn", "return", "self", "a", "d", " the", " and", " def", "f", "or", " ", "ing"]
    text = "".join(data.draw(st.lists(st.sampled_from(parts), max_size=8)))
    grammars = [LazyGrammar(_native.llama, model.vocab, WORDY, ("ret",), ((" an", "or"),)) for _ in range(2)]
    one, other = grammars
    tokens = model.tokenize(text)
    assert b"".join(map(model.piece, tokens)).decode() == text
    fits = takes(one, bytes_of(model, text))
    assert takes(other, tokens) == fits
    assert not fits or one.is_active == other.is_active
    for grammar in grammars:
        grammar.close()


def test_a_token_that_runs_past_a_trigger_is_allowed_if_the_grammar_goes_on_so(model: Model) -> None:
    (whole,) = (token for token in range(model.shape.n_vocab) if model.piece(token) == b"return")
    for grammar, fits in ((WORDY, True), (CALL, False)):
        lazy = LazyGrammar(_native.llama, model.vocab, grammar, ("ret",))
        assert lazy.allows(whole) == fits
        assert not lazy.is_active
        if fits:
            lazy.accept(whole)
            assert lazy.is_active
            assert takes(lazy, model.tokenize("fed the"))
            assert not lazy.is_active
        lazy.close()


def test_a_sampler_holds_only_the_calls(model: Model) -> None:
    """Random logits: prose comes out as it likes, and every call can be read."""
    sampling = Sampling(grammar=CALL, triggers=("<call>",), quiet=QUIET)
    rng = np.random.default_rng(1)
    with NativeSampler(model.vocab, sampling) as sampler:
        for token in bytes_of(model, "so <call>"):
            sampler.accept(token)
        written = b""
        while b"</call>" not in written:
            logits = rng.normal(size=model.shape.n_vocab).astype(np.float32)
            assert sampler._grammar is not None
            token = sampler._sample_within(sampler._grammar, logits)
            written += model.piece(token, special=True)
        assert 0 <= json.loads(written.removesuffix(b"</call>"))["n"] <= 999
        free = [
            sampler._sample_within(sampler._grammar, rng.normal(size=model.shape.n_vocab).astype(np.float32))
            for _ in range(20)
        ]
        assert len(set(free)) > 10


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"grammar": CALL, "triggers": ("",)}, "a trigger, or one of the texts of a quiet passage, is empty"),
        ({"grammar": CALL, "triggers": ("x",), "quiet": (("a", ""),)}, "is empty; leave it out"),
        ({"triggers": ("x",)}, "but no grammar that they could begin"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Sampling(**settings)  # type: ignore[arg-type]


def test_no_space_is_seen_behind_a_trigger(load_tiny: Callable[[TinySpec], Model]) -> None:
    """A token that ran past a trigger was refused where the vocabulary puts a space before each text."""
    model = load_tiny(TinySpec(n_layer=1, tokenizer="spm"))
    tokens = model.tokenize("returna the")
    assert model.text_of(tokens[:1]) == " return"
    grammar = LazyGrammar(_native.llama, model.vocab, WORDY, ("ret",))
    assert takes(grammar, tokens)
    grammar.close()
