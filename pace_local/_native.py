"""The only file that loads the native library, sets its environment variables, and declares ``pace.h``.

It finds the patched library that was installed with this package, makes llama-cpp-python's bindings load
that one, checks that both sides agree on every struct, and wraps the C API of ``native/include/pace.h`` in
:class:`NativeCache`. The library is loaded when it is first needed, not when this module is imported.
"""

from __future__ import annotations

import ctypes
import functools
import json
import logging
import os
import platform
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import pace_local
from pace_local.errors import CacheLostError, NativeError, NativeLoadError

llama: Any
"""The module of low-level bindings; importing it from here loads the library."""

API_VERSION = 3

_SPIN_COUNT = "1000"
"""Rounds that a thread of OpenMP spins before it sleeps; measured, see docs/LOG.md."""

logger = logging.getLogger("pace_local.native")
logger.addHandler(logging.NullHandler())

RESIDENT = np.dtype([("position", "<i4"), ("cell", "<i4"), ("token", "<i4"), ("reference_position", "<i4")])
"""One row of :meth:`NativeCache.residents`, as ``struct pace_resident``."""

ROWS = {"key": 0, "value": 1, "reference": 2}
ATTENTION_PARTS = {"total": 0, "steps": 1, "queries": 2}
FAIL_POINTS = {"nowhere": 0, "plan": 1, "allocate": 2, "compute": 3}
CACHE_TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}
"""ggml types that keys and values can be cached as."""

_CPU_FLAGS = {"sse42": "sse4_2", "avx512": "avx512f", "avx512_vbmi": "avx512vbmi"}
"""Instruction set as the build names it -> flag as Linux names it, where they differ."""

_LIBRARY = "*llama.[sd]*"
"""The library's file name on any system: .so, .dylib or .dll, and no licence."""


class Capabilities(ctypes.Structure):
    """``struct pace_capabilities``."""

    _fields_ = [
        ("supported", ctypes.c_int32),
        ("n_cells", ctypes.c_uint32),
        ("n_layers", ctypes.c_uint32),
        ("n_seq", ctypes.c_uint32),
        ("n_rot", ctypes.c_uint32),
        ("rope_type", ctypes.c_int32),
        ("key_type", ctypes.c_int32),
        ("value_type", ctypes.c_int32),
        ("flash_attn", ctypes.c_int32),
        ("max_position", ctypes.c_uint32),
        ("_reason", ctypes.c_char * 256),
    ]

    if TYPE_CHECKING:
        supported: int
        n_cells: int
        n_layers: int
        n_seq: int
        n_rot: int
        rope_type: int
        key_type: int
        value_type: int
        flash_attn: int
        max_position: int
        _reason: bytes

    @property
    def reason(self) -> str:
        """Why the context is not supported; empty if it is."""
        return self._reason.decode()


class _Options(ctypes.Structure):
    _fields_ = [("reference_type", ctypes.c_int32)]


class _Resident(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("position", "cell", "token", "reference_position")]


class _Bytes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("keys", "values", "references", "scratch", "attention")]


class _Change(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_uint32)
            for name in ("n_before", "n_after", "n_rotated", "n_moved", "n_captured", "reserved")
        ),
        ("micros", ctypes.c_int64),
    ]


class _AttentionOptions(ctypes.Structure):
    _fields_ = [
        ("n_queries", ctypes.c_uint32),
        ("min_distance", ctypes.c_int32),
        ("decay", ctypes.c_double),
        ("window", ctypes.c_uint32),
        ("n_layers", ctypes.c_uint32),
        ("layers", ctypes.POINTER(ctypes.c_uint32)),
    ]


class Identity(ctypes.Structure):
    """``struct pace_identity``: what a saved block belongs to.

    Args:
        model: 32 bytes that tell one model from another.
        build: 32 bytes that tell one build of the library from another.
    """

    _fields_ = [("_model", ctypes.c_uint8 * 32), ("_build", ctypes.c_uint8 * 32)]

    def __init__(self, model: bytes, build: bytes) -> None:
        if not len(model) == len(build) == 32:
            raise NativeError("INVALID_ARGUMENT", "an identity is 32 bytes of the model and 32 of the build")
        super().__init__((ctypes.c_uint8 * 32)(*model), (ctypes.c_uint8 * 32)(*build))


