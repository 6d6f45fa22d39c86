"""A loaded model: its vocabulary, its shape, its template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_pair import TALKER

from pace_local import Model, _native
from pace_local.errors import CancelledError, ModelError, NativeError, PaceError
from pace_local.testing import TinySpec, tiny_model
from pace_local.testing.vocab import CHAT_TEMPLATE, tiny_vocab


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


# Loading


def test_progress_goes_up_and_can_cancel(tmp_path: Path) -> None:
    path = tiny_model(TinySpec(n_layer=8), tmp_path)
    shares: list[float] = []
    with Model.load(path, progress=shares.append) as model:
        assert model.name == path.stem
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with pytest.raises(CancelledError, match=rf"loading {path.name} was cancelled"):
        Model.load(path, progress=lambda share: False)


def test_a_path_as_text_and_a_model_that_does_not_exist(tmp_path: Path) -> None:
    path = tiny_model(TALKER, tmp_path)
    with Model.load(str(path)) as model:
        assert model.path == path
    with pytest.raises(ModelError, match="does not exist"):
        Model.load(tmp_path / "none.gguf")
    with pytest.raises(PaceError, match="no-such-model"):
        Model.load("no-such-model")


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NativeError, match=r"no device is named 'GPU9'; there are .*CPU"):
        Model.load(tiny_model(TALKER, tmp_path), device="GPU9")


def test_on_the_processor_alone(tmp_path: Path) -> None:
    processor = next(device.name for device in _native.devices() if device.kind == "cpu")
    with Model.load(tiny_model(TALKER, tmp_path), device=processor, gpu_layers=0) as model:
        assert model.tokenize("the")


def test_closing_twice_and_using_it_after(tmp_path: Path) -> None:
    """The process died: the native side read freed memory."""
    model = Model.load(tiny_model(TALKER, tmp_path))
    model.close()
    model.close()
    for use in (
        lambda: model.tokenize("x"),
        lambda: model.piece(1),
        lambda: model.text_of([1]),
        lambda: model.is_end(1),
        lambda: model.bos,
        lambda: model.vocab,
        lambda: model.metadata("general.name"),
        lambda: model.chat_template(),
    ):
        with pytest.raises(ModelError, match="is closed; load it again"):
            use()
    assert model.shape.n_layer == TALKER.n_layer


# Shape and metadata


def test_the_shape_is_the_files(load_tiny: Callable[[TinySpec], Model]) -> None:
    spec = TinySpec(
        arch="qwen3", n_layer=3, n_head=4, n_head_kv=2, head_dim=16, n_vocab=400, n_ctx_train=4096
    )
    shape = load_tiny(spec).shape
    assert (shape.n_layer, shape.n_head, shape.n_head_kv, shape.n_embd) == (3, 4, 2, 64)
    assert (shape.n_ctx_train, shape.n_vocab) == (4096, 400)
    assert 400 * 64 < shape.n_params < 2e6
    assert shape.weight_bytes > 2 * 400 * 64


def test_metadata(load_tiny: Callable[[TinySpec], Model]) -> None:
    long = CHAT_TEMPLATE + "{# " + "é" * 3000 + " #}"
    model = load_tiny(replace(TALKER, chat_template=long))
    assert model.metadata("general.architecture") == "llama"
    assert model.metadata("tokenizer.chat_template") == long
    assert model.metadata("no.such.key") is None


# Vocabulary


@settings(deadline=None, max_examples=200)
@given(text=st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_there_and_back(load_tiny: Callable[[TinySpec], Model], text: str) -> None:
    """Lone surrogates, too, which Python has and UTF-8 has not; no character is lost or added."""
    model = load_tiny(TALKER)
    tokens = model.tokenize(text)
    assert b"".join(map(model.piece, tokens)) == text.encode("utf-8", errors="surrogatepass")
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert model.text_of(tokens) == text


@settings(deadline=None, max_examples=100)
@given(*[st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581"), max_size=20)] * 2)
def test_a_text_that_goes_on_behind_another_gains_no_space(
    load_tiny: Callable[[TinySpec], Model], first: str, then: str
) -> None:
    """As the vocabularies of Llama 2 and Mistral 7B put before each text that is tokenized by itself."""
    model = load_tiny(replace(TALKER, tokenizer="spm"))
    tokens = model.tokenize(first)
    tokens += model.tokenize(then, after=tokens)
    assert model.text_of(tokens) == (" " + first + then if first + then else "")
    control = tiny_vocab().turn_end
    assert model.tokenize(then, after=[control]) == model.tokenize(then)


def test_a_text_with_more_tokens_than_one_would_think(model: Model) -> None:
    text = "🙂" * 5000
    assert len(model.tokenize(text)) == 4 * 5000
    assert model.text_of(model.tokenize(text)) == text
    assert model.tokenize("") == []


def test_control_tokens_count_only_where_they_are_wanted(model: Model) -> None:
    text = "<|im_start|>user\nhi<|im_end|>\n"
    special = model.tokenize(text, special=True)
    plain = model.tokenize(text)
    assert special[0] == tiny_vocab().turn_start
    assert not set(plain) & set(tiny_vocab().special)
    assert model.text_of(special) == model.text_of(plain) == text
    assert model.text_of(special, special=False) == "user\nhi\n"
    assert model.piece(special[0]) == b""
    assert model.piece(special[0], special=True) == b"<|im_start|>"


def test_a_token_longer_than_the_first_buffer(load_tiny: Callable[[TinySpec], Model]) -> None:
    model = load_tiny(replace(TALKER, n_vocab=len(tiny_vocab().tokens) + 3))
    pieces = [model.piece(token, special=True) for token in range(model.shape.n_vocab)]
    assert max(map(len, pieces)) > 10
    assert [model.piece(token, special=True) for token in range(model.shape.n_vocab)] == pieces


def test_bytes_that_are_no_text_become_replacement_characters(model: Model) -> None:
    half = model.tokenize("é")[:1]
    assert model.text_of(half) == "�"
    assert model.text_of([*half, *model.tokenize("a")]) == "�a"


def test_what_ends_an_answer(model: Model) -> None:
    ends = [token for token in range(model.shape.n_vocab) if model.is_end(token)]
    assert set(ends) == {tiny_vocab().turn_end, tiny_vocab().end_of_text}


def test_bos(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [model.bos]
    monkeypatch.setattr(_native.llama, "llama_vocab_get_add_bos", lambda vocab: True)
    found.append(model.bos)
    monkeypatch.setattr(_native.llama, "llama_vocab_bos", lambda vocab: -1)
    assert [*found, model.bos] == [None, tiny_vocab().end_of_text, None]


# Template


def test_the_models_own_template(model: Model) -> None:
    template = model.chat_template()
    assert template.source == CHAT_TEMPLATE
    assert template.warning == ""
    assert template.close_turn("assistant").end == "<|im_end|>"
    assert model.chat_template() is template
    assert model.chat_template({"enable_thinking": False}) is not template
    assert model.chat_template({"enable_thinking": False}) is model.chat_template({"enable_thinking": False})


def test_a_model_without_a_template(load_tiny: Callable[[TinySpec], Model]) -> None:
    template = load_tiny(replace(TALKER, chat_template=None)).chat_template()
    assert "no chat template" in template.warning
    assert template.frame("user", first=True, previous=None).prefix == "<|im_start|>user\n"


def test_a_broken_template(load_tiny: Callable[[TinySpec], Model]) -> None:
    model = load_tiny(replace(TALKER, chat_template="{% for %}"))
    with pytest.raises(ModelError, match=r"chat template of tiny-llama-.* cannot be used"):
        model.chat_template()
