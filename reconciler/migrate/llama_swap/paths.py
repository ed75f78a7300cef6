"""Paths of a configuration, as a manifest that may lie elsewhere has to have them."""

from collections.abc import Iterable
from pathlib import Path, PurePath


def placed(path: str, base: Path) -> str:
    """Return a path that means the same wherever the manifest lies. `base` is where llama-swap was started.

    >>> placed("models/a.gguf", Path("/srv")), placed("${env:HOME}/a.gguf", Path("/srv")), placed("~/a", Path("/srv"))
    ('/srv/models/a.gguf', '${env:HOME}/a.gguf', '${env:HOME}/a')
    """
    if path.startswith("~/"):
        return "${env:HOME}" + path[1:]
    if path.startswith(("/", "${")):
        return path
    return str(base / PurePath(path))


def relative_words(words: Iterable[str], base: Path) -> bool:
    """Tell whether one of the words is a file or folder below `base`: then its process must be started there.

    Reads the file system.
    """
    return any(_is_there(word.partition("=")[2] or word, base) for word in words)


def _is_there(word: str, base: Path) -> bool:
    if (
        not word
        or word in (".", "..")
        or word.startswith(("/", "-", "~", "${"))
        or len(word) > 1000
        or "\0" in word
    ):
        return False
    try:
        return (base / word).exists()
    except OSError:
        return False
