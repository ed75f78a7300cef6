"""The models in Ollama's folder, by the files they are made of. All of it is untrusted input."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reconciler.engines import ollama_store
from reconciler.manifest.names import name_problem
from reconciler.memory.gguf import WeightsError
from reconciler.memory.regular import read_regular

#: Kinds of files that say something about a model besides its weights.
_TEXTS: Final = ("template", "system", "messages", "license", "prompt")
#: Characters of a text that are read.
_LONGEST: Final = 20_000
LATEST: Final = ":latest"


@dataclass(frozen=True, slots=True)
class Tag:
    """One name in the folder, and what stands behind it."""

    manifest: Path
    #: As people write it: `llama3:8b`.
    name: str
    stored: ollama_store.Stored | None = None
    #: Kind -> what the file says: `template`, `system` ...
    texts: Mapping[str, str] = field(default_factory=dict)
    #: What it says of itself: format, family, where a remote one runs.
    config: Mapping[str, object] = field(default_factory=dict)
    #: Why it cannot be read.
    problem: str = ""
    #: What makes it the same model as another: all its files but the licence.
    identity: tuple[str, ...] = ()

    @property
    def remote(self) -> bool:
        """Tell whether it runs elsewhere: nothing of it lies here."""
        return bool(self.config.get("remote_host") or self.config.get("remote_model"))


def tags(folder: Path) -> Iterator[Tag]:
    """Yield every model of the folder, sorted by name. Blocks: it reads manifests and small files."""
    root = folder / "manifests"
    found = []
    for path in sorted(root.glob("*/*/*/*")):
        where = ollama_store.place(str(path))
        if where is not None and _is_file(path) and not path.name.startswith("."):
            found.append(_tag(path, where))
    yield from sorted(found, key=lambda tag: tag.name)


def _is_file(path: Path) -> bool:
    """Say whether something can be read there as a manifest; what lies behind a closed door cannot."""
    try:
        return path.is_file()
    except OSError:
        return False


def _tag(path: Path, where: ollama_store.Place) -> Tag:
    if odd := name_problem(where.tag):
        return Tag(path, where.tag, problem=odd)
    try:
        listed = ollama_store.layers(path, where)
        config = ollama_store.config(path, where)
    except WeightsError as error:
        return Tag(path, where.tag, problem=str(error))
    tag = Tag(path, where.tag, config=config, identity=_identity(listed))
    if tag.remote:
        return tag
    try:
        stored = ollama_store.read(str(path))
        texts = {kind: text for kind in _TEXTS if (text := _text(where, listed, kind))}
    except WeightsError as error:
        return Tag(path, where.tag, config=config, problem=str(error))
    return Tag(path, where.tag, stored, texts, config, identity=tag.identity)


def _identity(listed: list[Any]) -> tuple[str, ...]:
    files = [f"{layer.get('mediaType')} {layer.get('digest')}" for layer in listed if isinstance(layer, dict)]
    return tuple(sorted(file for file in files if not file.startswith(f"{ollama_store.KIND}license ")))


def _text(where: ollama_store.Place, listed: list[Any], kind: str) -> str:
    files = ollama_store.blobs(where, listed, kind)
    if not files:
        return ""
    try:
        return read_regular(files[0], _LONGEST).decode("utf-8", "replace")
    except OSError as error:
        raise WeightsError(f"{files[0]} cannot be read: {error.strerror}") from error


def unfinished(folder: Path) -> tuple[str, ...]:
    """Return the names of downloads that were broken off, sorted."""
    names = (path.name.partition("-partial")[0] for path in (folder / "blobs").glob("sha256-*-partial*"))
    return tuple(sorted(set(names)))


def same(found: list[Tag]) -> list[list[Tag]]:
    """Put together the names of one model; the first of each is the one that says most."""
    groups: dict[object, list[Tag]] = {}
    for tag in found:
        groups.setdefault(tag.identity or tag.name, []).append(tag)
    return [sorted(group, key=lambda tag: (tag.name.endswith(LATEST), tag.name)) for group in groups.values()]


def names(group: list[Tag]) -> list[str]:
    """Return all names that clients may use for a model; `llama3` is `llama3:latest`."""
    result = []
    for tag in group:
        short = tag.name.removesuffix(LATEST)
        result += [short, tag.name] if short != tag.name else [tag.name]
    return list(dict.fromkeys(result))
