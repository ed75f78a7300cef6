"""How a state is put away and brought back. Deadlines and words for people are the caller's.

What the disk does not do is an OSError, what the server does not do an EngineError.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread
import httpx

from reconciler.core.launch import LaunchSpec
from reconciler.engines import registry
from reconciler.engines.base import EngineError, Saved, Saver, Server, Trial
from reconciler.loop.launches import Launch
from reconciler.loop.states_folder import opened
from reconciler.loop.states_identity import difference, identify
from reconciler.loop.states_record import Kept
from reconciler.loop.states_shelf import Place, Shelf

#: Seconds after which a state is not worth its disk any more.
OLDEST: Final = 30 * 86_400.0
#: Seconds between two looks at how much was written while a state is saved.
WATCH_SECONDS: Final = 0.05

P = ParamSpec("P")
T = TypeVar("T")


class ColdError(Exception):
    """A state is of no use to a process; the message says why. It is dropped."""


class VainError(ColdError):
    """The server says that it restored, and computes everything anew: no state is kept with these settings."""


class ExcessError(Exception):
    """More is written than may be, and the save was cut; whoever writes may go on. The message says how much."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A state that a process has taken over."""

    kept: Kept
    #: What came of trying it just now; None = it was not tried, or cannot be told.
    trial: Trial | None
    #: Why that could not be noted, so that it is tried again the next time; "" = it was.
    unnoted: str = ""


async def thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a worker thread what may block for longer than its caller waits."""
    return await anyio.to_thread.run_sync(lambda: call(*args, **kwargs), abandon_on_cancel=True)


async def put_away(
    shelf: Shelf,
    launch: Launch,
    spec: LaunchSpec,
    saver: Saver,
    most: int,
    clock: Callable[[], float],
    wall: float,
) -> Kept | None:
    """Have the state written and return it; it counts only once it is on the shelf. None = there is nothing to keep.

    It may have at most so many bytes. Raises EngineError, OSError, UnknownWeightsError, UnfitError; ExcessError if it
    has more, VainError if it was seen that restoring does not work.
    """
    began = clock()
    identity = await thread(identify, spec, launch.build, launch.created, saver)
    if await thread(shelf.proved, identity.proof) is False:
        raise VainError("it is switched off: with these settings this build computes all anew")
    await thread(shelf.empty, launch.model)
    place = await thread(shelf.files, launch.model)

    async def ask() -> Saved | None:
        async with _server(launch, spec) as server:
            return await saver.save(server, place.path)

    async with _held(place):
        saved = await _watched(shelf, launch.model, most, ask)
        if saved is None:
            return None
        files = await thread(shelf.take_in, launch.model, saved.files, place)
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


async def _watched(
    shelf: Shelf, model: str, most: int, ask: Callable[[], Awaitable[Saved | None]]
) -> Saved | None:
    """Have it saved while looking at what is written: what is too much is found before a disk is full of it.

    Raises ExcessError, and what `ask` and the disk do.
    """
    excess = await thread(shelf.excess, model, most)
    failure: Exception | None = None
    saved: Saved | None = None
    if excess:
        raise ExcessError(excess)

    async def watch() -> None:
        nonlocal excess, failure
        try:
            while not excess:
                await anyio.sleep(WATCH_SECONDS)
                excess = await thread(shelf.excess, model, most)
        except OSError as error:
            failure = error
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            saved = await ask()
        except Exception as error:  # raised below: a group of tasks would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if excess or (excess := await thread(shelf.excess, model, most)):
        raise ExcessError(excess) from failure
    if failure is not None:
        raise failure
    return saved


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
    if why := difference(kept, identity, saver.other_build) or await thread(shelf.damage, kept):
        raise ColdError(why)
    works = await thread(shelf.proved, identity.proof)
    if works is False:
        raise VainError("it was seen before that this build computes all anew with these settings")
    folder = (await thread(shelf.files, launch.model)).path
    async with _server(launch, spec) as server:
        await saver.restore(server, folder, Saved(tuple(file.name for file in kept.files), kept.tokens))
        trial = await saver.reused(server) if works is None else None
    unnoted = "" if trial is None else await thread(_note, shelf, identity.proof, trial.used > 0)
    if trial is not None and trial.used == 0:
        why = "the server says that it restored its state, and computed the same text anew"
        raise (
            ColdError(f"{why} (not noted, so it will be tried again: {unnoted})")
            if unnoted
            else VainError(why)
        )
    return Restored(kept, trial, unnoted)


def _note(shelf: Shelf, proof: str, works: bool) -> str:
    """Remember whether restoring works; return why that could not be, or "". What was restored is restored."""
    try:
        shelf.prove(proof, works)
    except OSError as error:
        return error.strerror or str(error)
    return ""


@asynccontextmanager
async def _held(place: Place) -> AsyncIterator[None]:
    """Keep a folder open: as long as it is, no other gets its number."""
    with ExitStack() as stack:
        await thread(stack.enter_context, opened(place.path))
        yield


@asynccontextmanager
async def _server(launch: Launch, spec: LaunchSpec) -> AsyncIterator[Server]:
    """Give a server to ask. Its connection is closed at once: an idle one would keep some servers from ending."""
    key = await thread(registry.get(spec.engine).api_key, spec)
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(trust_env=False, verify=False, limits=limits) as client:  # noqa: S501 - loopback
        yield Server(spec, launch.base_url, client, key)
