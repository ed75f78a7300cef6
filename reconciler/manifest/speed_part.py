"""How fast models are on a described machine, as it is written there."""

from math import isfinite
from typing import Annotated, Final

from pydantic import Field, PlainValidator

from reconciler.manifest import fields as f
from reconciler.manifest.parts import Part
from reconciler.manifest.scalars import Expanded
from reconciler.manifest.sizes import format_size

#: Bytes a second: no disk is slower, a rate below it lacks its unit.
_SLOWEST: Final = 1 << 20
#: Tokens a second that nothing reaches.
_FASTEST: Final = 1e9


def _load_time(value: object) -> float:
    if (seconds := f.duration(value)) == 0:
        raise f.refuse("duration", "no load takes 0 seconds", "write how long it takes, for example 12s")
    return seconds


def _tokens(value: object) -> float:
    """Return tokens a second."""
    number = _number(value)
    if number is None or not 0 < number <= _FASTEST:
        raise f.refuse(
            "rate", f"{f.shown(value)} is not a rate", "write tokens a second as a number above 0: 350 or 8.5"
        )
    return number


def _number(value: object) -> float | None:
    if isinstance(value, Expanded):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) else None


def _bytes_a_second(value: object) -> int:
    found = f.size(value)
    if found < _SLOWEST:
        hint = f"did you mean {value}GB?" if found and str(value).isdigit() else "write it like 3GB or 500MB"
        raise f.refuse("size", f"{format_size(found)} a second is no speed of a disk", hint)
    return found


LoadTime = Annotated[float, PlainValidator(_load_time)]
TokenRate = Annotated[float, PlainValidator(_tokens)]
DiskRate = Annotated[int, PlainValidator(_bytes_a_second)]


class SpeedPart(Part):
    """How long things take with one model. What is not said is measured, or estimated from its size."""

    load: LoadTime | None = Field(
        default=None, description="Seconds, or a duration, from its start until it is ready."
    )
    evict: f.DurationOrZero | None = Field(
        default=None,
        description="Seconds, or a duration, from the first signal until its memory is free again.",
    )
    prompt: TokenRate | None = Field(
        default=None, description="Tokens of a prompt that one request is read in a second."
    )
    output: TokenRate | None = Field(
        default=None, description="Tokens of an answer that one request gets in a second."
    )
    fixed: f.DurationOrZero | None = Field(
        default=None, description="Seconds, or a duration, that every request takes besides."
    )
