"""What single processes hold: cheap figures of /proc/PID/status, and each page's share of /proc/PID/smaps_rollup."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.memory.procfs import KIB, MOST_MEMORY, kib_fields, read_text_or_raise

#: File pages of a process that are program and libraries rather than weights, where its maps may not be read.
LIBRARIES: Final = 20_000_000
_GONE: Final = (FileNotFoundError, ProcessLookupError)
_ALIVE: Final = re.compile(r"^State:[ \t]+[A-Za-z]", re.MULTILINE)
_FIELD: Final = re.compile(
    r"^(VmLck|VmRSS|RssAnon|RssFile|RssShmem|VmSwap|HugetlbPages):[ \t]*(?:([0-9]{1,15}) kB)?(.*)$",
    re.MULTILINE,
)
_OWN: Final = ("RssAnon", "RssShmem", "VmSwap", "HugetlbPages")


@dataclass(frozen=True, slots=True)
class Status:
    """Bytes of one process."""

    #: Anonymous, shared, swapped out and huge pages.
    own: int
    #: Resident file pages, mapped weights and libraries alike.
    file: int
    #: Most file pages that can be locked. VmLck does not say of which kind its pages are; where only anonymous
    #: ones are locked this counts libraries too, which errs on the safe side by little.
    locked: int

    @property
    def committed(self) -> int:
        """Bytes that only this process can give back."""
        return self.own + self.locked


ENDED: Final = Status(0, 0, 0)


def read_process_file(pid: int, name: str, root: Path) -> str | None:
    """Return the text, "" for a process that has ended, None if it cannot be read. Blocks."""
    folder = f"{root}/proc/{pid}"
    try:
        return read_text_or_raise(f"{folder}/{name}")
    except _GONE:
        # An old kernel may lack the file while the process lives.
        return None if Path(folder, "stat").exists() else ""
    except (OSError, ValueError):
        return None


def read_status(pid: int, root: Path, most: int = MOST_MEMORY) -> Status | None:
    """Return the figures of a process, `ENDED` for one that has none left (a zombie too), None if unknown.

    `most` is the memory of the machine: a figure beyond it is garbage. Blocks, about 0.01 ms.
    """
    text = read_process_file(pid, "status", root)
    if not text:
        return None if text is None or Path(f"{root}/proc/{pid}").exists() else ENDED
    found = _FIELD.findall(text)
    if not found:
        return ENDED if _ALIVE.search(text) else None
    if any(rest or not number for _, number, rest in found):
        return None
    fields = {key: int(number) * KIB for key, number, _ in found}
    if "RssAnon" not in fields or "RssFile" not in fields:
        return None
    if max(fields.values()) > MOST_MEMORY or any(fields[key] > most for key in fields if key != "VmSwap"):
        return None
    file = fields["RssFile"]
    return Status(sum(fields.get(key, 0) for key in _OWN), file, min(fields.get("VmLck", 0), file))


def read_own_shares(pids: Iterable[int], root: Path) -> int | None:
    """Return the anonymous, shared, swapped and huge pages of some processes, a page of several counted once.

    None if one of them has ended or may not be read. Blocks: the kernel walks page tables, about 12 ms a GiB.
    """
    total = shared_huge = 0
    for pid in pids:
        fields = kib_fields(read_process_file(pid, "smaps_rollup", root) or "")
        if "Pss_Anon" not in fields or "Pss_Shmem" not in fields:
            return None
        kinds = ("Pss_Anon", "Pss_Shmem", "SwapPss", "Private_Hugetlb")
        total += sum(fields.get(kind, 0) for kind in kinds)
        # Huge pages have no share of theirs; those that several map are taken to be the same ones.
        shared_huge = max(shared_huge, fields.get("Shared_Hugetlb", 0))
    return total + shared_huge
