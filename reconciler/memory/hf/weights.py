"""The files of one Hugging Face or MLX model: found from its folder or one of its files, each one judged."""

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.memory import MappedFile
from reconciler.core.words import size as size_text
from reconciler.memory.gguf import Unreadable, WeightsError
from reconciler.memory.hf.instead import without_safetensors
from reconciler.memory.hf.safetensors import read_safetensors
from reconciler.memory.hf.scan import members, read_json
from reconciler.memory.lookalike import lookalike
from reconciler.memory.regular import read_regular

__all__ = ["HfWeights", "WeightsError", "find_model", "holds_safetensors"]

_SINGLE: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_SHARD: Final = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors$")
#: The same weights in another layout, or additions to them: not part of the sum where others are there.
_ASIDE: Final = ("consolidated", "adapter")
#: Bytes. Far above real ones: 9 MB of index for 91 thousand tensors, some 100 KB of configuration.
_MOST_INDEX: Final = 16 << 20
_MOST_CONFIG: Final = 2 << 20
_MOST_METADATA: Final = 1 << 16
_MOST_SHARDS: Final = 4096
_MOST_TENSORS: Final = 500_000


@dataclass(frozen=True, slots=True)
class HfWeights:
    """One model's files. Sizes in bytes."""

    files: tuple[Path, ...]
    #: Of the files together.
    size: int
    #: Of the tensors in them: what the weights take in memory, as they are stored.
    tensor_bytes: int
    #: Tensor bytes of the largest file.
    largest_shard: int
    #: The files by device and inode, sorted by key; each inode once.
    mapped: tuple[MappedFile, ...]
    #: `config.json`, or empty where there is none.
    config: Mapping[str, object]
    #: Types of the tensors, sorted.
    dtypes: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()


def holds_safetensors(folder: Path) -> bool:
    """Return whether `folder` is one that `find_model` can judge. Blocks. Raises `OSError`."""
    return any(name == _INDEX or name.endswith(".safetensors") for name in os.listdir(folder))


def find_model(path: Path) -> HfWeights:
    """Return the model in a folder, or the one a `.safetensors` file belongs to. Blocks.

    Raises `WeightsError` with one sentence: a file is missing, truncated, or something else than weights.
    """
    try:
        files, stated, odd = _in_folder(path) if path.is_dir() else (_of_file(path), None, ())
        headers = [read_safetensors(file) for file in files]
        mapped = {_key(file): header.size for file, header in zip(files, headers, strict=True)}
        config, beside = _config(path) if path.is_dir() else _config_beside(path.parent)
    except OSError as error:
        raise Unreadable.because(Path(error.filename or path), error) from error
    total = sum(header.tensor_bytes for header in headers)
    odd = (*odd, *beside, *(sentence for header in headers for sentence in header.oddities))
    if stated is not None and stated != total:
        odd = (*odd, f"{_INDEX} states {size_text(stated)}, the files hold {size_text(total)}")
    return HfWeights(
        files=files,
        size=sum(header.size for header in headers),
        tensor_bytes=total,
        largest_shard=max(header.tensor_bytes for header in headers),
        mapped=tuple(MappedFile(key, size) for key, size in sorted(mapped.items())),
        config=config,
        dtypes=tuple(sorted({dtype for header in headers for dtype in header.dtypes})),
        oddities=odd,
    )


def _key(file: Path) -> str:
    status = file.stat()
    return f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}:{status.st_ino}"


def _in_folder(folder: Path) -> tuple[tuple[Path, ...], int | None, tuple[str, ...]]:
    """Return the files of the model in `folder`, in the order transformers looks, their stated bytes, and oddities."""
    if (folder / _SINGLE).exists():
        return (folder / _SINGLE,), None, ()
    odd: tuple[str, ...] = ()
    if (folder / _INDEX).exists():
        text = read_regular(folder / _INDEX, _MOST_INDEX + 1)
        if len(text) <= _MOST_INDEX:
            return *_indexed(folder / _INDEX, text), ()
        odd = (f"{folder / _INDEX} has more than {size_text(_MOST_INDEX)} and was not looked into",)
    names = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    names = [name for name in names if not name.startswith(_ASIDE)] or names
    if not names:
        raise WeightsError(odd[0] if odd else without_safetensors(folder))
    numbered: set[str] = set()
    for name in names:
        numbered.update(_numbered(folder, name))
        if len(numbered) > _MOST_SHARDS:
            raise WeightsError(f"{folder} has names of more than {_MOST_SHARDS} parts")
    return _present(folder, sorted(numbered)), None, odd


