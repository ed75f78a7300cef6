"""Which engines are here, and which of them serves a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import registry
from reconciler.initial.found import Kind, Model

#: What starts anything, or what is written by the user: neither is here or missing.
_NO_PROGRAM: Final = frozenset({"command", "python"})
#: Form of weights -> engines that serve it, the best first.
_SERVERS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.GGUF: ("llama.cpp",),
    Kind.MLX: ("mlx", "mlx-vlm"),
    Kind.SAFETENSORS: ("vllm", "sglang", "infinity", "tei", "transformers", "mlx", "mlx-vlm"),
    Kind.CTRANSLATE2: ("faster-whisper",),
    Kind.WHISPER: ("whisper.cpp",),
}
#: The one everybody can install: models for it are written down although it is missing.
ALWAYS: Final = "llama.cpp"


@dataclass(frozen=True, slots=True)
class Here:
    """An engine whose server is on this machine."""

    name: str
    program: str
    version: str | None


def engines() -> tuple[Here, ...]:
    """Return the engines that are here, by name: on PATH, or importable. Starts nothing. Blocks."""
    found = []
    for name in registry.names():
        spec = LaunchSpec(name, name)
        program = registry.get(name).program(spec) if name not in _NO_PROGRAM else None
        if program:
            found.append(Here(name, program[0], registry.get(name).version(spec)))
    return tuple(found)


def candidates(model: Model, here: frozenset[str]) -> tuple[str, ...]:
    """Return the engines that are here and serve such a model, the best first."""
    known = [name for name in servers(model.kind, model.role) if name in here or name == ALWAYS]
    return tuple(known)


def servers(kind: Kind, role: Role) -> tuple[str, ...]:
    """Return all engines that serve such a model, the best first.

    >>> servers(Kind.WHISPER, Role.ASR)
    ('whisper.cpp',)
    """
    return tuple(name for name in _SERVERS[kind] if role in registry.get(name).roles)
