"""What a GGUF file says of itself, read without loading it.

Only the header is touched, so a file of any size takes a fraction of a second: the reader of the
``gguf`` package builds an array for every vocabulary entry, which takes seconds. The one check that
needs more than the header is the file's length, which a broken download gives away.

Format: magic, version, counts, key-value pairs, tensor table, padding, tensor data; little-endian.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pace_local.errors import ModelError
from pace_local.models.registry import KvShape

_SCALARS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_STRING, _ARRAY = 8, 9
_U32, _U64 = _SCALARS[4], _SCALARS[10]
_SMALLEST = 24  # magic, version, two counts


@dataclass(frozen=True)
class GgufHeader:
    """The part of a GGUF's header that PACE uses."""

    path: Path
    version: int
    """GGUF format version, 2 or 3."""
    architecture: str
    """``general.architecture``, such as ``"qwen3"``."""
    name: str | None
    """``general.name``, if the file has one."""
    context_length: int | None
    """Trained context, in tokens, if the file says."""
    parameters: int
    """Elements of all tensors."""
    size_bytes: int
    """Size of the file."""
    kv: KvShape | None
    """The KV cache's shape; ``None`` where it differs by layer, or keys from values."""


class _DamagedError(Exception):
    """The header ends early or holds what no header can."""


class _Cursor:
    """Reads values one after the other from the mapped file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 4  # past the magic
        self.end = len(data)

    def scalar(self, layout: struct.Struct) -> Any:
        if self.at + layout.size > self.end:
            raise _DamagedError
        (value,) = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return value

    def string(self) -> str:
        length = self.scalar(_U64)
        start = self.at
        self.skip(length)
        return self.data[start : self.at].decode("utf-8", errors="replace")

    def skip(self, count: int) -> None:
        if count > self.end - self.at:
            raise _DamagedError
        self.at += count

    def value(self) -> Any:
        """The next value; for an array, ``None``: no array is needed."""
        kind = self.scalar(_U32)
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            self._skip_array()
            return None
        if kind not in _SCALARS:
            raise _DamagedError
        return self.scalar(_SCALARS[kind])

    def _skip_array(self) -> None:
        kind, count = self.scalar(_U32), self.scalar(_U64)
        if kind in _SCALARS:
            self.skip(count * _SCALARS[kind].size)
            return
        if kind != _STRING:
            raise _DamagedError
        # A vocabulary has hundreds of thousands of strings, so the loop is kept bare.
        at, end, data, read = self.at, self.end, self.data, _U64.unpack_from
        for _ in range(count):
            if at + 8 > end:
                raise _DamagedError
            at += 8 + read(data, at)[0]
        if at > end:
            raise _DamagedError
        self.at = at


def inspect_gguf(path: str | os.PathLike[str]) -> GgufHeader:
    """Read the header of the GGUF at ``path`` and check that the file is whole.

    Raises:
        ModelError: the file is missing, a directory, unreadable, not a GGUF, of a version or byte order
            that llama.cpp does not read, damaged, or shorter than its own tensor table says.
    """
    path = Path(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise _directory(path)
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is not a regular file; give the path of a GGUF file")
        with path.open("rb") as file:
            first = file.read(_SMALLEST)
            _check_start(path, first)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _read(path, data)
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist; give the path of a GGUF file") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from None
    except _DamagedError:
        raise ModelError(
            f"{path} is cut short or damaged: its header cannot be read; fetch it again"
        ) from None


def _directory(path: Path) -> ModelError:
    inside = sorted(entry.name for entry in path.glob("*.gguf"))
    hint = f"it holds {', '.join(inside[:4])}{', …' if len(inside) > 4 else ''}; " if inside else ""
    return ModelError(f"{path} is a directory; {hint}give the path of one GGUF file")


def _check_start(path: Path, first: bytes) -> None:
    if first[:4] != b"GGUF":
        found = f"it starts with {first[:4]!r}" if first else "it is empty"
        raise ModelError(f"{path} is not a GGUF file: {found}")
    if len(first) < _SMALLEST:
        raise _DamagedError
    (version,) = _U32.unpack_from(first, 4)
    if version in (2, 3):
        return
    if version & 0xFFFF == 0:
        raise ModelError(f"{path} is a big-endian GGUF; convert it to little-endian")
    raise ModelError(f"{path} is GGUF version {version}; versions 2 and 3 can be read")


def _read(path: Path, data: mmap.mmap) -> GgufHeader:
    cursor = _Cursor(data)
    version = cursor.scalar(_U32)
    tensor_count, pair_count = cursor.scalar(_U64), cursor.scalar(_U64)
    fields: dict[str, Any] = {}
    for _ in range(pair_count):
        key = cursor.string()
        fields[key] = cursor.value()
    elements, data_bytes = _tensor_table(cursor, tensor_count)
    alignment = fields.get("general.alignment") or 32
    start = -(-cursor.at // alignment) * alignment
    if start + data_bytes > len(data):
        needed = start + data_bytes
        raise ModelError(
            f"{path} is cut short: {len(data)} bytes, but its tensors need {needed}; fetch it again"
        )
    architecture = fields.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise ModelError(f"{path} does not name its architecture, so it is not a model; give another GGUF")
    return GgufHeader(
        path=path,
        version=version,
        architecture=architecture,
        name=fields.get("general.name"),
        context_length=fields.get(f"{architecture}.context_length"),
        parameters=elements,
        size_bytes=len(data),
        kv=_kv_shape(architecture, fields),
    )


def _tensor_table(cursor: _Cursor, count: int) -> tuple[int, int]:
    """Elements of all tensors, and bytes from the data's start to the end of the last tensor."""
    # Imported here: it brings numpy along, and most commands never look at a model file.
    from gguf.constants import GGML_QUANT_SIZES

    sizes = {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}
    elements = data_bytes = 0
    for _ in range(count):
        cursor.skip(cursor.scalar(_U64))  # the name
        in_tensor = 1
        for _ in range(cursor.scalar(_U32)):
            in_tensor *= cursor.scalar(_U64)
        kind, offset = cursor.scalar(_U32), cursor.scalar(_U64)
        # A type that is newer than the table counts as one byte, so that its offset is checked at least.
        block, block_bytes = sizes.get(kind, (max(in_tensor, 1), 1))
        elements += in_tensor
        data_bytes = max(data_bytes, offset + -(-in_tensor // block) * block_bytes)
    return elements, data_bytes


def _kv_shape(architecture: str, fields: dict[str, Any]) -> KvShape | None:
    def number(key: str) -> int | None:
        value = fields.get(f"{architecture}.{key}")
        return value if isinstance(value, int) else None

    layers, heads = number("block_count"), number("attention.head_count")
    width = number("embedding_length")
    if f"{architecture}.attention.head_count_kv" in fields:
        kv_heads = number("attention.head_count_kv")  # None for an array: it differs by layer
    else:
        kv_heads = heads
    default = width // heads if width and heads else None
    key_length = number("attention.key_length") or default
    value_length = number("attention.value_length") or default
    if not layers or not kv_heads or not key_length or key_length != value_length:
        return None
    return KvShape(layers, kv_heads, key_length)
