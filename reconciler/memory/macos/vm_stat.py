"""`vm_stat`: the pages of the machine by kind, and what may be made of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMAND: Final = ("/usr/bin/vm_stat",)

_PAGE_SIZE: Final = re.compile(r"page size of (\d{1,9}) bytes", re.ASCII)
#: `Pages free:   652276.` and `"Translation faults":  8304623196.`
_COUNT: Final = re.compile(r'^"?([A-Za-z][^":]*)"?:\s+(\d{1,20})\.?\s*$', re.ASCII)


@dataclass(frozen=True, slots=True)
class VmStat:
    """One answer of `vm_stat`. Every property is in bytes, and None where the answer does not state its parts.

    The kernel counts each page on a queue twice, by use and by content:

        file-backed + anonymous = active + inactive + speculative

    "Pages free" leaves the speculative pages out. Wired pages and those of the compressor are on no queue, so
    neither file-backed nor anonymous holds them.
    """

    page: int
    counts: Mapping[str, int]

    def bytes_of(self, *names: str) -> int | None:
        """Return the bytes of some kinds of pages together, by their names in the output."""
        pages = [self.counts.get(name) for name in names]
        known = [count for count in pages if count is not None]
        return sum(known) * self.page if len(known) == len(pages) else None

    @property
    def available(self) -> int | None:
        """What can be had without compressing or swapping: free + file-backed + purgeable.

        "Inactive" must not be added, as psutil does: it is mostly anonymous memory in use, which the kernel can only
        give away by compressing it. Speculative pages are file-backed ones, so they are in already. The weights that
        running models map are in too, as long as the GPU has not wired them.
        """
        return self.bytes_of("Pages free", "File-backed pages", "Pages purgeable")

    @property
    def wired(self) -> int | None:
        """Pages that cannot be paged out: the kernel's, locked ones, and those the GPU works on."""
        return self.bytes_of("Pages wired down")

    @property
    def managed(self) -> int | None:
        """All pages the kernel hands out; the rest of the memory was taken at boot, about 0.5 GiB of 32."""
        queues = ("Pages active", "Pages inactive", "Pages speculative")
        return self.bytes_of("Pages free", *queues, "Pages wired down", "Pages occupied by compressor")

    @property
    def compressed(self) -> int | None:
        """Memory that the compressor occupies. What it stores was larger, and may by now be in swap."""
        return self.bytes_of("Pages occupied by compressor")

    @property
    def swapped_in(self) -> int | None:
        """Bytes read from swap since boot. "Pageins" would count files too."""
        return self.bytes_of("Swapins")

    @property
    def swapped_out(self) -> int | None:
        """Bytes written to swap since boot."""
        return self.bytes_of("Swapouts")


def parse_vm_stat(text: str) -> VmStat | None:
    """Return what `vm_stat` says, or None if its first line states no page size: it is 4096 or 16384, never assumed.

    >>> stat = parse_vm_stat("Mach Virtual Memory Statistics: (page size of 16384 bytes)\\nPages free:  2.\\n")
    >>> stat.bytes_of("Pages free") if stat else None
    32768
    """
    first, _, rest = text.partition("\n")
    size = _PAGE_SIZE.search(first)
    if size is None or int(size[1]) == 0:
        return None
    lines = (_COUNT.match(line) for line in rest.splitlines())
    return VmStat(int(size[1]), {line[1]: int(line[2]) for line in lines if line})
