"""Model files on this machine: where they lie, and whether they are what they should be.

``NAME.gguf`` is the model, ``NAME.json`` what is known of it: hash, source, and the size and time of
change that the file had when it was hashed. As long as both still fit, the file is taken as verified;
hashing 16 GB at each start would take longer than loading them. Otherwise it is hashed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock
import platformdirs

from pace_local.errors import StorageError
from pace_local.models.progress import Progress, no_progress
from pace_local.models.registry import ModelInfo

MODELS_DIR_VARIABLE = "PACE_MODELS_DIR"


def models_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The store's folder: ``PACE_MODELS_DIR``, or ``models`` in the user's data folder for this package."""
    chosen = environ.get(MODELS_DIR_VARIABLE, "")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_data_path("pace-local", appauthor=False) / "models"


@dataclass(frozen=True)
class StoredModel:
    """A model file whose hash is known."""

    path: Path
    sha256: str
    """Hash of the file as it is now."""
    source: str
    """Where it came from, for people."""
    checked: str | None
    """What the hash was compared with: ``"registry"``, ``"hub"``, or ``None`` if there was nothing."""


@dataclass(frozen=True)
class _Record:
    """What ``NAME.json`` holds."""

    sha256: str
    size_bytes: int
    mtime_ns: int
    source: str
    checked: str | None

    def fits(self, status: os.stat_result) -> bool:
        """Whether the file is as it was when it was hashed, as far as its size and time say."""
        return (self.size_bytes, self.mtime_ns) == (status.st_size, status.st_mtime_ns)


def hash_file(path: Path, progress: Progress = no_progress, what: str = "verifying") -> str:
    """SHA-256 of the file at ``path``, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    total = path.stat().st_size
    buffer = bytearray(4 << 20)
    view = memoryview(buffer)
    done = 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(view[:count])
            done += count
            progress(done, total, what)
    return digest.hexdigest()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file at ``path`` by ``content`` in one step: readers see the old or the new, never half."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file at ``path``; empty where there is none or it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


class Store:
    """The folder of model files. Nothing is created before something is stored."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else models_folder()

    def path(self, info: ModelInfo) -> Path:
        """Where the model's file is or would be."""
        return self.folder / f"{info.name}.gguf"

    def partial(self, info: ModelInfo) -> Path:
        """Folder of a pull that has not ended yet."""
        return self.folder / f"{info.name}.partial"

    def partial_bytes(self, info: ModelInfo) -> int:
        """Bytes on disk of a pull that has not ended yet."""
        return allocated_bytes(self.partial(info))

    def _record_path(self, info: ModelInfo) -> Path:
        return self.folder / f"{info.name}.json"

    def present(self, info: ModelInfo) -> bool:
        """Whether there is a file under the model's name; says nothing of what is in it."""
        return self.path(info).is_file()

    def find(
        self, info: ModelInfo, progress: Progress = no_progress, *, rehash: bool = False
    ) -> StoredModel | None:
        """The model's file if it is here and right; hashed only if it changed since, or if ``rehash``.

        A file with the wrong hash is renamed to ``NAME.gguf.wrong``, so that nothing can use it.

        Raises:
            StorageError: the file is not what it should be, or cannot be read.
        """
        path = self.path(info)
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(path, error) from None
        record = self._record(info)
        expected = info.sha256 or (record.sha256 if record else None)
        if record is not None and record.fits(status) and record.sha256 == expected and not rehash:
            return StoredModel(path, record.sha256, record.source, record.checked)
        try:
            digest = hash_file(path, progress, f"verifying {info.name}")
        except OSError as error:
            raise _unusable(path, error) from None
        if expected is not None and digest != expected:
            raise self._set_aside(info, expected, digest)
        checked = "registry" if info.sha256 else record.checked if record else None
        source = record.source if record else "a file put here by hand"
        with contextlib.suppress(OSError):  # a store that may only be read works; it is hashed each time
            self._write_record(info, digest, source, checked)
        return StoredModel(path, digest, source, checked)

    def admit(
        self, info: ModelInfo, file: Path, sha256: str, source: str, checked: str | None
    ) -> StoredModel:
        """Move ``file``, whose hash was just taken, into the store under the model's name, in one step."""
        # Without a record the file is hashed again; with an old record it would be called wrong.
        self._record_path(info).unlink(missing_ok=True)
        os.replace(file, self.path(info))
        self._write_record(info, sha256, source, checked)
        return StoredModel(self.path(info), sha256, source, checked)

    def remove(self, info: ModelInfo) -> int:
        """Delete the model's file and all that belongs to it; returns the bytes freed.

        Raises:
            StorageError: it is being pulled, or may not be deleted.
        """
        path = self.path(info)
        wrong = path.with_name(f"{path.name}.wrong")
        with self.lock(info):
            try:
                freed = sum(allocated_bytes(item) for item in (path, wrong, self.partial(info)))
                for item in (path, wrong, self._record_path(info)):
                    item.unlink(missing_ok=True)
                if self.partial(info).exists():
                    shutil.rmtree(self.partial(info))
            except OSError as error:
                raise StorageError(f"{path} cannot be deleted: {error.strerror or error}") from None
        return freed

    @contextlib.contextmanager
    def lock(self, info: ModelInfo) -> Iterator[None]:
        """Keep other processes from pulling or deleting the same model meanwhile.

        Raises:
            StorageError: another process holds it, or the folder cannot be written.
        """
        lock_path = self.folder / f"{info.name}.lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(lock_path)
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise StorageError(
                f"{info.name} is being pulled or removed by another process; try again when it has ended"
            ) from None
        except (OSError, NotImplementedError) as error:
            raise StorageError(
                f"{self.folder} cannot be written: {getattr(error, 'strerror', None) or error}; "
                f"set {MODELS_DIR_VARIABLE} to a folder that can"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _record(self, info: ModelInfo) -> _Record | None:
        try:
            return _Record(**read_json(self._record_path(info)))
        except TypeError:
            return None

    def _write_record(self, info: ModelInfo, sha256: str, source: str, checked: str | None) -> None:
        status = self.path(info).stat()
        record = _Record(sha256, status.st_size, status.st_mtime_ns, source, checked)
        write_json(self._record_path(info), asdict(record))

    def _set_aside(self, info: ModelInfo, expected: str, got: str) -> StorageError:
        path = self.path(info)
        message = f"{path} has the wrong sha256: expected {expected}, got {got}"
        try:
            os.replace(path, path.with_name(f"{path.name}.wrong"))
            self._record_path(info).unlink(missing_ok=True)
        except OSError:
            return StorageError(f"{message}; delete it, then `pace models pull {info.name}` fetches it again")
        return StorageError(
            f"{message}; it is now {path.name}.wrong, and `pace models pull {info.name}` fetches it again"
        )


def allocated_bytes(path: Path) -> int:
    """Bytes that ``path``, or all files below it, take on disk; 0 where there is nothing.

    Holes of a file that is filled out of order do not count.
    """
    total = 0
    for item in (path, *path.rglob("*")) if path.is_dir() else (path,):
        with contextlib.suppress(OSError):
            status = item.lstat()
            if stat.S_ISREG(status.st_mode):
                total += status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size
    return total


def _unusable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be read: {error.strerror or error}")
