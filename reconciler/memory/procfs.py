"""Reading small kernel text files: `Key:  123 kB` lines, single numbers, and what a failed read means."""

from collections.abc import Mapping
from pathlib import Path

KIB = 1024


def kib_fields(text: str) -> Mapping[str, int]:
    """Parse `Key:   123 kB` lines into bytes; lines of any other shape are left out.

    >>> dict(kib_fields("MemTotal:  4 kB\\nName:  cat\\nHugePages_Free: 7\\n"))
    {'MemTotal': 4096}
    """
    fields: dict[str, int] = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdecimal():
            fields[key] = int(words[0]) * KIB
    return fields


def plain_fields(text: str) -> Mapping[str, int]:
    """Parse `key 123` lines as they are in `memory.stat`; lines of any other shape are left out."""
    fields: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdecimal():
            fields[words[0]] = int(words[1])
    return fields


def read_text(path: Path | str) -> str | None:
    """Return the text of a kernel file, or None if it is not there or may not be read. Blocks briefly."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
