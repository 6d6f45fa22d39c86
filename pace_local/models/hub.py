"""Model files from Hugging Face.

``huggingface_hub`` is asked for a file's commit, hash, size and address. The bytes are then read with
range requests into one growing file, because the library itself begins a broken download anew, which
is no way to fetch 16 GB. An entity tag kept beside the file, with the last commit, says what it is a part of.
"""

from __future__ import annotations

import errno
import http.client
import os
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pace_local.models.progress import Progress
from pace_local.models.registry import HubFile, ModelInfo, Source
from pace_local.models.sources import Fetched, SourceError, one_line
from pace_local.models.store import read_json, write_json

_BLOCK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class _HubAnswer:
    """What the hub says of a file."""

    commit: str
    etag: str
    sha256: str | None
    size: int
    address: str


class HubFetcher:
    """Fetches single files from Hugging Face; remembers for its lifetime that the hub is out of reach.

    Args:
        endpoint: address of the hub; ``None`` for the library's own choice (``HF_ENDPOINT`` included).
        connect_seconds: how long to wait for the hub's first answer, name look-up included.
        read_seconds: how long a download may stand still before it is tried again.
        tries: how often in a row a download may break without bringing a single byte.
        pause: waits between tries; takes seconds.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        connect_seconds: float = 8.0,
        read_seconds: float = 30.0,
        tries: int = 5,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._tries = tries
        self._pause = pause
        self._out_of_reach: str | None = None

    def accepts(self, source: Source) -> bool:
        """Whether ``source`` is a file on the hub."""
        return isinstance(source, HubFile)

    def spare_bytes(self, source: Source) -> int:
        """None: the file grows in place."""
        return 0

    def fetch(self, info: ModelInfo, source: Source, folder: Path, progress: Progress) -> Fetched:
        """Let ``folder/model.gguf`` grow to the whole file; see ``sources.Fetcher``."""
        assert isinstance(source, HubFile)
        answer = self._ask(source)
        if info.sha256 and answer.sha256 and answer.sha256 != info.sha256:
            raise SourceError(f"{source.filename} there has sha256 {answer.sha256}, not {info.sha256}")
        target, note = folder / "model.gguf", folder / "hub.json"
        origin = {"repo": source.repo, "file": source.filename, "commit": answer.commit, "etag": answer.etag}
        before = read_json(note)
        if before | {"commit": answer.commit} != origin:  # other commits may leave this file as it is
            target.unlink(missing_ok=True)
        if before != origin:
            write_json(note, origin)
        self._grow(target, source, answer, lambda done: progress(done, answer.size, info.name))
        return Fetched(target, f"{source}@{answer.commit}", answer.sha256)

    def _ask(self, source: HubFile) -> _HubAnswer:
        """The hub's answer, within ``connect_seconds`` whatever stands in the way."""
        if self._out_of_reach is not None:
            raise SourceError(self._out_of_reach)
        try:
            from huggingface_hub import get_hf_file_metadata, hf_hub_url
            from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
        except ImportError as error:
            raise SourceError(f"huggingface_hub cannot be imported: {one_line(error)}") from None

        url = hf_hub_url(source.repo, source.filename, revision=source.revision, endpoint=self._endpoint)
        outcome: list[_HubAnswer | Exception] = []

        def ask() -> None:
            try:
                found = get_hf_file_metadata(url, token=False, timeout=self._connect_seconds)
                outcome.append(_answer(source, found.commit_hash, found.etag, found.size, found.location))
            except Exception as error:  # the library's HTTP client changes between its versions
                outcome.append(error)

        # A name server that never answers ignores every timeout, so the question gets a thread to hang in.
        thread = threading.Thread(target=ask, name="pace-hub", daemon=True)
        thread.start()
        thread.join(self._connect_seconds + 2)
        result = outcome[0] if outcome else TimeoutError("no answer")
        if isinstance(result, _HubAnswer):
            return result
        if isinstance(result, SourceError):
            raise result
        if isinstance(result, HfHubHTTPError):
            status = getattr(result.response, "status_code", None)
            raise SourceError(f"{source.filename}: HTTP {status}") from None
        offline = isinstance(result, OfflineModeIsEnabled)
        why = "offline mode is on (HF_HUB_OFFLINE is set)" if offline else _reason(result)
        self._out_of_reach = f"the hub is out of reach: {why}"
        raise SourceError(self._out_of_reach) from None

    def _grow(self, target: Path, source: HubFile, answer: _HubAnswer, report: Callable[[int], None]) -> None:
        """Append to ``target`` until it has ``answer.size`` bytes."""
        failures = 0
        reason = "the connection ended early"
        have = target.stat().st_size if target.exists() else 0
        while have != answer.size:
            if have > answer.size:
                target.unlink()
                have = 0
            before = have
            try:
                self._append(target, answer, report)
            except (OSError, http.client.HTTPException) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
                    raise
                if isinstance(error, urllib.error.HTTPError):
                    error.close()  # it is the response as well
                reason = _reason(error)
            have = target.stat().st_size if target.exists() else 0
            if have == answer.size:
                break
            failures = 0 if have > before else failures + 1
            if failures >= self._tries:
                raise SourceError(f"the download broke at {have} of {answer.size} bytes: {reason}")
            self._pause(min(2.0**failures, 15.0))
            answer = self._renewed(source, answer)

    def _renewed(self, source: HubFile, answer: _HubAnswer) -> _HubAnswer:
        """The answer with a fresh address: addresses are signed, and expire."""
        try:
            fresh = self._ask(source)
        except SourceError:
            self._out_of_reach = None  # it was in reach a moment ago; the tries are counted elsewhere
            return answer
        if fresh.etag != answer.etag:
            raise SourceError(f"{source.filename} was replaced during the download; try again")
        return fresh

    def _append(self, target: Path, answer: _HubAnswer, report: Callable[[int], None]) -> None:
        have = target.stat().st_size if target.exists() else 0
        headers = {"User-Agent": "pace-local", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        request = urllib.request.Request(answer.address, headers=headers)
        with urllib.request.urlopen(request, timeout=self._read_seconds) as response:
            span = response.headers.get("Content-Range", "")
            if have and not (response.status == 206 and span.startswith(f"bytes {have}-")):
                have = 0  # a server that sends the whole file starts it anew
            with target.open("ab" if have else "wb") as file:
                report(have)
                while block := response.read(_BLOCK):
                    file.write(block)
                    have += len(block)
                    report(have)
                file.flush()
                os.fsync(file.fileno())


def _reason(error: BaseException) -> str:
    """Why a request failed. HTTP clients wrap the system's plain words in several layers of their own."""
    root = error
    while (inner := root.__cause__ or root.__context__) is not None:
        root = inner
    if isinstance(root, OSError):
        return root.strerror or one_line(root)
    return one_line(error)


def _answer(
    source: HubFile, commit: str | None, etag: str | None, size: int | None, address: str
) -> _HubAnswer:
    if not commit or not etag or not size:
        raise SourceError(f"{source.filename}: the hub did not say which revision, tag and size it has")
    if source.revision and commit != source.revision:
        raise SourceError(f"{source.filename}: asked for revision {source.revision}, was offered {commit}")
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise SourceError(f"{source.filename}: its address {address[:60]!r} is not a web address")
    # Large files carry their SHA-256 as the entity tag; small ones a git hash, which is shorter.
    sha256 = etag if _SHA256.fullmatch(etag) else None
    return _HubAnswer(commit, etag, sha256, size, address)