class _Sizes(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint32)
        for name in (
            "pace_capabilities",
            "pace_options",
            "pace_resident",
            "pace_bytes",
            "pace_change",
            "pace_attention_options",
            "pace_identity",
            "llama_model_params",
            "llama_context_params",
            "llama_batch",
        )
    ]


class BytesHeld(NamedTuple):
    """Bytes as allocated on the devices."""

    keys: int
    values: int
    references: int
    scratch: int
    attention: int


class Change(NamedTuple):
    """What one retain or renumber did; counts of residents, wall time in seconds."""

    n_before: int
    n_after: int
    n_rotated: int
    n_moved: int
    n_captured: int
    seconds: float


@dataclass(frozen=True)
class Build:
    """How the native library was built, from the ``build.json`` beside it."""

    folder: Path
    facts: dict[str, Any]

    @property
    def isa(self) -> list[str]:
        """Instruction sets that the library was compiled for."""
        return list(self.facts.get("isa", []))


_recent: deque[tuple[int, str]] = deque(maxlen=64)
_recent_lock = threading.Lock()


def recent_complaints() -> list[str]:
    """Warnings and errors that the native side has logged lately, oldest first."""
    with _recent_lock:
        return [line for _, line in _recent]


def forget_complaints() -> None:
    """Empty :func:`recent_complaints`, before a call whose failure they should explain."""
    with _recent_lock:
        _recent.clear()


def library_folder() -> Path:
    """The folder that holds the patched libraries.

    That of the installation, or the one that the environment variable ``PACE_LIBRARY_DIR`` names: for
    trying another build, such as one for a device, without installing it.

    Raises:
        NativeLoadError: if there are none.
    """
    override = os.environ.get("PACE_LIBRARY_DIR")
    if override:
        if any(Path(override).glob(_LIBRARY)):
            return Path(override)
        raise NativeLoadError(
            f"PACE_LIBRARY_DIR is {override}, which has no llama library; correct it or unset it"
        )
    # An editable installation has two entries: what was compiled lies apart from the sources.
    for root in pace_local.__path__:
        place = Path(root) / "lib"
        if any(place.glob(_LIBRARY)):
            return place
    raise NativeLoadError(
        "the native library is not installed; run scripts/pace, or `pip install .`, to build it"
    )


