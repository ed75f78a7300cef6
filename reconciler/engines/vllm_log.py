"""What vLLM's log says: what went wrong, and what it took."""

import re
from typing import Final

from reconciler.core.memory import Said
from reconciler.engines import failures

_GIB: Final = 1 << 30
_WEIGHTS: Final = re.compile(r"Model loading took ([\d.]+) GiB")
#: On a GPU, and on CPUs.
_POOL: Final = re.compile(
    r"Available KV cache memory: ([\d.]+) GiB|Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV cache"
)
_TOKENS: Final = re.compile(r"KV cache size: ([\d,]+) tokens")
#: One of the first lines of a start.
_START: Final = re.compile(r"non-default args:")

KNOWN: Final = failures.known(
    (
        r"No available memory for the cache blocks|larger than the available KV cache memory[^\n]*",
        "its pool of keys and values holds no whole request: give args: [--kv-cache-memory-bytes, SIZE]",
        failures.OUT_OF_MEMORY,
    ),
    (
        r"Free memory on device[^\n]*is less than desired|on kv cache allocation is less than requested",
        "there is less memory free than it was told to take",
        failures.OUT_OF_MEMORY,
    ),
    (
        r"quantization method (\S+) is not supported for the current GPU|Unknown quantization method: (\S+?)\.",
        "it cannot compute with this quantisation here ({0})",
        failures.BAD_FILE,
    ),
    (
        r"[Mm]odel architectures \[([^\]]*)\] (?:are not supported|failed to be inspected)",
        "it does not know the architecture {0}: a newer version may",
        failures.BAD_FILE,
    ),
    (
        r"Unsupported CPU attention configuration: (head_dim=\d+)",
        "its kernels for CPUs cannot compute this model's heads ({0})",
        failures.BAD_FILE,
    ),
    (
        r"LoRA rank (\d+) is greater than max_lora_rank",
        "its adapter has a higher rank than it makes room for: args: [--max-lora-rank, '{0}']",
        failures.BAD_ARGUMENT,
    ),
    (
        r"max_model_len \((\d+)\) is greater than the derived",
        "context.max_tokens is more than the model can take",
        failures.BAD_ARGUMENT,
    ),
)


def said(log: str) -> Said | None:
    """Return what the last start in the log says of weights and pool, in bytes; None = it says nothing of them."""
    starts = [found.start() for found in _START.finditer(log)]
    text = log[starts[-1] :] if starts else log
    weights, pool = _gib(_WEIGHTS, text), _gib(_POOL, text)
    tokens = _TOKENS.findall(text)
    if weights is None and pool is None and not tokens:
        return None
    count = int(tokens[-1].replace(",", "")) if tokens else None
    return Said(weights=weights, context=pool, context_tokens=count)


def _gib(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the sum over all workers, each of which says its own; None = nothing, or too little for two decimals."""
    found = [next(group for group in match.groups() if group) for match in pattern.finditer(text)]
    return round(sum(map(float, found)) * _GIB) or None
