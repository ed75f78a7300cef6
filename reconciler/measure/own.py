"""Measuring without a running manager: a loop of our own, on a manifest with nothing but the one model in it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from reconciler.board import Board, Snapshot
from reconciler.core import book as ledger_book
from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Memory
from reconciler.core.types import Manifest, Outcome, Reason, Residency, World
from reconciler.engines import api_key, registry
from reconciler.engines.adapter import Adapter
from reconciler.host import Host, StateLock
from reconciler.host.ask import run_command
from reconciler.host.identity import Process
from reconciler.host.owner import owner_of
from reconciler.leases import LeaseBook
from reconciler.loop.loop import Loop
from reconciler.manifest import Applied
from reconciler.manifest.applied import OnExit
from reconciler.measure.calls import ask_model
from reconciler.measure.watch import Measured, Watch
from reconciler.memory.machine import open_machine
from reconciler.store import AsyncStore
from reconciler.store.paths import DATABASE

_POLL: Final = 0.05
#: Share of the available memory, and bytes at most, by which it may shrink between our look and the loop's.
_MARGIN: Final = 0.1
_MARGIN_MOST: Final = 2**30


class MeasureError(Exception):
    """The model could not be measured; the message says why."""


class InterruptedMeasureError(MeasureError):
    """A signal ended it; everything that was started has ended. `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@dataclass(frozen=True, slots=True)
class Taken:
    """One measurement, and the world as the loop saw it at the end: with the ledger's entry and the estimate."""

    measured: Measured
    world: World
    problems: tuple[str, ...] = ()


#: Told which phase begins: "loading", "watching", "ending"; with what is held so far.
Tell = Callable[[str, int | None], None]


def measure_once(applied: Applied, model: str, directory: Path, seconds: float, tell: Tell) -> Taken:
    """Load `model`, watch it for `seconds` once it is ready, end it, and return what was seen. Blocks.

    Takes the lock of the state directory. What is measured goes into its ledger. Raises MeasureError, StateLocked,
    StateUnwritable, StoreError. Whatever ends it, the process it started is ended too.
    """
    with StateLock(directory):
        return anyio.run(_measure, _alone(applied, model), model, directory, seconds, tell)


def _alone(applied: Applied, model: str) -> Applied:
    """Return the manifest with only this model in it, to be loaded at once.

    One whose size nobody knows may have all there is, but for a little that other programs may take until it is
    admitted: that it becomes known is what this is for.
    """
    spec = next(s for s in applied.manifest.models if s.name == model)
    launch = applied.launches[model]
    found = registry.get(launch.engine).preflight(launch)
    if found.reason is None and ledger_book.size(spec, found, None) is None:
        spec = replace(spec, steady=room_for_unknown(applied.manifest, open_machine(run_command).read(0.0)))
    return replace(
        applied,
        manifest=replace(
            applied.manifest, models=(replace(spec, residency=Residency.PINNED, idle_ttl=None),)
        ),
        launches={model: launch},
        routes={name: target for name, target in applied.routes.items() if target == model},
        limits={model: applied.limits[model]},
    )


def room_for_unknown(manifest: Manifest, memory: Memory) -> int | None:
    """Return the bytes a model of unknown size may take. A budget that is lower than what is there bounds it alone."""
    if memory.available is not None:
        margin = min(int(memory.available * _MARGIN), _MARGIN_MOST)
        memory = replace(memory, available=memory.available - margin)
    return ledger_book.capacity(manifest, memory, ())


async def _measure(applied: Applied, model: str, directory: Path, seconds: float, tell: Tell) -> Taken:
    host = Host(directory, owner_of(directory))
    store = await AsyncStore.open(directory / DATABASE)
    try:
        await _refuse_leftovers(host, store)
        return await _with_loop(applied, model, host, store, seconds, tell)
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()
            host.close()


async def _refuse_leftovers(host: Host, store: AsyncStore) -> None:
    """Raise MeasureError while models of an earlier run are up: a loop without them in its manifest would end them."""
    records = await store.launches()
    left = await anyio.to_thread.run_sync(host.survivors, records)
    if left:
        names = ", ".join(sorted({found.record.model for found in left}))
        raise MeasureError(
            f"models run without a loop: {names}; start `reconcile` and measure then, or end them: reconcile stop"
        )


async def _with_loop(
    applied: Applied, model: str, host: Host, store: AsyncStore, seconds: float, tell: Tell
) -> Taken:
    board = Board()
    loop = Loop(
        applied,
        host=host,
        machine_probe=open_machine(run_command),
        store=store,
        book=LeaseBook(lambda: loop.wake()),
        board=board,
        close_upstream=_nothing_open,
    )
    taken: list[Taken] = []
    caught: list[int] = []
    failure: list[MeasureError] = []

    async def watch(scope: anyio.CancelScope) -> None:
        try:
            with scope:
                taken.append(await _watch(applied, model, board, seconds, tell))
        except MeasureError as error:
            failure.append(error)
        finally:
            tell("ending", None)
            loop.request_stop(OnExit.STOP)

    async def listen(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
            async for number in received:
                caught.append(int(number))
                scope.cancel()
                loop.request_stop(OnExit.STOP)

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen, scope)
        tasks.start_soon(watch, scope)
        await loop.run()
        tasks.cancel_scope.cancel()
    if caught:
        raise InterruptedMeasureError(caught[0])
    if failure:
        raise failure[0]
    return taken[0]


async def _nothing_open(_model: str) -> None:
    """Close no connection: without a gateway there is none."""


async def _watch(applied: Applied, model: str, board: Board, seconds: float, tell: Tell) -> Taken:
    """Wait until the model is ready, use it, go on watching, and return what was seen. Raises MeasureError."""
    tell("loading", None)
    with Watch(open_machine(run_command), lambda: _process(board, model)) as watch:
        port = await _until_ready(board, model)
        watch.steady()
        problems = await _watching(watch, f"http://127.0.0.1:{port}", applied.launches[model], seconds, tell)
        if not _still_ready(board.snapshot, model):
            raise MeasureError(f"{model} ended while it was watched; see: reconcile logs {model}")
    # The loop's last look holds the peak, too; one more makes sure that it is behind us.
    snapshot = await board.fresh()
    assert snapshot is not None, "the loop has published before"
    return Taken(watch.result, snapshot.world, problems)


async def _watching(
    watch: Watch, url: str, launch: LaunchSpec, seconds: float, tell: Tell
) -> tuple[str, ...]:
    deadline = anyio.current_time() + seconds
    engine = registry.get(launch.engine)
    key = await anyio.to_thread.run_sync(engine.api_key, launch)
    own = engine.calls.get(launch.role) if isinstance(engine, Adapter) else None
    headers = {} if key is None else {"Authorization": api_key.bearer(key)}
    name = engine.upstream_model(launch) or launch.model
    ask = partial(ask_model, url, name, launch.role, headers, own)
    problems = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
    while (left := deadline - anyio.current_time()) > 0:
        tell(f"watching, {left:.0f} s left", watch.holds)
        await anyio.sleep(min(1.0, left))
    return problems


async def _until_ready(board: Board, model: str) -> int:
    """Return the port of the model as soon as it is ready. Raises MeasureError if it will not be."""
    while True:
        snapshot = board.snapshot
        if snapshot is not None:
            for instance in snapshot.world.observation.instances:
                if instance.model == model and instance.ready:
                    return instance.port
            if (reason := _refusal(snapshot, model)) is not None:
                raise MeasureError(f"{model} was not loaded: {reason}")
        await anyio.sleep(_POLL)


def _refusal(snapshot: Snapshot, model: str) -> str | None:
    """Return why the loop will not load the model, or None while it may."""
    verdict = snapshot.plan.verdict(model)
    if verdict is None or verdict.outcome is not Outcome.BLOCKED or verdict.reason is Reason.MEMORY_PRESSURE:
        return None
    return f"{verdict.reason}: {verdict.detail}" if verdict.detail else str(verdict.reason)


def _process(board: Board, model: str) -> Process | None:
    snapshot = board.snapshot
    found = snapshot.world.observation.instances if snapshot is not None else ()
    return next((Process(i.pid, i.started) for i in found if i.model == model and not i.broken), None)


def _still_ready(snapshot: Snapshot | None, model: str) -> bool:
    found = snapshot.world.observation.instances if snapshot is not None else ()
    return any(i.model == model and i.ready for i in found)
