"""Where a class computes, and what limits a framework that it has imported is told. None is imported here."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from .errors import say

_NVIDIA, _AMD = "/dev/nvidiactl", "/dev/kfd"


def device_name(wanted: str) -> str:
    """Return `cpu`, `cuda` or `mps`, as torch calls devices. `wanted` is `cpu` or `auto`."""
    if wanted == "cpu":
        return "cpu"
    if sys.platform == "darwin":
        return "mps" if platform.machine() == "arm64" else "cpu"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    on_jetson = os.path.exists("/dev/nvhost-gpu") or os.path.exists("/dev/nvgpu/igpu0")
    there = os.path.exists(_NVIDIA) or os.path.exists(_AMD) or on_jetson
    return "cuda" if there and not hidden else "cpu"


def limit_frameworks(threads: int | None, memory_limit: int | None) -> None:
    """Bound threads and memory of torch, if the user's module has imported it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if threads is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(threads)
    if memory_limit is not None:
        _limit_memory(torch, memory_limit)


def _limit_memory(torch: Any, limit: int) -> None:
    """Have torch fail at `limit` bytes instead of taking more. A build that cannot is said so."""
    try:
        if torch.cuda.is_available():
            total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
        elif torch.backends.mps.is_available():
            total = torch.mps.recommended_max_memory()
            # Metal's fraction counts from what it recommends, and goes up to twice that.
            torch.mps.set_per_process_memory_fraction(min(2.0, limit / total))
    except (AttributeError, RuntimeError) as error:
        say(f"worker: this torch takes no memory limit: {error}")
