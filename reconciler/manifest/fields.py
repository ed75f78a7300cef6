"""The types of the manifest's values: how each is read, refused, and described to editors."""

import ipaddress
import re
from collections.abc import Callable
from enum import StrEnum
from math import inf
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from reconciler.core.launch import LoadMode, Role
from reconciler.core.types import MayPreempt, Residency
from reconciler.manifest import sizes
from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.problems import nearest
from reconciler.manifest.scalars import Expanded, OddNumber

#: What the named priorities stand for.
PRIORITIES: Final = {"critical": 1000, "high": 750, "medium": 500, "low": 250, "batch": 0}
#: Seconds after which a process may be replaced for its age at the earliest.
_YOUNGEST: Final = 60.0
PRIORITY_LIMIT: Final = 1_000_000
PORTS_PATTERN: Final = r"^[1-9][0-9]{0,4}-[1-9][0-9]{0,4}$"
LISTEN_PATTERN: Final = (
    r"^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):(?:0|[1-9][0-9]{0,4})$"
)
ORIGIN_PATTERN: Final = r"^https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[1-9][0-9]{0,4})?$"
HOST_PATTERN: Final = r"^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)$"
#: A path the program can use: nothing in it that only a shell would understand.
PATH_PATTERN: Final = r"^(?![~$])[\s\S]+$"
KEY_PATTERN: Final = r"^[!-~]+$"


def refuse(code: str, message: str, hint: str = "") -> PydanticCustomError:
    """Return the error that ends up as a diagnostic with this code, message and hint."""
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint})


def shown(value: object) -> str:
    """Return how a message may call a value; what came from the environment stays unnamed."""
    match value:
        case Expanded():
            return "what the variable holds"
        case str():
            return quoted(value)
        case OddNumber():
            return value.text
        case bool():
            return str(value).lower()
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return str(value)


def _unit(code: str, read: Callable[[object], Any], value: object) -> Any:
    text = value.text if isinstance(value, OddNumber) else value
    try:
        return read(text)
    except sizes.UnitError as error:
        hint = "" if isinstance(value, Expanded) else error.hint
        raise refuse(code, f"{shown(value)} is {error.problem}", hint) from None


def size(value: object) -> int:
    """Return the bytes of a size as it is written."""
    return int(_unit("size", sizes.parse_size, value))


def _positive_size(value: object) -> int:
    if (found := size(value)) == 0:
        raise refuse("size", "0 bytes is no memory at all", "write `auto`, or how much models may use")
    return found


def _or_auto(read: Callable[[object], int]) -> Callable[[object], int | None]:
    return lambda value: None if value == "auto" else read(value)


def _reserve(value: object) -> float | int:
    if not sizes.is_percent(value):
        return size(value)
    share = float(_unit("percent", lambda text: sizes.parse_percent(str(text)), value))
    if share >= 1:
        raise refuse("percent", "a reserve of 100% leaves nothing for models", "write less, for example 10%")
    return share


def _share(value: object) -> float:
    share = float(_unit("percent", lambda text: sizes.parse_percent(str(text)), value))
    if share == 0:
        raise refuse("percent", "0% would always be passed", "write more, for example 85%")
    return share


def duration(value: object) -> float:
    """Return the seconds of a duration as it is written."""
    return float(_unit("duration", sizes.parse_duration, value))


def _positive_duration(value: object) -> float:
    if (seconds := duration(value)) == 0:
        raise refuse("duration", "0 seconds would end it before it begins", "write more than 0")
    return seconds


def _window(value: object) -> float:
    if not 1 <= (seconds := duration(value)) <= 600:
        raise refuse(
            "duration", "a window this long or short judges nothing", "write 1s to 10m, for example 10s"
        )
    return seconds


def _idle(value: object) -> float | None:
    if value == "never":
        return None
    if (seconds := duration(value)) == 0:
        raise refuse(
            "duration",
            "0 seconds is ambiguous here",
            "write `never`, or `residency: transient` to unload after each use",
        )
    return seconds


def _patience(value: object) -> float:
    return inf if value == "never" else duration(value)


def _limit(value: object) -> float | None:
    return None if value == "never" else _positive_duration(value)


