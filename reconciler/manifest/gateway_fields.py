"""The types of the values that only the gateway reads: keys, scopes, gates, and who answers what."""

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from reconciler.core.launch import Role
from reconciler.manifest.applied import Overflow, Scope, Strategy
from reconciler.manifest.fields import choice, digits, matching, refuse, schema, shown, size
from reconciler.manifest.scalars import NOTHING, Expanded

#: Bytes: less would refuse ordinary requests, more would hold too much of a machine's memory for one of them.
LEAST_BODY: Final = 1 << 20
MOST_BODY: Final = 2 << 30
MOST_CONNECTIONS: Final = 65_536
KEY_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.@:-]{0,63}$"
GATE_PATTERN: Final = r"^(?!(?:none|auto)$)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
HEADER_PATTERN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"})
VARIABLE_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
#: What a request can ask for by its path.
ASKED_FOR: Final = (
    Role.CHAT,
    Role.COMPLETION,
    Role.EMBEDDING,
    Role.RERANK,
    Role.ASR,
    Role.TTS,
    Role.IMAGE,
)


def _body_size(value: object) -> int:
    bytes_ = size(value)
    if not LEAST_BODY <= bytes_ <= MOST_BODY:
        raise refuse("size", f"{shown(value)} is out of range", "write 1MiB to 2GiB, for example 64MiB")
    return bytes_


def _flag(value: object) -> object:
    """Read `true` or `false` that came from the environment; leave everything else for the checks."""
    if isinstance(value, Expanded) and value in ("true", "false"):
        return value == "true"
    return value


def _auto_count(value: object) -> object:
    number = None if value == "auto" else digits(value)
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    what = f"{shown(value)} is not a number of requests"
    raise refuse("concurrency", what, "write 1 or more, or `auto` for what the engine suggests")


def _gates(value: object) -> tuple[str, ...] | None:
    if value == "auto":
        return None
    if value == "none":
        return ()
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and names and all(isinstance(name, str) and name for name in names):
        return tuple(str(name) for name in names)
    hint = "write `none`, the name of a gate, a list of names, or `auto` for what size and role say"
    raise refuse("gate", f"{shown(value)} is not a gate", hint)


def _asked_role(value: object) -> Role:
    role = choice(Role)(value)
    if role is Role.VISION:
        raise refuse("choice", "no path asks for the role vision", "write `image: true`")
    if role not in ASKED_FOR:
        raise refuse("choice", f"no path asks for the role {role}", f"one of {', '.join(ASKED_FOR)}")
    return Role(role)


def one_or_more(value: object) -> object:
    """Return a list for one text; anything else is left for the checks."""
    return [value] if isinstance(value, str) else value


def or_nothing(value: object) -> object:
    """Return None for a null that means something."""
    return None if value is NOTHING else value


def header_name(value: object) -> str:
    """Return the name of a header in lower case."""
    if isinstance(value, str) and re.fullmatch(HEADER_PATTERN, value):
        if value.lower() in SECRET_HEADERS:
            hint = "rules ask for a header of your own; what a key may do is said at gateway.api_keys"
            raise refuse("header", f"{value} holds a secret, and a manifest goes into git", hint)
        return value.lower()
    raise refuse("header", f"{shown(value)} is not the name of a header", "for example X-Task")


_BYTES: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": LEAST_BODY, "maximum": MOST_BODY},
        {"type": "string", "pattern": r"^\s*[0-9]"},
    ]
}

BodySize = Annotated[int, PlainValidator(_body_size), WithJsonSchema(_BYTES)]
Connections = Annotated[int, Field(ge=1, le=MOST_CONNECTIONS), BeforeValidator(digits)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Concurrency = Annotated[
    int | None,
    PlainValidator(_auto_count),
    schema(anyOf=[{"const": "auto"}, {"type": "integer", "minimum": 1}]),
]
Gates = Annotated[
    tuple[str, ...] | None,
    PlainValidator(_gates),
    schema(
        anyOf=[
            {"type": "string", "minLength": 1},
            {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
        ]
    ),
]
GateName = Annotated[
    str,
    PlainValidator(
        matching(
            GATE_PATTERN,
            "gate",
            "is not the name of a gate",
            "letters, digits, dots, dashes; `none` and `auto` have a meaning of their own",
        )
    ),
    schema(type="string", pattern=GATE_PATTERN),
]
KeyName = Annotated[
    str,
    PlainValidator(
        matching(
            KEY_NAME_PATTERN,
            "api-key",
            "this is not the name of a key",
            "letters, digits and . _ @ : - without blanks, 64 at most",
            secret=True,
        )
    ),
    schema(type="string", pattern=KEY_NAME_PATTERN),
]
Variable = Annotated[
    str,
    PlainValidator(
        matching(
            VARIABLE_PATTERN, "env-name", "is not the name of a variable", "write it without $ and braces"
        )
    ),
    schema(type="string", pattern=VARIABLE_PATTERN),
]
ScopeField = Annotated[Scope, PlainValidator(choice(Scope)), schema(enum=[s.value for s in Scope])]
OverflowField = Annotated[
    Overflow, PlainValidator(choice(Overflow)), schema(enum=[o.value for o in Overflow])
]
StrategyField = Annotated[
    Strategy, PlainValidator(choice(Strategy)), schema(enum=[s.value for s in Strategy])
]
AskedRole = Annotated[Role, PlainValidator(_asked_role), schema(enum=[r.value for r in ASKED_FOR])]
HeaderName = Annotated[str, PlainValidator(header_name), schema(type="string", pattern=HEADER_PATTERN)]
HeaderValue = Annotated[str | None, BeforeValidator(or_nothing)]
