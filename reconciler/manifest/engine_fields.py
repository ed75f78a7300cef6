"""The types of values that say how a model's process runs: devices, CPUs, adapters, what becomes of its state."""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PlainValidator

from reconciler.core.launch import Sleep
from reconciler.manifest import sizes
from reconciler.manifest.fields import (
    choice,
    digits,
    matching,
    refuse,
    schema,
    shown,
    size,
)
from reconciler.manifest.scalars import Expanded

CPUS_PATTERN: Final = r"^[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*$"
ENTRY_PATTERN: Final = r"^[A-Za-z_][\w]*(?:\.[A-Za-z_][\w]*)*:[A-Za-z_][\w]*$"
#: A path on the model's own server, or an address on this machine.
HOOK_PATTERN: Final = r"^(?:/[!-~]*|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?/[!-~]*)$"
_MOST_CPUS: Final = 4096
#: Bytes of the smallest limit on memory, and what stands for no limit on a process.
LEAST_MEMORY: Final = 1 << 20
UNLIMITED: Final = -1
_GPU: Final = re.compile(r"[A-Za-z0-9_:.\-]{1,64}")


def _gpus(value: object) -> tuple[str, ...] | None:
    if value == "auto":
        return None
    if value == "none":
        return ()
    items = value if isinstance(value, list | tuple) else [value]
    found = []
    for item in items:
        number = digits(item)
        text = str(number) if isinstance(number, int) and not isinstance(number, bool) else item
        if not isinstance(text, str) or not _GPU.fullmatch(text) or text.startswith("-"):
            raise refuse("gpus", f"{shown(item)} is no GPU", "write auto, none, or a list of numbers: [0, 1]")
        found.append(text)
    if len(set(found)) < len(found):
        raise refuse("gpus", "a GPU is named twice", "name each once")
    return tuple(found)


def _cpus(value: object) -> tuple[int, ...]:
    if value == "all":
        return ()
    value = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(value, list | tuple):
        value = ",".join(str(item) for item in value)
    if not isinstance(value, str) or not re.fullmatch(CPUS_PATTERN, value):
        raise refuse("cpus", f"{shown(value)} is no set of CPUs", 'write them as "0-7" or "0,2,4"')
    found: set[int] = set()
    for part in value.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first) or int(last or first) >= _MOST_CPUS:
            raise refuse("cpus", f"{part} is no range of CPUs", 'write the smaller number first: "0-7"')
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def _save(value: object) -> bool | str:
    if isinstance(value, bool):
        return value
    return _hook(value)


_hook = matching(
    HOOK_PATTERN,
    "hook",
    "is no address of the model's server",
    "write a path on it (/save), or http://127.0.0.1:PORT/path",
)


def _most_memory(value: object) -> int | None:
    if value == "none":
        return None
    if (most := size(value)) < LEAST_MEMORY:
        raise refuse("size", "no program starts with so little", "write at least 1MiB, or none")
    return most


def _unlimited(value: object) -> int:
    return UNLIMITED if value == "unlimited" else size(value)


def _limit(value: object) -> int | None:
    return None if value == "none" else size(value)


Gpus = Annotated[
    tuple[str, ...] | None,
    PlainValidator(_gpus),
    schema(
        anyOf=[
            {"enum": ["auto", "none"]},
            {"type": "integer", "minimum": 0},
            {"type": "array", "items": {"type": ["integer", "string"]}},
        ]
    ),
]
Cpus = Annotated[
    tuple[int, ...],
    PlainValidator(_cpus),
    schema(
        anyOf=[
            {"const": "all"},
            {"type": "string", "pattern": CPUS_PATTERN},
            {"type": "integer", "minimum": 0},
            {"type": "array", "items": {"type": "integer", "minimum": 0}},
        ]
    ),
]


def _entry(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(ENTRY_PATTERN, value) and ".py:" not in value:
        return str(value)
    # The file is named in place of its module: `bag.py:Bag`, `desk/bag.py:Bag`.
    near = value if isinstance(value, str) and not isinstance(value, Expanded) else ""
    near = near.replace(".py:", ":", 1).removeprefix("./").replace("/", ".")
    hint = f"did you mean {near}?" if re.fullmatch(ENTRY_PATTERN, near) else "write package.module:Class"
    raise refuse("entry", f"{shown(value)} is no class of a module", hint)


Entry = Annotated[
    str,
    PlainValidator(_entry),
    schema(type="string", pattern=ENTRY_PATTERN),
]
Save = Annotated[
    bool | str,
    PlainValidator(_save),
    schema(anyOf=[{"type": "boolean"}, {"type": "string", "pattern": HOOK_PATTERN}]),
]
Hook = Annotated[str, PlainValidator(_hook), schema(type="string", pattern=HOOK_PATTERN)]
_SIZES: Final = (
    {"type": "integer", "minimum": 0, "maximum": sizes.SIZE_LIMIT},
    {"type": "string", "pattern": sizes.SIZE_PATTERN},
)
SizeOrNone = Annotated[int | None, PlainValidator(_limit), schema(anyOf=[{"const": "none"}, *_SIZES])]
SleepField = Annotated[Sleep, PlainValidator(choice(Sleep)), schema(enum=[s.value for s in Sleep])]
MemoryOrNone = Annotated[
    int | None,
    PlainValidator(_most_memory),
    schema(anyOf=[{"const": "none"}, *_SIZES]),
]
SizeOrUnlimited = Annotated[int, PlainValidator(_unlimited), schema(anyOf=[{"const": "unlimited"}, *_SIZES])]
OomScore = Annotated[int, Field(ge=-1000, le=1000), BeforeValidator(digits)]
Nice = Annotated[int, Field(ge=0, le=19)]
Scale = Annotated[float, Field(ge=-100, le=100, strict=False)]