def _age(value: object) -> float | None:
    seconds = _limit(value)
    if seconds is not None and seconds < _YOUNGEST:
        raise refuse(
            "duration", "it would hardly do anything but load", "write at least 1m, for example 24h, or never"
        )
    return seconds


def priority(value: object) -> int:
    """Return a priority as a number."""
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    number = digits(value)
    if isinstance(number, int) and not isinstance(number, bool) and abs(number) <= PRIORITY_LIMIT:
        return number
    near = nearest(value, PRIORITIES) if isinstance(value, str) and not isinstance(value, Expanded) else None
    options = ", ".join(f"{name} ({n})" for name, n in PRIORITIES.items())
    hint = (
        f"did you mean {near}?"
        if near
        else f"write one of {options}, or a whole number up to {PRIORITY_LIMIT:,}"
    )
    raise refuse("priority", f"{shown(value)} is not a priority", hint)


def digits(value: object) -> object:
    """Read digits that came from the environment as the number they are; leave everything else for the checks."""
    if isinstance(value, Expanded) and re.fullmatch(r"0|-?[1-9][0-9]{0,18}", value):
        return int(value)
    return value


def choice(options: type[StrEnum]) -> Callable[[object], StrEnum]:
    """Return what reads one of the options, and names the nearest where it is none."""
    names = [str(o.value) for o in options]

    def read(value: object) -> StrEnum:
        if isinstance(value, str) and value in names:
            return options(value)
        near = nearest(value, names) if isinstance(value, str) and not isinstance(value, Expanded) else None
        if value is False and "off" in names:
            near = "off"
        hint = f"did you mean {near}?" if near else f"write one of {', '.join(names)}"
        raise refuse("choice", f"{shown(value)} is not one of {', '.join(names)}", hint)

    return read


def _ports(value: object) -> tuple[int, int]:
    if isinstance(value, str) and re.fullmatch(PORTS_PATTERN, value):
        first, last = (int(part) for part in value.split("-"))
        if first <= last <= 65535:
            return first, last
    raise refuse("ports", f"{shown(value)} is not a range of ports", "write first and last port: 18100-18199")


def listen_address(value: object) -> tuple[str, int] | None:
    """Return host and port of an address to listen on, or None if the text is none."""
    if isinstance(value, str) and re.fullmatch(LISTEN_PATTERN, value):
        host, _, port = value.rpartition(":")
        host = host.strip("[]")
        if int(port) <= 65535 and (":" not in host or _is_address(host)):
            return host, int(port)
    return None


