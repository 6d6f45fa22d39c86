"""llama.cpp's grammar sampler, asked before it is told.

Natively it ends the process when it accepts a token that it does not allow, so :meth:`NativeGrammar.allows`
must come before :meth:`NativeGrammar.accept`. llama.cpp's own tools do the same.
"""

from __future__ import annotations

import codecs
import ctypes
import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local.errors import ConfigError
from pace_local.grammar import check_grammar

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""``llama_token_data``."""


class NativeGrammar:
    """Where an answer stands in its grammar.

    Args:
        llama: the bindings.
        vocab: pointer to the native vocabulary, which must outlive this object.
        text: GBNF.

    Raises:
        ConfigError: the grammar cannot be used, or no token of the vocabulary could end an answer.
    """

    def __init__(self, llama: Any, vocab: Any, text: str) -> None:
        self._llama = llama
        self._vocab = vocab
        self._n_vocab = int(llama.llama_vocab_n_tokens(vocab))
        self._sampler: Any = None
        # Strict: what is no UTF-8, or is U+0000, the native filter and acceptance do not agree about.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._one = llama.llama_token_data()
        self._array = llama.llama_token_data_array(ctypes.pointer(self._one), 1, -1, False)
        likely = (llama.llama_vocab_eos(vocab), llama.llama_vocab_eot(vocab))
        found = (
            token
            for token in itertools.chain(likely, range(self._n_vocab))
            if token >= 0 and llama.llama_vocab_is_eog(vocab, token)
        )
        end = next(found, None)
        if end is None:
            raise ConfigError("the model has no token that ends an answer; a grammar could never be left")
        self._end = int(end)
        check_grammar(text)
        self._sampler = llama.llama_sampler_init_grammar(vocab, text.encode(), b"root")
        if not self._sampler:
            raise ConfigError("llama.cpp refuses the grammar; simplify it")

    def close(self) -> None:
        self._llama.llama_sampler_free(self._sampler)
        self._sampler = None

    def reset(self) -> None:
        self._llama.llama_sampler_reset(self._sampler)
        self._decoder.reset()

    def text(self, token: int) -> str:
        return self.piece(token).decode(errors="replace")

    @property
    def can_end(self) -> bool:
        """Whether what was accepted is whole."""
        return self.allows(self._end)

    def is_end(self, token: int) -> bool:
        """Whether a token ends an answer."""
        return bool(self._llama.llama_vocab_is_eog(self._vocab, token))

    def allows(self, token: int) -> bool:
        """Whether the token may come next, so that accepting it is safe."""
        if not self.is_end(token) and not self._decodes(token):
            return False
        self._one.id, self._one.logit, self._one.p = token, 0.0, 0.0
        self._array.size, self._array.selected, self._array.sorted = 1, -1, False
        self._llama.llama_sampler_apply(self._sampler, ctypes.byref(self._array))
        return math.isfinite(self._one.logit)

    def accept(self, token: int) -> None:
        """Advance by a token that :meth:`allows` allows."""
        if not self.is_end(token):
            self._decoder.decode(self.piece(token))
        self._llama.llama_sampler_accept(self._sampler, token)

    def filter(
        self, logits: npt.NDArray[np.float32], candidates: npt.NDArray[np.void]
    ) -> npt.NDArray[np.float32]:
        """A copy of the logits with those of tokens that may not come next at minus infinity."""
        array = fill_candidates(self._llama, candidates, logits)
        self._llama.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return np.array(candidates["logit"], dtype=np.float32)

    def _decodes(self, token: int) -> bool:
        state = self._decoder.getstate()
        try:
            return "\0" not in self._decoder.decode(self.piece(token))
        except UnicodeDecodeError:
            return False
        finally:
            self._decoder.setstate(state)

    def piece(self, token: int) -> bytes:
        """The bytes that a token stands for, control tokens too."""
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = int(self._llama.llama_token_to_piece(self._vocab, token, buffer, size, 0, True))
            if length >= 0:
                return buffer.raw[:length]
            size = -length


def fill_candidates(llama: Any, candidates: npt.NDArray[np.void], logits: npt.NDArray[np.float32]) -> Any:
    """Write the whole vocabulary with its logits into ``candidates``; the native array over them."""
    candidates["id"] = np.arange(len(candidates), dtype=np.int32)
    candidates["logit"] = logits
    pointer = ctypes.cast(candidates.ctypes.data, ctypes.POINTER(llama.llama_token_data))
    return llama.llama_token_data_array(pointer, len(candidates), -1, False)


def grammar_of_schema(schema: str) -> str:
    # Called with the patched library loaded: importing this first would load another.
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    try:
        return str(json_schema_to_gbnf(schema))
    except Exception as error:  # it fails in whatever way the schema leads it to
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"json_schema cannot be turned into a grammar: {reason}") from None
