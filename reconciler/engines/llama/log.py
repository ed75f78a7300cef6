"""What llama.cpp's own log says a loaded model took."""

import itertools
import re
from collections.abc import Iterator
from typing import Final

from reconciler.core.memory import Said

_MIB: Final = 1024 * 1024
#: Each start of a server says this once; the log keeps the lines of earlier starts.
_START: Final = re.compile(
    r"load_model: loading model '|^main: loading model|main: starting the main loop", re.MULTILINE
)
_BUFFER: Final = re.compile(
    r":\s+(?P<device>\S+)\s+(?P<kind>model|output|KV|RS|compute) buffer size\s*=\s*(?P<mib>[0-9.]+) MiB"
)
#: Sizes of a cache as its owner sums it up: one for full and one for windowed layers, one for states.
_CACHE: Final = re.compile(
    r"(?:llama_kv_cache\w*|llama_memory_recurrent): (?:size =|total size =)\s*([0-9.]+) MiB"
    r"|KV self size\s*=\s*([0-9.]+) MiB"
)
_FILE: Final = re.compile(r"(?:file|model) size\s*=\s*([0-9.]+) (KiB|MiB|GiB)")
_UNITS: Final = {"KiB": 1024, "MiB": _MIB, "GiB": 1024 * _MIB}
_CONTEXT: Final = re.compile(
    r"(?:llama_context|llama_init_from_model|llama_new_context_with_model): n_ctx\s+= (\d+)"
)
_SLOTS: Final = re.compile(r"n_slots = (\d+), n_ctx_slot = (\d+), kv_unified = '(true|false)'")
#: A model and a draft model have a context each, whose buffers bear the same names.
_CONTEXT_BEGINS: Final = re.compile(r"llama_context: constructing llama_context")

#: A projector is loaded, and what it computes in: like the line of a context, under its own name. Without a warm-up it
#: takes that for its first picture, and no line tells.
_PROJECTOR: Final = re.compile(r"clip_(?:ctx|model_loader): ")
_PROJECTOR_COMPUTE: Final = re.compile(
    r"(?:alloc|reserve)_compute_meta:\s+(\S+) compute buffer size\s*=\s*([0-9.]+) MiB"
)


def said(log: str) -> Said | None:
    """Return what the last start in the log took, or None if it says nothing of it."""
    starts = [found.start() for found in _START.finditer(log)]
    text = log[starts[-1] :] if starts else log
    weights, gpu_mapped = _weights(text)
    result = Said(
        weights=weights,
        context=_context(text),
        compute=_compute(text),
        gpu_mapped=gpu_mapped,
        context_tokens=_context_tokens(text),
    )
    return None if result == Said() else result


def _buffers(text: str, *kinds: str) -> Iterator[tuple[str, str, int]]:
    """Yield kind, device and bytes of each buffer line."""
    for found in _BUFFER.finditer(text):
        if found["kind"] in kinds:
            yield found["kind"], found["device"], _bytes(found["mib"])


def _weights(text: str) -> tuple[int | None, int | None]:
    """Return the bytes of all weights and of those mapped for a GPU.

    The parts of a mapped file that several devices see overlap, so they cannot be more than the file.
    """
    mapped: dict[str, int] = {}
    copied = 0
    for _, device, size in _buffers(text, "model"):
        if device.endswith("_Mapped"):
            mapped[device] = mapped.get(device, 0) + size
        else:
            copied += size
    if not mapped and not copied:
        return None, None
    file = _file_size(text)
    whole = max(mapped.values(), default=0) if file is None else min(sum(mapped.values()), file)
    gpu = sum(size for device, size in mapped.items() if not device.startswith("CPU"))
    gpu = gpu if file is None else min(gpu, file)
    return whole + copied, gpu or None


def _file_size(text: str) -> int | None:
    """Return the bytes of all tensors of the models, as the log states them (main and draft)."""
    found = [round(float(number) * _UNITS[unit]) for number, unit in _FILE.findall(text)]
    return sum(found) if found else None


def _context(text: str) -> int | None:
    sums = [_bytes(one or other) for one, other in _CACHE.findall(text)]
    if not sums:
        sums = [size for _, _, size in _buffers(text, "KV", "RS")]
    return sum(sums) if sums else None


def _compute(text: str) -> int | None:
    """Return the bytes of compute and output buffers: of each the last line in each context, and the projector's."""
    projector = {device: _bytes(mib) for device, mib in _PROJECTOR_COMPUTE.findall(text)}
    if not projector and _PROJECTOR.search(text):
        return None
    text = _PROJECTOR_COMPUTE.sub("", text)
    begins = [found.start() for found in _CONTEXT_BEGINS.finditer(text)]
    bounds = [0, *begins, len(text)]
    total, seen = sum(projector.values()), False
    for start, end in itertools.pairwise(bounds):
        last = {(kind, device): size for kind, device, size in _buffers(text[start:end], "compute", "output")}
        seen = seen or any(kind == "compute" for kind, _ in last)
        total += sum(last.values())
    return total if seen else None


def _context_tokens(text: str) -> int | None:
    """Return the tokens of all slots of the main model: its context is made first."""
    if found := _CONTEXT.search(text):
        return int(found[1])
    if found := _SLOTS.search(text):
        return int(found[2]) * (1 if found[3] == "true" else int(found[1]))
    return None


def _bytes(mib: str) -> int:
    return round(float(mib) * _MIB)
