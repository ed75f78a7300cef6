"""Reading numbers from the keys of a GGUF header that nobody has checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.memory.gguf.header import Array, Scalar, Value

#: No count, length or window of a model comes near it; what is above it is damage.
_MOST: Final = 1 << 31


class ShapeUnknown(Exception):
    """The header does not say what is needed; the message names the key."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one architecture: `number("block_count")` reads `llama.block_count`."""

    values: Mapping[str, Value]
    arch: str

    def has(self, name: str) -> bool:
        """Return whether the key is there at all."""
        return self._full(name) in self.values

    def number(self, name: str) -> int:
        """Return a number that must be there. Raises `ShapeUnknown`."""
        found = self.optional(name)
        if found is None:
            raise ShapeUnknown(f"the weights' header has no {self._full(name)}")
        return found

    def positive(self, name: str) -> int:
        """Return a number that must be there and more than 0. Raises `ShapeUnknown`."""
        found = self.number(name)
        if not found:
            raise self.senseless(name, found)
        return found

    def optional(self, name: str) -> int | None:
        """Return a number, or None if the key is not there. Raises `ShapeUnknown` for one that is no number."""
        value = self.values.get(self._full(name))
        if value is None:
            return None
        if isinstance(value, Array):
            # Some writers state a figure for each layer where all agree.
            if len(set(value.items)) != 1 or len(value.items) != value.count:
                raise ShapeUnknown(f"{self._full(name)} in the weights' header is not one number")
            value = value.items[0]
        return self._checked(name, value)

    def or_zero(self, name: str) -> int:
        """Return a number whose absence means that the model has no such thing."""
        return self.optional(name) or 0

    def per_layer(self, name: str, layers: int, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return one number for each layer; one number for all is repeated. Raises `ShapeUnknown`."""
        value = self.values.get(self._full(name))
        if value is None:
            if default is None:
                raise ShapeUnknown(f"the weights' header has no {self._full(name)}")
            return default
        if not isinstance(value, Array):
            return (self._checked(name, value),) * layers
        if len(value.items) < layers:
            raise ShapeUnknown(
                f"{self._full(name)} in the weights' header has {len(value.items)} entries for {layers} layers"
            )
        return tuple(self._checked(name, item) for item in value.items[:layers])

    def refuse_zero(self, name: str) -> None:
        """Raise `ShapeUnknown` if one number for all layers is 0: a model without such a thing has no such key."""
        value = self.values.get(self._full(name))
        if not isinstance(value, Array) and value == 0:
            raise self.senseless(name, 0)

    def senseless(self, name: str, value: object) -> ShapeUnknown:
        """Return the error for a value that cannot be true."""
        return ShapeUnknown(f"{self._full(name)} in the weights' header makes no sense: {str(value)[:40]!r}")

    def array(self, name: str) -> tuple[int, ...] | None:
        """Return the numbers of an array, or None if there is none. Truth values are 0 and 1."""
        value = self.values.get(self._full(name))
        if not isinstance(value, Array) or not value.items:
            return None
        return tuple(int(i) if isinstance(i, bool) else self._checked(name, i) for i in value.items)

    def _full(self, name: str) -> str:
        return f"{self.arch}.{name}"

    def _checked(self, name: str, value: Scalar) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
            raise self.senseless(name, value)
        return value
