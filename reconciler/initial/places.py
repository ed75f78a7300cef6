"""The folders in which programs keep models, on Linux and macOS."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: Folder below the home folder -> who keeps models there.
_BELOW_HOME: Final = (
    (".cache/huggingface/hub", "the Hugging Face Hub's cache"),
    (".cache/llama.cpp", "llama.cpp's cache"),
    ("Library/Caches/llama.cpp", "llama.cpp's cache"),
    (".lmstudio/models", "LM Studio"),
    (".cache/lm-studio/models", "LM Studio, earlier versions"),
    ("models", "your home folder"),
)
_OLLAMA: Final = (".ollama/models", "/usr/share/ollama/.ollama/models")


def usual(home: Path, here: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that are there, in the order in which they are searched. Blocks for a few looks.

    `HF_HUB_CACHE`, `HF_HOME` and `LLAMA_CACHE` rule over the places their programs use without them.
    """
    stated = [Path(environ["HF_HUB_CACHE"])] if environ.get("HF_HUB_CACHE") else []
    stated += [Path(environ["HF_HOME"]) / "hub"] if environ.get("HF_HOME") else []
    stated += [Path(environ["LLAMA_CACHE"])] if environ.get("LLAMA_CACHE") else []
    found = [here / "models", here / "weights", *stated, *(home / name for name, _ in _BELOW_HOME)]
    return tuple(dict.fromkeys(path for path in found if path.is_dir()))


def ollama(home: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of Ollama's models, whose files have no names that tell what they are; None = no such."""
    stated = environ.get("OLLAMA_MODELS")
    found = [Path(stated)] if stated else [home / path for path in _OLLAMA]
    return next((path for path in found if (path / "manifests").is_dir()), None)
