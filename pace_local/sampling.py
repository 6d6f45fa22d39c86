"""Choosing the next token, with llama.cpp's own samplers.

The order is llama.cpp's: repeat penalty, grammar, top-k, top-p, min-p, temperature, then a draw or the
highest logit. A grammar costs a pass over the whole vocabulary, so it is asked about the one token that
the other samplers chose, and filters all of them only if that one does not fit; the token chosen is one
that both allow either way.

Two things are done here that the native side leaves to its caller. The highest logit without penalties is
found by numpy on the native buffer, some thirty times faster than by the chain. And the grammar is asked
for a token before it accepts it: natively it ends the process when it is given one that it does not allow.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from pace_local.errors import ConfigError, NativeError
from pace_local.grammar import check_grammar
from pace_local.lazy_grammar import LazyGrammar
from pace_local.native_grammar import CANDIDATE, NativeGrammar, fill_candidates, grammar_of_schema

if TYPE_CHECKING:
    from pace_local.model import Model

AnyGrammar = NativeGrammar | LazyGrammar

GREATEST_SEED = 2**32 - 2
"""The seed above it asks llama.cpp for a random one, which no session could reproduce."""

_FEW = 256
"""So many tokens are tried one by one before a grammar filters the whole vocabulary."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. The default is greedy: always the highest logit, the lowest id on a tie.

    Raises:
        ConfigError: when a value is out of range, with the value and the range.
    """

    temperature: float = 0.0
    """Divides the logits before the draw, 0.001 to 10; 0 takes the highest logit and ignores top_k, top_p,
    min_p and seed."""

    top_p: float = 1.0
    """Draw among the fewest likeliest tokens whose probabilities reach this sum, 0.000001 to 1; 1 is off.
    Without ``top_k`` it sorts the whole vocabulary, which can take half as long as decoding a token."""

    top_k: int = 0
    """Draw among this many of the likeliest tokens; 0 is off."""

    min_p: float = 0.0
    """Draw among the tokens at least this share as likely as the likeliest, 0 to 1; 0 is off."""

    repeat_penalty: float = 1.0
    """Divides positive logits, and multiplies negative ones, of tokens seen lately, 0.1 to 10; 1 is off."""

    repeat_last_n: int = 64
    """How many tokens back "lately" reaches, 0 to 65,536."""

    seed: int = 0
    """Seed of the draw, 0 to 4,294,967,294; the same seed draws the same tokens."""

    grammar: str | None = None
    """GBNF text, with a rule ``root``, that the answer must follow; see :mod:`pace_local.grammar`."""

    json_schema: str | None = None
    """A JSON schema, as JSON text, that the answer must follow; instead of a grammar."""

    triggers: tuple[str, ...] = ()
    """Texts behind each of which the grammar begins, until it can end; before and after, the answer is free.
    Empty: the answer follows it from its first token."""

    quiet: tuple[tuple[str, str], ...] = ()
    """Opening and closing texts, such as those of reasoning, between which no trigger counts."""

    def __post_init__(self) -> None:
        """Check every range, and the grammar's text."""
        self._check("temperature", 0.001, 10, also=0)
        self._check("top_p", 1e-6, 1)
        self._check("top_k", 0, 2**31 - 1, whole=True)
        self._check("min_p", 0, 1)
        self._check("repeat_penalty", 0.1, 10)
        self._check("repeat_last_n", 0, 65_536, whole=True)
        self._check("seed", 0, GREATEST_SEED, whole=True)
        if self.grammar is not None and self.json_schema is not None:
            raise ConfigError("a grammar and a JSON schema are both given; give one of them")
        if self.grammar is not None:
            check_grammar(self.grammar)
        if "" in self.triggers or any("" in pair or len(pair) != 2 for pair in self.quiet):
            raise ConfigError("a trigger, or one of the texts of a quiet passage, is empty; leave it out")
        if self.triggers and self.grammar is None and self.json_schema is None:
            raise ConfigError("triggers are given, but no grammar that they could begin; give one")
        if self.json_schema is not None:
            try:
                json.loads(self.json_schema)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"json_schema is not JSON: {error}") from None

    def _check(
        self, name: str, low: float, high: float, *, also: float | None = None, whole: bool = False
    ) -> None:
        value = getattr(self, name)
        kind = int if whole else (int, float)
        if (
            isinstance(value, kind)
            and not isinstance(value, bool)
            and (low <= value <= high or value == also)
        ):
            return
        extra = "" if also is None else f", or {also:g}"
        unit = "a whole number" if whole else "a number"
        raise ConfigError(f"{name} is {value!r}; use {unit} from {low:,} to {high:,}{extra}")

    @property
    def is_penalised(self) -> bool:
        """Whether tokens seen lately count against themselves."""
        return self.repeat_penalty != 1 and self.repeat_last_n > 0


