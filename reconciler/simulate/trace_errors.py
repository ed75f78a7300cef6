"""What is wrong with a trace, said with its line: what stands there, and what would be right."""

from pathlib import Path
from typing import Final

#: Faults that are told one by one; the rest is counted.
TOLD: Final = 20
#: Characters of the file's own text that are repeated in a message.
QUOTED: Final = 60


class TraceError(Exception):
    """A trace is refused. The text has a line for each fault, `FILE:LINE: what is wrong; what would be right`."""

    def __init__(self, told: list[str], untold: int = 0) -> None:
        self.told = tuple(told)
        #: Faults that are not among `told`.
        self.untold = untold
        super().__init__("\n".join([*told, f"and {untold:,} more"] if untold else told))


class Faults:
    """Collects what is wrong with one file. All of it is counted, the first `TOLD` are kept."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._told: list[tuple[int, int, str]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, line: int, message: str) -> None:
        """Note one fault; line 0 = it is the file's as a whole."""
        self._count += 1
        if len(self._told) < TOLD:
            text = f"{self._path}:{line}: {message}" if line else f"{self._path}: {message}"
            self._told.append((line, self._count, text))

    def error(self, line: int = 0, message: str = "") -> TraceError:
        """Return the error to raise; a message is the last fault, after which nothing more can be read."""
        if message:
            self.add(line, message)
        return TraceError([text for _, _, text in sorted(self._told)], self._count - len(self._told))

    def raise_any(self) -> None:
        """Raise TraceError if anything was noted."""
        if self._count:
            raise self.error()


def shown(value: object) -> str:
    """Return a value of the file as it is repeated in a message: short, in quotes, nothing a terminal would obey."""
    text = value if isinstance(value, str) else repr(value)
    cut = text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"
    return '"' + "".join(c if c.isprintable() else "�" for c in cut) + '"'
