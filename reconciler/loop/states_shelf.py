"""Saved states on disk: a folder a model, and a record that is written last, so that nothing half-written counts.

    states/                 0700
      .proofs.json          which setups were seen to work, and which not; no folder of a model begins with a dot
      NAME/state.json       what was saved, by what, from what
      NAME/files/           what the model's server wrote; only it reads them

What lies beside these in the folder of a model is removed. The server writes with the rights of the user and into more
than its folder, if it likes: no link is followed and no file that has another name elsewhere is touched.

All methods block, and raise OSError where the disk does not do what it should.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from reconciler.core.words import size
from reconciler.host.logs import safe_name
from reconciler.loop.states_files import UnfitError, entries_of, look, sift
from reconciler.loop.states_folder import clear, is_folder, make, measure, opened, remove
from reconciler.loop.states_record import Kept, KeptFile, kept_of, read_json, write_json

#: Bytes that a saved state has to leave on the disk: others write there, too, our own ledger among them.
LEAST_FREE: Final = 256 << 20
#: Files and folders of one state: each takes room, however small it is, and time to look at.
MOST_ENTRIES: Final = 10_000
_RECORD: Final = "state.json"
_FILES: Final = "files"
_PROOFS: Final = ".proofs.json"
#: Setups whose proof is remembered; the oldest go first.
_MOST_PROOFS: Final = 200


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that is written into: where it is, and which one it is, for another may come to bear its name."""

    path: Path
    device: int
    inode: int


