"""Ollama's folder of models: which files a model consists of. All of it is untrusted input."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from reconciler.memory.gguf import WeightsError
from reconciler.memory.regular import read_regular

_MANIFESTS: Final = "manifests"
_REGISTRY, _LIBRARY = "registry.ollama.ai", "library"
#: Begins the media types of a model's files.
KIND: Final = "application/vnd.ollama.image."
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
#: Bytes of a manifest, and of the parameters in a model, at most.
_LONGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model's manifest lies: Ollama's folder, and the name it has there."""

    folder: Path
    #: As people write it: `gemma3:4b`, `hf.co/someone/model:Q4_K_M`.
    tag: str


@dataclass(frozen=True, slots=True)
class Stored:
    """The files of one model."""

    #: GGUF; None = its weights are in another format.
    model: Path | None
    projectors: tuple[Path, ...] = ()
    adapters: tuple[Path, ...] = ()
    #: What its Modelfile sets: it rules over the server's settings.
    parameters: Mapping[str, object] | None = None

    @property
    def context_tokens(self) -> int | None:
        """Tokens of context that its Modelfile asks for, or None."""
        value = (self.parameters or {}).get("num_ctx")
        return value if isinstance(value, int) and value > 0 else None


def place(weights: str) -> Place | None:
    """Return the model whose manifest is the file `weights`, or None if that is no place for one. Reads nothing.

    >>> place("/m/manifests/registry.ollama.ai/library/gemma3/4b").tag
    'gemma3:4b'
    """
    path = PurePath(weights)
    if path.parts[-5:-4] != (_MANIFESTS,):
        return None
    host, owner, name, tag = path.parts[-4:]
    named = [] if host == _REGISTRY else [host]
    named += [] if host == _REGISTRY and owner == _LIBRARY else [owner]
    return Place(Path(*path.parts[:-5]), "/".join((*named, f"{name}:{tag}")))


def read(weights: str) -> Stored:
    """Return the files that a manifest names, if they are there. Blocks. Raises `WeightsError`."""
    where = place(weights)
    if where is None:
        raise WeightsError(f"{weights} is not a model's file in Ollama's folder of manifests")
    listed = layers(Path(weights), where)
    models = blobs(where, listed, "model")
    parameters = blobs(where, listed, "params")
    return Stored(
        models[0] if models else None,
        blobs(where, listed, "projector"),
        blobs(where, listed, "adapter"),
        _parameters(parameters[0]) if parameters else None,
    )


def layers(path: Path, where: Place) -> list[Any]:
    """Return what a manifest lists, as it is written. Blocks. Raises `WeightsError`."""
    return _manifest(path, where)[1]


def config(path: Path, where: Place) -> Mapping[str, object]:
    """Return what a manifest says of the model as a whole; nothing if that file is not there. Blocks."""
    described = _manifest(path, where)[0].get("config")
    digest = _DIGEST.fullmatch(str(described.get("digest"))) if isinstance(described, dict) else None
    file = where.folder / "blobs" / f"sha256-{digest[1]}" if digest else None
    content = read_json(file) if file is not None and file.is_file() else {}
    return content if isinstance(content, dict) else {}


def _manifest(path: Path, where: Place) -> tuple[dict[str, Any], list[Any]]:
    if not path.is_file():
        command = f"OLLAMA_MODELS={where.folder} ollama pull {where.tag}"
        raise WeightsError(f"there is no {where.tag} in {where.folder}: {command}")
    content = read_json(path)
    listed = content.get("layers") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise WeightsError(f"{path} is no manifest of Ollama")
    return content, listed


def blobs(where: Place, listed: list[Any], kind: str) -> tuple[Path, ...]:
    """Return the files of one kind, all of which must be there. Raises `WeightsError`."""
    found = []
    for layer in listed:
        if not isinstance(layer, dict) or layer.get("mediaType") != KIND + kind:
            continue
        digest = _DIGEST.fullmatch(str(layer.get("digest")))
        if digest is None:
            raise WeightsError(f"the manifest of {where.tag} names a file by no digest")
        path = where.folder / "blobs" / f"sha256-{digest[1]}"
        if not path.is_file():
            raise WeightsError(f"{where.tag} is not whole, {path} is missing: ollama pull {where.tag}")
        found.append(path)
    return tuple(found)


def _parameters(path: Path) -> Mapping[str, object]:
    content = read_json(path)
    return content if isinstance(content, dict) else {}


def read_json(path: Path) -> Any:
    """Return what a file of Ollama's says. Blocks. Raises `WeightsError`."""
    try:
        data = read_regular(path, _LONGEST + 1)
        if len(data) > _LONGEST:
            raise WeightsError(f"{path} is too long to be what Ollama writes there")
        return json.loads(data)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise WeightsError(f"{path} is no JSON: it is damaged, or not Ollama's") from None
