"""What is remembered of a saved state, and how it is written: whole or not at all, through no link."""

import json
import os
import stat
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.loop.states_folder import remove

_LARGEST_JSON: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file of a state; `name` is its path within the folder, `size` its bytes."""

    name: str
    size: int
    digest: str
    #: When it was written last, in nanoseconds, before it was read; only of use while its writer may still run.
    written: int = field(default=0, compare=False)


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


def write_json(name: str, above: int, content: dict[str, Any]) -> None:
    """Write beside and rename: a reader sees the old file or the new one, whole. Raises OSError."""
    draft = f"{name}.tmp"
    remove(draft, above)
    descriptor = os.open(draft, _WRITE, 0o600, dir_fd=above)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, name, src_dir_fd=above, dst_dir_fd=above)


def read_json(name: str, above: int) -> dict[str, Any] | None:
    """Return the object in a file; None = there is none that can be read."""
    try:
        with os.fdopen(os.open(name, _READ, dir_fd=above), "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > _LARGEST_JSON:
                return None
            content = json.loads(file.read(_LARGEST_JSON))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def kept_of(content: dict[str, Any] | None) -> Kept | None:
    """Return what a record says; None = it is none, or not whole."""
    if content is None:
        return None
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
