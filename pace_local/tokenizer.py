"""Texts to tokens, also where a text goes on behind others."""

from __future__ import annotations

from typing import Any

_GUARD = "\n"


class Tokenizer:
    """The tokenizer of a vocabulary.

    SentencePiece vocabularies put a space before a text that begins, or that follows a control token. The
    parts of a turn are tokenized one by one, so that each would get one; here what follows plain text gets
    none, as if all had been tokenized in one.

    Args:
        llama: the bindings.
        vocab: pointer to the native vocabulary, which must outlive this object.
    """

    def __init__(self, llama: Any, vocab: Any) -> None:
        self._llama, self._vocab = llama, vocab
        self._is_spm = llama.llama_vocab_type(vocab) == llama.LLAMA_VOCAB_TYPE_SPM

    def tokenize(self, text: str, *, special: bool = False, continues: bool = False) -> list[int]:
        """Token ids of a text, without BOS.

        Args:
            text: any text.
            special: whether control tokens in it are taken for what they say.
            continues: whether plain text comes before it.
        """
        if continues and self._is_spm:
            guard, guarded = self._tokens(_GUARD, special), self._tokens(_GUARD + text, special)
            if guarded[: len(guard)] == guard:  # else the text's start is one token with it
                return guarded[len(guard) :]
        return self._tokens(text, special)

    def is_plain(self, token: int) -> bool:
        """Whether a token is part of a text, and neither a control token nor one that stands by itself."""
        llama = self._llama
        others = (
            llama.LLAMA_TOKEN_ATTR_UNKNOWN
            | llama.LLAMA_TOKEN_ATTR_CONTROL
            | llama.LLAMA_TOKEN_ATTR_USER_DEFINED
        )
        return not llama.llama_vocab_get_attr(self._vocab, token) & others

    def _tokens(self, text: str, special: bool) -> list[int]:
        data = text.encode("utf-8", errors="surrogatepass")
        capacity = len(data) + 8
        tokens = (self._llama.llama_token * capacity)()
        count = self._llama.llama_tokenize(self._vocab, data, len(data), tokens, capacity, False, special)
        if count < 0:
            capacity = -count
            tokens = (self._llama.llama_token * capacity)()
            count = self._llama.llama_tokenize(self._vocab, data, len(data), tokens, capacity, False, special)
        assert count >= 0
        return list(tokens[:count])
