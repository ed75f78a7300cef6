"""Mapped files are in memory once, however many models map them: who holds which, and what a change frees or takes."""

from collections.abc import Iterable

from reconciler.core.memory import MappedFile

Files = tuple[MappedFile, ...]


def own(charge: int, files: Files) -> int:
    """Return the part of a charge in bytes that is not in mapped files: it comes and goes with the model alone."""
    return max(0, charge - sum(f.size for f in files)) if files else charge


def within(files: Files, charge: int | None) -> Files:
    """Return the files as far as the charge covers them: who states a smaller size than they have is believed."""
    if not files or charge is None or sum(f.size for f in files) <= charge:
        return files
    out = []
    for file in files:
        out.append(MappedFile(file.key, min(file.size, charge)))
        charge -= out[-1].size
    return tuple(out)


def shared(holders: Iterable[Files]) -> bool:
    """Return whether any file is named by two holders."""
    seen: set[str] = set()
    for files in holders:
        keys = {f.key for f in files}
        if not seen.isdisjoint(keys):
            return True
        seen |= keys
    return False


class Shares:
    """Files and who holds how much of each. Bytes; of several opinions on a file's size the largest counts."""

    def __init__(self) -> None:
        #: For each file how many holders state which size.
        self._sizes: dict[str, dict[int, int]] = {}
        #: Bytes of all files that somebody holds.
        self.total = 0

    def hold(self, files: Files) -> int:
        """Note one more holder of `files`; return the bytes nobody held before."""
        taken = 0
        for file in files:
            sizes = self._sizes.setdefault(file.key, {})
            taken += max(0, file.size - max(sizes, default=0))
            sizes[file.size] = sizes.get(file.size, 0) + 1
        self.total += taken
        return taken

    def drop(self, files: Files) -> int:
        """Note one holder less; return the bytes nobody holds any more."""
        freed = 0
        for file in files:
            sizes = self._sizes[file.key]
            before = max(sizes)
            sizes[file.size] -= 1
            if sizes[file.size] == 0:
                del sizes[file.size]
            freed += before - max(sizes, default=0)
        self.total -= freed
        return freed

    def alone(self, files: Files) -> int:
        """Return the bytes of `files` that `drop` would free."""
        if not files:
            return 0
        freed = self.drop(files)
        self.hold(files)
        return freed

    def missing(self, files: Files) -> int:
        """Return the bytes of `files` that `hold` would take."""
        if not files:
            return 0
        taken = self.hold(files)
        self.drop(files)
        return taken
