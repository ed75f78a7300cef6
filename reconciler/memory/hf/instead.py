"""What a folder is that is no whole model of safetensors: what is in it instead, or what was not downloaded."""

import os
from pathlib import Path
from typing import Final

from reconciler.memory.gguf import Unreadable, WeightsError
from reconciler.memory.lookalike import lookalike
from reconciler.memory.regular import read_regular

#: Endings of weights in other formats, what they are, and what to do; the first that is there counts.
_OTHERS: Final = (
    (".gguf", "GGUF", "name that file, for `engine: llama.cpp`; or get the model as safetensors"),
    (".onnx", "ONNX", "they are for a server of its own (`engine: python` or `command`)"),
    (".npz", "an older form of MLX", "convert them to safetensors (mlx_lm.convert)"),
    (".bin", "", ""),
    (".pt", "", ""),
    (".pth", "", ""),
    (".ckpt", "", ""),
)
_PICKLED: Final = (
    "pickled weights ({name}), and loading such runs whatever code is in them: convert them to safetensors"
)
#: Beside `model.bin` only models of CTranslate2 have one of these.
_CTRANSLATE: Final = ("vocabulary.json", "vocabulary.txt", "shared_vocabulary.json", "shared_vocabulary.txt")
#: Names of files that text is cut into tokens by.
_TOKENIZERS: Final = ("tokenizer", "vocab", "spiece", "sentencepiece", "tekken", "tiktoken", "merges")
#: Pointers of Git LFS and git-annex are below this many bytes.
_POINTER: Final = 1024
#: Files of a folder that are looked at: a model has some ten beside its weights.
_MOST: Final = 200


def without_safetensors(folder: Path) -> str:
    """Return what is in a folder that has no `.safetensors` file, as a sentence with its name. Raises OSError."""
    names = sorted(os.listdir(folder))
    if "snapshots" in names and "blobs" in names:
        inside = sorted(os.listdir(folder / "snapshots"))
        which = inside[-1] if inside else "..."
        return (
            f"{folder} is a folder of the Hub's cache: name the model in it, {folder / 'snapshots' / which}"
        )
    if "model.bin" in names and any(name in names for name in _CTRANSLATE):
        return f"{folder} holds a model of CTranslate2 (model.bin): that is for `engine: faster-whisper`"
    for ending, what, advice in _OTHERS:
        for name in names:
            if name.endswith(ending):
                found = f"{what} ({name}): {advice}" if what else _PICKLED.format(name=name)
                return f"{folder} holds {found}"
    return f"{folder} holds no .safetensors file"


def check_folder(path: Path) -> tuple[str, ...]:
    """Return what is odd about a folder whose weights are whole, as notes. Blocks.

    Raises WeightsError where a server that loads such folders would end: it is one file, an adapter, or what belongs
    to the weights is missing or was not downloaded.
    """
    if path.is_file():
        raise WeightsError(f"{path} is one file, and this engine loads the whole folder: name {path.parent}")
    try:
        names = sorted(name for name in os.listdir(path) if not name.endswith(".safetensors"))[:_MOST]
        _check_pointers(path, names)
    except OSError as error:
        raise Unreadable.because(Path(error.filename or path), error) from error
    if "config.json" not in names and "params.json" not in names:
        if "adapter_config.json" in names:
            raise WeightsError(
                f"{path} is an adapter, not a model: name it under `adapters`, beside the model's weights"
            )
        raise WeightsError(
            f"{path} has no config.json: the download is not complete, or it is no model of this kind"
        )
    if not any(word in name.lower() for name in names for word in _TOKENIZERS):
        return (f"{path} has no file of a tokenizer: text cannot be read without",)
    return ()


def _check_pointers(folder: Path, names: list[str]) -> None:
    """Raise WeightsError if a file beside the weights is a pointer to what was not downloaded. Raises OSError."""
    for name in names:
        file = folder / name
        if (
            not name.endswith((".json", ".model", ".txt"))
            or not file.is_file()
            or file.stat().st_size > _POINTER
        ):
            continue
        sentence = lookalike(read_regular(file, 64), "JSON")
        if sentence is not None and "pointer" in sentence:
            raise WeightsError(f"{file} {sentence}")
