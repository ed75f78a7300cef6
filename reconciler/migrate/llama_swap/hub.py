"""Weights that llama.cpp fetched by itself (`-hf OWNER/NAME:QUANT`): the files, if they are here already."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from reconciler.memory.gguf.split import shard_name

#: What llama.cpp takes where no quantisation is named.
_USUAL: Final = "Q4_K_M"
_HUB: Final = ".cache/huggingface/hub"
_CACHES: Final = (".cache/llama.cpp", "Library/Caches/llama.cpp")


def find(named: str, environ: Mapping[str, str]) -> tuple[Path, Path | None] | None:
    """Return weights and projector of `OWNER/NAME[:QUANT]` in llama.cpp's caches; None = not there, or several fit.

    Reads folders.
    """
    repository, _, tag = named.partition(":")
    files = sorted(set(_files(repository, environ)))
    models = [path for path in files if "mmproj" not in path.name and _first(path)]
    fitting = [path for path in models if (tag or _USUAL).lower() in path.name.lower()]
    if len(fitting) != 1:
        fitting = models if len(models) == 1 and not tag else []
    if len(fitting) != 1:
        return None
    projectors = [path for path in files if "mmproj" in path.name and path.parent == fitting[0].parent]
    return fitting[0], projectors[0] if len(projectors) == 1 else None


def _files(repository: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the GGUF files of a repository: in the Hub's cache, and as older builds of llama.cpp named them."""
    home = Path(environ.get("HOME", "/"))
    hubs = [environ.get("HF_HUB_CACHE"), f"{environ['HF_HOME']}/hub" if environ.get("HF_HOME") else None]
    for hub in (*(Path(text) for text in hubs if text), home / _HUB):
        folder = hub / f"models--{repository.replace('/', '--')}" / "snapshots"
        yield from _below(folder, "*/*.gguf")
        yield from _below(folder, "*/*/*.gguf")
    stated = environ.get("LLAMA_CACHE")
    for cache in (*([Path(stated)] if stated else []), *(home / path for path in _CACHES)):
        yield from _below(cache, f"{repository.replace('/', '_')}_*.gguf")


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    # A name of a user's: only in the pattern of older builds, where a star in it would find too much.
    if folder.is_dir() and not {"[", "?"} & set(pattern):
        yield from folder.glob(pattern)


def _first(path: Path) -> bool:
    part = shard_name(path)
    return part is None or part.number == 1