class Shelf:
    """The folder of all saved states."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self, model: str) -> Place:
        """Return the folder that a model's server writes its state into and reads it from; it is made if need be."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = safe_name(model)
        with ExitStack() as stack:
            shelf = stack.enter_context(opened(self._folder))
            make(name, shelf)
            own = stack.enter_context(opened(name, shelf))
            make(_FILES, own)
            state = os.fstat(stack.enter_context(opened(_FILES, own)))
        return Place(self._folder / name / _FILES, state.st_dev, state.st_ino)

    def empty(self, model: str) -> None:
        """Forget a model's state, first that it counts, then its files. The folder stays: a server may know it."""
        with self._open() as shelf:
            if shelf is not None:
                _empty(safe_name(model), shelf)

    def take_in(self, model: str, names: Iterable[str], place: Place) -> tuple[KeptFile, ...]:
        """Return what was written under these names, readable for nobody else; other files are removed.

        Raises UnfitError if it does not lie in the folder that was given, or not there alone.
        """
        wanted = frozenset(names)
        with self._own(model) as own:
            if own is None or not is_folder(_FILES, own):
                raise UnfitError(
                    "its folder was replaced by something else: write into the folder that is given"
                )
            clear(own, (_FILES,))
            with opened(_FILES, own) as files:
                state = os.fstat(files)
                if (state.st_dev, state.st_ino) != (place.device, place.inode):
                    raise UnfitError(
                        "its folder was replaced by another: write into the folder that is given"
                    )
                sift(files, wanted)
                found = look(files, wanted, ours=True)
        if missing := sorted(wanted - {file.name for file in found}):
            raise UnfitError(f"{missing[0]} is no regular file")
        return found

    def write(self, kept: Kept) -> None:
        """Let a state count from now on."""
        with opened(self._folder) as shelf, opened(safe_name(kept.model), shelf) as own:
            write_json(_RECORD, own, {"format": 1, **asdict(kept)})

    def read(self, model: str) -> Kept | None:
        """Return what is kept of a model; None = nothing, or nothing that can be read."""
        with self._own(model) as own:
            kept = kept_of(read_json(_RECORD, own)) if own is not None else None
        return kept if kept is not None and kept.model == model else None

    def all(self) -> tuple[Kept, ...]:
        """Return every state that counts, the oldest first."""
        found = []
        with self._open() as shelf:
            for name in _ours(shelf):
                assert shelf is not None, "it has folders"
                with opened(name, shelf) as own:
                    kept = kept_of(read_json(_RECORD, own))
                if kept is not None and safe_name(kept.model) == name:
                    found.append(kept)
        return tuple(sorted(found, key=lambda kept: (kept.saved_at, kept.model)))

    def damage(self, kept: Kept) -> str:
        """Return what is wrong with the files of a state, or ""."""
        wanted = frozenset(file.name for file in kept.files)
        with self._own(kept.model) as own:
            if own is None or not is_folder(_FILES, own):
                return "the folder of its files is gone"
            try:
                with opened(_FILES, own) as files:
                    found = {file.name: file for file in look(files, wanted, ours=False)}
            except UnfitError as error:
                return str(error)
            except OSError as error:
                return f"{error.filename} cannot be read ({error.strerror})"
        if gone := sorted(wanted - found.keys()):
            return f"{gone[0]} is gone"
        changed = (file.name for file in kept.files if found[file.name] != file)
        name = next(changed, "")
        return f"{name} was changed or is damaged" if name else ""

    def touched(self, kept: Kept) -> str:
        """Return the name of a file of a state that has been written to since it was read, or ""; does not read it."""
        expected = {file.name: (file.size, file.written) for file in kept.files}
        with self._own(kept.model) as own:
            if own is None or not is_folder(_FILES, own):
                return _FILES
            with opened(_FILES, own) as files:
                found = {name: (state.st_size, state.st_mtime_ns) for name, state in entries_of(files)}
        both = sorted(expected.keys() | found.keys())
        return next((name for name in both if found.get(name) != expected.get(name)), "")

    def excess(self, model: str, most: int) -> str:
        """Say what there is too much of in a model's folder, or too little of on its disk, or ""."""
        with self._own(model) as own:
            if own is None:
                return ""
            found, entries = measure(own)
            free = shutil.disk_usage(own).free
        if found > most:
            return f"it has {size(found)}, more than state.max or machine.state_disk allows"
        if entries > MOST_ENTRIES:
            return f"it has more than {MOST_ENTRIES} files"
        return f"it would leave too little room ({size(free)} free on the disk)" if free < LEAST_FREE else ""

    def tidy(self, models: Iterable[str], oldest: float, busy: Collection[str]) -> None:
        """Remove all but the states of these models that were saved since `oldest`.

        What was left half-written is removed, too, and what lies beside ours in the folder of a model. Those of `busy`
        models are being written or read: they stay.
        """
        keep = {safe_name(kept.model) for kept in self.all() if kept.saved_at >= oldest}
        names = {safe_name(model) for model in models}
        working = {safe_name(model) for model in busy}
        with self._open() as shelf:
            for name in (found for found in _ours(shelf) if found not in working):
                assert shelf is not None, "it has folders"
                if name not in names:
                    remove(name, shelf)
                elif name not in keep:
                    _empty(name, shelf)
                else:
                    with opened(name, shelf) as own:
                        clear(own, (_FILES, _RECORD))

    def trim(self, most: int) -> tuple[str, ...]:
        """Remove states, the oldest first, until all of them have at most `most` bytes; return whose were removed."""
        states = list(self.all())
        removed = []
        while states and sum(kept.size for kept in states) > most:
            self.empty(states[0].model)
            removed.append(states.pop(0).model)
        return tuple(removed)

    def proved(self, proof: str) -> bool | None:
        """Return whether restoring was seen to work; None = it was not looked at yet."""
        with self._open() as shelf:
            known = read_json(_PROOFS, shelf) if shelf is not None else None
        value = (known or {}).get(proof)
        return value if isinstance(value, bool) else None

    def prove(self, proof: str, works: bool) -> None:
        """Remember whether restoring was seen to work."""
        with opened(self._folder) as shelf:
            known = read_json(_PROOFS, shelf) or {}
            known.pop(proof, None)
            known[proof] = works
            write_json(_PROOFS, shelf, dict(list(known.items())[-_MOST_PROOFS:]))

    @contextmanager
    def _open(self) -> Iterator[int | None]:
        """Yield the folder of all, or None if there is none yet."""
        with ExitStack() as stack:
            try:
                found = stack.enter_context(opened(self._folder))
            except FileNotFoundError:
                found = None
            yield found

    @contextmanager
    def _own(self, model: str) -> Iterator[int | None]:
        """Yield the folder of a model, or None if it has none."""
        name = safe_name(model)
        with self._open() as shelf, ExitStack() as stack:
            there = shelf is not None and is_folder(name, shelf)
            yield stack.enter_context(opened(name, shelf)) if there else None


def _ours(shelf: int | None) -> list[str]:
    """Return the names of the folders of models. A folder without what all of ours have may be somebody's own."""
    found = []
    for name in sorted(os.listdir(shelf)) if shelf is not None else ():
        if is_folder(name, shelf or 0):
            with opened(name, shelf) as own:
                found += [name] if {_FILES, _RECORD} & set(os.listdir(own)) else []
    return found


def _empty(name: str, shelf: int) -> None:
    if not is_folder(name, shelf):
        remove(name, shelf)
        return
    with opened(name, shelf) as own:
        remove(_RECORD, own)
        clear(own, (_FILES,))
        if is_folder(_FILES, own):
            with opened(_FILES, own) as files:
                clear(files)
        else:
            remove(_FILES, own)
