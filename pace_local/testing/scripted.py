"""A model that says what a script says: for tests of programs that talk to one.

The session is real: what is said is decoded token by token, takes room, is evicted and comes back. Only the
choice of tokens is the script's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pace_local.errors import ConfigError
from pace_local.model import Model
from pace_local.sampling import Sampling

Line = str | Callable[[Sampling], str]
"""An answer, or what makes one when it is asked for."""


class Script:
    """Answers in order, one a generation. Pass it as ``writer`` to a session.

    A grammar does not hold it: malformed calls can be scripted too.

    Args:
        lines: the answers; a function is called with the sampling that was asked for.
        ends: whether each answer ends by itself; else the script goes on with its last token for ever.

    Raises:
        ConfigError: from a generation, when no line is left.
    """

    def __init__(self, lines: Iterable[Line], *, ends: bool = True) -> None:
        self._lines = iter(lines)
        self._ends = ends
        self.said: list[str] = []
        """What it has begun to say."""

    @contextmanager
    def sampler(self, model: Model, sampling: Sampling) -> Iterator[_Spoken]:
        """The next answer, as a source of tokens.

        Raises:
            ConfigError: when no line is left.
        """
        line = next(self._lines, None)
        if line is None:
            raise ConfigError(f"the script has no answer after its {len(self.said)}; add one")
        text = line if isinstance(line, str) else line(sampling)
        self.said.append(text)
        yield _Spoken(model, text, ends=self._ends)


class _Spoken:
    def __init__(self, model: Model, text: str, *, ends: bool) -> None:
        tokens = model.tokenize(text, special=True)
        end = next(token for token in range(model.shape.n_vocab) if model.is_end(token))
        self._tokens = iter(tokens)
        self._after = end if ends or not tokens else tokens[-1]

    def sample(self, ctx: Any, index: int) -> int:
        """The next token of the answer, whatever the logits are."""
        return next(self._tokens, self._after)