def _of_file(path: Path) -> tuple[Path, ...]:
    names = _numbered(path.parent, path.name)
    return _present(path.parent, names) if len(names) > 1 else (path,)


def _numbered(folder: Path, name: str) -> tuple[str, ...]:
    """Return the names of all parts of the set that `name` is a part of; itself if it is none."""
    part = _SHARD.match(name)
    if part is None:
        return (name,)
    count = int(part["count"])
    if not 0 < count <= _MOST_SHARDS:
        raise WeightsError(f"{folder / name} is named as one of {count} parts")
    return tuple(f"{part['stem']}-{i:05d}-of-{part['count']}.safetensors" for i in range(1, count + 1))


def _present(folder: Path, names: list[str] | tuple[str, ...]) -> tuple[Path, ...]:
    missing = [name for name in names if not (folder / name).exists()]
    if missing and len(names) == 1:
        raise WeightsError(f"{folder / missing[0]} {_why_missing(folder / missing[0])}")
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        verb = "is" if len(missing) == 1 else "are"
        raise WeightsError(
            f"{folder} has {len(names)} parts, and {', '.join(missing[:3])}{more} {verb} not there"
        )
    return tuple(folder / name for name in names)


def _why_missing(path: Path) -> str:
    if not path.is_symlink():
        return "does not exist"
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "is a link that leads back to itself"
    return "is a link to a file that is not there"


def _indexed(index: Path, text: bytes) -> tuple[tuple[Path, ...], int | None]:
    if sentence := lookalike(text[:64], "JSON"):
        raise WeightsError(f"{index} {sentence}")
    try:
        names, stated = _read_index(text)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{index} is damaged: {error}") from error
    if not names:
        raise WeightsError(f"{index} names no files")
    for name in names:
        if name != os.path.basename(name) or name in (".", "..") or "\0" in name:
            raise WeightsError(f"{index} names {name!r}, which is no file of its folder")
    return _present(index.parent, names), stated


def _read_index(text: bytes) -> tuple[list[str], int | None]:
    """Return the file names, sorted, and the stated bytes of all tensors. Raises `ValueError`."""
    names: set[bytes] = set()
    stated: object = None
    for name, start, end in members(text, 0, len(text)):
        if name == b'"weight_map"':
            for count, (_, first, last) in enumerate(members(text, start, end)):
                names.add(text[first:last])
                if len(names) > _MOST_SHARDS or count >= _MOST_TENSORS:
                    raise ValueError(f"it names more than {_MOST_SHARDS} files or {_MOST_TENSORS} tensors")
        elif name == b'"metadata"' and end - start <= _MOST_METADATA:
            metadata = read_json(str(text[start:end], "utf-8"))
            stated = metadata.get("total_size") if isinstance(metadata, dict) else None
    files = [read_json(str(raw, "utf-8")) for raw in names if len(raw) <= _MOST_METADATA]
    texts = [file for file in files if isinstance(file, str)]
    if len(texts) != len(names):
        raise ValueError("a file is not named by a text")
    return sorted(texts), stated if type(stated) is int and stated >= 0 else None


def _config(folder: Path) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return the configuration in `folder`, empty if there is none. Raises `OSError` and `WeightsError`."""
    path = folder / "config.json"
    if not path.exists():
        return {}, ()
    text = read_regular(path, _MOST_CONFIG + 1)
    if len(text) > _MOST_CONFIG:
        raise WeightsError(f"{path} is no configuration: it has more than {size_text(_MOST_CONFIG)}")
    if sentence := lookalike(text[:64], "JSON"):
        raise WeightsError(f"{path} {sentence}")
    try:
        config = read_json(text)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise WeightsError(f"{path} is no JSON object")
    return config, ()


def _config_beside(folder: Path) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return the configuration in the folder of a file, and what is wrong with it: it need not belong to the file."""
    try:
        return _config(folder)
    except OSError as error:
        return {}, (str(Unreadable.because(folder / "config.json", error)),)
    except WeightsError as error:
        return {}, (str(error),)
