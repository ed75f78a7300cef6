"""The world of a running loop as JSON, so that a dry run can plan with what the loop sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from reconciler.core.types import World

if TYPE_CHECKING:
    from reconciler.board import Snapshot

#: Version of this exchange; both sides are usually the same program, but a loop may outlive an upgrade.
FORMAT_VERSION: Final = 1


class WireError(Exception):
    """The document is not a world this program can read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class SeenWorld:
    """What a running loop sees, and which manifest it holds."""

    #: The loop's monotonic clock when it looked.
    at: float
    #: Generation and digest of the manifest in force there.
    generation: int
    digest: str
    #: Version of the running program.
    version: str
    world: World


@cache
def _adapter() -> TypeAdapter[SeenWorld]:
    return TypeAdapter(SeenWorld)


def world_to_json(snapshot: "Snapshot") -> dict[str, Any]:
    """Return the snapshot's world as plain data for GET /api/v1/world."""
    seen = SeenWorld(
        at=snapshot.at,
        generation=snapshot.plan.generation,
        digest=snapshot.applied.digest,
        version=snapshot.version,
        world=snapshot.world,
    )
    return {"formatVersion": FORMAT_VERSION, **_adapter().dump_python(seen, mode="json")}


def world_from_json(document: object) -> SeenWorld:
    """Return the world of a document made by `world_to_json`. Raises WireError for anything else."""
    if not isinstance(document, Mapping) or "formatVersion" not in document:
        raise WireError("the answer is not the world of a reconcile loop: is another program on that port?")
    theirs = document["formatVersion"]
    if theirs != FORMAT_VERSION:
        raise WireError(
            f"the running loop speaks format version {theirs!r}, this program {FORMAT_VERSION}: "
            "restart the loop with the same version"
        )
    try:
        return _adapter().validate_python({k: v for k, v in document.items() if k != "formatVersion"})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise WireError(f"the world of the running loop cannot be read: {place}: {first['msg']}") from error
