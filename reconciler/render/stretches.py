"""Memory as a line of signs: stretches of bytes on one scale, and the legend that says what each sign stands for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.render.units import Scale


@dataclass(frozen=True, slots=True)
class Signs:
    """What stretches are drawn with: one for each model that is named, and one for all others."""

    models: str
    #: What others hold, or is not to be had; what nobody owns up to; what is promised; what is kept; what is free;
    #: where a watermark stands.
    taken: str
    astray: str
    reserved: str
    reserve: str
    free: str
    mark: str


#: For terminals that can show them, and for all else.
BLOCKS: Final = Signs("█▓▒#=%+", taken="▚", astray="~", reserved="?", reserve="░", free="·", mark="|")
ASCII: Final = Signs("#=%+*@&", taken="x", astray="~", reserved="?", reserve="-", free=".", mark="|")


@dataclass(frozen=True, slots=True)
class Stretch:
    """So many bytes of something."""

    name: str
    bytes: int
    sign: str

    def text(self, scale: Scale) -> str:
        """Return its part of the legend."""
        return f"{self.sign} {self.name} {scale.size(self.bytes)}"


def of_models(models: Iterable[tuple[str, int]], signs: Signs) -> list[Stretch]:
    """Return names with their bytes as stretches; those beyond the signs share the last."""
    last = len(signs.models) - 1
    return [Stretch(name, size, signs.models[min(n, last)]) for n, (name, size) in enumerate(models)]


def legend_of(models: Sequence[Stretch], scale: Scale) -> list[str]:
    """Return the legend of models: those with a sign of their own by name, how many share the last."""
    named = len(ASCII.models) - 1
    found = [part.text(scale) for part in models[:named]]
    if more := models[named:]:
        found.append(Stretch(f"{len(more)} more", sum(part.bytes for part in more), more[0].sign).text(scale))
    return found


def drawn(parts: Iterable[Stretch], width: int) -> str:
    """Return the bar: each part from its start to its end on one scale, so that errors of rounding do not add up."""
    found = list(parts)
    whole = sum(part.bytes for part in found) or 1
    bar, done = "", 0
    for part in found:
        done += part.bytes
        bar += part.sign * (round(done * width / whole) - len(bar))
    return bar.ljust(width)
