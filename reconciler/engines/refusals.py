"""Keys of the manifest that an engine has no place for: said as it is read, so that nobody relies on them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines.base import Finding

_VALUES: Final[Mapping[str, Callable[[LaunchSpec], object]]] = {
    "adapters": lambda spec: spec.adapters,
    "command": lambda spec: spec.command,
    "context.bytes_per_token": lambda spec: spec.context_bytes_per_token,
    "context.cache_type": lambda spec: spec.cache_type,
    "context.max_tokens": lambda spec: spec.context_tokens,
    "context.slots": lambda spec: spec.slots,
    "device.threads": lambda spec: spec.device.threads,
    "draft": lambda spec: spec.draft,
    "entry": lambda spec: spec.entry,
    "memory.mode": lambda spec: spec.load_mode,
    "projector": lambda spec: spec.projector,
    "weights": lambda spec: spec.weights,
}
_BARE: Final = LaunchSpec("", "")

#: What only language models have.
CONTEXT: Final = ("context.bytes_per_token", "context.cache_type", "context.max_tokens", "context.slots")
#: Further files, and the class of a Python worker.
FURTHER: Final = ("adapters", "draft", "entry", "projector")


def unused(spec: LaunchSpec, engine: str, *keys: str, hints: Mapping[str, str] = {}) -> Iterator[Finding]:
    """Yield one finding for each of `keys` that the launch states; `hints` say what to do instead of leaving it out."""
    for key in sorted(keys):
        value = _VALUES[key]
        if value(spec) != value(_BARE):
            hint = hints.get(key, "leave it out for this model")
            text = f"{engine} has nothing that `{key}` could set"
            yield Finding(tuple(key.split(".")), text, hint, needless=True)
