"""Tiny models load, speak and spell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from raw_llama import Loaded, loaded

from pace_local import testing
from pace_local.errors import ConfigError, StorageError
from pace_local.testing import RopeScaling, TinySpec, kv_shape_spec
from pace_local.testing.vocab import CHAT_TEMPLATE, tiny_vocab

PROMPT = "def returns the self and other things"
SPEAKING = [arch for arch in testing.ARCHS if arch != "bert"]
WITH_KEYS = [arch for arch in SPEAKING if arch != "mamba"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="module")
def speller(llama: Any, models: Path) -> Iterator[Loaded]:
    with loaded(llama, models, TinySpec()) as model:
        yield model


def longest_run(tokens: list[int]) -> int:
    longest = run = 1
    for before, after in itertools.pairwise(tokens):
        run = run + 1 if before == after else 1
        longest = max(longest, run)
    return longest


# Files


@pytest.mark.parametrize("arch", testing.ARCHS)
def test_a_default_model_is_small(arch: str, tmp_path: Path) -> None:
    path = testing.write_tiny_gguf(tmp_path / "it.gguf", TinySpec(arch=arch))
    assert path.stat().st_size < 2_000_000


def test_equal_specs_give_equal_bytes_and_seeds_differ(tmp_path: Path) -> None:
    one, same, other = (
        testing.write_tiny_gguf(tmp_path / name, TinySpec(arch="qwen3", seed=seed)).read_bytes()
        for name, seed in (("one", 7), ("same", 7), ("other", 8))
    )
    assert one == same
    assert one != other
    assert len(one) == len(other)


def test_a_model_is_written_once_per_spec(tmp_path: Path) -> None:
    first = testing.tiny_model(TinySpec(), tmp_path)
    stamp = first.stat().st_mtime_ns
    assert testing.tiny_model(TinySpec(), tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    other = testing.tiny_model(TinySpec(rope_scaling=RopeScaling("linear", 2.0)), tmp_path)
    assert other != first
    assert sorted(tmp_path.iterdir()) == sorted([first, other]), "no scratch left behind"


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*file/tiny-llama"):
        testing.tiny_model(TinySpec(), blocked)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"arch": "gpt5"}, r"arch is 'gpt5': use one of llama"),
        ({"n_layer": 0}, r"n_layer is 0: use 1 or more"),
        ({"arch": "lfm2", "n_layer": 1}, r"n_layer is 1: lfm2 needs 2"),
        ({"seed": -1}, r"seed is -1: use 0 or more"),
        ({"n_head_kv": 3}, r"n_head_kv is 3: use a divisor of 4"),
        ({"arch": "qwen2", "n_embd": 64}, r"n_embd is 64: qwen2 needs 128"),
        ({"n_rot": 16}, r"n_rot is 16: llama needs 32"),
        ({"arch": "phi3", "n_rot": 7}, r"n_rot is 7: use an even number"),
        ({"arch": "phi3", "n_rot": 64}, r"n_rot is 64: use at most head_dim, 32"),
        ({"head_dim": 33}, r"head_dim is 33: use an even number"),
        ({"rope_factors": (1.0,)}, r"rope_factors is \(1.0,\): give 16 numbers"),
        ({"arch": "qwen2", "rope_factors": (1.0,) * 16}, r"rope_factors is .*: use llama or phi3"),
        ({"rope_factors_long": (1.0,) * 16}, r"rope_factors_long is .*: use phi3"),
        ({"rope_scaling": RopeScaling("yarn", 0.5)}, r"rope_scaling is .*: use a factor >= 1"),
        ({"rope_scaling": RopeScaling("ntk")}, r"rope_scaling is .*: use linear or yarn"),  # type: ignore[arg-type]
        ({"weights": "Q4_K"}, r"weights is 'Q4_K': use F32, F16 or Q8_0"),
        ({"weights": "Q8_0", "n_embd": 40}, r"n_embd is 40: Q8_0 needs a multiple of 32"),
        ({"weights": "Q8_0", "n_ff": 40}, r"n_ff is 40: Q8_0 needs a multiple of 32"),
        ({"speech": "song"}, r"speech is 'song': use text, bytes or ends"),
        ({"tokenizer": "words"}, r"tokenizer is 'words': use bpe or spm"),
        ({"n_vocab": 10}, r"n_vocab is 10: use \d+ or more"),
    ],
)
def test_a_spec_that_no_model_can_have_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        TinySpec(**fields)


# Speech


@pytest.mark.parametrize("arch", SPEAKING)
def test_greedy_speech_is_varied_and_never_ends_by_itself(arch: str, llama: Any, models: Path) -> None:
    with loaded(llama, models, TinySpec(arch=arch)) as model:
        said, logits = model.greedy(model.tokenize(PROMPT, special=False), 96)
    assert np.isfinite(logits).all()
    assert 1.0 < logits.std(axis=1).mean() < 4.0
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    best = 1.0 / odds.sum(axis=1)
    assert 0.1 < np.median(best) < 0.9, "neither flat nor certain"
    assert len(set(said)) >= 20
    assert longest_run(said) <= 12
    assert set(said) <= set(tiny_vocab().readable())


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3", "phi3", "stablelm", "chatglm"])
def test_speech_stays_varied_for_hundreds_of_tokens(arch: str, llama: Any, models: Path) -> None:
    with loaded(llama, models, TinySpec(arch=arch), n_ctx=1024) as model:
        said, _ = model.greedy(model.tokenize(PROMPT, special=False), 600)
    tail = said[-200:]
    assert len(set(tail)) >= 15
    assert all(tail[period:] != tail[:-period] for period in range(1, 100)), "caught in a loop"


def test_bert_encodes(llama: Any, models: Path) -> None:
    with loaded(llama, models, TinySpec(arch="bert")) as model:
        assert not model.memory
        rows = model.decode(model.tokenize(PROMPT, special=False))
    assert np.isfinite(rows).all()
    assert rows.std(axis=0).mean() > 0.05, "tokens differ"


@pytest.mark.parametrize("weights", ["F32", "F16", "Q8_0"])
@pytest.mark.parametrize("arch", ["llama", "qwen3", "mamba"])
def test_weight_types_agree(arch: str, weights: Any, llama: Any, models: Path) -> None:
    tokens = list(PROMPT.encode())
    with loaded(llama, models, TinySpec(arch=arch, weights="F32")) as model:
        exact = model.decode(tokens)[0]
    with loaded(llama, models, TinySpec(arch=arch, weights=weights)) as model:
        rounded = model.decode(tokens)[0]
    worst = np.abs(rounded - exact).max()
    print(f"{arch} {weights}: largest logit difference {worst:.4f}")
    assert worst <= {"F32": 0.0, "F16": 0.05, "Q8_0": 0.6}[weights]
    assert weights == "F32" or worst > 0.0


@pytest.mark.parametrize("arch", SPEAKING)
def test_order_changes_the_logits(arch: str, llama: Any, models: Path) -> None:
    with loaded(llama, models, TinySpec(arch=arch)) as model:
        tokens = model.tokenize(PROMPT, special=False)
        plain = model.decode(tokens)[-1]
        model.clear()
        swapped = model.decode([*tokens[1::-1], *tokens[2:]])[-1]
    assert np.abs(swapped - plain).max() > 0.3


@pytest.mark.parametrize("arch", [arch for arch in WITH_KEYS if arch not in ("qwen2vl", "lfm2")])
def test_distance_changes_the_logits_and_a_common_offset_does_not(
    arch: str, llama: Any, models: Path
) -> None:
    with loaded(llama, models, TinySpec(arch=arch)) as model:
        tokens = model.tokenize(PROMPT, special=False)
        n = len(tokens)
        plain = model.decode(tokens)[-1]
        model.clear()
        offset = model.decode(tokens, start=100)[-1]
        model.clear()
        model.decode(tokens[:-1], start=100)
        llama.llama_memory_seq_add(model.memory, 0, 0, 100 + n // 2, -60)
        apart = model.decode(tokens[-1:], start=100 + n - 1)[-1]
    assert np.abs(offset - plain).max() < 0.3
    assert np.abs(apart - plain).max() > 0.6


def test_keys_have_the_norms_of_a_real_model(llama: Any, models: Path) -> None:
    """Per element 1 to 4, as the keys of Qwen and Llama models have, and no two heads alike."""
    for arch in WITH_KEYS:
        with loaded(llama, models, TinySpec(arch=arch)) as model:
            model.decode(model.tokenize(PROMPT, special=False))
            for layer, keys in model.keys().items():
                size = np.sqrt((keys**2).mean(axis=2))
                assert size.min() > 0.5, (arch, layer)
                assert size.max() < 6.0, (arch, layer)
                assert np.unique(size.round(4)).size > size.size // 2, (arch, layer)


def test_speech_in_bytes_and_speech_that_ends(llama: Any, models: Path) -> None:
    vocab = tiny_vocab()
    with loaded(llama, models, TinySpec(speech="bytes")) as model:
        said, _ = model.greedy(model.tokenize(PROMPT, special=False), 96)
        with pytest.raises(UnicodeDecodeError):
            model.spell(said).decode()
        assert max(said) < vocab.end_of_text
    with loaded(llama, models, TinySpec(speech="ends")) as model:
        said, _ = model.greedy(model.tokenize(PROMPT, special=False), 400)
        assert vocab.turn_end in said
        assert said.index(vocab.turn_end) > 0
        assert set(said) - {vocab.turn_end} <= set(vocab.readable())


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("qwen3-8b", (36, 8, 128)),
        ("qwen2.5-coder-0.5b", (24, 2, 64)),
        ("qwen2.5-coder-1.5b", (28, 2, 128)),
    ],
)
def test_kv_shapes_load_and_are_thin(
    name: str, shape: tuple[int, int, int], llama: Any, models: Path
) -> None:
    spec = kv_shape_spec(name)
    assert testing.tiny_model(spec, models).stat().st_size < 60_000_000
    with loaded(llama, models, spec) as model:
        logits = model.decode(model.tokenize(PROMPT, special=False))
        keys = model.keys()
    assert np.isfinite(logits).all()
    assert (len(keys), *keys[0].shape[1:]) == shape


@pytest.mark.parametrize("arch", testing.ARCHS)
def test_other_shapes_load_and_decode(arch: str, llama: Any, models: Path) -> None:
    for fields in (
        {
            "n_layer": 2 if arch == "lfm2" else 1,
            "n_head": 3,
            "n_head_kv": 1,
            "head_dim": 16,
            "n_ff": 40,
            "n_vocab": 320,
        },
        {"n_layer": 5, "n_head": 2, "n_head_kv": 2, "head_dim": 80, "n_ff": 96, "weights": "Q8_0"},
        {"n_layer": 2, "n_head": 4, "n_head_kv": 1, "head_dim": 128, "weights": "F32"},
    ):
        spec = TinySpec(arch=arch, **fields)
        with loaded(llama, models, spec) as model:
            rows = model.decode(list(PROMPT.encode()))
        assert rows.shape == (len(PROMPT), spec.width if arch == "bert" else spec.vocab_size)
        assert np.isfinite(rows).all()


def test_a_model_that_is_not_causal_looks_ahead(llama: Any, models: Path) -> None:
    tokens = list(PROMPT.encode())
    for causal in (True, False):
        with loaded(llama, models, TinySpec(causal=causal)) as model:
            first = model.decode(tokens)[0]
            model.clear()
            changed = model.decode([*tokens[:-1], 0])[0]
        assert np.allclose(first, changed, atol=0.02) == causal


def test_an_unknown_kv_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no KV shape named 'gpt-5': use one of qwen3-8b"):
        kv_shape_spec("gpt-5")


# Spelling


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@example(" the  def\tself.x = 1\r\n\n  return\u00a0caf\u00e9 \U0001f600\u200d \x00 ")
def test_any_text_survives_spelling(speller: Loaded, text: str) -> None:
    for special in (False, True):
        assert speller.spell(speller.tokenize(text, special=special)) == text.encode()


def test_special_tokens_are_recognised_only_on_request(speller: Loaded) -> None:
    vocab = tiny_vocab()
    text = "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>"
    plain, parsed = speller.tokenize(text, special=False), speller.tokenize(text, special=True)
    assert not set(vocab.special) & set(plain)
    found = [token for token in parsed if token in vocab.special]
    assert found == [vocab.turn_start, vocab.turn_end, vocab.end_of_text]
    assert speller.spell(plain) == speller.spell(parsed) == text.encode()


def test_words_are_merged(speller: Loaded) -> None:
    pieces = [speller.spell([token]) for token in speller.tokenize(" the return def self", special=False)]
    assert pieces == [b" the", b" return", b" def", b" s", b"e", b"l", b"f"]


def test_end_tokens_stop_a_turn(speller: Loaded) -> None:
    vocab, llama = tiny_vocab(), speller.llama
    assert llama.llama_vocab_eos(speller.vocab) == vocab.turn_end
    ending = [token for token in range(len(vocab.tokens)) if llama.llama_vocab_is_eog(speller.vocab, token)]
    assert ending == [vocab.end_of_text, vocab.turn_end]
    assert not llama.llama_vocab_get_add_bos(speller.vocab)


def test_a_larger_vocabulary_spells_the_same(llama: Any, models: Path, speller: Loaded) -> None:
    spec = TinySpec(n_vocab=1000)
    with loaded(llama, models, spec) as model:
        assert llama.llama_vocab_n_tokens(model.vocab) == 1000
        text = "return <|unused_3|> <|im_end|>"
        assert model.tokenize(text, special=True) == speller.tokenize(text, special=True)


def test_the_chat_template_is_stored(llama: Any, models: Path) -> None:
    for template in (TinySpec().chat_template, "{{ messages }}", None):
        with loaded(llama, models, TinySpec(chat_template=template)) as model:
            stored = llama.llama_model_chat_template(model.model, None)
            assert (stored and stored.decode()) == template


def test_the_chat_template_adds_a_system_prompt_only_when_there_is_none() -> None:
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(CHAT_TEMPLATE)
    user, answer = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}
    alone = template.render(messages=[user], add_generation_prompt=True)
    system = "<|im_start|>system\nYou are a tiny model that answers at random.<|im_end|>\n"
    assert alone == system + "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert template.render(messages=[user, answer]) == alone + "ho<|im_end|>\n"
    mine = template.render(messages=[{"role": "system", "content": "be brief"}, user])
    assert mine == "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
