"""Mapped files are in memory once, however many models map them: who holds which, and what a change frees or takes."""

from collections.abc import Iterable

from reconciler.core.memory import MappedFile

Files = tuple[MappedFile, ...]


def own(charge: int, files: Files) -> int:
    """Return the part of a charge in bytes that is not in mapped files: it comes and goes with the model alone."""
    return max(0, charge - sum(f.size for f in files))


class Shares:
    """Files and how many models hold each. Bytes; of two opinions on a file's size the larger counts."""

    def __init__(self, known: Iterable[Files]) -> None:
        self._sizes: dict[str, int] = {}
        for files in known:
            for file in files:
                self._sizes[file.key] = max(file.size, self._sizes.get(file.key, 0))
        self._holders: dict[str, int] = {}
        #: Bytes of all files that somebody holds.
        self.total = 0

    def hold(self, files: Files) -> int:
        """Note one more holder of `files`; return the bytes nobody held before."""
        taken = 0
        for file in files:
            count = self._holders.get(file.key, 0)
            self._holders[file.key] = count + 1
            if count == 0:
                taken += self._sizes[file.key]
        self.total += taken
        return taken

    def drop(self, files: Files) -> int:
        """Note one holder less; return the bytes nobody holds any more."""
        freed = 0
        for file in files:
            self._holders[file.key] -= 1
            if self._holders[file.key] == 0:
                freed += self._sizes[file.key]
        self.total -= freed
        return freed

    def alone(self, files: Files) -> int:
        """Return the bytes of `files` that would be freed by `drop`."""
        return sum(self._sizes[f.key] for f in files if self._holders.get(f.key) == 1)
