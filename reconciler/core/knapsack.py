"""The set of things of most worth that fit into a room."""

from typing import Final

#: Of so many things the best set is found exactly, as long as that takes no more looks; else one that is nearly so.
LOOKS: Final = 4000

#: Worth, bytes, name.
Item = tuple[float, int, str]


def most(items: list[Item], room: int) -> frozenset[str]:
    """Return the names of those that fit together into `room` bytes and are worth most."""
    ordered = sorted((i for i in items if i[1] <= room), key=lambda i: (-i[0] / max(1, i[1]), i[2]))
    search = _Search(ordered)
    search.go(0, room, 0.0, ())
    return frozenset(search.best)


class _Search:
    """Branch and bound over items sorted by their worth for each byte, the best first."""

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        self._looks = 0
        self._most = 0.0
        #: Names of the best set so far.
        self.best: tuple[str, ...] = ()

    def go(self, place: int, room: int, worth: float, taken: tuple[str, ...]) -> None:
        """Look at all sets that begin with `taken` and go on from `place`."""
        if worth > self._most:
            self._most, self.best = worth, taken
        if place == len(self._items) or self._looks >= LOOKS:
            return
        self._looks += 1
        gain, size, name = self._items[place]
        # Nothing from here on is worth more for each byte than this one.
        if worth + room * gain / max(1, size) <= self._most:
            return
        if size <= room:
            self.go(place + 1, room - size, worth + gain, (*taken, name))
        self.go(place + 1, room, worth, taken)
