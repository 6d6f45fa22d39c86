"""Contents of files, each kept once under its hash, for their user alone."""

from __future__ import annotations

from pathlib import Path

from pace_agent.files.file_state import content_hash
from pace_agent.files.private_file import put_private
from pace_local.errors import StorageError
from pace_local.sessions.log_file import failure


class Blobs:
    """A folder of contents.

    Args:
        folder: made when the first content is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Where the content with a hash is."""
        return self.folder / digest[:2] / digest

    def keep(self, data: bytes) -> str:
        """Keep a content; it is on the device when this returns.

        Returns:
            Its hash.

        Raises:
            StorageError: if it cannot be written.
        """
        digest = content_hash(data)
        path = self.path(digest)
        if path.exists():  # a name is given only to what is whole
            return digest
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            put_private(path, data)
        except OSError as error:
            raise failure("write", path, error) from error
        return digest

    def read(self, digest: str) -> bytes:
        """The content with a hash.

        Raises:
            StorageError: if it is not there or is damaged.
        """
        path = self.path(digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise failure("read", path, error) from error
        if content_hash(data) != digest:
            raise StorageError(
                f"{path} is damaged: its content does not match its name; nothing was restored"
            )
        return data
