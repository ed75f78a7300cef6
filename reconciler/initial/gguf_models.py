"""GGUF files of a folder: models, projectors of models, and what is neither. Every file is untrusted input."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reconciler.core.launch import Role
from reconciler.initial.found import Kind, LeftOut, Model, about
from reconciler.initial.naming import words
from reconciler.memory.gguf import Header, Weights, WeightsError, split_of
from reconciler.memory.gguf.split import shard_name

#: Architectures that make vectors of text, and write none.
_ENCODERS: Final = frozenset(
    {
        *("bert", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "modern-bert", "neo-bert"),
        *("nomic-bert", "nomic-bert-moe", "t5encoder"),
    }
)
#: llama.cpp knows their files, and its server does not serve them.
_NOT_SERVED: Final = {
    "dream": "a language model that works by diffusion, which llama.cpp's server does not serve",
    "llada": "a language model that works by diffusion, which llama.cpp's server does not serve",
    "llada-moe": "a language model that works by diffusion, which llama.cpp's server does not serve",
    "rnd1": "a language model that works by diffusion, which llama.cpp's server does not serve",
    "wavtokenizer-dec": "a part of a model that speaks, which llama.cpp's server does not serve",
}
#: `pooling_type` (llama.h): how one vector is made of those of all tokens; 4 = a score.
_VECTORS, _SCORE = frozenset({1, 2, 3}), 4
_GUESSERS: Final = frozenset({"draft", "drafter", "eagle", "eagle3"})
#: Of several projectors of one model the first of these is taken: half precision is what they are used in.
_PRECISIONS: Final = ("f16", "bf16", "q8_0", "f32")


@dataclass(frozen=True, slots=True)
class Projector:
    """A file that lets a model see or hear; it fits models whose embedding has as many elements as it makes."""

    path: Path
    width: int | None


def look(folder: Path, names: Sequence[str]) -> Iterator[Model | LeftOut]:
    """Yield what the GGUF files among `names` are. Blocks: it reads their headers."""
    models: list[tuple[Model, int | None]] = []
    projectors: list[Projector] = []
    for path in _wholes(folder, names):
        try:
            weights = split_of(path)
        except WeightsError as error:
            yield LeftOut(path, about(path, str(error)))
            continue
        found = judged(path, weights)
        if isinstance(found, Projector):
            projectors.append(found)
        elif isinstance(found, LeftOut):
            yield found
        else:
            models.append((found, _number(weights.header, "embedding_length")))
    yield from _with_projectors(models, projectors)


def _wholes(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the path of each file, of a split set that of one part: the first, or the lowest there is."""
    sets: set[tuple[str, int]] = set()
    for name in sorted(names):
        if not name.endswith(".gguf"):
            continue
        part = shard_name(Path(name))
        if part is not None:
            if (part.stem, part.count) in sets:
                continue
            sets.add((part.stem, part.count))
        yield folder / name


def judged(path: Path, weights: Weights) -> Model | Projector | LeftOut:
    """Return what a file is, by its header."""
    header = weights.header
    arch, kind = header.keys.get("general.architecture"), header.keys.get("general.type")
    if arch == "clip" or kind == "mmproj":
        width = header.keys.get("clip.vision.projection_dim", header.keys.get("clip.audio.projection_dim"))
        return Projector(path, width if isinstance(width, int) else None)
    if kind == "adapter":
        return LeftOut(path, "an adapter, not a model: name it under `adapters` of the model it was made for")
    if kind == "imatrix":
        return LeftOut(path, "measurements for quantising a model, not a model")
    if _GUESSERS & set(words(path.stem)):
        return LeftOut(path, "guesses ahead for another model: name it as `draft` of that one")
    if not isinstance(arch, str) or arch in _NOT_SERVED:
        return LeftOut(path, _NOT_SERVED.get(str(arch), "its header does not say what it is"))
    if f"{arch}.block_count" not in header.keys:
        return LeftOut(path, f"no language model ({arch}): if it draws, give it an engine that does by hand")
    return Model(
        weights.files[0],
        Kind.GGUF,
        _role(header, arch),
        weights.size,
        _number(header, "context_length"),
        files=tuple(file.key for file in weights.mapped),
    )


def _role(header: Header, arch: str) -> Role:
    pooling = header.keys.get(f"{arch}.pooling_type")
    if pooling == _SCORE or any(tensor.name.startswith("cls.") for tensor in header.tensors):
        return Role.RERANK
    if arch in _ENCODERS or pooling in _VECTORS:
        return Role.EMBEDDING
    return Role.CHAT if "tokenizer.chat_template" in header.keys else Role.COMPLETION


def _number(header: Header, key: str) -> int | None:
    """Return a whole number above zero that the header states below its architecture, or None."""
    value = header.keys.get(f"{header.keys.get('general.architecture')}.{key}")
    return value if type(value) is int and value > 0 else None


def _with_projectors(
    models: Sequence[tuple[Model, int | None]], projectors: Sequence[Projector]
) -> Iterator[Model | LeftOut]:
    """Yield the models, each with its projector, and the projectors that no model has."""
    used: set[Path] = set()
    for model, width in models:
        fitting = [p for p in projectors if _fits(p, model, width, alone=len(models) == 1)]
        if not fitting or model.role not in (Role.CHAT, Role.COMPLETION):
            yield model
            continue
        best = min(fitting, key=lambda p: (-_alike(p.path, model.path), _precision(p.path), p.path))
        used.update(p.path for p in fitting)
        yield replace(model, projector=best.path, role=Role.VISION)
    for projector in projectors:
        if projector.path not in used:
            yield LeftOut(projector.path, "a projector, and the model it belongs to is not in its folder")


def _fits(projector: Projector, model: Model, width: int | None, *, alone: bool) -> bool:
    """Return whether a projector is this model's: its width must be, and in a mixed folder also its name."""
    if projector.width is not None and width is not None and projector.width != width:
        return False
    return alone or _alike(projector.path, model.path) > 1


def _alike(first: Path, second: Path) -> int:
    """Return how many words two names have in common, those that say how the file is stored left out."""
    left_out = {"mmproj", "model", "gguf", "instruct", "it", *_PRECISIONS}
    return len((set(words(first.stem)) & set(words(second.stem))) - left_out)


def _precision(path: Path) -> int:
    found = set(words(path.stem))
    return next((i for i, name in enumerate(_PRECISIONS) if name in found), len(_PRECISIONS))
