"""What was odd in a file and could be passed over: a bounded list of sentences."""

from typing import Final

_MOST: Final = 16


class Notes:
    """Collects sentences for `Header.oddities`; of very many, it keeps the first and says how many there were."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._count = 0

    def add(self, sentence: str) -> None:
        """Note one oddity."""
        self._count += 1
        if len(self._kept) < _MOST:
            self._kept.append(sentence)

    def decode(self, raw: bytes, what: str) -> str:
        """Return `raw` as text; bytes that are no UTF-8 are written as escapes, and noted."""
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.add(f"{what} is not UTF-8")
            return raw.decode(errors="backslashreplace")

    def sentences(self) -> tuple[str, ...]:
        """Return what was noted."""
        more = self._count - len(self._kept)
        return (*self._kept, f"and {more} more oddities") if more else tuple(self._kept)
