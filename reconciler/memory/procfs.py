"""Reading small kernel text files: `Key:  123 kB` lines, single numbers, and what a failed read means.

Files are opened anew each time: that costs 2 us more than a kept descriptor, and never answers for a file or a
process that is gone.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

KIB = 1024
#: No machine addresses more than 52 bits of memory: a larger figure is garbage.
MOST_MEMORY: Final = 1 << 52
_CHUNK = 1 << 16
# 15 digits hold every size there is; a longer row of digits is garbage, and slow to convert.
_KIB_LINE = re.compile(r"^([^:\n]+):[ \t]*([0-9]{1,15}) kB$", re.MULTILINE)
_PLAIN_LINE = re.compile(r"^([^\s]+) ([0-9]{1,19})$", re.MULTILINE)


def whole(text: str) -> int | None:
    """Return a number of 0 or more that a file states alone, or None: signs, text and absurd lengths are garbage.

    >>> whole(" 42\\n"), whole("-1"), whole("9" * 40)
    (42, None, None)
    """
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else None


def kib_fields(text: str) -> Mapping[str, int]:
    """Parse `Key:   123 kB` lines into bytes; lines of any other shape are left out.

    >>> dict(kib_fields("MemTotal:  4 kB\\nName:  cat\\nHugePages_Free: 7\\n"))
    {'MemTotal': 4096}
    """
    return {key: int(number) * KIB for key, number in _KIB_LINE.findall(text)}


def field(text: str, start: str) -> int | None:
    """Return the number at the end of the line that begins with `start`, or None; cheap in long files.

    >>> field("pswpin 7\\npswpout 8\\n", "pswpout "), field("pswpin -7\\n", "pswpin ")
    (8, None)
    """
    begin = 0 if text.startswith(start) else text.find(f"\n{start}") + 1
    if begin == 0 and not text.startswith(start):
        return None
    return whole(text[begin + len(start) :].partition("\n")[0])


def plain_fields(text: str) -> Mapping[str, int]:
    """Parse `key 123` lines as they are in `memory.stat`; lines of any other shape are left out."""
    return {key: int(number) for key, number in _PLAIN_LINE.findall(text)}


def read_text(path: Path | str) -> str | None:
    """Return the text of a kernel file, or None if it is not there or may not be read. Blocks briefly."""
    try:
        return read_text_or_raise(path)
    except (OSError, ValueError):  # ValueError: a path with a NUL in it, out of a file that is garbage
        return None


def read_text_or_raise(path: Path | str) -> str:
    """Return the text of a kernel file. Blocks briefly.

    Raises OSError if it cannot be read, ValueError if `path` can be no path.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _CHUNK):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts).decode("utf-8", "replace")
