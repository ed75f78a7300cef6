"""What the embedded build of llama.cpp can load: read from its library as data, without running any of it.

Running it in this process to ask would load every driver there is, and end us where it was built for another CPU.
"""

import importlib.util
import mmap
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from reconciler.engines.llama.server import embedded_version
from reconciler.memory.gguf import Header
from reconciler.memory.gguf.cache import Stamp
from reconciler.memory.gguf.types_table import NAMES, REMOVED

#: The names of architectures, and of types of tensors, lie in the library as texts. Where these do not, it keeps its
#: texts in another way.
_ALWAYS: Final = ("llama", "gemma3", "qwen3", "q4_K", "f16")
_LIBRARIES: Final = (".so", ".dylib", ".pyd", ".dll")
#: The newest build whose types of tensors are known here, and how many there are.
_KNOWN: Final = (2026, 10)


def cannot_load(header: Header) -> str | None:
    """Return why the embedded server would refuse these weights, or None: also where that is not certain.

    Reads the library once, 0.1 s, for each name it does not hold.
    """
    return _types(header) or _architecture(header)


def _types(header: Header) -> str | None:
    for kind in sorted({tensor.type for tensor in header.tensors}):
        if kind in REMOVED:
            return f"its tensors have type {kind} ({REMOVED[kind]}), which llama.cpp has given up: get a newer file"
        if kind in NAMES and _holds(_ggml_name(NAMES[kind])) is False:
            return f"its tensors have type {NAMES[kind]}, which xllamacpp {embedded_version()} does not know: update it"
        if kind not in NAMES and _build() <= _KNOWN:
            return (
                f"its tensors have type {kind}, which xllamacpp {embedded_version()} does not know: update it"
            )
    return None


def _ggml_name(name: str) -> str:
    """Return the name of a type as GGML itself writes it: `q4_K`, `iq4_nl`."""
    return name.lower().replace("_k", "_K")


def _architecture(header: Header) -> str | None:
    arch = header.keys.get("general.architecture")
    if not isinstance(arch, str) or not arch or _holds(arch) is not False:
        return None
    return f"xllamacpp {embedded_version()} does not know the architecture {arch[:40]!r}: update it"


def _build() -> tuple[int, ...]:
    parts = embedded_version().split(".")[:2]
    return tuple(int(part) for part in parts if part.isdecimal())


def _holds(text: str) -> bool | None:
    """Return whether the library holds a text; None = it cannot be told."""
    try:
        libraries = _libraries()
        if not libraries or not all(_found(libraries, name) for name in _ALWAYS):
            return None
        return _found(libraries, text)
    except (OSError, ValueError):  # it is being replaced just now: an empty file cannot be mapped
        return None


def _libraries() -> tuple[Stamp, ...]:
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent
    folders = (folder, folder / ".dylibs", folder.with_name("xllamacpp.libs"))
    return tuple(Stamp.of(path, path.stat()) for path in _in(folders))


def _in(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(path for path in folder.iterdir() if path.is_file() and _is_library(path))


def _is_library(path: Path) -> bool:
    return path.name.endswith(_LIBRARIES) or ".so." in path.name


@lru_cache(maxsize=256)
def _found(libraries: tuple[Stamp, ...], text: str) -> bool:
    """Say whether one of the libraries holds a text with its end; part of a longer one counts, so a no is certain."""
    return any(_one(library.path, text.encode() + b"\0") for library in libraries)


def _one(path: Path, text: bytes) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(text) >= 0
