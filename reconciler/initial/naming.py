"""What models are called: by their files and folders, without what only says how they are stored."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

#: Quantisations and types, as file names have them: `Q4_K_M`, `IQ2_XXS`, `UD-Q4_K_XL`, `bf16`, `8bit`, `MXFP4`.
_STORED: Final = re.compile(
    r"[-._](?:(?:ud[-_])?i?q[0-9]+(?:_[0-9a-z]+)*|t?q[12]_0|mxfp[48](?:_moe)?|nvfp4|b?f(?:p)?(?:8|16|32)|int[48]"
    r"|[2-8]-?bit(?:-dwq)?|gguf|mlx|i1)$",
    re.IGNORECASE,
)
_PART: Final = re.compile(r"-[0-9]{5}-of-[0-9]{5}$")
#: Names that say nothing of the model, and folders between it and the one that does.
_BARE: Final = re.compile(
    r"(?:ggml-)?model|pytorch_model|weights|models?|gguf|snapshots|main|latest|files|[0-9a-f]{40}|v?[0-9][0-9.\-_]*"
    r"|(?:ud[-_])?i?q[0-9]+(?:_[0-9a-z]+)*|b?f(?:p)?(?:8|16|32)|int[48]|[2-8]-?bit|mxfp4|mlx",
    re.IGNORECASE,
)
_HUB: Final = "models--"
#: The manifest's own bound is 128.
_LONGEST: Final = 100


def words(text: str) -> list[str]:
    """Return the words of a file's name in lower case, in their order."""
    return [word for word in re.split(r"[^0-9a-z_]+", text.casefold()) if word]


def names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each of `paths` (those of models, in order), each another.

    Where two would have the same name, both keep what says how they are stored; what is still the same is numbered.
    """
    short = [_plain(_named(path, short=True)) for path in paths]
    counts = Counter(short)
    chosen = [
        name if counts[name] == 1 else _plain(_named(path, short=False))
        for name, path in zip(short, paths, strict=True)
    ]
    return list(_numbered(chosen))


def _named(path: Path, *, short: bool) -> str:
    """Return the part of the path that names the model; `short` = without what says how it is stored."""
    parts = [path.stem if path.suffix in (".gguf", ".bin") else path.name, *(p.name for p in path.parents)]
    stored = ""
    for part in parts:
        if part.startswith(_HUB):
            part = part.removeprefix(_HUB).rpartition("--")[2]
        part = _PART.sub("", part).removeprefix("ggml-")
        if not _BARE.fullmatch(part) and part:
            found = _shortened(part)
            return found if short else part if found != part or not stored else f"{part}-{stored}"
        if _STORED.fullmatch(f"-{part}"):
            stored = stored or part
    return "model"


def _shortened(name: str) -> str:
    while (shorter := _STORED.sub("", name)) != name and shorter:
        name = shorter
    return name


def _plain(name: str) -> str:
    """Return a name that clients can type: letters and digits of any script, dots, dashes and underscores."""
    text = unicodedata.normalize("NFC", name).casefold()
    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in text)
    return re.sub(r"\.{2,}|-{2,}", lambda m: m[0][0], kept).strip("-._")[:_LONGEST] or "model"


def _numbered(chosen: Sequence[str]) -> Iterator[str]:
    taken: set[str] = set()
    for name in chosen:
        free, number = name, 2
        while free in taken:
            free, number = f"{name}-{number}", number + 1
        taken.add(free)
        yield free
