"""Free pages that the kernel keeps on lists of each CPU, which its own figures count neither as free nor as used.

Since Linux 6.7 the lists grow by themselves, up to an eighth of a zone together: after a model has ended, a gibibyte or
more of its memory may lie there. They are given back as soon as memory is asked for and not found elsewhere.
"""

import re
from pathlib import Path
from typing import Final

from reconciler.memory.procfs import read_text

_PAGESET: Final = re.compile(r"^ +cpu: +[0-9]+\n +count: +([0-9]{1,12})$", re.MULTILINE)


def read_cpu_lists(root: Path, page_size: int, total: int) -> tuple[int, str | None]:
    """Return the bytes on the lists of all CPUs, and a sentence if they cannot be true. Blocks briefly.

    A kernel that does not say how many there are has, as far as anybody knows, none: 0.
    """
    text = read_text(root / "proc/zoneinfo")
    if text is None:
        return 0, None
    size = page_size * sum(int(count) for count in _PAGESET.findall(text))
    if size > total // 2:
        return 0, "/proc/zoneinfo: the CPUs' free pages are more than half of the memory, not believed"
    return size, None
