"""The files of the dashboard, which are part of the package: small, and read once."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("static")
#: Where the page itself is, and what all its other files begin with.
PAGE: Final = "/"
PREFIX: Final = "/ui/"
INDEX: Final = "index.html"

_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file as it is served."""

    content: bytes
    media_type: str
    #: A strong validator: browsers ask with it whether what they have is still the newest.
    etag: str


def _served() -> dict[str, Path]:
    """Return each path a file is served at; what else lies in the folder is not served."""
    files = sorted(path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    paths = {PREFIX + path.relative_to(FOLDER).as_posix(): path for path in files}
    return {PAGE: paths.pop(PREFIX + INDEX), **paths}


#: Every path of the dashboard. They ask for no key, because they show nothing: the data come from the API.
PATHS: Final = frozenset(_served())


def read_files() -> dict[str, StaticFile]:
    """Return all files by the path they are served at (blocking). Raises OSError if the installation is damaged."""
    return {served: _read(path) for served, path in _served().items()}


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return StaticFile(content, _TYPES[path.suffix], etag)
