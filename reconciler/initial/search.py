"""All models in some folders, each once, and all that looked like one and is none."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.initial import folder_models, gguf_models
from reconciler.initial.found import LeftOut, Model
from reconciler.initial.walk import Folder, Walk
from reconciler.manifest.files import odd_name

#: How downloads end that have not: the Hub's, llama.cpp's, LM Studio's, browsers', aria2's.
_UNFINISHED: Final = re.compile(
    r"\.(?:incomplete|downloadInProgress|part|partial|crdownload|download|aria2|tmp)$", re.IGNORECASE
)
_WEIGHTS: Final = re.compile(r"\.(?:gguf|safetensors|bin)(?:\.|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a search found. Both sorted by path."""

    models: tuple[Model, ...]
    left_out: tuple[LeftOut, ...]
    #: Further paths to files that a model in `models` has already.
    again: int
    #: Why not everything was seen, in a sentence; "" = it was.
    unfinished: str = ""


def search(places: Sequence[Path], walk: Walk, tell: Callable[[int, int], None]) -> Findings:
    """Return all models at and below `places`. Blocks; `tell` hears of names looked at, and of models found.

    The places come first whose models are to keep their paths where two lead to the same files.
    """
    models: dict[tuple[str, ...], Model] = {}
    left_out: list[LeftOut] = []
    again = 0
    for folder in walk.through(places):
        for found in _in(folder):
            if isinstance(found, LeftOut):
                left_out.append(found)
            elif found.files in models:
                again += 1
            else:
                models[found.files] = found
        tell(walk.entries, len(models))
    return Findings(
        tuple(sorted(models.values(), key=lambda m: m.path)),
        tuple(sorted({*left_out, *walk.unreadable}, key=lambda one: (one.path, one.why))),
        again,
        _unfinished(walk),
    )


def _in(folder: Folder) -> Iterator[Model | LeftOut]:
    names = [name for name in folder.files if _nameable(name)]
    yield from _unfinished_downloads(folder)
    for name in folder.files:
        if not _nameable(name) and _WEIGHTS.search(name):
            yield LeftOut(folder.path / name, odd_name(name) or "its name cannot be printed: rename it")
    if not _nameable(str(folder.path)):
        yield LeftOut(folder.path, "its name cannot be written into a manifest: rename it")
        return
    yield from gguf_models.look(folder.path, names)
    yield from folder_models.look(folder.path, names)


def _nameable(name: str) -> bool:
    return not odd_name(name) and name.isprintable()


def _unfinished_downloads(folder: Folder) -> Iterator[LeftOut]:
    # The Hub keeps what arrives under names without any ending.
    hub = folder.path.name == "blobs" or folder.path.name == "download"
    for name in folder.files:
        if _UNFINISHED.search(name) and (hub or _WEIGHTS.search(name)):
            yield LeftOut(folder.path / name, "a download that has not ended: let it, or fetch it again")


def _unfinished(walk: Walk) -> str:
    if walk.stopped:
        return f"the search was ended {walk.stopped}: name the folders that hold your models"
    if walk.deep:
        return f"folders further down were not entered, such as those in {walk.deep[0]}: name them if need be"
    return ""
