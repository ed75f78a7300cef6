"""Names of models or clients, and their numbers in a trace."""

from array import array
from collections.abc import Sequence

from reconciler.simulate.trace_fields import name_of


class Names:
    """Numbers names in the order in which they first come. Blanks around a name make no other of it."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._known: dict[object, int] = {}
        #: The names by number.
        self.names: list[str] = []

    def number(self, value: object) -> int:
        """Return the number of a name as it is written. Raises FieldError."""
        if isinstance(value, str | None) and value in self._known:
            return self._known[value]
        name = name_of(value, self._key)
        if name not in self._known:
            self._known[name] = len(self.names)
            self.names.append(name)
        self._known[value] = self._known[name]
        return self._known[name]

    def column(self, values: Sequence[object]) -> "array[int]":
        """Return the numbers of many. Raises FieldError, or TypeError for what is no text."""
        for value in dict.fromkeys(values):
            if value not in self._known:
                self.number(value)
        return array("I", map(self._known.__getitem__, values))
