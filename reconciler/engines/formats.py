"""Weights that a server could never load: another format than it reads, or a model of another kind. Reads files.

What is certain is a reason not to start; what depends on how a server was built, or on its version, is a note.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.memory.gguf import WeightsError, find_weights
from reconciler.memory.hf import check_folder, find_model, holds_safetensors
from reconciler.memory.hf.instead import without_safetensors

#: Kinds of model (`model_type`) that give vectors, hear or see, and write no text.
_NO_LANGUAGE: Final = frozenset(
    {
        *("albert", "bert", "camembert", "clip", "deberta", "deberta-v2", "distilbert", "electra"),
        *("modernbert", "mpnet", "nomic_bert", "roberta", "siglip", "vit", "wav2vec2", "whisper"),
        *("xlm-roberta", "xlm-roberta-xl"),
    }
)
_CLASSIFIER: Final = "SequenceClassification"


def no_language(spec: LaunchSpec) -> str | None:
    """Return why a model can write no text although its role says so, in a sentence; None = nothing tells."""
    what, names = _stated(spec)
    if spec.role not in (Role.CHAT, Role.COMPLETION) or what not in _NO_LANGUAGE:
        return None
    if any("CausalLM" in name or "LMHead" in name for name in names):
        return None
    return f"{spec.weights} is no language model: its config.json says {', '.join(names) or what}"


def no_scores(spec: LaunchSpec) -> str | None:
    """Return why a model can rank or classify nothing although its role says so; None = nothing tells."""
    _, names = _stated(spec)
    if spec.role not in (Role.RERANK, Role.CLASSIFY) or not names or any(_CLASSIFIER in n for n in names):
        return None
    said = f"its config.json says {', '.join(names)}"
    return f"{spec.weights} gives no scores: {said}, and a model that does is called ...For{_CLASSIFIER}"


def _stated(spec: LaunchSpec) -> tuple[object, list[str]]:
    """Return the kind and the architectures that `config.json` states; of files that cannot be read none."""
    try:
        config = find_model(Path(spec.weights or "")).config
    except (OSError, WeightsError):
        # What is wrong with the files themselves is said by what reads them for the size.
        return None, []
    found = config.get("architectures")
    return config.get("model_type"), [n for n in found if isinstance(n, str)] if isinstance(
        found, list
    ) else []


def folder(path: Path, others: Collection[str] = ()) -> tuple[str | None, tuple[str, ...]]:
    """Return why a server cannot load a folder of safetensors at `path`, or None, and notes.

    `others` are endings of files that some builds of it load as well: these alone are a note.
    """
    try:
        if path.is_dir() and not holds_safetensors(path):
            names = os.listdir(path)
            found = without_safetensors(path)
            maybe = [end for end in others if any(name.endswith(end) for name in names)]
            return (None, (f"{found}: not every build of its server loads such",)) if maybe else (found, ())
        return None, check_folder(path)
    except WeightsError as error:
        return str(error), ()
    except OSError as error:
        return f"the weights {path} cannot be read: {error.strerror}", ()


def not_for_mlx(path: Path) -> str | None:
    """Return why MLX cannot load what is at `path`, whatever kind of model it is, or None if nothing tells.

    Models for sound and pictures have folders of their own making, with their parts in folders below.
    """
    if path.is_file():
        return f"{path} is one file, and this engine loads the whole folder: name {path.parent}"
    try:
        below = [found.name for found in sorted(path.glob("*/*"))]
        names = [*sorted(os.listdir(path)), *below]
        if any(name.endswith((".safetensors", ".npz", ".index.json")) for name in names):
            return None
        return without_safetensors(path)
    except OSError as error:
        return f"the weights {path} cannot be read: {error.strerror}"


def not_for_pictures(path: Path) -> str | None:
    """Return why stable-diffusion.cpp cannot load what is at `path`, or None if nothing tells."""
    if path.is_dir():
        parts = ("model_index.json", "unet", "transformer")
        if any((path / part).exists() for part in parts):
            return None
        try:
            found = f"{without_safetensors(path)}. " if not holds_safetensors(path) else ""
        except OSError as error:
            return f"the weights {path} cannot be read: {error.strerror}"
        return f"{found}{path} is no folder of a diffusion model (it has no model_index.json, no unet): name one file"
    if path.suffix != ".gguf":
        return None
    try:
        header = find_weights(path).header
    except WeightsError:
        # Diffusion models are stored in types of their own.
        return None
    what = header.keys.get("general.architecture")
    if "tokenizer.ggml.tokens" in header.keys and f"{what}.block_count" in header.keys:
        return f"{path} is a language model ({what}), not one that draws"
    return None
