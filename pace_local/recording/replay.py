"""Plays a recording in another session: what was read is read, and answers are forced token by token.

A replay holds the same tokens as the recorded session whatever its policy and budget; only what is resident
differs. So what the model thinks of a recorded token can be compared between policies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from pace_local.errors import ConfigError, FileError
from pace_local.plan import Plan
from pace_local.recording.reader import Recording
from pace_local.recording.turns import Appended, Generated, Pinned, Planned, checksum_of
from pace_local.session import Look, Session


def force(
    session: Session,
    tokens: Sequence[int],
    *,
    prompt: str | None = None,
    name: str | None = None,
    next_use: int | None = None,
    end_token: int | None = None,
) -> list[float]:
    """Read a prompt, if there is one, and then tokens as if the model had written them.

    All or nothing: if it fails, prompt and answer are withdrawn.

    Args:
        session: neither closed nor busy.
        tokens: of the answer, without the one that ends it; may be empty.
        prompt: the user's turn; None: an answer to what was read before.
        name: of the answer's segment.
        next_use: of the answer; as for :meth:`Session.generate`.
        end_token: with which the answer was ended; None: the template's own.

    Returns:
        The natural logarithm of each token's probability, given the session before it was read.

    Raises:
        ConfigError: for a token that the model does not have, an empty prompt, or nothing to answer.
        CancelledError, ContextFullError, NativeError: as :meth:`Session.append`.
    """
    found: list[float] = []
    session.write(
        tokens,
        prompt=prompt,
        name=name,
        next_use=next_use,
        end_token=end_token,
        look=lambda token, logits: found.append(log_probability(token, logits)),
    )
    return found


def log_probability(token: int, logits: npt.NDArray[np.float32]) -> float:
    """Natural logarithm of a token's probability, computed in float64."""
    wide = logits.astype(np.float64)
    top = wide.max()
    return float(wide[token] - top - np.log(np.exp(wide - top).sum()))


def replay(
    recording: Recording,
    session: Session,
    *,
    until: int | None = None,
    on_turn: Callable[[int, int], None] | None = None,
    look: Look | None = None,
) -> None:
    """Do to a fresh session what was done to the recorded one, so that it holds the same tokens.

    Args:
        recording: of a session with the same model.
        session: a fresh one, with any policy and budget.
        until: plays so many turns; None: all.
        on_turn: called after each turn with turns done and turns to play.
        look: called for each token of an answer.

    Raises:
        ConfigError: if the session is not fresh, or a pinned text does not fit its budget.
        FileError: if the model makes other tokens of the same texts, with the turn.
        PlanError: if the recording names a segment that is not there.
        CancelledError, ContextFullError, NativeError: as :meth:`Session.append`. The turns before stay.
    """
    if session.session_length:
        raise ConfigError(f"a replay needs a fresh session, and this one has {session.session_length} tokens")
    total = len(recording.turns) if until is None else min(until, len(recording.turns))
    length = checksum = 0
    for number, turn in enumerate(recording.turns[:total], 1):
        if isinstance(turn, Appended):
            session.append(
                turn.text,
                name=turn.name,
                kind=turn.kind,
                pinned=turn.pinned,
                next_use=turn.next_use,
                isolated=turn.isolated,
            )
        elif isinstance(turn, Generated):
            if _foreign_token(session, turn.tokens, turn.end_token) is not None:
                raise _other_tokens(recording, number, session)
            session.write(
                turn.tokens,
                prompt=turn.prompt,
                name=turn.name,
                next_use=turn.next_use,
                end_token=turn.end_token,
                look=look,
            )
        elif isinstance(turn, Planned):
            session.plan = Plan(turn.steps)
        elif isinstance(turn, Pinned):
            session.pin(turn.name, turn.pinned)
        else:
            session.step_done()
        if isinstance(turn, (Appended, Generated)):
            tokens = session.tokens
            checksum = checksum_of(tokens[length:], checksum)
            length = len(tokens)
            if (length, checksum) != (turn.length, turn.checksum):
                raise _other_tokens(recording, number, session)
        if on_turn is not None:
            on_turn(number, total)


def _foreign_token(session: Session, tokens: Sequence[int], end_token: int | None) -> int | None:
    """The first token that the session's model does not have."""
    every = (*tokens, *(() if end_token is None else (end_token,)))
    return next((token for token in every if not 0 <= token < session.model.shape.n_vocab), None)


def _other_tokens(recording: Recording, number: int, session: Session) -> FileError:
    return FileError(
        f"{recording.path}, turn {number}: its tokens are others with {session.model.name} than they were "
        f"with {recording.model}; give the same model, and the same enable_thinking"
    )
