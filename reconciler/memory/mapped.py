"""Which files a process maps and how much of each is in memory, from /proc/PID/smaps."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.core.memory import MappedFile
from reconciler.memory.procfs import KIB

#: What is smaller is a font, a locale or a small library without code, not weights.
LEAST_WEIGHTS: Final = 1 << 20
#: Names of mappings whose pages are shared memory or a driver's, whatever device they are on.
_NO_FILE: Final = ("/dev/", "/memfd:", "/SYSV", "/anon_hugepage", "/drm mm object", "/dmabuf", "/i915")
# 00:01 is the kernel's own file system for shared memory, which is mounted nowhere.
_SHARED_MEMORY: Final = "0:1"
_LINE: Final = re.compile(
    r"^(?:([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([-rwxsp]{4}) ([0-9a-f]{1,16}) ([0-9a-f]{1,8}):([0-9a-f]{1,8})"
    r" ([0-9]{1,20}) *(.*)|(Rss|Pss|Anonymous|Locked): +([0-9]{1,15}) kB)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class FilePages:
    """What one process has of one file in memory, in bytes."""

    #: Resident pages of the file; pages that were written to and so became the process's own are not among them.
    resident: int
    #: The same, each page divided among all who map it.
    share: int
    #: Of `resident`: pinned by mlock.
    locked: int
    #: Some of it is mapped as code: a program or a library.
    code: bool


@dataclass(frozen=True, slots=True)
class TreeFiles:
    """The mapped files of one process tree."""

    #: Weights: what the kernel may drop of them.
    files: tuple[MappedFile, ...]
    #: Locked file pages, which the kernel cannot drop: once for each file.
    locked: int

    @property
    def warm(self) -> int:
        """Bytes of all `files`."""
        return sum(file.size for file in self.files)


@dataclass(slots=True)
class _Mapping:
    """One mapping while its lines are read; sizes in KiB."""

    key: str
    code: bool
    begin: int
    length: int
    rss: int | None = None
    pss: int | None = None
    anonymous: int = 0
    locked: int = 0


def parse_smaps(text: str, in_memory: Collection[str] = ()) -> Mapping[str, FilePages] | None:
    """Return the files mapped by a process, by `major:minor:inode`, or None if the text is no smaps.

    `in_memory` are the devices of file systems that live in memory: what is mapped from there cannot be dropped,
    and the process status counts it as shared memory already.
    """
    mappings = _parse(text, in_memory)
    if mappings is None:
        return None
    by_file: dict[str, list[_Mapping]] = {}
    for mapping in mappings:
        by_file.setdefault(mapping.key, []).append(mapping)
    return {key: _sum(parts) for key, parts in sorted(by_file.items())}


def _parse(text: str, in_memory: Collection[str]) -> list[_Mapping] | None:
    """Return the mappings of files, or None: text without a mapping, or a file's mapping without its sizes."""
    found: list[_Mapping] = []
    current: _Mapping | None = None
    any_header = False
    for begin, end, mode, offset, major, minor, inode, name, field, number in _LINE.findall(text):
        if field:
            if current is not None:
                setattr(current, field.lower(), int(number))
            continue
        any_header = True
        current = None
        device = f"{int(major, 16)}:{int(minor, 16)}"
        is_file = inode != "0" and name.startswith("/") and not name.startswith(_NO_FILE)
        if is_file and device != _SHARED_MEMORY and device not in in_memory:
            length = int(end, 16) - int(begin, 16)
            current = _Mapping(f"{device}:{int(inode)}", "x" in mode, int(offset, 16), length)
            found.append(current)
    if not any_header or any(x.rss is None or x.pss is None or x.rss * KIB > x.length for x in found):
        return None
    return found


def _sum(parts: Iterable[_Mapping]) -> FilePages:
    resident = share = locked = 0
    spans = []
    for part in parts:
        pages = max(0, (part.rss or 0) - part.anonymous)
        resident += pages
        share += max(0, (part.pss or 0) - part.anonymous)
        # `Locked` is a share like Pss, but a mapping is locked whole or not at all: then all its pages are.
        locked += pages if part.locked else 0
        spans.append((part.begin, part.begin + part.length))
    # Two mappings of one stretch of a file show the same pages.
    most = _covered(spans) // KIB
    resident, locked = min(resident, most), min(locked, most)
    code = any(part.code for part in parts)
    return FilePages(resident * KIB, min(share, resident) * KIB, locked * KIB, code)


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes lie in at least one of the spans."""
    covered = reached = 0
    for begin, end in sorted(spans):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered


def merge(processes: Iterable[Mapping[str, FilePages]]) -> TreeFiles:
    """Return the files of a tree out of those of its processes: a page that several of them map counts once.

    Pages of a file that two processes have may be the same ones or others. There are at least as many as the
    process with most of them has, and at least the sum of their shares (which is exact if nobody outside the tree
    maps the file): the larger of the two is taken.
    """
    by_file: dict[str, list[FilePages]] = {}
    for process in processes:
        for key, pages in process.items():
            by_file.setdefault(key, []).append(pages)
    files = []
    total_locked = 0
    for key, parts in sorted(by_file.items()):
        resident = max(*(part.resident for part in parts), sum(part.share for part in parts))
        locked = max(part.locked for part in parts)
        total_locked += locked
        droppable = max(0, resident - locked)
        if droppable >= LEAST_WEIGHTS and not any(part.code for part in parts):
            files.append(MappedFile(key, droppable))
    return TreeFiles(tuple(files), total_locked)
