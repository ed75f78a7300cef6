"""What a process tells of its own launch, so that a record that was lost can be made again from it."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from reconciler.host.adopt import topmost
from reconciler.host.identity import Process, process_table, read_environ
from reconciler.host.tree import Mark, members

#: Set beside the marks. One variable for all of it: a part of a record is none.
ORIGIN_VARIABLE: Final = "RECONCILER_ORIGIN"


@dataclass(frozen=True, slots=True)
class Origin:
    """Of a launch what is known before its process exists. Nothing in it is secret: all its children read it."""

    model: str
    #: Launch digest (`core.launch`): of settings it only tells whether they are the same.
    digest: str
    port: int
    #: Wall-clock seconds at which it was begun; 0 = not known.
    created: float = 0.0
    #: Bytes it was let in at; 0 = not known.
    admitted: int = 0

    def variables(self) -> dict[str, str]:
        """Return it as environment variables, in ASCII whatever the model is called."""
        return {ORIGIN_VARIABLE: json.dumps(asdict(self))}


@dataclass(frozen=True, slots=True)
class Recalled:
    """A launch that no record knows: its process, and what that tells of it."""

    launch_id: str
    process: Process
    origin: Origin


def recall(owner: str, launch_ids: Iterable[str]) -> tuple[Recalled, ...]:
    """Return those launches of `owner` of which the process that was started lives and tells what it is.

    Sorted by launch id. The variables pass to all that a process starts, so only one that leads its session, as all do
    that we start, speaks for the launch: a worker whose server is gone does not. One that leads a session of its own
    does, and has to prove that it serves, like the others. Blocking (reads all environments once a launch).
    """
    table = process_table()
    found = []
    for launch_id in sorted(set(launch_ids)):
        tree = members(None, Mark(owner, launch_id), thorough=True, table=table)
        if not tree:
            continue
        top = topmost(tree, table)
        origin = origin_in(read_environ(top.pid))
        if origin is not None and table[top.pid].session == top.pid:
            found.append(Recalled(launch_id, top, origin))
    return tuple(found)


def origin_in(environ: Iterable[bytes]) -> Origin | None:
    """Return what `NAME=value` strings tell of a launch; None = nothing, or nothing that can be understood."""
    name = f"{ORIGIN_VARIABLE}=".encode()
    text = next((word.removeprefix(name) for word in environ if word.startswith(name)), b"")
    try:
        told = json.loads(text)
    except ValueError:
        return None
    match told:
        case {
            "model": str(model),
            "digest": str(digest),
            "port": int(port),
            "created": int() | float() as created,
            "admitted": int(admitted),
        } if model and 0 < port < 1 << 16:
            return Origin(model, digest, port, float(created), admitted)
    return None
