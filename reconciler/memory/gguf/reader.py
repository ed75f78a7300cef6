"""Reads the bytes of a header in their order, in chunks, never past the end of the file or a bound of our own."""

import struct
from pathlib import Path
from typing import BinaryIO, Final

#: Most bytes of a file that are taken for its header. The largest vocabularies with their merges need about 20 MiB.
LONGEST_HEADER: Final = 64 << 20
#: Bytes read at once; up to so many bytes of the data behind the header are read along with it.
_CHUNK: Final = 256 << 10
#: Texts passed over in one header, one by one: each costs a step, so their number bounds the time.
_MOST_WALKED: Final = 1 << 21
#: Bytes of all texts that are kept: they bound the memory.
_MOST_KEPT: Final = 8 << 20
_SHOWN: Final = 100
_LENGTH: Final = struct.Struct("<Q")


class WeightsError(Exception):
    """The weights cannot be loaded; the message says why in one sentence."""


class Unreadable(WeightsError):
    """The system would not let the file be read: that may change although the file stays the same."""

    @classmethod
    def because(cls, path: Path, error: OSError | ValueError) -> "Unreadable":
        """Return what to say of `error`; a path with a zero byte in it is a `ValueError`."""
        reason = error.strerror if isinstance(error, OSError) else None
        return cls(f"{path} cannot be read: {reason or error}")


def shown(value: object) -> str:
    """Return what a file says, for a sentence: on one line, without control characters, and not endless."""
    written = repr(value)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}..."


def damaged(what: str) -> WeightsError:
    """Return what to say of a header that makes no sense, as a sentence without its subject."""
    return WeightsError(f"has a damaged header: {what}; repeat the download")


def truncated(what: str) -> WeightsError:
    """Return what to say of a file of which the end is missing, as a sentence without its subject."""
    return WeightsError(f"is truncated: {what}; finish or repeat the download")


class Reader:
    """A position in the header of one file of `size` bytes. All methods raise `WeightsError` for damaged input."""

    __slots__ = ("_at", "_chunk", "_kept", "_size", "_start", "_stream", "_walked")

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._size = size
        self._chunk = b""
        #: Where the chunk begins in the file, and the next byte in the chunk.
        self._start = 0
        self._at = 0
        self._kept = 0
        self._walked = 0

    @property
    def position(self) -> int:
        """Bytes from the start of the file to the next byte."""
        return self._start + self._at

    @property
    def left(self) -> int:
        """Bytes from the next one to the end of the file."""
        return self._size - self.position

    def unpack(self, layout: struct.Struct) -> tuple[int | float, ...]:
        """Return the next fields as `layout` says."""
        self._need(layout.size)
        fields = layout.unpack_from(self._chunk, self._at)
        self._at += layout.size
        return fields

    def length(self) -> int:
        """Return the next 64-bit count."""
        self._need(_LENGTH.size)
        (count,) = _LENGTH.unpack_from(self._chunk, self._at)
        self._at += _LENGTH.size
        return int(count)

    def peek_length(self) -> int:
        """Return the next 64-bit count without passing it."""
        count = self.length()
        self._at -= _LENGTH.size
        return count

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; they are kept in memory, so the caller bounds `count`."""
        self._need(count)
        taken = self._chunk[self._at : self._at + count]
        self._at += count
        return taken

    def text(self, longest: int, what: str) -> bytes:
        """Return the next text, which is a `what` of at most `longest` bytes."""
        count = self.length()
        if count > longest:
            raise damaged(f"{what} of {count} bytes")
        self._kept += count
        if self._kept > _MOST_KEPT:
            raise damaged(f"more than {_MOST_KEPT >> 20} MiB of names and texts")
        return self.take(count)

    def skip(self, count: int) -> None:
        """Pass over `count` bytes without reading them."""
        if count > self.left:
            raise self._ends()
        self._at += count
        if self.position > LONGEST_HEADER:
            raise WeightsError(f"has a header of more than {LONGEST_HEADER >> 20} MiB, which no model needs")

    def skip_texts(self, count: int) -> None:
        """Pass over `count` texts. A vocabulary has hundreds of thousands: about 0.1 us each."""
        self.walk(count)
        unpack = _LENGTH.unpack_from
        while count:
            self._need(_LENGTH.size)
            chunk, at, passed = self._chunk, self._at, 0
            try:
                for passed in range(count):  # noqa: B007 - tells how far it came when the chunk ends
                    at += 8 + unpack(chunk, at)[0]
                passed = count
            except (struct.error, OverflowError):
                # The next length is not in this chunk, or a damaged length led far beyond it: `skip` judges that.
                pass
            count -= passed
            self.skip(at - self._at)

    def walk(self, steps: int) -> None:
        """Count items that are passed one by one, each as much as it costs; of too many the header is refused."""
        self._walked += steps
        if self._walked > _MOST_WALKED:
            raise damaged("lists of millions of texts or arrays")

    def _need(self, count: int) -> None:
        """Make sure that the next `count` bytes are in the chunk."""
        if self._at + count <= len(self._chunk):
            return
        begin = self.position
        if count > self.left:
            raise self._ends()
        if begin + count > LONGEST_HEADER:
            raise WeightsError(f"has a header of more than {LONGEST_HEADER >> 20} MiB, which no model needs")
        self._stream.seek(begin)
        self._chunk = self._stream.read(max(_CHUNK, count))
        self._start, self._at = begin, 0
        if len(self._chunk) < count:
            raise WeightsError("became shorter while it was read")

    def _ends(self) -> WeightsError:
        return truncated(f"it ends after {self._size} bytes, within its header")
