"""The last lines of a model's log, and how they may be shown: with their secrets masked."""

import os
import re
from pathlib import Path
from typing import Final

#: Bytes read at a time.
BLOCK: Final = 1 << 16
#: Bytes of a log that are looked at where its lines go to a client.
_SHOWN_BYTES: Final = 1 << 20
_LINE_END: Final = re.compile(rb"(\r\n|\n|\r)")


class Masked:
    """What a log says, line by line, with its secrets masked: half a line may hold half a secret, so it waits."""

    def __init__(self, secrets: frozenset[str]) -> None:
        from reconciler.excerpt import masked  # it brings the logging library, which most verbs do without

        self._masked = masked
        self._secrets = secrets
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the lines that `data` completes, as they are to be shown."""
        *lines, self._held = _LINE_END.split(self._held + data)
        # Each line is followed by what ended it.
        return b"".join(self._shown(line) + end for line, end in zip(lines[::2], lines[1::2], strict=False))

    def rest(self) -> bytes:
        """Return the line that was not ended."""
        held, self._held = self._held, b""
        return self._shown(held)

    def _shown(self, line: bytes) -> bytes:
        text = line.decode("utf-8", "surrogateescape")
        return self._masked(text, self._secrets).encode("utf-8", "surrogateescape")


def last_lines(path: Path, count: int) -> bytes:
    """Return the last `count` lines of a log as bytes, reading from its end, also of what was rotated last.

    Raises OSError.
    """
    return with_rotated(path, _file_end(path, count), count)


def with_rotated(path: Path, data: bytes, count: int) -> bytes:
    """Return the last lines of a log, after those of the rotated file that they lack."""
    lacking = count - len(data.splitlines())
    rotated = rotated_of(path)
    return _file_end(rotated, lacking) + data if lacking > 0 and rotated.exists() else data


def rotated_of(path: Path) -> Path:
    """Return the file that holds what a log had before it was emptied last."""
    return path.with_name(path.name + ".1")


def _file_end(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return end_of(file.fileno(), os.fstat(file.fileno()).st_size, count)


def end_of(descriptor: int, end: int, count: int) -> bytes:
    """Return the last `count` lines of the first `end` bytes of a file. Raises OSError."""
    if count == 0:
        return b""
    data, start = b"", end
    # One newline more than lines, because the last line ends with one.
    while start > 0 and data.count(b"\n") <= count:
        begin = max(0, start - BLOCK)
        data = os.pread(descriptor, start - begin, begin) + data
        start = begin
    return b"".join(data.splitlines(keepends=True)[-count:])


def shown_lines(path: Path, count: int, secrets: frozenset[str]) -> tuple[tuple[str, ...], bool]:
    """Return the last `count` lines of a log as text without control characters, and whether there are older ones.

    `secrets` are masked, and what only looks like one. Of a log that does not exist there are none. Raises OSError.
    """
    from reconciler.host.logs import clean

    data, older = b"", False
    for place in (path, rotated_of(path)):
        if older or data.count(b"\n") > count:
            break
        more, older = _last_bytes(place, _SHOWN_BYTES - len(data))
        data = more + data
    if older:  # half a line may hold half a secret, which nothing recognises
        data = data.partition(b"\n")[2]
    found = data.removesuffix(b"\n").split(b"\n") if data else []
    shown = Masked(secrets)
    text = shown.feed(b"\n".join(found[-count:])) + shown.rest()
    lines = tuple(clean(line) for line in text.decode("utf-8", "replace").split("\n"))
    return lines if found else (), older or len(found) > count


def _last_bytes(path: Path, count: int) -> tuple[bytes, bool]:
    """Return the last bytes of a file, and whether there are more before them."""
    try:
        with path.open("rb") as file:
            begin = max(0, file.seek(0, os.SEEK_END) - count)
            file.seek(begin)
            return file.read(count), begin > 0
    except FileNotFoundError:
        return b"", False
