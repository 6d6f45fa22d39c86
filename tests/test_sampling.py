"""Native samplers against numpy, on logits that the tests write into the context's own buffer."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pace_local import _native
from pace_local.errors import ConfigError, NativeError
from pace_local.sampling import NativeSampler, Sampling
from pace_local.testing import TinySpec, tiny_model

OBJECT = r"""
root   ::= "{" pair ("," pair)* "}"
pair   ::= string ":" [1-9] [0-9]{0,2}
string ::= "\"" [a-z]{1,4} "\""
"""


@dataclass
class Bench:
    """A tiny model whose logits a test can set."""

    llama: Any
    vocab: Any
    ctx: Any
    logits: npt.NDArray[np.float32]

    @property
    def size(self) -> int:
        return len(self.logits)

    def shuffle(self, seed: int, scale: float = 2.0) -> None:
        self.logits[:] = np.random.default_rng(seed).normal(0, scale, self.size)

    def token(self, text: str) -> int:
        tokens = (self.llama.llama_token * 8)()
        data = text.encode()
        assert self.llama.llama_tokenize(self.vocab, data, len(data), tokens, 8, False, True) == 1
        return int(tokens[0])

    def byte(self, value: int) -> int:
        return next(token for token in range(self.size) if self.piece(token) == bytes([value]))

    def piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(64)
        length = self.llama.llama_token_to_piece(self.vocab, token, buffer, 64, 0, True)
        return buffer.raw[:length]

    def draw(self, sampling: Sampling, count: int) -> list[int]:
        with NativeSampler(self.vocab, sampling) as sampler:
            return [sampler.sample(self.ctx) for _ in range(count)]


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    llama = _native.llama
    path = tiny_model(TinySpec(n_layer=1), tmp_path_factory.mktemp("sampling"))
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_threads = 64, 1
    ctx = llama.llama_init_from_model(model, params)
    vocab = llama.llama_model_get_vocab(model)
    tokens = (llama.llama_token * 2)(1, 2)
    assert llama.llama_decode(ctx, llama.llama_batch_get_one(tokens, 2)) == 0
    size = llama.llama_vocab_n_tokens(vocab)
    yield Bench(llama, vocab, ctx, np.ctypeslib.as_array(llama.llama_get_logits_ith(ctx, -1), (size,)))
    llama.llama_free(ctx)
    llama.llama_model_free(model)


@pytest.fixture
def bench(decoded: Bench) -> Bench:
    decoded.shuffle(0)
    return decoded


def softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def test_greedy_is_the_highest_logit_and_the_lowest_id_on_a_tie(bench: Bench) -> None:
    with NativeSampler(bench.vocab, Sampling()) as sampler:
        for seed in range(20):
            bench.shuffle(seed)
            assert sampler.sample(bench.ctx) == int(np.argmax(bench.logits))
        bench.logits[[7, 40, 200]] = 99
        assert sampler.sample(bench.ctx, -1) == 7


def test_greedy_equals_the_native_greedy_sampler(bench: Bench) -> None:
    llama = bench.llama
    native = llama.llama_sampler_init_greedy()
    for seed in range(20):
        bench.shuffle(seed)
        bench.logits[seed : seed + 3] = bench.logits.max()
        assert bench.draw(Sampling(), 1) == [llama.llama_sampler_sample(native, bench.ctx, -1)]
    llama.llama_sampler_free(native)


def test_no_logits_at_an_index_is_an_error_and_not_an_abort(bench: Bench) -> None:
    for sampling in (Sampling(), Sampling(temperature=1), Sampling(grammar='root ::= "a"')):
        with NativeSampler(bench.vocab, sampling) as sampler:
            with pytest.raises(NativeError, match="no logits at index 0") as caught:
                sampler.sample(bench.ctx, 0)  # the first of two tokens asked for none
            assert caught.value.status == "NO_LOGITS"
            sampler.sample(bench.ctx, 1 if sampling.grammar is None else -1)


def test_same_seed_draws_the_same_and_another_seed_others(bench: Bench) -> None:
    sampling = Sampling(temperature=1.0, seed=11)
    first = bench.draw(sampling, 40)
    assert bench.draw(sampling, 40) == first
    assert bench.draw(replace(sampling, seed=12), 40) != first
    with NativeSampler(bench.vocab, sampling) as sampler:
        assert [sampler.sample(bench.ctx) for _ in range(40)] == first
        sampler.reset()
        assert [sampler.sample(bench.ctx) for _ in range(40)] == first


def test_top_k_one_is_greedy_at_any_temperature(bench: Bench) -> None:
    for seed in range(10):
        bench.shuffle(seed)
        assert set(bench.draw(Sampling(temperature=5, top_k=1, seed=seed), 5)) == {
            int(np.argmax(bench.logits))
        }


def restricted(logits: npt.NDArray[np.float32], sampling: Sampling) -> set[int]:
    """Slow reference: tokens left by top-k, then top-p, then min-p."""
    order = np.argsort(-logits, kind="stable")
    if sampling.top_k:
        order = order[: sampling.top_k]
    reached = np.cumsum(softmax(logits[order]))
    order = order[: int(np.searchsorted(reached, sampling.top_p)) + 1] if sampling.top_p < 1 else order
    shares = softmax(logits[order])
    return set(order[shares >= sampling.min_p * shares.max()].tolist())


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1, top_k=5),
        Sampling(temperature=1, top_p=0.5),
        Sampling(temperature=1, min_p=0.2),
        Sampling(temperature=1, top_k=20, top_p=0.8),
        Sampling(temperature=3, top_k=30, top_p=0.9, min_p=0.1),
    ],
)
def test_draws_stay_within_what_numpy_leaves_and_reach_all_of_it(bench: Bench, sampling: Sampling) -> None:
    bench.shuffle(3, scale=1.5)
    expected = restricted(bench.logits, sampling)
    assert 1 < len(expected) < bench.size / 2
    # All filters come before the temperature, so a hot draw reaches every token that they leave.
    assert set(bench.draw(replace(sampling, temperature=10), 4000)) == expected


def test_draws_follow_the_softmax_at_the_temperature(bench: Bench) -> None:
    bench.logits[:] = -50
    bench.logits[[3, 5, 9]] = [2.0, 1.0, 0.0]
    counts = np.bincount(bench.draw(Sampling(temperature=2), 20_000), minlength=bench.size) / 20_000
    expected = softmax(bench.logits / 2)
    # Five standard deviations of a share of 0.5 in 20,000 draws.
    assert np.abs(counts - expected).max() < 5 * 0.5 / np.sqrt(20_000), np.abs(counts - expected).max()


def test_repeat_penalty_lowers_repeats_within_its_reach(bench: Bench) -> None:
    bench.logits[:] = -1
    bench.logits[[3, 5, 9]] = [2.0, 1.9, 1.8]
    assert bench.draw(Sampling(), 4) == [3, 3, 3, 3]
    assert bench.draw(Sampling(repeat_penalty=1.5), 4) == [3, 5, 9, 3]
    assert bench.draw(Sampling(repeat_penalty=1.5, repeat_last_n=1), 4) == [3, 5, 3, 5]
    assert bench.draw(Sampling(repeat_penalty=1.5, repeat_last_n=0), 4) == [3, 3, 3, 3]
    # Negative logits are multiplied, or the penalty would raise them.
    bench.logits[:] = -9
    bench.logits[[3, 5]] = [-1.0, -1.1]
    assert bench.draw(Sampling(repeat_penalty=1.5), 2) == [3, 5]


def test_primed_tokens_count_for_the_penalty_and_not_for_the_grammar(bench: Bench) -> None:
    a, b = bench.token("a"), bench.token("b")
    bench.logits[:] = -1
    bench.logits[[a, b]] = [2.0, 1.9]
    with NativeSampler(bench.vocab, Sampling(repeat_penalty=1.5, grammar='root ::= [ab] "a"')) as sampler:
        sampler.prime([bench.token("z"), a])
        assert [sampler.sample(bench.ctx) for _ in range(2)] == [b, a]
        with pytest.raises(ConfigError, match=f"token {bench.size} is not in the vocabulary"):
            sampler.prime([bench.size])


@pytest.mark.parametrize("settings", [{}, {"temperature": 2.0, "seed": 4}, {"repeat_penalty": 1.3}])
def test_grammar_holds_whatever_the_logits_say(bench: Bench, settings: dict[str, float]) -> None:
    sampling = Sampling(grammar=OBJECT, **settings)  # type: ignore[arg-type]
    for seed in range(8):
        with NativeSampler(bench.vocab, sampling) as sampler:
            text = b""
            for step in range(120):
                bench.shuffle(1000 * seed + step, scale=4)
                bench.logits[bench.token("}")] += step / 4  # an end comes into reach
                token = sampler.sample(bench.ctx)
                if bench.llama.llama_vocab_is_eog(bench.vocab, token):
                    break
                text += bench.piece(token)
            assert bench.llama.llama_vocab_is_eog(bench.vocab, token), text
            parsed = json.loads(text)
            assert parsed
            assert all(isinstance(value, int) for value in parsed.values())
            # Exhausted: there is nothing but the end, as often as one asks.
            bench.shuffle(seed)
            assert bench.llama.llama_vocab_is_eog(bench.vocab, sampler.sample(bench.ctx))


def test_greedy_within_a_grammar_is_the_highest_logit_that_fits(bench: Bench) -> None:
    fitting = [bench.token(letter) for letter in "abcdefgh"]
    for seed in range(30):
        bench.shuffle(seed)
        bench.logits[fitting] -= seed  # at last so low that all must be filtered
        best = max(fitting, key=lambda token: (bench.logits[token], -token))
        assert bench.draw(Sampling(grammar="root ::= [a-h]"), 1) == [best]


def test_token_that_the_grammar_forbids_is_refused_and_changes_nothing(bench: Bench) -> None:
    a, b, end = bench.token("a"), bench.token("b"), bench.token("<|im_end|>")
    with NativeSampler(bench.vocab, Sampling(grammar='root ::= "ab"')) as sampler:
        for token in (b, end):
            with pytest.raises(ConfigError, match=f"does not allow token {token} "):
                sampler.accept(token)
        for token in (-1, bench.size, 2**31 - 1):
            with pytest.raises(ConfigError, match="not in the vocabulary"):
                sampler.accept(token)
        sampler.accept(a)
        with pytest.raises(ConfigError, match="does not allow"):
            sampler.accept(a)
        sampler.accept(b)
        sampler.accept(end)
        sampler.reset()
        bench.logits[:] = 0
        assert sampler.sample(bench.ctx) == a


def test_bytes_that_are_no_utf8_never_pass(bench: Bench) -> None:
    """The native filter takes F0 80 for the start of a character; no decoder of the answer would."""
    lead, overlong = bench.byte(0xF0), bench.byte(0x80)
    grammar = "root ::= [\\u0800-\\U0010ffff]"
    with NativeSampler(bench.vocab, Sampling(grammar=grammar)) as sampler:
        sampler.accept(lead)
        with pytest.raises(ConfigError, match="does not allow"):
            sampler.accept(overlong)
        text = bench.piece(lead)
        for step in range(3):
            bench.shuffle(step)
            bench.logits[overlong] = 50 if step == 0 else bench.logits[overlong]
            text += bench.piece(sampler.sample(bench.ctx))
    assert len(text.decode()) == 1


def test_dead_end_of_a_grammar_is_an_error(bench: Bench) -> None:
    bench.logits[:] = -np.inf
    bench.logits[bench.token("z")] = 1.0
    for sampling in (
        Sampling(grammar='root ::= "a"'),
        Sampling(grammar='root ::= "a"', temperature=1, top_k=3),
    ):
        with NativeSampler(bench.vocab, sampling) as sampler:
            with pytest.raises(ConfigError, match="allows no token"):
                sampler.sample(bench.ctx)
            sampler.accept(bench.token("a"))  # nothing was accepted before


def test_json_schema_becomes_a_grammar(bench: Bench) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with NativeSampler(bench.vocab, Sampling(json_schema=json.dumps(schema))) as sampler:
        for letter in '{"n":7}':
            sampler.accept(bench.token(letter))
        sampler.accept(bench.token("<|im_end|>"))
    with pytest.raises(ConfigError, match="json_schema cannot be turned into a grammar"):
        NativeSampler(bench.vocab, Sampling(json_schema='{"$ref": "https://example.org/x"}'))


def test_nothing_native_is_printed(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    for grammar in ('root ::= "', "root ::= x", 'root ::= root "a"', "x ::= root{0}"):
        with pytest.raises(ConfigError):
            Sampling(grammar=grammar)
    with NativeSampler(bench.vocab, Sampling(grammar='root ::= "a"')) as sampler, pytest.raises(ConfigError):
        sampler.accept(bench.token("b"))
    assert capfd.readouterr() == ("", "")


def test_closed_sampler_says_so(bench: Bench) -> None:
    for sampling in (Sampling(), Sampling(temperature=1), Sampling(grammar='root ::= "a"')):
        sampler = NativeSampler(bench.vocab, sampling)
        sampler.close()
        sampler.close()
        for use in (lambda: sampler.sample(bench.ctx), lambda: sampler.accept(1), sampler.reset):  # noqa: B023
            with pytest.raises(ConfigError, match="the sampler is closed"):
                use()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.1}, "temperature is -0.1; use a number from 0.001 to 10, or 0"),
        ({"temperature": 1e-9}, "temperature is 1e-09"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"top_p": 0}, "top_p is 0; use a number from 1e-06 to 1"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"top_k": -1}, "top_k is -1; use a whole number from 0 to 2,147,483,647"),
        ({"top_k": 1.5}, "top_k is 1.5"),
        ({"min_p": 2}, "min_p is 2"),
        ({"repeat_penalty": 0}, "repeat_penalty is 0; use a number from 0.1 to 10"),
        ({"repeat_penalty": float("inf")}, "repeat_penalty is inf"),
        ({"repeat_last_n": -1}, "repeat_last_n is -1; use a whole number from 0 to 65,536"),
        ({"seed": 2**32 - 1}, "seed is 4294967295; use a whole number from 0 to 4,294,967,294"),
        ({"seed": True}, "seed is True"),
        ({"grammar": 'root ::= "a'}, "grammar line 1, column 12: a string is not closed"),
        ({"json_schema": "{"}, "json_schema is not JSON"),
        ({"json_schema": "{}", "grammar": 'root ::= "a"'}, "both given"),
    ],
)
def test_value_out_of_range_is_refused_with_its_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Sampling(**settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_importing_loads_no_native_code() -> None:
    code = "import sys, pace_local.sampling; sys.exit(any('llama' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
