"""Reading figures from a `config.json` that nobody has checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: No count, length or window of a model comes near it; what is above it is damage.
_MOST: Final = 1 << 31
#: Where the text model of a model for more than text is described.
_NESTED: Final = ("text_config", "llm_config", "language_config", "thinker_config")


class ShapeUnknown(Exception):
    """The configuration does not say what is needed; the message names the key."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The part of a configuration that describes the text model. `prefix` is where it stands: `text_config.`."""

    values: Mapping[str, object]
    prefix: str = ""

    def has(self, *names: str) -> bool:
        """Return whether any of `names` has a value."""
        return any(self.values.get(name) is not None for name in names)

    def number(self, *names: str) -> int:
        """Return the first of `names` that has a value. Raises `ShapeUnknown` if none has, or it is no number."""
        found = self.optional(*names)
        if found is None:
            raise ShapeUnknown(f"config.json has no {self.prefix}{names[0]}")
        return found

    def optional(self, *names: str) -> int | None:
        """Return the first of `names` that has a value, or None. Raises `ShapeUnknown` for one that is no number."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                if type(value) is not int or not 0 <= value <= _MOST:
                    raise self.senseless(name)
                return value
        return None

    def or_zero(self, *names: str) -> int:
        """Return a number whose absence means that the model has no such thing."""
        return self.optional(*names) or 0

    def text(self, name: str) -> str:
        """Return a text, or an empty one if there is none."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def items(self, name: str) -> list[object] | None:
        """Return a list, or None if there is none."""
        value = self.values.get(name)
        return value if isinstance(value, list) else None

    def senseless(self, name: str) -> ShapeUnknown:
        """Return the error for a key whose value cannot be understood."""
        return ShapeUnknown(
            f"{self.prefix}{name} in config.json makes no sense: {str(self.values.get(name))[:40]}"
        )


def text_model(config: Mapping[str, object]) -> Keys:
    """Return the keys of the text model: the nested ones, and below them those around it."""
    values, prefix = config, ""
    # Two levels are known: thinker_config.text_config.
    for _ in range(2):
        name = next((name for name in _NESTED if isinstance(values.get(name), dict)), None)
        if name is None:
            break
        inner = values[name]
        assert isinstance(inner, dict)
        values, prefix = inner, f"{prefix}{name}."
    if values is not config and "num_hidden_layers" not in values and "num_hidden_layers" in config:
        # The nested part only names the kind of model; the figures stand around it.
        return Keys({**values, **config})
    return Keys(values, prefix)
