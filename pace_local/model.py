"""A GGUF model in memory: weights, vocabulary, chat template."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pace_local import _native
from pace_local.chat import ChatTemplate
from pace_local.errors import CancelledError, ModelError
from pace_local.models import find_model, fingerprint, inspect_gguf
from pace_local.tokenizer import Tokenizer

LoadProgress = Callable[[float], bool | None]
"""Called with the share loaded, 0 to 1; returning False cancels."""


@dataclass(frozen=True)
class Shape:
    """What decides the size of a model's KV cache."""

    n_layer: int
    n_head: int
    n_head_kv: int
    n_embd: int
    n_ctx_train: int

    n_vocab: int
    n_params: int
    weight_bytes: int


class Model:
    """A loaded model, from which sessions are made. Close it, or use it as a context manager.

    Use :meth:`load`; the constructor takes over a native pointer.
    """

    def __init__(self, pointer: Any, path: Path) -> None:
        self._llama = _native.llama
        self.pointer = pointer
        self.path = path
        self._vocab = self._llama.llama_model_get_vocab(pointer)
        self._tokenizer = Tokenizer(self._llama, self._vocab)
        self._templates: dict[tuple[tuple[str, object], ...], ChatTemplate] = {}
        self._pieces: dict[int, bytes] = {}
        llama = self._llama
        self.shape = Shape(
            n_layer=llama.llama_model_n_layer(pointer),
            n_head=llama.llama_model_n_head(pointer),
            n_head_kv=llama.llama_model_n_head_kv(pointer),
            n_embd=llama.llama_model_n_embd(pointer),
            n_ctx_train=llama.llama_model_n_ctx_train(pointer),
            n_vocab=llama.llama_vocab_n_tokens(self._vocab),
            n_params=llama.llama_model_n_params(pointer),
            weight_bytes=llama.llama_model_size(pointer),
        )

    @classmethod
    def load(
        cls,
        reference: str | os.PathLike[str],
        *,
        gpu_layers: int | None = None,
        device: str | None = None,
        progress: LoadProgress | None = None,
    ) -> Model:
        """Load a model by its registry name or the path of any GGUF.

        Args:
            reference: a name that ``pace models list`` shows and that was pulled, or a path.
            gpu_layers: how many layers go to the GPU; None: all that there are, where there is one.
            device: name of the only device to use besides the CPU; None: all.
            progress: see :data:`LoadProgress`.

        Raises:
            ModelError: if it is missing, not a GGUF, truncated, or of an unknown architecture.
            CancelledError: if ``progress`` returned False.
        """
        path = find_model(reference)
        header = inspect_gguf(path)
        llama = _native.llama
        params = llama.llama_model_default_params()
        params.n_gpu_layers = 999 if gpu_layers is None else gpu_layers
        devices = _native.device_list(device) if device is not None else None
        if devices is not None:
            params.devices = ctypes.cast(devices, ctypes.c_void_p)
        cancelled = False

        def report(share: float, _data: object) -> bool:
            nonlocal cancelled
            cancelled = progress is not None and progress(share) is False
            return not cancelled

        callback = llama.llama_progress_callback(report)
        params.progress_callback = callback
        _native.forget_complaints()
        pointer = llama.llama_model_load_from_file(os.fsencode(path), params)
        if not pointer:
            if cancelled:
                raise CancelledError(f"loading {path.name} was cancelled")
            said = _native.last_complaint() or "no reason was given"
            raise ModelError(f"cannot load {path} (architecture {header.architecture}): {said}")
        model = cls(pointer, path)
        _ = model.fingerprint  # now, while the file is what was loaded
        return model

    def close(self) -> None:
        """Free the weights. Sessions of this model must be closed before. Safe to call twice."""
        if self.pointer is not None:
            self._llama.llama_model_free(self.pointer)
            self.pointer = None

    def __enter__(self) -> Model:
        """The model itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """Tells this model's file from others, 32 bytes: see :func:`pace_local.models.fingerprint`.

        Raises:
            ModelError: if the file cannot be read any more.
        """
        try:
            return fingerprint(self.path)
        except OSError as error:
            raise ModelError(f"cannot read {self.path}: {error.strerror}") from error

    @property
    def vocab(self) -> Any:
        """Pointer to the native vocabulary.

        Raises:
            ModelError: if the model is closed; so do all methods that look into it.
        """
        self._require_open()
        return self._vocab

    def _require_open(self) -> None:
        # The native side would read freed memory.
        if self.pointer is None:
            raise ModelError(f"{self.name} is closed; load it again")

    def metadata(self, key: str) -> str | None:
        """A value of the GGUF's metadata as text, or None if there is no such key."""
        self._require_open()
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = int(self._llama.llama_model_meta_val_str(self.pointer, key.encode(), buffer, size))
            if length < 0:
                return None
            if length < size:
                return buffer.value.decode("utf-8", errors="replace")
            size = length + 1

    def tokenize(self, text: str, *, special: bool = False, after: Sequence[int] = ()) -> list[int]:
        """Token ids of a text, without BOS.

        Args:
            text: any text.
            special: whether control tokens in the text, such as ``<|im_end|>``, are taken for what they
                say. Only for text that this package wrote: in a user's file they are just characters.
            after: the tokens before the text, of which the last one counts. Some vocabularies put a space
                before a text, but not where it goes on behind another.
        """
        self._require_open()
        continues = len(after) > 0 and self._tokenizer.is_plain(after[-1])
        return self._tokenizer.tokenize(text, special=special, continues=continues)

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that a token stands for; control tokens are empty unless ``special``."""
        if not special and token in self._pieces:
            return self._pieces[token]
        self._require_open()
        size = 32
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = self._llama.llama_token_to_piece(self._vocab, token, buffer, size, 0, special)
            if length >= 0:
                break
            size = -length
        piece = buffer.raw[:length]
        if not special:
            self._pieces[token] = piece
        return piece

    def text_of(self, tokens: Sequence[int], *, special: bool = True) -> str:
        """The text of some tokens; bytes that are no UTF-8 become replacement characters."""
        return b"".join(self.piece(token, special=special) for token in tokens).decode(
            "utf-8", errors="replace"
        )

    def is_end(self, token: int) -> bool:
        """Whether a token ends generation."""
        return bool(self._llama.llama_vocab_is_eog(self.vocab, token))

    @property
    def bos(self) -> int | None:
        """The token that opens a session, or None if this model wants none."""
        if not self._llama.llama_vocab_get_add_bos(self.vocab):
            return None
        token = int(self._llama.llama_vocab_bos(self._vocab))
        return token if token >= 0 else None

    def chat_template(self, options: Mapping[str, object] | None = None) -> ChatTemplate:
        """The model's own chat template, or a stand-in that says so in its ``warning``.

        Args:
            options: variables for the template, such as ``{"enable_thinking": False}``.

        Raises:
            ModelError: if the template is broken.
        """
        self._require_open()
        key = tuple(sorted((options or {}).items()))
        if key not in self._templates:
            source = self._llama.llama_model_chat_template(self.pointer, None)
            bos, eos = (
                self._special_text(self._llama.llama_vocab_bos(self._vocab)),
                self._special_text(self._llama.llama_vocab_eos(self._vocab)),
            )
            self._templates[key] = ChatTemplate.from_model(
                source.decode("utf-8", errors="replace") if source else None,
                bos=bos,
                eos=eos,
                has_chatml=len(self.tokenize("<|im_start|>", special=True)) == 1,
                name=self.name,
                end_tokens=self._end_texts(),
                options=options,
            )
        return self._templates[key]

    def _special_text(self, token: int) -> str:
        return self.piece(token, special=True).decode("utf-8", errors="replace") if token >= 0 else ""

    def _end_texts(self) -> list[str]:
        return [self._special_text(token) for token in range(self.shape.n_vocab) if self.is_end(token)]
