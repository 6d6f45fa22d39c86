"""A recording, as read from its file."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace_local.config import SessionConfig
from pace_local.config_document import config_document, config_of
from pace_local.errors import ConfigError, FileError
from pace_local.json_fields import as_object, optional, required
from pace_local.models import REGISTRY
from pace_local.recording.turns import Appended, Generated, Turn, turn_of

FORMAT = 1
"""Version of the file's form; another one is refused."""


@dataclass(frozen=True)
class Recording:
    """What a session was told and what it answered, in order."""

    path: Path
    model: str
    """Name of the model that answered."""
    sha256: str | None
    """Of the model's file, if that was known."""
    config: dict[str, Any]
    """Settings of the session, as :class:`~pace_local.config.SessionConfig` names them."""
    turns: tuple[Turn, ...]
    digest: str
    """SHA-256 of the file's whole lines, in hexadecimal digits."""
    torn: str | None = None
    """What was left out, for people, if the recording session ended in the midst of a line."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a recording. A last line that was never finished is left out, and ``torn`` says so.

        Raises:
            FileError: if it cannot be read or is no recording, with the line and what is wrong.
        """
        path = Path(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FileError(f"cannot read the recording {path}: {error.strerror}") from error
        *lines, rest = data.split(b"\n")
        torn = None
        if rest:
            # No beginning of a JSON object is one: if it can be read, only the line's end is missing.
            if _is_json(rest):
                lines.append(rest)
            else:
                torn = f"{path}: line {len(lines) + 1} was never finished, and is left out"
        if not lines:
            raise FileError(f"{path} is no recording: it has no whole line")
        documents = [_parse(path, number, line) for number, line in enumerate(lines, 1)]
        model, sha256, config = _header(path, documents[0])
        turns = []
        for number, document in enumerate(documents[1:], 2):
            try:
                turns.append(turn_of(document))
            except ValueError as error:
                raise FileError(f"{path}, line {number}: {error}") from None
        digest = hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
        return cls(path, model, sha256, config, tuple(turns), digest, torn)

    def registry_name(self) -> str:
        """The model's name, if the registry knows it.

        Raises:
            ConfigError: if it does not: its file must be named then.
        """
        if self.model not in REGISTRY:
            raise ConfigError(
                f"the session was recorded with {self.model!r}, which is no name of `pace models list`; "
                "give its file with --model"
            )
        return self.model

    @property
    def length(self) -> int:
        """Tokens of the whole session."""
        return max((turn.length for turn in self.turns if isinstance(turn, (Appended, Generated))), default=0)

    @property
    def answer_tokens(self) -> int:
        """Tokens of all answers."""
        return sum(len(turn.tokens) for turn in self.turns if isinstance(turn, Generated))

    def session_config(self, **changes: Any) -> SessionConfig:
        """The settings that it was recorded with, but for some.

        Raises:
            ConfigError: for a setting that is unknown or out of range.
        """
        return config_of({**self.config, **changes})


def header_document(model: str, sha256: str | None, config: SessionConfig) -> dict[str, Any]:
    """The first line of a recording as plain values."""
    settings = config_document(config)
    return {"type": "session", "format": FORMAT, "model": model, "sha256": sha256, "config": settings}


def _header(path: Path, document: object) -> tuple[str, str | None, dict[str, Any]]:
    try:
        fields = as_object(document)
        if required(fields, "type", str) != "session":
            raise ValueError("it is not the header of a recording")
        version = required(fields, "format", int)
        if version != FORMAT:
            raise ValueError(f"format {version} is not known; this version reads format {FORMAT}")
        config = required(fields, "config", dict)
        required(config, "policy", str)
        config_of(config)
        return required(fields, "model", str), optional(fields, "sha256", str), config
    except (ValueError, ConfigError) as error:
        raise FileError(f"{path}, line 1: {error}") from None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _parse(path: Path, number: int, line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        what = error.msg if isinstance(error, json.JSONDecodeError) else "it is no text that can be read"
        raise FileError(f"{path}, line {number} is not valid JSON: {what}") from None
