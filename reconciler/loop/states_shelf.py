"""Saved states on disk: a folder a model, and a record that is written last, so that nothing half-written counts.

    states/                 0700
      proofs.json           which setups were seen to work, and which not
      NAME/state.json       what was saved, by what, from what
      NAME/files/           what the model's server wrote; only it reads them

All methods block, and raise OSError where the disk does not do what it should.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from reconciler.host.logs import safe_name

_RECORD: Final = "state.json"
_FILES: Final = "files"
_PROOFS: Final = "proofs.json"
#: Setups whose proof is remembered; the oldest go first.
_MOST_PROOFS: Final = 200
_LARGEST_JSON: Final = 1 << 20
_CHUNK: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file of a state; `name` is its path within the folder, `size` its bytes."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A state that was saved whole. It may be restored where all but the last four are the same again."""

    model: str
    engine: str
    #: Build of the engine, fingerprint of the weights, digest of what else it depends on.
    build: str
    weights: str
    setup: str
    tokens: int | None
    #: Wall-clock seconds at which it was saved, and how many seconds that took.
    saved_at: float
    seconds: float
    files: tuple[KeptFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)


class Shelf:
    """The folder of all saved states."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self, model: str) -> Path:
        """Return the folder that a model's server writes its state into and reads it from; it is made if need be."""
        place = self._place(model) / _FILES
        for folder in (self._folder, place.parent, place):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place

    def empty(self, model: str) -> None:
        """Forget a model's state, first that it counts, then its files. The folder stays: a server may know it."""
        (self._place(model) / _RECORD).unlink(missing_ok=True)
        files = self._place(model) / _FILES
        for entry in sorted(files.iterdir()) if files.is_dir() else ():
            _remove(entry)

    def drop(self, model: str) -> None:
        """Remove everything of a model."""
        self.empty(model)
        if self._place(model).exists():
            shutil.rmtree(self._place(model))

    def take_in(self, model: str, names: Iterable[str]) -> tuple[KeptFile, ...]:
        """Return what was written under these names, readable for nobody else; other files are removed."""
        folder = self._place(model) / _FILES
        wanted = tuple(sorted(names))
        for entry in sorted(folder.rglob("*"), reverse=True):
            name = entry.relative_to(folder).as_posix()
            if name not in wanted and not any(other.startswith(f"{name}/") for other in wanted):
                _remove(entry)
        return tuple(_kept_file(folder, name) for name in wanted)

    def write(self, kept: Kept) -> None:
        """Let a state count from now on."""
        _write_json(self._place(kept.model) / _RECORD, {"format": 1, **asdict(kept)})

    def read(self, model: str) -> Kept | None:
        """Return what is kept of a model; None = nothing, or nothing that can be read."""
        return _read_record(self._place(model) / _RECORD, model)

    def all(self) -> tuple[Kept, ...]:
        """Return every state that counts, the oldest first."""
        found = []
        for folder in self._folders():
            record = _read_json(folder / _RECORD)
            kept = _kept(record) if record is not None else None
            if kept is not None and self._place(kept.model) == folder:
                found.append(kept)
        return tuple(sorted(found, key=lambda kept: (kept.saved_at, kept.model)))

    def damage(self, kept: Kept) -> str:
        """Return what is wrong with the files of a state, or ""."""
        folder = self._place(kept.model) / _FILES
        for file in kept.files:
            try:
                found = _kept_file(folder, file.name)
            except OSError as error:
                return f"{file.name} cannot be read ({error.strerror})"
            if found != file:
                return f"{file.name} was changed or is damaged"
        return ""

    def tidy(self, models: Iterable[str], oldest: float, busy: Collection[str]) -> tuple[str, ...]:
        """Remove all but the states of these models that were saved since `oldest`; return whose were removed.

        What was left half-written is removed, too. Those of `busy` models are being written or read: they stay.
        """
        keep = {kept.model: kept for kept in self.all() if kept.saved_at >= oldest}
        names = {safe_name(model): model for model in models}
        removed = []
        working = {safe_name(model) for model in busy}
        for folder in self._folders():
            model = names.get(folder.name)
            if folder.name not in working and (model is None or model not in keep):
                record = _read_json(folder / _RECORD)
                removed += [str(record["model"])] if record and "model" in record else []
                if model is None:
                    _remove(folder)
                else:
                    self.empty(model)
        return tuple(sorted(removed))

    def trim(self, most: int) -> tuple[str, ...]:
        """Remove states, the oldest first, until all of them have at most `most` bytes; return whose were removed."""
        states = list(self.all())
        removed = []
        while states and sum(kept.size for kept in states) > most:
            self.empty(states[0].model)
            removed.append(states.pop(0).model)
        return tuple(removed)

    def proved(self, proof: str) -> bool | None:
        """Return whether restoring was seen to work; None = it was not looked at yet."""
        value = (_read_json(self._folder / _PROOFS) or {}).get(proof)
        return value if isinstance(value, bool) else None

    def prove(self, proof: str, works: bool) -> None:
        """Remember whether restoring was seen to work."""
        known = _read_json(self._folder / _PROOFS) or {}
        known.pop(proof, None)
        known[proof] = works
        _write_json(self._folder / _PROOFS, dict(list(known.items())[-_MOST_PROOFS:]))

    def _place(self, model: str) -> Path:
        return self._folder / safe_name(model)

    def _folders(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(entry for entry in self._folder.iterdir() if entry.is_dir() and not entry.is_symlink())


def written_files(folder: Path) -> tuple[str, ...]:
    """Return the names of the regular files below a folder, sorted; a link is none."""
    found = (entry for entry in folder.rglob("*") if entry.is_file() and not entry.is_symlink())
    return tuple(sorted(entry.relative_to(folder).as_posix() for entry in found))


def _kept_file(folder: Path, name: str) -> KeptFile:
    path = folder / name
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    digest, size = hashlib.blake2b(digest_size=16), 0
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        os.fchmod(file.fileno(), 0o600)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return KeptFile(name, size, digest.hexdigest())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """Write beside and rename: a reader sees the old file or the new one, whole."""
    draft = path.with_suffix(".tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _LARGEST_JSON:
            return None
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _read_record(path: Path, model: str) -> Kept | None:
    content = _read_json(path)
    kept = _kept(content) if content is not None else None
    return kept if kept is not None and kept.model == model else None


def _kept(content: dict[str, Any]) -> Kept | None:
    try:
        files = tuple(KeptFile(str(f["name"]), int(f["size"]), str(f["digest"])) for f in content["files"])
        tokens = content["tokens"]
        return Kept(
            model=str(content["model"]),
            engine=str(content["engine"]),
            build=str(content["build"]),
            weights=str(content["weights"]),
            setup=str(content["setup"]),
            tokens=None if tokens is None else int(tokens),
            saved_at=float(content["saved_at"]),
            seconds=float(content["seconds"]),
            files=files,
        )
    except (KeyError, TypeError, ValueError):
        return None
