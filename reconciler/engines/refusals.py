"""Keys of the manifest that an engine has no place for: said as it is read, so that nobody relies on them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines.base import Finding

#: Key -> the field of a launch that it becomes.
_FIELDS: Final[Mapping[str, str]] = {
    "adapters": "adapters",
    "batch": "batch",
    "command": "command",
    "context.bytes_per_token": "context_bytes_per_token",
    "context.cache_type": "cache_type",
    "context.max_tokens": "context_tokens",
    "context.slots": "slots",
    "draft": "draft",
    "entry": "entry",
    "memory.limit": "allocator_limit",
    "memory.mode": "load_mode",
    "projector": "projector",
    "python": "python",
    "sleep": "sleep",
    "state.save": "saves_state",
    "weights": "weights",
}
_THREADS: Final = "device.threads"
_BARE: Final = LaunchSpec("", "")

#: The keys that an engine states it has a use for, or else refuses. The others hold for all, or are asked for in
#: another way: weights, what it can save, whether it sleeps, what its allocator is told.
CHOSEN: Final = frozenset(
    {*_FIELDS, _THREADS} - {"memory.limit", "sleep", "state.save", "weights"},
)
#: What only language models have.
CONTEXT: Final = frozenset(
    {"context.bytes_per_token", "context.cache_type", "context.max_tokens", "context.slots"}
)
#: What the base class does by itself with a program of its own, and with one of a Python package.
PROGRAM: Final = frozenset({"command", _THREADS})
PACKAGE: Final = PROGRAM | {"python"}


def unused(
    spec: LaunchSpec, engine: str, keys: Iterable[str], hints: Mapping[str, str] = {}
) -> Iterator[Finding]:
    """Yield one finding for each of `keys` that the launch states; `hints` say what to do instead of leaving it out."""
    for key in sorted(keys):
        if _value(spec, key) != _value(_BARE, key):
            hint = hints.get(key, "leave it out for this model")
            text = f"{engine} has nothing that `{key}` could set"
            yield Finding(tuple(key.split(".")), text, hint, needless=True)


def without(spec: LaunchSpec, path: tuple[str, ...]) -> LaunchSpec:
    """Return the launch as if nobody had stated the key at `path`, a finding's.

    >>> without(LaunchSpec("m", "e", slots=4), ("context", "slots")).slots
    1
    """
    key = ".".join(path)
    if key == _THREADS:
        return replace(spec, device=replace(spec.device, threads=None))
    changes: dict[str, Any] = {_FIELDS[key]: getattr(_BARE, _FIELDS[key])}
    return replace(spec, **changes)


def _value(spec: LaunchSpec, key: str) -> object:
    return spec.device.threads if key == _THREADS else getattr(spec, _FIELDS[key])
