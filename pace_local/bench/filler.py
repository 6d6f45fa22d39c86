"""Text to read in bulk: endless, plain, and the same in every run."""

from __future__ import annotations

import random

from pace_local.model import Model

_NAMES = ("Amber", "Basil", "Cedar", "Delta", "Ember", "Fable", "Grove", "Hazel", "Indigo", "Juniper")
_THINGS = ("anchors", "barrels", "candles", "drums", "easels", "flutes", "globes", "hinges", "kettles")
_PLACES = ("the north dock", "the old mill", "gate four", "the upper yard", "the river store")
_LINES_AT_ONCE = 50
_TRIES = 20


class Filler:
    """Lines of a made-up order book, cut to a number of tokens.

    Args:
        model: counts the tokens.
        seed: another seed gives other lines.
    """

    def __init__(self, model: Model, seed: int = 0) -> None:
        self._model = model
        self._random = random.Random(seed)
        self._tokens: list[int] = []

    def take(self, count: int) -> str:
        """The next text of ``count`` tokens, or of nearly as many where no try came out right."""
        for _ in range(_TRIES):
            while len(self._tokens) < count:
                lines = "".join(self._line() for _ in range(_LINES_AT_ONCE))
                self._tokens += self._model.tokenize(lines)
            taken, self._tokens = self._tokens[:count], self._tokens[count:]
            text = self._model.text_of(taken)
            # A text that is cut out of another may fall into other tokens than those it was cut from.
            if len(self._model.tokenize(text)) == count:
                break
        return text

    def _line(self) -> str:
        choose, number = self._random.choice, self._random.randrange
        return (
            f"Order {number(100_000)} for {choose(_NAMES)}: {number(2, 400)} {choose(_THINGS)} and "
            f"{number(2, 400)} {choose(_THINGS)}, sent from {choose(_PLACES)} on day {number(1, 366)}.\n"
        )
