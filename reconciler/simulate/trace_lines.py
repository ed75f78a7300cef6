"""The lines of a file, packed or not, however big it is: never more than a block and one line in memory."""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final

from reconciler.simulate.trace_errors import Faults

#: Bytes read at once, and that one line may have. No request takes more than a few hundred to describe.
BLOCK: Final = 1 << 20
LONGEST_LINE: Final = 1 << 17
_GZIP: Final = b"\x1f\x8b"
_ENCODINGS: Final = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
_MARK: Final = b"\xef\xbb\xbf"

Progress = Callable[[int, int], None]


class Source:
    """A file that is open for reading, unpacked on the way. Use it as a context.

    Raises OSError when the file cannot be opened.
    """

    def __init__(self, path: Path, faults: Faults, progress: Progress | None = None) -> None:
        self.path = path
        self.faults = faults
        #: Lines given out so far.
        self.line = 0
        self._raw: BufferedReader = path.open("rb")
        self._total = os.fstat(self._raw.fileno()).st_size
        # A pipe does not know how much is to come.
        self._progress = progress if self._raw.seekable() else None
        packed = self._raw.peek(2).startswith(_GZIP)
        self._file: BufferedReader | gzip.GzipFile = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        self._ahead = b""

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._raw.close()

    def peek(self) -> bytes:
        """Return the beginning of the file, a block at most, without its byte order mark. Raises TraceError."""
        if not self._ahead:
            self._ahead = self._block().removeprefix(_MARK)
            for mark, name in _ENCODINGS:
                if self._ahead.startswith(mark):
                    raise self.faults.error(1, f"the text is {name}; save it as UTF-8")
        return self._ahead

    def rest(self, most: int) -> bytes | None:
        """Return all that is left, or None if it is more than `most` bytes. Raises TraceError."""
        parts, size = [self._ahead], len(self._ahead)
        self._ahead = b""
        while block := self._block():
            size += len(block)
            if size > most:
                return None
            parts.append(block)
        return b"".join(parts)

    def lines(self) -> Iterator[str]:
        """Yield the lines, each with its line break. Raises TraceError for what is no text of lines."""
        left = b""
        block = self.peek()
        self._ahead = b""
        while block:
            *whole, left = (left + block).splitlines(keepends=True) or [b""]
            if left.endswith(b"\n"):
                whole, left = [*whole, left], b""
            yield from self._texts(whole)
            if len(left) > LONGEST_LINE:
                raise self._too_long()
            block = self._block()
        if left:
            yield from self._texts([left])

    def _texts(self, lines: list[bytes]) -> Iterator[str]:
        for line in lines:
            self.line += 1
            if len(line) > LONGEST_LINE:
                self.line -= 1
                raise self._too_long()
            if b"\0" in line:
                raise self.faults.error(
                    self.line, "there is a NUL byte: this is no text, or the file is damaged"
                )
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                where = f"byte {error.start + 1} of the line is no UTF-8; save the file as UTF-8"
                raise self.faults.error(self.line, where) from None

    def _too_long(self) -> Exception:
        message = f"the line is longer than {LONGEST_LINE >> 10} KiB; each request is a line of its own"
        return self.faults.error(self.line + 1, message)

    def _block(self) -> bytes:
        try:
            block = self._file.read(BLOCK)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            cut = isinstance(error, EOFError)
            message = (
                "the packed file ends too early; it was not written to its end"
                if cut
                else (f"it cannot be unpacked ({error}); pack it again with gzip")
            )
            raise self.faults.error(0, message) from None
        if self._progress is not None:
            self._progress(min(self._raw.tell(), self._total), self._total)
        return block