def _listen(value: object) -> tuple[str, int]:
    if (address := listen_address(value)) is None:
        what = f"{shown(value)} is not an address to listen on"
        raise refuse("listen", what, "write 127.0.0.1:8080 or [::1]:8080")
    return address


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a listener on `host`."""
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def matching(
    pattern: str, code: str, message: str, hint: str, secret: bool = False
) -> Callable[[object], str]:
    """Return what reads a text of this pattern; `secret` = a message never repeats it."""

    def read(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value):
            return str(value)
        raise refuse(code, message if secret else f"{shown(value)} {message}", hint)

    return read


def schema(**parts: Any) -> WithJsonSchema:
    return WithJsonSchema(parts)


_SIZE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": sizes.SIZE_LIMIT},
        {"type": "string", "pattern": sizes.SIZE_PATTERN},
    ]
}
_DURATION_PARTS: list[dict[str, Any]] = [
    {"type": "number", "minimum": 0},
    {"type": "string", "pattern": sizes.DURATION_PATTERN},
]

Size = Annotated[int, PlainValidator(size), WithJsonSchema(_SIZE_SCHEMA)]
SizeOrAuto = Annotated[
    int | None, PlainValidator(_or_auto(size)), schema(anyOf=[{"const": "auto"}, *_SIZE_SCHEMA["anyOf"]])
]
MemoryOrAuto = Annotated[
    int | None,
    PlainValidator(_or_auto(_positive_size)),
    schema(anyOf=[{"const": "auto"}, *_SIZE_SCHEMA["anyOf"]]),
]
MemoryOrNever = Annotated[
    int | None,
    PlainValidator(lambda value: None if value == "never" else size(value)),
    schema(anyOf=[{"const": "never"}, *_SIZE_SCHEMA["anyOf"]]),
]
Reserve = Annotated[
    float | int,
    PlainValidator(_reserve),
    schema(anyOf=[{"type": "string", "pattern": sizes.PERCENT_PATTERN}, *_SIZE_SCHEMA["anyOf"]]),
]
Share = Annotated[float, PlainValidator(_share), schema(type="string", pattern=sizes.PERCENT_PATTERN)]
Duration = Annotated[float, PlainValidator(_positive_duration), schema(anyOf=_DURATION_PARTS)]
Window = Annotated[float, PlainValidator(_window), schema(anyOf=_DURATION_PARTS)]
DurationOrZero = Annotated[float, PlainValidator(duration), schema(anyOf=_DURATION_PARTS)]
IdleTime = Annotated[
    float | None, PlainValidator(_idle), schema(anyOf=[{"const": "never"}, *_DURATION_PARTS])
]
#: `never` is infinite: the wait has no end of its own.
Patience = Annotated[float, PlainValidator(_patience), schema(anyOf=[{"const": "never"}, *_DURATION_PARTS])]
TimeLimit = Annotated[
    float | None, PlainValidator(_limit), schema(anyOf=[{"const": "never"}, *_DURATION_PARTS])
]
#: The age of a process at which it is replaced.
Age = Annotated[float | None, PlainValidator(_age), schema(anyOf=[{"const": "never"}, *_DURATION_PARTS])]
Priority = Annotated[
    int,
    PlainValidator(priority),
    schema(
        anyOf=[
            {"enum": list(PRIORITIES)},
            {"type": "integer", "minimum": -PRIORITY_LIMIT, "maximum": PRIORITY_LIMIT},
        ]
    ),
]
RoleField = Annotated[Role, PlainValidator(choice(Role)), schema(enum=[r.value for r in Role])]
ResidencyField = Annotated[
    Residency, PlainValidator(choice(Residency)), schema(enum=[r.value for r in Residency])
]
PreemptField = Annotated[
    MayPreempt, PlainValidator(choice(MayPreempt)), schema(enum=[m.value for m in MayPreempt])
]
ModeField = Annotated[LoadMode, PlainValidator(choice(LoadMode)), schema(enum=[m.value for m in LoadMode])]
Ports = Annotated[tuple[int, int], PlainValidator(_ports), schema(type="string", pattern=PORTS_PATTERN)]
Listen = Annotated[tuple[str, int], PlainValidator(_listen), schema(type="string", pattern=LISTEN_PATTERN)]
Count = Annotated[int, Field(ge=1, le=1 << 40), BeforeValidator(digits)]
CountOrZero = Annotated[int, Field(ge=0, le=1 << 40), BeforeValidator(digits)]
Port = Annotated[int, Field(ge=1, le=65535), BeforeValidator(digits)]
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]
EnvName = Annotated[str, Field(pattern=r"^[^=]+$")]
PathText = Annotated[
    str,
    PlainValidator(
        matching(
            PATH_PATTERN,
            "path",
            "is not a path that can be used without a shell",
            "write an absolute path or one relative to this file; ${env:HOME} stands for the home directory",
        )
    ),
    schema(type="string", pattern=PATH_PATTERN),
]
Origin = Annotated[
    str,
    PlainValidator(
        matching(ORIGIN_PATTERN, "origin", "is not an origin", "write it as browsers do: https://example.org")
    ),
    schema(type="string", pattern=ORIGIN_PATTERN),
]
HostName = Annotated[
    str,
    PlainValidator(
        matching(HOST_PATTERN, "host", "is not a host name", "write the name alone, without scheme and port")
    ),
    schema(type="string", pattern=HOST_PATTERN),
]
ApiKey = Annotated[
    str,
    PlainValidator(
        matching(
            KEY_PATTERN,
            "api-key",
            "an API key must be visible ASCII characters without blanks",
            "",
            secret=True,
        )
    ),
    schema(type="string", pattern=KEY_PATTERN),
]
