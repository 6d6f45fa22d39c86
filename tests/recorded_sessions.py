"""Recorded sessions with tiny models, what must be equal after a replay, and a slow reference of logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pace_local import Model, Session
from pace_local.recording import RecordedSession

TIGHT: dict[str, Any] = {"budget": 96, "headroom": 16, "position_cap": 160, "threads": 1, "check": True}
"""Evicts and renumbers soon, and checks itself after each decode."""

WIDE: dict[str, Any] = {"budget": 2048, "headroom": 64, "position_cap": 4096, "threads": 1, "check": True}
"""Holds all that these tests read."""


EXACT: dict[str, Any] = {**WIDE, "key_type": "f32", "value_type": "f32", "flash_attn": False}
"""The same, so exact that it hardly matters how tokens are put into batches."""


TOLERANCE = 3e-3
"""In nats, of exact sessions. The CPU rounds activations to the weights' f16 before it multiplies: in another
batch one of them may be rounded the other way."""


def recorded(model: Model, path: Path, **settings: Any) -> RecordedSession:
    return RecordedSession(model, path, **{**TIGHT, **settings})


def all_tokens(session: Session) -> list[int]:
    """The session's tokens, and those that close its last turn but are not read yet."""
    return [*session._cache.tokens, *session._pending]


def history(session: Session) -> dict[str, Any]:
    """All of a session that does not depend on policy and budget."""
    return {
        "tokens": all_tokens(session),
        "segments": list(session.segments),
        "plan": session.plan,
        "role": session._role,
        "prompt": session._prompt,
        "turns": session._n_turns,
    }


def cache_state(session: Session) -> dict[str, Any]:
    """Who is resident and where, and what the model would say next."""
    return {
        "token_index": session.residents.token_index.tolist(),
        "position": session.residents.position.tolist(),
        "logits": session.engine.logits().tolist(),
    }


def scratch_logits(model: Model, tokens: Sequence[int]) -> npt.NDArray[np.float64]:
    """Logits after some tokens, all read anew in a cache of their own."""
    with Session(model, **EXACT) as session:
        for first in range(0, len(tokens), session.engine.n_batch):
            session.engine.decode(tokens[first : first + session.engine.n_batch], first)
        return session.engine.logits().astype(np.float64)


def slow_log_probabilities(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Logarithm of softmax, written out."""
    exponentials = np.exp(logits - np.max(logits))
    return np.log(exponentials / np.sum(exponentials))
