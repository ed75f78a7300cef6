"""How a state is put away and brought back. Deadlines and words for people are the caller's.

What the disk does not do is an OSError, what the server does not do an EngineError.
"""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import anyio.to_thread
import httpx

from reconciler.core.launch import LaunchSpec
from reconciler.core.words import size
from reconciler.engines import registry
from reconciler.engines.base import EngineError, Saved, Saver, Server
from reconciler.loop.launches import Launch
from reconciler.loop.states_identity import difference, identify
from reconciler.loop.states_shelf import Kept, Shelf

#: Seconds after which a state is not worth its disk any more.
OLDEST: Final = 30 * 86_400.0
#: Bytes that a saved state has to leave on the disk: others write there, too, our own ledger among them.
LEAST_FREE: Final = 256 << 20

P = ParamSpec("P")
T = TypeVar("T")


class ColdError(Exception):
    """A state is of no use to a process; the message says why. It is dropped."""


class VainError(ColdError):
    """The server says that it restored, and computes everything anew: no state is kept with these settings."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A state that a process has taken over."""

    kept: Kept
    #: Tokens that were used again when it was tried just now; None = it was not tried, or cannot be told.
    reused: int | None


async def thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a worker thread what may block for longer than its caller waits."""
    return await anyio.to_thread.run_sync(lambda: call(*args, **kwargs), abandon_on_cancel=True)


async def put_away(
    shelf: Shelf, launch: Launch, spec: LaunchSpec, saver: Saver, clock: Callable[[], float], wall: float
) -> Kept | None:
    """Have the state written and return it; it counts only once it is on the shelf. None = there is nothing to keep.

    Raises EngineError, OSError, UnknownWeightsError; VainError if it was seen that restoring does not work.
    """
    began = clock()
    identity = await thread(identify, spec, launch.build, launch.created, saver)
    if await thread(shelf.proved, identity.proof) is False:
        raise VainError("it is switched off: with these settings this build computes all anew")
    folder = await thread(_emptied, shelf, launch.model)
    async with _server(launch, spec) as server:
        try:
            saved = await saver.save(server, folder)
        except EngineError as error:
            raise EngineError(f"{error}{await thread(_short_of, folder)}") from error
    if saved is None:
        return None
    if short := await thread(_short_of, folder):
        raise EngineError(f"it would leave too little room{short}")
    files = await thread(shelf.take_in, launch.model, saved.files)
    if not any(file.size for file in files):
        raise EngineError("the files it wrote are empty")
    return Kept(
        model=launch.model,
        engine=identity.engine,
        build=identity.build,
        weights=identity.weights,
        setup=identity.setup,
        tokens=saved.tokens,
        saved_at=wall,
        seconds=clock() - began,
        files=files,
    )


def _short_of(folder: Path) -> str:
    """Return how little is free on the disk, or "" where it is enough."""
    free = shutil.disk_usage(folder).free
    return f" ({size(free)} free on the disk)" if free < LEAST_FREE else ""


def _emptied(shelf: Shelf, model: str) -> Path:
    shelf.empty(model)
    return shelf.files(model)


async def bring_back(
    shelf: Shelf, launch: Launch, spec: LaunchSpec, saver: Saver, wall: float
) -> Restored | None:
    """Have what is kept of a model read by its new process; None = nothing is kept.

    Whether it helps is tried once for each setup. Raises ColdError, EngineError, OSError, UnknownWeightsError.
    """
    kept = await thread(shelf.read, launch.model)
    if kept is None:
        return None
    if wall - kept.saved_at > OLDEST:
        raise ColdError(f"what was saved is older than {OLDEST / 86_400:.0f} days")
    identity = await thread(identify, spec, launch.build, launch.created, saver)
    if why := difference(kept, identity) or await thread(shelf.damage, kept):
        raise ColdError(why)
    works = await thread(shelf.proved, identity.proof)
    if works is False:
        raise VainError("it was seen before that this build computes all anew with these settings")
    folder = await thread(shelf.files, launch.model)
    async with _server(launch, spec) as server:
        await saver.restore(server, folder, Saved(tuple(file.name for file in kept.files), kept.tokens))
        reused = await saver.reused(server) if works is None else None
    if reused is not None:
        await thread(shelf.prove, identity.proof, reused > 0)
        if reused == 0:
            raise VainError("the server says that it restored its state, and computed the same text anew")
    return Restored(kept, reused)


@asynccontextmanager
async def _server(launch: Launch, spec: LaunchSpec) -> AsyncIterator[Server]:
    """Give a server to ask. Its connection is closed at once: an idle one would keep some servers from ending."""
    key = await thread(registry.get(spec.engine).api_key, spec)
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(trust_env=False, verify=False, limits=limits) as client:  # noqa: S501 - loopback
        yield Server(spec, launch.base_url, client, key)
