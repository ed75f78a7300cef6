"""What graphics drivers say of a process's open files: DRM client statistics in `/proc/PID/fdinfo`.

The format is the kernel's (Documentation/gpu/drm-usage-stats.rst). Memory of such a file is in no resident set.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NODES: Final = "/dev/dri/"
_SIZE: Final = re.compile(r"([0-9]{1,18})(?:[ \t]+(KiB|MiB|GiB))?")
_UNITS: Final = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_GONE: Final = (FileNotFoundError, ProcessLookupError)


class DrmError(Exception):
    """The files of a process could not be read or understood; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Client:
    """One open file of a graphics driver. Files that were duplicated or inherited show the same client."""

    #: Bus address and number: tells clients apart over all processes.
    key: tuple[str, ...]
    driver: str
    #: All `drm-...` lines as they are, without the prefix.
    fields: Mapping[str, str]


def parse_size(text: str) -> int | None:
    """Return a size of fdinfo in bytes, or None if it is none. A number without a unit is bytes.

    >>> parse_size("448 KiB"), parse_size("4096"), parse_size("many")
    (458752, 4096, None)
    """
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _UNITS[found[2] or ""] if found else None


def read_clients(root: Path, pid: int, skip: Collection[str] = ()) -> Iterator[Client]:
    """Yield the clients of one process, a duplicated file each time; nothing for one that has ended. Blocks.

    Only files of `/dev/dri` are looked into, except the nodes named in `skip`. Raises DrmError.
    """
    folder = f"{root}/proc/{pid}"
    try:
        descriptors = sorted(os.listdir(f"{folder}/fd"))
    except _GONE:
        return
    except OSError as error:
        raise DrmError(f"open files of process {pid} cannot be read: {error.strerror}") from None
    for descriptor in descriptors:
        node = _node(f"{folder}/fd/{descriptor}", pid)
        if node is not None and node not in skip:
            client = _read_client(folder, descriptor, pid)
            if client is not None:
                yield client


def _node(link: str, pid: int) -> str | None:
    """Return the name below /dev/dri that an open file is, or None if it is something else or closed by now."""
    try:
        target = os.readlink(link)
    except _GONE:
        return None
    except OSError as error:
        raise DrmError(f"open files of process {pid} cannot be read: {error.strerror}") from None
    return target.removeprefix(_NODES) if target.startswith(_NODES) else None


def _read_client(folder: str, descriptor: str, pid: int) -> Client | None:
    try:
        with open(f"{folder}/fdinfo/{descriptor}", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except _GONE:
        return None
    except OSError as error:
        raise DrmError(f"driver statistics of process {pid} cannot be read: {error.strerror}") from None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.startswith("drm-"):
            fields[name.removeprefix("drm-")] = value.strip()
    driver = fields.get("driver")
    if driver is None:
        raise DrmError(
            f"process {pid} uses a GPU whose driver states no statistics (needs Linux 5.19 or later)"
        )
    number = fields.get("client-id")
    # Without a number duplicates cannot be told; each file then counts, which errs on the safe side.
    key = (str(pid), descriptor) if number is None else (driver, fields.get("pdev", ""), number)
    return Client(key, driver, fields)
