"""The composition root: puts manifest, store, host, gateway and loop together and runs them."""

import json as json_module
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from reconciler import __version__, telemetry
from reconciler.board import Board
from reconciler.gateway.app import Gateway
from reconciler.gateway.server import BindError, GatewayServer, bind, serve
from reconciler.heartbeat import Heartbeat
from reconciler.host import Host, StateLock, StateLocked, StateUnwritable, files, identify
from reconciler.host.ask import run_command
from reconciler.host.owner import owner_of, write_private
from reconciler.leases import LeaseBook
from reconciler.loop.loop import Loop, Options
from reconciler.loop.scarce import scarcity
from reconciler.manifest import Applied, ManifestError, ManifestWatcher, load_manifest
from reconciler.manifest.applied import GatewaySettings, OnExit
from reconciler.manifest.fields import is_loopback, listen_address
from reconciler.memory.machine import open_machine
from reconciler.notify import Notifier
from reconciler.store import AsyncStore, StoreError
from reconciler.store import state_dir as resolve_state_dir
from reconciler.store.paths import DATABASE, RUN_FILE
from reconciler.worker.nap import stay_awake

log = structlog.get_logger("reconciler")


def run(
    path: Path,
    *,
    state_dir: Path | None,
    once: bool,
    listen: str | None,
    json: bool,
    on_exit: OnExit | None = None,
    log_requests: bool = False,
) -> int:
    """Run until stopped (or, with `once`, until converged) and return the exit code.

    `on_exit` says what becomes of the models at the end, in place of the manifest; `log_requests` has a line logged for
    each request that is over.

    Everything that can be wrong before the first model is touched is said on stderr: the manifest, the state
    directory, the address.
    """
    telemetry.configure(json or None)
    notifier = Notifier.take(os.environ)
    try:
        applied = with_listen(load_manifest(path, environ=os.environ), listen)
        directory = resolve_state_dir(state_dir)
        files.take_more()
        if problem := stay_awake("keeps model servers"):
            log.debug("this program may be slowed down", why=problem)
        with StateLock(directory, serves=not once), ExitStack() as stack:
            sock = None if once else stack.enter_context(bind(applied.gateway))
            return anyio.run(
                _main,
                path,
                applied,
                directory,
                sock,
                listen,
                Options(once=once, on_exit=on_exit, log_requests=log_requests),
                notifier,
                backend_options={"use_uvloop": True},
            )
    except (ManifestError, BindError, StateLocked, StateUnwritable, StoreError) as error:
        print(error.render() if isinstance(error, ManifestError) else f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except (OSError, RuntimeError, ExceptionGroup) as error:
        if not (why := scarcity(error)):
            raise
        hint = "raise the limit (ulimit -n, ulimit -u); models that run serve on without a manager until then"
        print(f"error: the system gives too little to run with: {why}: {hint}", file=sys.stderr)  # noqa: T201
        return 1
    finally:
        notifier.close()


async def _main(
    path: Path,
    applied: Applied,
    directory: Path,
    sock: socket.socket | None,
    listen: str | None,
    options: Options,
    notifier: Notifier,
) -> int:
    board = Board()
    heartbeat = Heartbeat(notifier, board)
    host = Host(directory, owner_of(directory))
    store = await AsyncStore.open(directory / DATABASE)
    if store.recovered:
        log.warning("the ledger was damaged, a new one is made", kept_as=store.recovered)
    wake = _Late()
    book = LeaseBook(wake)
    gateway = Gateway(book, board)
    loop = Loop(
        applied,
        host=host,
        machine_probe=open_machine(run_command),
        store=store,
        book=book,
        board=board,
        close_upstream=gateway.close_upstream,
        options=options,
    )
    wake.call = loop.nudge

    def stop(on_exit: OnExit | None = None) -> None:
        loop.request_stop(on_exit)
        heartbeat.stopping(leaves=loop.leaves)

    board.request_stop, board.leaves = stop, lambda: loop.leaves
    board.wake, board.forget, board.resume = loop.wake, loop.forget, loop.resume
    board.ask, board.write_down = store.ask, loop.write_down
    # Until all is closed: a signal that came too late to mean anything must not break that off.
    async with anyio.create_task_group() as listening:
        listening.start_soon(_signals, stop)
        try:
            async with anyio.create_task_group() as tasks:
                if sock is not None:
                    tasks.start_soon(_watch, path, loop, listen, (applied.gateway.host, applied.gateway.port))
                    tasks.start_soon(_serve, gateway, board, applied, sock, directory, heartbeat.serving)
                    tasks.start_soon(heartbeat.run)
                try:
                    await loop.run()
                finally:
                    board.end()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await gateway.aclose()
                await store.close()
                host.close()
                if sock is not None:
                    (directory / RUN_FILE).unlink(missing_ok=True)
        listening.cancel_scope.cancel()
    return 1 if options.once and loop.blocked else 0


class _Late:
    """A callable whose end is connected later: book and loop each need the other."""

    call: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self.call is not None:
            self.call()


async def _signals(stop: Callable[[], None]) -> None:
    """The first signal ends everything in order; a second SIGINT or SIGTERM ends it at once.

    A terminal that is closed (SIGHUP) asks once, though it may say so twice: the kernel does, and the shell.
    """
    asked = False
    heard = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # that is what nohup is for
        heard.append(signal.SIGHUP)
    with anyio.open_signal_receiver(*heard) as received:
        async for number in received:
            log.info("stopping", signal=signal.Signals(number).name)
            if number != signal.SIGHUP or not asked:
                stop()
            asked = True


async def _watch(path: Path, loop: Loop, listen: str | None, bound: tuple[str, int]) -> None:
    def publish(reading: Applied | ManifestError) -> None:
        if isinstance(reading, Applied):
            if listen is not None:
                # Where an edit takes the keys away nothing is lost: who comes over the network is refused then.
                reading = _moved(reading, bound)
            if (reading.gateway.host, reading.gateway.port) != bound:
                log.warning("gateway.listen has changed: it takes effect at the next start", still=bound)
        loop.manifest(reading)

    await ManifestWatcher(path, environ=os.environ).run(publish)


async def _serve(
    gateway: Gateway,
    board: Board,
    applied: Applied,
    sock: socket.socket,
    directory: Path,
    tell: Callable[[], None],
) -> None:
    host, port = sock.getsockname()[:2]
    # Who listens on all addresses is reached from here by the loopback.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def started(_server: GatewayServer) -> None:
        me = identify(os.getpid())
        note = {"pid": os.getpid(), "started": me.started if me else None, "url": url, "version": __version__}
        write_private(directory / RUN_FILE, json_module.dumps(note))
        log.info("serving", address=url, **serving(applied))
        tell()

    def newest() -> GatewaySettings:
        return (board.snapshot.applied if board.snapshot is not None else applied).gateway

    await serve(gateway.app, applied.gateway, sock=sock, started=started, newest=newest)


def serving(applied: Applied) -> dict[str, list[str]]:
    """Return what clients may ask for, for the log: models, and virtual models with those behind them."""
    named = [f"{name} ({', '.join(v.models)})" for name, v in sorted(applied.virtual.items())]
    return {"models": sorted(applied.launches), **({"virtual": named} if named else {})}


def with_listen(applied: Applied, listen: str | None) -> Applied:
    """Return the manifest with the address of the command line in place of its own.

    Raises BindError for one that is written wrongly, and for one that others can reach where no key is asked for.
    """
    if listen is None:
        return applied
    address = listen_address(listen)
    if address is None or not (is_loopback(address[0]) or applied.gateway.api_keys):
        raise BindError(
            f"--listen {listen}: write a loopback address and a port, like 127.0.0.1:8080 or [::1]:8080; any other"
            " address needs gateway.api_keys in the manifest"
        )
    return _moved(applied, address)


def _moved(applied: Applied, address: tuple[str, int]) -> Applied:
    host, port = address
    return replace(applied, gateway=replace(applied.gateway, host=host, port=port))
