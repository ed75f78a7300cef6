"""One log file per model: the process writes straight into it; we only keep it small."""

import hashlib
import os
import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

#: Bytes of the start-up lines of the current launch that outlive every rotation.
HEAD_BYTES: Final = 64 << 10
_START: Final = b"--- start "
_LONGEST_NAME: Final = 120
_COPY_BYTES: Final = 1 << 20
#: The part of the rotated lines that is left for those that come in while the others are copied: one in so many.
_LATE_SHARE: Final = 8
#: Pieces read of a log in a row.
_PIECES: Final = 64
_ESCAPES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


@lru_cache(maxsize=1024)
def safe_name(model: str) -> str:
    """Return a file name for any model name: letters, digits, `-`, `_`, `.` stay, the rest is percent-encoded.

    Names that differ only in case, and long ones, get a digest, so that two models never share a file.
    """
    encoded = quote(model, safe="").replace("~", "%7E")
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    encoded = re.sub(r"%..", lambda found: found.group().lower(), encoded)
    if encoded != encoded.lower() or len(encoded) > _LONGEST_NAME:
        digest = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        encoded = f"{encoded[:_LONGEST_NAME]}~{digest}"
    return encoded


class Logs:
    """The log files of all models, in one directory. All methods block.

    A model's files together never hold more than `cap` bytes after `trim`; between two trims (`host.log_watch`) the
    process adds what it writes. `NAME.log` is written by the process, `NAME.log.1` holds the last lines before the
    latest rotation, `NAME.log.head` the first lines of the launch.
    """

    def __init__(self, directory: Path, cap: int) -> None:
        if cap < 4 * HEAD_BYTES:
            raise ValueError(f"log cap of {cap} bytes is below {4 * HEAD_BYTES}")
        self._dir = directory
        self.cap = cap
        #: Of two that rotate the same file the second would drop what came in while the first one copied.
        self._rotating = threading.Lock()
        #: Files without a line that begins a launch: the head of the one that writes has been kept.
        self._headed: set[Path] = set()
        self._limit = cap // 2
        self._keep = cap - self._limit - HEAD_BYTES

    def path(self, model: str) -> Path:
        """Return the file that `model`'s process writes."""
        return self._dir / f"{safe_name(model)}.log"

    def files(self, model: str) -> tuple[Path, ...]:
        """Return where to read from oldest to newest: head, rotated lines, current file; each may be missing."""
        path = self.path(model)
        return _head(path), _old(path), path

    def open(self, model: str) -> int:
        """Return a descriptor that appends to the model's file (0600). The caller closes it. Raises OSError.

        What the last launch wrote in its last moments is rotated first: the file's head is the next one's from now on.
        """
        self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):  # a full disk: whether a process can be started is not the log's to say
            self.trim(model)
        self._headed.discard(self.path(model))
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self.path(model), flags, 0o600)

    @staticmethod
    def begin(output: int, launch_id: str) -> None:
        """Write the line that parts a launch from the one before. Raises OSError."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        os.write(output, f"\n--- start {moment} launch {launch_id}\n".encode())

    @staticmethod
    def note(output: int, text: str) -> None:
        """Write one line of ours into the log. Where nothing more fits it is left out: a process was started."""
        with suppress(OSError):
            os.write(output, f"--- {text}\n".encode())

    def trim(self, model: str) -> bool:
        """Rotate the model's file if it has grown past its share of the cap; return whether it had.

        The process keeps its descriptor and goes on at the start of the emptied file. Raises OSError.
        """
        return self._trim(self.path(model))

    def trim_all(self) -> None:
        """Rotate whatever has grown past its share, also files of models that have ended: they may have ended flooding.

        A file that cannot be rotated now, as on a full disk, is left for the next time. So are all of them where the
        folder cannot be looked into: it is not there, or nothing can be opened.
        """
        paths: list[Path] = []
        with suppress(OSError):
            paths = sorted(self._dir.glob("*.log"))
        for path in paths:
            with suppress(OSError):
                self._trim(path)

    def is_large(self, size: int) -> bool:
        """Return whether a file of so many bytes has grown past its share of the cap."""
        return size > self._limit

    def size(self, model: str) -> int:
        """Return the bytes of the file that the model's process writes; 0 if there is none. Raises OSError."""
        return _size(self.path(model))

    def _trim(self, path: Path) -> bool:
        if not self.is_large(_size(path)):  # nearly always: no lock is needed for that
            return False
        with self._rotating:
            size = _size(path)
            if not self.is_large(size):
                return False
            self._keep_head(path)
            self._keep_tail(path, flooded=size > self._limit + self._limit // 4)
        return True

    def tail(self, model: str, lines: int, max_bytes: int = 64 << 10) -> list[str]:
        """Return the last non-empty lines of the current launch, without control characters; [] if there are none."""
        path = self.path(model)
        with self._rotating:  # what is rotated is in neither file for a moment
            data = _last_bytes(path, max_bytes)
            begin = data.rfind(_START)
            if begin < 0 and len(data) < max_bytes:
                data = _last_bytes(_old(path), max_bytes - len(data)) + data
                begin = data.rfind(_START)
        text = data[max(begin, 0) :].decode("utf-8", "replace")
        cleaned = (clean(line) for line in text.split("\n"))
        return [line for line in cleaned if line.strip() and not line.startswith("--- ")][-lines:]

    def forget(self, keep: Iterable[str]) -> None:
        """Remove the files of all models but `keep`. Name those that still run among them. Raises OSError."""
        kept = {file.name for model in keep for file in self.files(model)}
        if self._dir.is_dir():
            for file in sorted(self._dir.iterdir()):
                if file.name not in kept and file.is_file():
                    file.unlink(missing_ok=True)

    def _keep_head(self, path: Path) -> None:
        if path in self._headed:
            return  # to read all of a flood again for that takes a while
        # Without one the launch began before an earlier rotation, which has kept its head.
        if (start := _last_start(path)) is not None:
            with path.open("rb") as file:
                file.seek(start)
                _replace(_head(path), file.read(HEAD_BYTES))
        self._headed.add(path)

    def _keep_tail(self, path: Path, *, flooded: bool) -> None:
        """Move the last lines to where rotated ones are, and empty the file the moment all of it has been read.

        Of a file that is `flooded` every byte counts: it is emptied, and what was rotated before goes, while the lines
        to keep are only in memory. Otherwise they are copied first, and what came in meanwhile is added.
        """
        old, late = _old(path), self._keep // _LATE_SHARE
        with path.open("rb+", buffering=0) as file:
            first = file.seek(max(0, file.seek(0, os.SEEK_END) - self._keep + late))
            read = _to_the_end(file)
            kept = read[late - self._keep :]
            newline = kept.find(b"\n") if first > 0 or len(kept) < len(read) else -1
            if not flooded:
                _replace(old, kept[newline + 1 :])
                further = _to_the_end(file)
            os.ftruncate(file.fileno(), 0)
        if flooded:
            old.unlink(missing_ok=True)
            _replace(old, kept[newline + 1 :])
        elif further:
            with old.open("ab") as copy:
                copy.write(further[-late:])


def clean(line: str) -> str:
    """Return `line` without terminal escapes and control characters; after a carriage return the last part counts."""
    last = line.rstrip("\r").rsplit("\r", 1)[-1]
    return _CONTROLS.sub("", _ESCAPES.sub("", last))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _head(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def _old(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def _last_bytes(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - count))
            return file.read(count)
    except FileNotFoundError:
        return b""


def _last_start(path: Path) -> int | None:
    """Return the offset of the last line that begins a launch, reading backwards in pieces."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - _COPY_BYTES)
            file.seek(begin)
            found = file.read(end - begin + len(_START) - 1).rfind(_START)
            if found >= 0:
                return begin + found
            end = begin
    return None


def _to_the_end(file: FileIO) -> bytes:
    """Return what is in a file from here on, with what comes in meanwhile; a flood is not run after for ever."""
    return b"".join(islice(iter(partial(file.read, _COPY_BYTES), b""), _PIECES))


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    draft.replace(path)