def read_build() -> Build:
    """Facts about the installed library, without loading it."""
    folder = library_folder()
    try:
        facts = json.loads((folder / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        facts = {}
    return Build(folder, facts)


def cpu_flags() -> set[str] | None:
    """Instruction sets that this CPU advertises, or None where the system does not say."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("flags"):
                    return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return None


def missing_instruction_sets(build: Build) -> list[str]:
    """Sets that the library needs and this CPU lacks: it would die with SIGILL.

    Not known of a library that was built for the compiler's own machine, or for several.
    """
    flags = cpu_flags()
    if flags is None:
        return []
    return [name for name in build.isa if name != "native" and _CPU_FLAGS.get(name, name) not in flags]


def _import_bindings(folder: Path) -> ModuleType:
    loaded = sys.modules.get("llama_cpp.llama_cpp")
    if loaded is None:
        # OpenMP's threads wait at a barrier by spinning for milliseconds. On a busy machine they then spin
        # for a thread that is not running, and decoding becomes many times slower.
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
        before = os.environ.get("LLAMA_CPP_LIB_PATH")
        os.environ["LLAMA_CPP_LIB_PATH"] = str(folder)
        try:
            import llama_cpp.llama_cpp as loaded_now

            loaded = loaded_now
        except (ImportError, RuntimeError, FileNotFoundError, OSError) as error:
            raise NativeLoadError(f"llama-cpp-python's bindings cannot load {folder}: {error}") from error
        finally:
            if before is None:
                del os.environ["LLAMA_CPP_LIB_PATH"]
            else:
                os.environ["LLAMA_CPP_LIB_PATH"] = before
    if not hasattr(loaded._lib, "pace_handshake"):
        raise NativeLoadError(
            "llama_cpp was imported before pace_local and has loaded an unpatched library; "
            "import pace_local first"
        )
    return loaded


def _declare(lib: Any) -> None:
    pointer, u32, u64, i32 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "pace_status_name": (ctypes.c_char_p, [i32]),
        "pace_last_message": (ctypes.c_char_p, []),
        "pace_handshake": (i32, [u32, ctypes.POINTER(_Sizes)]),
        "pace_query": (i32, [pointer, ctypes.POINTER(Capabilities)]),
        "pace_open": (i32, [pointer, ctypes.POINTER(_Options), ctypes.POINTER(pointer)]),
        "pace_close": (None, [pointer]),
        "pace_residents": (i32, [pointer, i32, pointer, u32, ctypes.POINTER(u32)]),
        "pace_bytes_held": (i32, [pointer, ctypes.POINTER(_Bytes)]),
        "pace_read_rows": (
            i32,
            [pointer, i32, i32, u32, pointer, u64, ctypes.POINTER(u64)],
        ),
        "pace_read_plain_keys": (
            i32,
            [pointer, i32, u32, pointer, u64, ctypes.POINTER(u64)],
        ),
        "pace_write_rows": (i32, [pointer, i32, u32, pointer, u32, u32, pointer, pointer, pointer]),
        "pace_retain": (i32, [pointer, i32, pointer, u32, u32, ctypes.POINTER(_Change)]),
        "pace_renumber": (i32, [pointer, i32, pointer, u32, u32, i32, ctypes.POINTER(_Change)]),
        "pace_place": (i32, [pointer, i32, pointer, u32, u32, pointer, ctypes.POINTER(_Change)]),
        "pace_save": (
            i32,
            [pointer, i32, pointer, u32, u32, ctypes.POINTER(Identity), pointer, u64, ctypes.POINTER(u64)],
        ),
        "pace_read_block": (
            i32,
            [pointer, ctypes.POINTER(Identity), pointer, u64, pointer, u32, ctypes.POINTER(u32)],
        ),
        "pace_load": (
            i32,
            [
                pointer,
                i32,
                ctypes.POINTER(Identity),
                pointer,
                u64,
                pointer,
                u32,
                pointer,
                u32,
                ctypes.POINTER(_Change),
            ],
        ),
        "pace_settle": (i32, [pointer]),
        "pace_observe": (i32, [pointer, ctypes.POINTER(_AttentionOptions)]),
        "pace_read_attention": (i32, [pointer, i32, i32, u32, pointer, u32, ctypes.POINTER(u32)]),
        "pace_write_attention": (i32, [pointer, i32, pointer, u32]),
        "pace_abort": (None, [pointer]),
        "pace_abort_clear": (None, [pointer]),
        "pace_fail_next": (i32, [pointer, i32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments


def _check(lib: Any, status: int) -> None:
    if status:
        name = lib.pace_status_name(status).decode()
        message = lib.pace_last_message().decode(errors="replace")
        raise CacheLostError(name, message) if name == "CACHE_LOST" else NativeError(name, message)


_LEVELS = {3: logging.WARNING, 4: logging.ERROR}
"""Level of ggml -> level of :data:`logger`. What ggml takes for information is of use in debugging alone."""


def _take_native_log(level: int, text: bytes, _data: object) -> None:
    line = text.decode("utf-8", errors="replace").rstrip("\n")
    severity = _LEVELS.get(level, logging.DEBUG)
    # upstream adds a second error to the one that gives the reason
    if severity > logging.DEBUG and line and not line.endswith(": failed to load model"):
        with _recent_lock:
            _recent.append((severity, line))
    if line:
        logger.log(severity, "%s", line)


@functools.cache
def _bindings() -> ModuleType:
    build = read_build()
    lacking = missing_instruction_sets(build)
    if lacking:
        raise NativeLoadError(
            f"the native library was built for {', '.join(lacking)}, which this CPU lacks; "
            "run scripts/pace to build it anew"
        )
    bindings = _import_bindings(build.folder)
    lib = bindings._lib
    _declare(lib)
    sizes = _Sizes(
        *(
            ctypes.sizeof(struct)
            for struct in (
                Capabilities,
                _Options,
                _Resident,
                _Bytes,
                _Change,
                _AttentionOptions,
                Identity,
                bindings.llama_model_params,
                bindings.llama_context_params,
                bindings.llama_batch,
            )
        )
    )
    if lib.pace_handshake(API_VERSION, ctypes.byref(sizes)):
        raise NativeLoadError(
            f"the native library does not fit: {lib.pace_last_message().decode()}; build it anew"
        )
    # Kept on the module for as long as the library may call it.
    bindings._pace_log = bindings.llama_log_callback(_take_native_log)  # type: ignore[attr-defined]
    bindings.llama_log_set(bindings._pace_log, ctypes.c_void_p(0))
    bindings.llama_backend_init()
    return bindings


def __getattr__(name: str) -> Any:
    if name == "llama":
        return _bindings()
    raise AttributeError(name)


def query(ctx: Any) -> Capabilities:
    """Whether a llama_context can be handled, and if not, which property stops it."""
    lib = _bindings()._lib
    result = Capabilities()
    _check(lib, lib.pace_query(ctx, ctypes.byref(result)))
    return result


Block = npt.NDArray[np.uint8]
"""Residents in host memory, as :meth:`NativeCache.save` gives them: reference keys, values, tokens."""


class NativeCache:
    """The cache operations on one llama_context, which must outlive this object.

    Args:
        ctx: pointer to the llama_context.
        reference_type: "f16", "f32", or None for what suits the type of the K cache.

    Raises:
        NativeError: ``UNSUPPORTED`` with the reason, or ``NO_MEMORY``.
    """

    def __init__(self, ctx: Any, reference_type: str | None = None) -> None:
        self._lib = _bindings()._lib
        options = _Options(-1 if reference_type is None else CACHE_TYPES[reference_type])
        pointer = ctypes.c_void_p()
        # Re-entrant: a signal handler may abort while the thread that it interrupts closes.
        self._closing = threading.RLock()
        self._pointer: ctypes.c_void_p | None = None
        _check(self._lib, self._lib.pace_open(ctx, ctypes.byref(options), ctypes.byref(pointer)))
        self._pointer = pointer

    def close(self) -> None:
        """Free the references. Safe to call twice."""
        with self._closing:
            pointer, self._pointer = self._pointer, None
            if pointer is not None:
                self._lib.pace_close(pointer)

    def count(self, seq: int = 0) -> int:
        """Number of residents of a sequence."""
        n = ctypes.c_uint32()
        _check(self._lib, self._lib.pace_residents(self._pointer, seq, None, 0, ctypes.byref(n)))
        return n.value

    def residents(self, seq: int = 0) -> npt.NDArray[np.void]:
        """Residents of a sequence in position order, shape [n], dtype :data:`RESIDENT`."""
        rows = np.empty(self.count(seq), dtype=RESIDENT)
        n = ctypes.c_uint32()
        _check(
            self._lib,
            self._lib.pace_residents(self._pointer, seq, rows.ctypes.data, len(rows), ctypes.byref(n)),
        )
        return rows

    def bytes_held(self) -> BytesHeld:
        """Bytes as allocated, by kind."""
        held = _Bytes()
        _check(self._lib, self._lib.pace_bytes_held(self._pointer, ctypes.byref(held)))
        return BytesHeld(held.keys, held.values, held.references, held.scratch, held.attention)

    def read_rows(self, kind: str, layer: int, seq: int = 0) -> npt.NDArray[np.float32]:
        """Cached rows of one layer in position order, shape [n_residents, n_embd], as F32.

        Keys of a quantised cache come as llama.cpp stores them: each head turned by a Hadamard matrix.

        Args:
            kind: "key", "value" or "reference".
            layer: counts the layers that have a cache.
            seq: the sequence.
        """
        n = ctypes.c_uint64()
        values = np.empty(self._size_of_rows(kind, layer, seq), dtype=np.float32)
        _check(
            self._lib,
            self._lib.pace_read_rows(
                self._pointer, seq, ROWS[kind], layer, values.ctypes.data, len(values), ctypes.byref(n)
            ),
        )
        count = self.count(seq)
        return values.reshape(count, -1 if count else 0)

    def _size_of_rows(self, kind: str, layer: int, seq: int) -> int:
        """Elements that :meth:`read_rows` gives."""
        n = ctypes.c_uint64()
        status = self._lib.pace_read_rows(self._pointer, seq, ROWS[kind], layer, None, 0, ctypes.byref(n))
        if self._lib.pace_status_name(status) not in (b"OK", b"BUFFER_TOO_SMALL"):
            _check(self._lib, status)
        return n.value

    def read_plain_keys(self, layer: int, seq: int = 0) -> npt.NDArray[np.float32]:
        """Keys of one layer as they would be at position 0, in position order, shape [n_residents, n_embd].

        Takes references of residents that have none yet.

        Raises:
            NativeError: ``NO_MEMORY`` or ``DEVICE_FAILED``; the residents are as before.
        """
        n = ctypes.c_uint64()
        call = self._lib.pace_read_plain_keys
        status = call(self._pointer, seq, layer, None, 0, ctypes.byref(n))
        if self._lib.pace_status_name(status) not in (b"OK", b"BUFFER_TOO_SMALL"):
            _check(self._lib, status)
        values = np.empty(n.value, dtype=np.float32)
        _check(self._lib, call(self._pointer, seq, layer, values.ctypes.data, n.value, ctypes.byref(n)))
        count = self.count(seq)
        return values.reshape(count, -1 if count else 0)

    def write_rows(
        self,
        layer: int,
        ranks: npt.NDArray[np.uint32],
        n_residents: int,
        keys: npt.NDArray[np.float32],
        values: npt.NDArray[np.float32],
        counts: npt.NDArray[np.float32] | None = None,
        seq: int = 0,
    ) -> None:
        """Put rows in place of those that some residents have in one layer.

        Args:
            layer: counts the layers that have a cache.
            ranks: shape [n], strictly increasing.
            n_residents: how many residents the caller believes there are.
            keys: as at position 0, shape [n, n_embd of keys].
            values: as :meth:`read_rows` gives them, shape [n, n_embd of values].
            counts: how many tokens each row stands for, shape [n], at least 1; None: one each.
            seq: the sequence.
        """
        ranks = np.ascontiguousarray(ranks, dtype=np.uint32)
        keys, values = (np.ascontiguousarray(rows, dtype=np.float32) for rows in (keys, values))
        counts = None if counts is None else np.ascontiguousarray(counts, dtype=np.float32)
        if not len(ranks) == len(keys) == len(values) == (len(ranks) if counts is None else len(counts)):
            raise NativeError("INVALID_ARGUMENT", f"{len(ranks)} ranks, and not as many rows or counts")
        n = self.count(seq)
        for kind, rows in (("key", keys), ("value", values)):
            size = self._size_of_rows(kind, layer, seq)
            if rows.size * n != len(ranks) * size:
                raise NativeError(
                    "INVALID_ARGUMENT",
                    f"{kind}s of shape {rows.shape}; rows of layer {layer} have {size // n}",
                )
        _check(
            self._lib,
            self._lib.pace_write_rows(
                self._pointer,
                seq,
                layer,
                ranks.ctypes.data,
                len(ranks),
                n_residents,
                keys.ctypes.data,
                values.ctypes.data,
                None if counts is None else counts.ctypes.data,
            ),
        )

    def observe(
        self,
        queries: int = 32,
        min_distance: int = 0,
        decay: float = 1.0,
        window: int = 100,
        layers: Sequence[int] | None = None,
    ) -> None:
        """Measure attention from the next decode on, from zero; as ``struct pace_attention_options``.

        Args:
            queries: last query rows of each micro-batch that are observed; 0: all.
            min_distance: attention across fewer positions is not counted.
            decay: what is left of a token's total after each later token.
            window: steps that are remembered one by one.
            layers: which, counting those that have a cache; None: all.
        """
        chosen = (ctypes.c_uint32 * len(layers))(*layers) if layers else None
        options = _AttentionOptions(queries, min_distance, decay, window, len(layers or ()), chosen)
        _check(self._lib, self._lib.pace_observe(self._pointer, ctypes.byref(options)))

    def stop_observing(self) -> None:
        """Measure attention no longer."""
        _check(self._lib, self._lib.pace_observe(self._pointer, None))

    def attention(self, part: str = "total", n: int = 0, seq: int = 0) -> npt.NDArray[np.float64]:
        """Attention mass of each resident, in position order, shape [n_residents].

        Args:
            part: "total"; "steps": of the last ``n`` steps; "queries": of the fewest last steps that have
                ``n`` observed query rows together.
            n: see above.
            seq: the sequence.
        """
        mass = np.empty(self.count(seq), dtype=np.float64)
        count = ctypes.c_uint32()
        _check(
            self._lib,
            self._lib.pace_read_attention(
                self._pointer,
                seq,
                ATTENTION_PARTS[part],
                n,
                mass.ctypes.data,
                len(mass),
                ctypes.byref(count),
            ),
        )
        return mass

    def write_attention(self, totals: npt.NDArray[np.float64], seq: int = 0) -> None:
        """Set what ``attention("total")`` gives for each resident, in position order, shape [n_residents]."""
        totals = np.ascontiguousarray(totals, dtype=np.float64)
        _check(self._lib, self._lib.pace_write_attention(self._pointer, seq, totals.ctypes.data, len(totals)))

    def settle(self) -> None:
        """Apply the shifts that upstream still owes its keys, whole, also after an abort was asked for.

        Raises:
            CacheLostError: if the device failed; the cache is empty then.
        """
        _check(self._lib, self._lib.pace_settle(self._pointer))

    def retain(self, keep: npt.NDArray[np.uint32], n_residents: int, seq: int = 0) -> Change:
        """Evict all residents but those of the given ranks, shape [n], strictly increasing."""
        change = _Change()
        keep = np.ascontiguousarray(keep, dtype=np.uint32)
        _check(
            self._lib,
            self._lib.pace_retain(
                self._pointer, seq, keep.ctypes.data, len(keep), n_residents, ctypes.byref(change)
            ),
        )
        return _as_change(change)

    def renumber(
        self, keep: npt.NDArray[np.uint32], n_residents: int, first_position: int = 0, seq: int = 0
    ) -> Change:
        """As :meth:`retain`, then positions from ``first_position`` on and cells from 0 on, in order."""
        change = _Change()
        keep = np.ascontiguousarray(keep, dtype=np.uint32)
        _check(
            self._lib,
            self._lib.pace_renumber(
                self._pointer,
                seq,
                keep.ctypes.data,
                len(keep),
                n_residents,
                first_position,
                ctypes.byref(change),
            ),
        )
        return _as_change(change)

    def place(
        self,
        keep: npt.NDArray[np.uint32],
        n_residents: int,
        positions: npt.NDArray[np.int32],
        seq: int = 0,
    ) -> Change:
        """As :meth:`renumber`, to given positions, shape [n], strictly increasing; they may leave gaps."""
        change = _Change()
        keep = np.ascontiguousarray(keep, dtype=np.uint32)
        positions = np.ascontiguousarray(positions, dtype=np.int32)
        if len(keep) != len(positions):
            raise NativeError("INVALID_ARGUMENT", f"{len(keep)} ranks and {len(positions)} positions")
        _check(
            self._lib,
            self._lib.pace_place(
                self._pointer,
                seq,
                keep.ctypes.data,
                len(keep),
                n_residents,
                positions.ctypes.data,
                ctypes.byref(change),
            ),
        )
        return _as_change(change)

    def save(
        self, ranks: npt.NDArray[np.uint32], n_residents: int, identity: Identity, seq: int = 0
    ) -> Block:
        """Copy residents of the given ranks, shape [n], strictly increasing, to host memory as one block."""
        ranks = np.ascontiguousarray(ranks, dtype=np.uint32)
        size = ctypes.c_uint64()
        arguments = (self._pointer, seq, ranks.ctypes.data, len(ranks), n_residents, ctypes.byref(identity))
        _check(self._lib, self._lib.pace_save(*arguments, None, 0, ctypes.byref(size)))
        block = np.empty(size.value, dtype=np.uint8)
        _check(self._lib, self._lib.pace_save(*arguments, block.ctypes.data, len(block), ctypes.byref(size)))
        return block

    def read_block(self, block: Block, identity: Identity) -> npt.NDArray[np.void]:
        """Tokens of a block in position order, shape [n], dtype :data:`RESIDENT`; they have no cells.

        Raises:
            NativeError: ``BAD_BLOCK`` if it is broken, or of another model or build.
        """
        n = ctypes.c_uint32()
        arguments = (self._pointer, ctypes.byref(identity), block.ctypes.data, len(block))
        _check(self._lib, self._lib.pace_read_block(*arguments, None, 0, ctypes.byref(n)))
        rows = np.empty(n.value, dtype=RESIDENT)
        _check(self._lib, self._lib.pace_read_block(*arguments, rows.ctypes.data, len(rows), ctypes.byref(n)))
        return rows

    def load(
        self,
        block: Block,
        positions: npt.NDArray[np.int32],
        n_residents: int,
        identity: Identity,
        rows: npt.NDArray[np.uint32] | None = None,
        seq: int = 0,
    ) -> Change:
        """Bring rows of a block back at the given positions, keys rotated to match. All or nothing.

        Args:
            block: from :meth:`save`.
            positions: shape [n], strictly increasing; no resident has any of them.
            n_residents: how many residents the caller believes there are.
            identity: of this model and build.
            rows: which, shape [n], strictly increasing; None: all.
            seq: the sequence.

        Raises:
            NativeError: ``BAD_BLOCK``, ``NO_ROOM``, ``STALE``, ``NO_MEMORY`` or ``DEVICE_FAILED``.
        """
        change = _Change()
        positions = np.ascontiguousarray(positions, dtype=np.int32)
        rows = None if rows is None else np.ascontiguousarray(rows, dtype=np.uint32)
        if rows is not None and len(rows) != len(positions):
            raise NativeError("INVALID_ARGUMENT", f"{len(rows)} rows and {len(positions)} positions")
        _check(
            self._lib,
            self._lib.pace_load(
                self._pointer,
                seq,
                ctypes.byref(identity),
                block.ctypes.data,
                len(block),
                None if rows is None else rows.ctypes.data,
                len(positions),
                positions.ctypes.data,
                n_residents,
                ctypes.byref(change),
            ),
        )
        return _as_change(change)

    def abort(self) -> None:
        """Make a running decode return, and later ones, until :meth:`abort_clear`. From any thread."""
        with self._closing:
            self._lib.pace_abort(self._pointer)

    def abort_clear(self) -> None:
        """Let decodes run again."""
        self._lib.pace_abort_clear(self._pointer)

    def fail_next(self, point: str) -> None:
        """Make the next call that gets to one of :data:`FAIL_POINTS` fail there, once."""
        _check(self._lib, self._lib.pace_fail_next(self._pointer, FAIL_POINTS[point]))


def _as_change(change: _Change) -> Change:
    return Change(
        change.n_before,
        change.n_after,
        change.n_rotated,
        change.n_moved,
        change.n_captured,
        change.micros * 1e-6,
    )


def last_complaint() -> str:
    """The last error that the native side has logged, or the last warning; empty if there was none."""
    with _recent_lock:
        errors = [line for severity, line in _recent if severity == logging.ERROR]
        lines = errors or [line for _, line in _recent]
    return lines[-1].removeprefix("llama_model_load: ") if lines else ""


@dataclass(frozen=True)
class Device:
    """A device that can hold weights and cache."""

    name: str
    description: str
    kind: str
    free: int
    total: int


_DEVICE_KINDS = {0: "cpu", 1: "gpu", 2: "integrated gpu", 3: "accelerator"}


def _device_functions() -> Any:
    lib = _bindings()._lib
    pointer = ctypes.c_void_p
    size = ctypes.POINTER(ctypes.c_size_t)
    for name, result, arguments in (
        ("ggml_backend_dev_count", ctypes.c_size_t, []),
        ("ggml_backend_dev_get", pointer, [ctypes.c_size_t]),
        ("ggml_backend_dev_by_name", pointer, [ctypes.c_char_p]),
        ("ggml_backend_dev_name", ctypes.c_char_p, [pointer]),
        ("ggml_backend_dev_description", ctypes.c_char_p, [pointer]),
        ("ggml_backend_dev_type", ctypes.c_int, [pointer]),
        ("ggml_backend_dev_memory", None, [pointer, size, size]),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def devices() -> list[Device]:
    """All devices that the library was built for and that this machine has; bytes as the driver says."""
    lib = _device_functions()
    found = []
    for i in range(lib.ggml_backend_dev_count()):
        device = lib.ggml_backend_dev_get(i)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        lib.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        found.append(
            Device(
                lib.ggml_backend_dev_name(device).decode(),
                lib.ggml_backend_dev_description(device).decode(),
                _DEVICE_KINDS.get(lib.ggml_backend_dev_type(device), "other"),
                free.value,
                total.value,
            )
        )
    return found


def device_list(name: str) -> Any:
    """A NULL-terminated native array with one device, for ``llama_model_params.devices``.

    Raises:
        NativeError: if there is no device of that name.
    """
    lib = _device_functions()
    device = lib.ggml_backend_dev_by_name(name.encode())
    if not device:
        known = ", ".join(device.name for device in devices())
        raise NativeError("NO_DEVICE", f"no device is named {name!r}; there are {known}")
    return (ctypes.c_void_p * 2)(device, None)