class TokenSource(Protocol):
    """Chooses the tokens of one answer."""

    def sample(self, ctx: Any, index: int) -> int:
        """The next token; ``ctx`` and ``index`` say where the logits are."""
        ...


class Writer(Protocol):
    """Writes answers in a model's place, such as :class:`pace_local.testing.Script`."""

    def sampler(self, model: Model, sampling: Sampling) -> AbstractContextManager[TokenSource]:
        """The source of the next answer's tokens."""
        ...


class NativeSampler:
    """A chain of native samplers for one generation. Close it, or use it as a context manager.

    Args:
        vocab: pointer to the native vocabulary (``llama_model_get_vocab``), which must outlive this object.
        sampling: what the chain does.

    Raises:
        ConfigError: the grammar or the schema cannot be used, or the vocabulary has no token that could end
            an answer.
    """

    def __init__(self, vocab: Any, sampling: Sampling) -> None:
        from pace_local import _native

        self._llama: Any = _native.llama
        llama = self._llama
        self._vocab = vocab
        self.sampling = sampling
        self._n_vocab = int(llama.llama_vocab_n_tokens(vocab))
        self._chain: Any = None
        self._grammar: AnyGrammar | None = None
        self._closed = False
        # Views of the native buffers stay valid as long as their addresses do.
        self._logits_address = 0
        self._logits_view: npt.NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self._candidates: npt.NDArray[np.void] = np.empty(0, dtype=CANDIDATE)
        text = sampling.grammar
        if sampling.json_schema is not None:
            text = grammar_of_schema(sampling.json_schema)
        try:
            if sampling.temperature or sampling.is_penalised:
                self._chain = self._build_chain()
            if text is not None:
                self._grammar = (
                    LazyGrammar(llama, vocab, text, sampling.triggers, sampling.quiet)
                    if sampling.triggers
                    else NativeGrammar(llama, vocab, text)
                )
                self._candidates = np.zeros(self._n_vocab, dtype=CANDIDATE)
        except BaseException:
            self.close()
            raise

    def sample(self, ctx: Any, index: int = -1) -> int:
        """Choose a token from the logits of one output of the last decode, and accept it.

        Args:
            ctx: pointer to the llama_context.
            index: which token of the batch; -1 is the last that asked for logits.

        Raises:
            NativeError: there are no logits at ``index``; nothing was accepted.
            ConfigError: the grammar allows no token of this vocabulary here; nothing was accepted.
        """
        logits = self._logits(ctx, index)
        if self._grammar is not None:
            return self._sample_within(self._grammar, logits)
        if self._chain is None:
            return int(logits.argmax())
        return int(self._llama.llama_sampler_sample(self._chain, ctx, index))

    def accept(self, token: int) -> None:
        """Count a token that was chosen elsewhere as the next of the answer.

        Raises:
            ConfigError: no such token, or the grammar does not allow it here; nothing was changed.
        """
        self._known(token)
        if self._grammar is not None:
            if not self._grammar.allows(token):
                raise ConfigError(
                    f"the grammar does not allow token {token} ({self._grammar.text(token)!r}) here"
                )
            self._grammar.accept(token)
        if self._chain is not None:
            self._llama.llama_sampler_accept(self._chain, token)

    def prime(self, tokens: Iterable[int]) -> None:
        """Let the repeat penalty count tokens that stand before the answer; a grammar does not see them.

        Raises:
            ConfigError: no such token; those before it were counted.
        """
        for token in tokens:
            self._known(token)
            if self._chain is not None:
                self._llama.llama_sampler_accept(self._chain, token)

    def reset(self) -> None:
        """Forget all tokens: the seed, the penalties and the grammar start again."""
        self._require_open()
        if self._chain is not None:
            self._llama.llama_sampler_reset(self._chain)
        if self._grammar is not None:
            self._grammar.reset()

    def close(self) -> None:
        """Free the chain. Safe to call twice."""
        self._closed = True
        if self._chain is not None:
            self._llama.llama_sampler_free(self._chain)
            self._chain = None
        if self._grammar is not None:
            self._grammar.close()
            self._grammar = None

    def __enter__(self) -> NativeSampler:
        """The sampler itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _build_chain(self) -> Any:
        llama, sampling = self._llama, self.sampling
        chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        links = []
        if sampling.is_penalised:
            links.append(
                llama.llama_sampler_init_penalties(
                    self._n_vocab, sampling.repeat_last_n, sampling.repeat_penalty, 0.0, 0.0
                )
            )
        if sampling.temperature:
            if sampling.top_k:
                links.append(llama.llama_sampler_init_top_k(sampling.top_k))
            if sampling.top_p < 1:
                links.append(llama.llama_sampler_init_top_p(sampling.top_p, 1))
            if sampling.min_p:
                links.append(llama.llama_sampler_init_min_p(sampling.min_p, 1))
            links.append(llama.llama_sampler_init_temp(sampling.temperature))
            links.append(llama.llama_sampler_init_dist(sampling.seed))
        else:
            links.append(llama.llama_sampler_init_greedy())
        for link in links:
            llama.llama_sampler_chain_add(chain, link)
        return chain

    def _require_open(self) -> None:
        if self._closed:
            raise ConfigError("the sampler is closed; make a new one")

    def _known(self, token: int) -> None:
        self._require_open()
        if not 0 <= token < self._n_vocab:
            raise ConfigError(f"token {token} is not in the vocabulary; use 0 to {self._n_vocab - 1}")

    def _logits(self, ctx: Any, index: int) -> npt.NDArray[np.float32]:
        self._require_open()
        pointer = self._llama.llama_get_logits_ith(ctx, index)
        if not pointer:
            raise NativeError("NO_LOGITS", f"the last decode computed no logits at index {index}")
        address = ctypes.addressof(pointer.contents)
        if address != self._logits_address:
            self._logits_view = np.ctypeslib.as_array(pointer, (self._n_vocab,))
            self._logits_address = address
        return self._logits_view

    def _sample_within(self, grammar: AnyGrammar, logits: npt.NDArray[np.float32]) -> int:
        token = self._choose(logits)
        if not grammar.allows(token):
            fitting = self._first_fitting(grammar, logits) if self._chain is None else None
            token = self._choose_filtered(grammar, logits) if fitting is None else fitting
        grammar.accept(token)
        if self._chain is not None:
            self._llama.llama_sampler_accept(self._chain, token)
        return token

    def _first_fitting(self, grammar: AnyGrammar, logits: npt.NDArray[np.float32]) -> int | None:
        """The highest logit that fits, if it is among the first few: far cheaper than asking about all."""
        if self._n_vocab <= _FEW:
            return None
        few = np.argpartition(logits, -_FEW)[-_FEW:]
        few = few[logits[few] > logits[few[0]]]  # without the last: others as high may have been left out
        for token in few[np.lexsort((few, -logits[few]))]:
            if grammar.allows(int(token)):
                return int(token)
        return None

    def _choose_filtered(self, grammar: AnyGrammar, logits: npt.NDArray[np.float32]) -> int:
        allowed = grammar.filter(logits, self._candidates)
        while np.isfinite(allowed).any():
            token = self._choose(allowed)
            if grammar.allows(token):
                return token
            # The native filter passes a few tokens that the native acceptance would not survive.
            allowed[token] = -np.inf
        raise ConfigError("the grammar allows no token of this model's vocabulary here; change it")

    def _choose(self, logits: npt.NDArray[np.float32]) -> int:
        if self._chain is None:
            return int(logits.argmax())
        array = fill_candidates(self._llama, self._candidates, logits)
        self._llama.llama_sampler_apply(self._chain, ctypes.byref(array))
        return int(array.data[array.selected].id)
