"""Split sets: which files belong together by their names, and whether their headers agree with that."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.memory.gguf.header import Header, Tensor
from reconciler.memory.gguf.notes import Notes
from reconciler.memory.gguf.reader import WeightsError, shown

_SHARD: Final = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf", re.DOTALL)
#: Parts of one set. They are looked for at each look, so their number bounds its time: about 8 ms. Real sets have at
#: most some hundred.
_MOST_PARTS: Final = 1000
#: More names of missing parts than that help nobody.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class ShardName:
    """The name of one part, taken apart: `stem-00002-of-00003.gguf`."""

    stem: str
    number: int
    count: int

    def part(self, number: int) -> str:
        """Return the name of another part of the same set."""
        return f"{self.stem}-{number:05d}-of-{self.count:05d}.gguf"


def shard_name(path: Path) -> ShardName | None:
    """Return what the name of `path` says of a split set, or None if it is not named like a part."""
    named = _SHARD.fullmatch(path.name)
    if named is None or not int(named["count"]):
        return None
    return ShardName(named["stem"], int(named["number"]), int(named["count"]))


def shards(path: Path) -> tuple[Path, ...]:
    """Return all files of the set that `path` is a part of, or `path` alone. Raises `WeightsError` if some lack.

    A file that is named like the first part and has no other part beside it stands alone: `check_set` judges that.
    """
    named = shard_name(path)
    if named is None:
        return (path,)
    if named.number > named.count:
        raise WeightsError(f"{path} is named like part {named.number} of {named.count}: rename it")
    if named.count > _MOST_PARTS:
        if not os.path.isfile(path):
            return (path,)
        raise WeightsError(
            f"{path} is named like one of {named.count} parts, and sets of more than {_MOST_PARTS} are not read: "
            "rename it if it is whole, or merge the parts with llama-gguf-split"
        )
    paths = [path.with_name(named.part(number)) for number in range(1, named.count + 1)]
    missing = [part.name for part in paths if not os.path.isfile(part)]
    if not missing:
        return tuple(paths)
    if not os.path.isfile(path) or (named.number == 1 and len(missing) == named.count - 1):
        return (path,)
    raise lacking(path, named.count, missing)


def lacking(path: Path, count: int, missing: Sequence[str]) -> WeightsError:
    """Return the error for a set of which parts are missing."""
    names = ", ".join(missing[:_NAMED])
    if len(missing) > _NAMED:
        names += f" and {len(missing) - _NAMED} more"
    return WeightsError(
        f"{path} has {count} parts, and {names} {'is' if len(missing) == 1 else 'are'} not there"
    )


def check_set(paths: Sequence[Path], headers: Sequence[Header], notes: Notes) -> None:
    """Raise `WeightsError` unless the headers of all parts say what their names say."""
    first = headers[0]
    named = shard_name(paths[0])
    by_name = named.count if named else 1
    stated = first.keys.get("split.count")
    if stated is None:
        if by_name > 1:
            beside = "its parts are counted" if len(paths) > 1 else "it is taken as whole"
            notes.add(f"{paths[0].name} is named like a part, but its header tells of none: {beside}")
        return
    if stated not in (0, 1) and named is None:
        raise WeightsError(
            f"{paths[0]} is part {_position(first)} of {shown(stated)} but not named like one: undo the renaming"
        )
    if max(int(stated) if isinstance(stated, int) else 0, 1) != by_name:
        raise WeightsError(
            f"{paths[0]} is one of {shown(stated)} parts by its header, but one of {by_name} by its name"
        )
    if len(paths) < by_name and named:
        raise lacking(paths[0], by_name, [named.part(number) for number in range(2, by_name + 1)])
    _check_parts(paths, headers, by_name)


def _check_parts(paths: Sequence[Path], headers: Sequence[Header], count: int) -> None:
    if count == 1:
        return
    for number, (path, header) in enumerate(zip(paths, headers, strict=True)):
        if header.keys.get("split.no") != number or header.keys.get("split.count") != count:
            raise WeightsError(
                f"{path} is part {_position(header)} of {shown(header.keys.get('split.count', 0))} by its header: "
                "it belongs to another set, or was renamed"
            )
    stated = headers[0].keys.get("split.tensors.count")
    found = sum(len(header.tensors) for header in headers)
    if stated is not None and stated != found:
        raise WeightsError(
            f"{paths[0]} has {shown(stated)} tensors by its header, but its {count} parts have {found}"
        )
    names = {tensor.name for header in headers for tensor in header.tensors}
    if len(names) < found:
        raise WeightsError(f"{paths[0]} has tensors that are in several of its parts")


def _position(header: Header) -> str:
    number = header.keys.get("split.no")
    return str(number + 1) if isinstance(number, int) else "of unknown number"


def merged(paths: Sequence[Path], headers: Sequence[Header], notes: Notes) -> Header:
    """Return one header for all parts: keys and data offset of the first, tensors of all, each part's oddities."""
    if len(headers) == 1 and not notes.sentences():
        return headers[0]
    tensors: tuple[Tensor, ...] = tuple(tensor for header in headers for tensor in header.tensors)
    for path, header in zip(paths, headers, strict=True):
        for sentence in header.oddities:
            notes.add(f"{path.name}: {sentence}" if len(paths) > 1 else sentence)
    first = headers[0]
    return Header(first.version, first.keys, tensors, first.data_offset, notes.sentences())
