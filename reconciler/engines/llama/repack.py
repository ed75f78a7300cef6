"""Weights of which llama.cpp makes rearranged copies for the processor, beside the mapped file.

On the CPU it does so for some quantised types, by processor (ggml-cpu/repack.cpp); without a mapped file the copy is
the only one. The log calls the copies `CPU_REPACK`.
"""

import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from reconciler.memory.gguf import Header, Tensor

_Q4_0, _Q8_0, _Q2_K, _Q4_K, _Q5_K, _Q6_K, _IQ4_NL, _MXFP4 = 2, 8, 10, 12, 13, 14, 20, 39
#: Feature of the processor -> types that are rearranged on it, and how many rows must come together.
_X86: Final[Mapping[str, frozenset[int]]] = {
    "avx2": frozenset({_Q4_0, _Q4_K, _IQ4_NL, _MXFP4}),
    "avx512f": frozenset({_Q2_K}),
}
_ARM: Final[Mapping[str, frozenset[int]]] = {
    "asimddp": frozenset({_Q4_0, _Q4_K, _Q5_K, _Q6_K, _IQ4_NL, _MXFP4, _Q8_0}),
}
_ROWS: Final = 8
#: Tables that rows are picked from are not multiplied with, and stay as they are.
_TIED: Final = "token_embd.weight"
_PICKED: Final = frozenset({_TIED, "per_layer_token_embd.weight", "position_embd.weight"})


def repacked_bytes(header: Header, *, mapped: bool) -> int:
    """Return the bytes of the copies this machine's processor makes llama.cpp keep besides the weights.

    Where weights are read rather than mapped, a copy takes the place of what it is made of, but for a table that is
    both picked from and multiplied with (tied embeddings): of that there are two.
    """
    types = _types()
    tied = not any(tensor.name == "output.weight" for tensor in header.tensors)
    total = 0
    for tensor in header.tensors:
        table = tensor.name in _PICKED
        if tensor.type not in types or not _fits(tensor) or (table and not (tied and tensor.name == _TIED)):
            continue
        if mapped or table:
            total += tensor.size or 0
    return total


def _fits(tensor: Tensor) -> bool:
    rows = tensor.shape[1] if len(tensor.shape) > 1 else 0
    return rows > 0 and rows % _ROWS == 0


@cache
def _types() -> frozenset[int]:
    return types_for(platform.machine(), _features())


def types_for(machine: str, features: frozenset[str]) -> frozenset[int]:
    """Return the GGML types that are rearranged on a processor with these features."""
    table = _X86 if machine in ("x86_64", "AMD64") else _ARM if machine in ("aarch64", "arm64") else {}
    return frozenset().union(*(types for feature, types in table.items() if feature in features))


def _features() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        # macOS: all of Apple's processors have the dot product.
        return frozenset({"asimddp"})
    lines = [line.partition(":")[2] for line in text.splitlines() if line.startswith(("flags", "Features"))]
    return frozenset(lines[0].split()) if lines else frozenset()
