"""The errors that PACE raises on purpose; those of one package alone, such as the agent's, are drawn there.

::

    PaceError                     exit code 1
    ├── InputError                exit code 2: the caller can put it right
    │   ├── ModelError            a model that is missing, broken or unsupported
    │   ├── ConfigError           a budget, cap, policy or setting out of range
    │   ├── PlanError             a plan that cannot be read or names what is not there
    │   ├── FileError             an input file that cannot be used
    │   └── StorageError          no room, no permission, a broken download
    │       └── SessionInUseError another process has the session (``pace_local.sessions``)
    ├── ContextFullError          policy ``none`` has no cell left
    ├── NativeError               a native call failed; carries its status
    │   ├── NativeLoadError       the native library is missing or does not match (exit code 2)
    │   └── CacheLostError        a device failed half-way; the sequence is empty now
    ├── CancelledError            exit code 130
    └── TimeLimitError            exit code 124

Messages are one line, show the value that was wrong and say what to do about it. A command prints
the message alone; a traceback from one of these is a bug.
"""

from __future__ import annotations


class PaceError(Exception):
    """Base of all errors of this package."""

    exit_code = 1


class InputError(PaceError):
    """Something that the caller gave cannot be used."""

    exit_code = 2


class ModelError(InputError):
    """A model is missing, broken, not a GGUF, or of a kind that cannot be supported."""


class ConfigError(InputError):
    """A setting is out of its valid range."""


class PlanError(InputError):
    """A plan cannot be read, or reads a segment that does not exist."""


class FileError(InputError):
    """An input file cannot be used."""


class StorageError(InputError):
    """A file cannot be stored or fetched: no room, no permission, wrong bytes."""


class ContextFullError(PaceError):
    """The policy evicts nothing and the cache has no free cell left."""


class NativeError(PaceError):
    """A native call failed; the cache is as it was before the call.

    ``status`` is the name of the C status, such as ``"INVALID_ARGUMENT"``.
    """

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class NativeLoadError(NativeError):
    """The native library cannot be loaded, or does not match this package."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__("LOAD", message)


class CacheLostError(NativeError):
    """A device failed while cells were being moved; the sequence has been emptied."""


class CancelledError(PaceError):
    """The caller asked to stop."""

    exit_code = 130


class TimeLimitError(PaceError):
    """A time limit was reached."""

    exit_code = 124
