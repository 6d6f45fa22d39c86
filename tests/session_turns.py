"""The text around turns, as tokens, for the slow reference of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pace_local import Model


class Turns(Protocol):
    """The text around turns, as tokens."""

    def opening(self, role: str, previous: str | None) -> tuple[list[int], list[int]]:
        """The default system turn that comes first, if there is one, and what opens the turn."""

    def suffix(self, role: str, first: bool, previous: str | None) -> list[int]: ...

    def generation(self, previous: str) -> list[int]: ...

    def closing(self, ended_by_itself: bool) -> list[int]:
        """What is left to read of an answer's turn, the token that ended it included."""


class TinyTurns:
    """ChatML with a default system prompt, spelled out."""

    def __init__(self, model: Model) -> None:
        self._tokens: Callable[[str], list[int]] = lambda text: model.tokenize(text, special=True)

    def opening(self, role: str, previous: str | None) -> tuple[list[int], list[int]]:
        implied = ""
        if previous is None and role != "system":
            implied = "<|im_start|>system\nYou are a tiny model that answers at random.<|im_end|>\n"
        return self._tokens(implied), self._tokens(f"<|im_start|>{role}\n")

    def suffix(self, role: str, first: bool, previous: str | None) -> list[int]:
        return self._tokens("<|im_end|>\n")

    def generation(self, previous: str) -> list[int]:
        return self._tokens("<|im_start|>assistant\n")

    def closing(self, ended_by_itself: bool) -> list[int]:
        return self._tokens("<|im_end|>\n")


class ModelTurns:
    """The turns of any model, by its own template: a reference that shares a part with what is tested."""

    def __init__(self, model: Model) -> None:
        self._template = model.chat_template()
        self._bos = model.bos
        self._tokens: Callable[[str], list[int]] = lambda text: model.tokenize(text, special=True)

    def opening(self, role: str, previous: str | None) -> tuple[list[int], list[int]]:
        frame = self._template.frame(role, first=previous is None, previous=previous)
        implied, own = self._tokens(frame.implied_system), self._tokens(frame.own_prefix)
        if previous is None and self._bos is not None and not frame.has_bos:
            (implied or own).insert(0, self._bos)
        return implied, own

    def suffix(self, role: str, first: bool, previous: str | None) -> list[int]:
        return self._tokens(self._template.frame(role, first=first, previous=previous).suffix)

    def generation(self, previous: str) -> list[int]:
        return self._tokens(self._template.generation_prefix(previous))

    def closing(self, ended_by_itself: bool) -> list[int]:
        closing = self._template.close_turn("assistant")
        return self._tokens(closing.end + closing.rest if ended_by_itself else closing.text)
