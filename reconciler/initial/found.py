"""The nouns of the search: a model that lies on a disk, and what was seen there and is none."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from reconciler.core.launch import Role


class Kind(StrEnum):
    """The form in which weights are stored."""

    GGUF = "GGUF"
    MLX = "MLX"
    SAFETENSORS = "safetensors"
    CTRANSLATE2 = "CTranslate2"
    WHISPER = "whisper.cpp"


@dataclass(frozen=True, slots=True)
class Model:
    """One model: what a manifest calls its `weights`."""

    path: Path
    kind: Kind
    role: Role
    #: Bytes of its files.
    size: int
    #: Tokens it was made for; None = its files do not say.
    length: int | None = None
    #: Its projector: with it, it sees or hears.
    projector: Path | None = None
    #: Its files by device and inode, sorted: two paths to the same files have the same.
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or folder that no model was made of, and why, in words that follow its path and a colon."""

    path: Path
    why: str


def about(path: Path, sentence: str) -> str:
    """Return a sentence about a file without the path it begins with: that stands before it already."""
    return sentence.removeprefix("the weights ").removeprefix(f"{path} ").removeprefix(f"{path}: ")
