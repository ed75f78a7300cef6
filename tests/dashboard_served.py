"""A real gateway, in a thread, before a desk that is only made up: for what a page shows of many or odd models."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from anyio.from_thread import BlockingPortal, start_blocking_portal

from reconciler.board import Board, Snapshot
from reconciler.core.pressure import Level
from reconciler.gateway.app import create_app
from reconciler.gateway.server import GatewayServer, bind, serve
from reconciler.gateway.upstream.pool import UpstreamPool
from reconciler.gateway.views import standard_views
from reconciler.leases import LeaseBook
from reconciler.manifest.applied import GatewaySettings
from reconciler.samples import Sample
from reconciler.store import AsyncStore, EvictionRecord, LoadRecord
from reconciler.store.paths import DATABASE
from support import wait_for

GIB = 1 << 30

#: Seconds ago, model, reason, seconds it took, what became of it.
LOADS = (
    (3300, "bge-embed", "Pinned", 2.1, "ready"),
    (3290, "bge-rerank", "Pinned", 2.2, "ready"),
    (3280, "qwen3-72b", "Warm", 22.0, "ready"),
    (2700, "coder-32b", "Demanded", 12.4, "ready"),
    (1900, "flux", "Demanded", 13.0, "ready"),
    (1500, "mistral-old", "Requested", 1.2, "failed"),
    (1100, "coder-32b", "Demanded", 11.9, "ready"),
    (620, "quick-14b", "Demanded", 6.5, "ready"),
)
#: Seconds ago, model, reason, for whom, seconds until it was wanted again.
EVICTIONS = (
    (1930, "coder-32b", "MakeRoom", "flux", 40.0),
    (1130, "flux", "MakeRoom", "coder-32b", None),
    (640, "coder-32b", "IdleExpired", "", None),
    (300, "whisper", "TransientDone", "", 45.0),
)
#: Seconds ago, GiB held and reserved, share of the machine in use, how short memory was.
SAMPLES = (
    (3310, 0.0, 1.4, 0.24, Level.CALM),
    (3290, 1.4, 1.4, 0.25, Level.CALM),
    (3280, 2.8, 43.6, 0.27, Level.CALM),
    (3258, 46.0, 0.0, 0.61, Level.CALM),
    (2700, 46.0, 24.5, 0.63, Level.CALM),
    (2688, 70.5, 0.0, 0.77, Level.SOFT),
    (2400, 70.5, 0.0, 0.74, Level.CALM),
    (1930, 46.0, 0.0, 0.59, Level.CALM),
    (1900, 46.0, 22.7, 0.61, Level.CALM),
    (1887, 68.7, 0.0, 0.81, Level.SOFT),
    (1300, 68.7, 0.0, 0.88, Level.HARD),
    (1130, 46.0, 0.0, 0.62, Level.CALM),
    (1100, 46.0, 24.5, 0.63, Level.CALM),
    (1088, 70.5, 0.0, 0.76, Level.SOFT),
    (640, 46.0, 0.0, 0.58, Level.CALM),
    (620, 46.0, 11.2, 0.60, Level.CALM),
    (613, 57.2, 0.0, 0.69, Level.CALM),
)


@dataclass
class Served:
    """The gateway, and what its loop would do."""

    port: int
    board: Board
    portal: BlockingPortal
    store: AsyncStore

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def publish(self, made: Snapshot, settings: GatewaySettings | None = None) -> None:
        """Be the loop at the end of a pass."""
        if settings is not None:
            made = replace(made, applied=replace(made.applied, gateway=settings))
        self.portal.call(self.board.publish, made)

    def event(self, kind: str, model: str | None, reason: str, message: str) -> None:
        """Have something happen."""
        self.portal.call(self.store.add_event, time.time(), kind, model, reason, message)
        self.portal.call(self.board.noted)


@contextmanager
def served(root: Path, desk: Callable[[float], Snapshot], *, history: bool = True) -> Iterator[Served]:
    """Serve a desk with a ledger of its own below `root`."""
    book, board = LeaseBook(lambda: None), Board()
    app = create_app(book, board, views=standard_views(), pool=UpstreamPool())
    sock = bind(GatewaySettings(port=0))
    servers: list[GatewayServer] = []

    async def run() -> None:
        await serve(app, GatewaySettings(), sock=sock, started=servers.append)

    with start_blocking_portal() as portal:
        store = portal.call(AsyncStore.open, root / DATABASE)
        board.ask = store.ask
        if history:
            portal.call(_fill, store)
            _fill_samples(board)
        task = portal.start_task_soon(run)
        wait_for(lambda: bool(servers), 10, "a gateway that serves")
        made = Served(sock.getsockname()[1], board, portal, store)
        made.publish(desk(time.monotonic()))
        try:
            yield made
        finally:
            portal.call(board.end)
            portal.call(servers[0].stop)
            task.result(10)
            portal.call(store.close)


async def _fill(store: AsyncStore) -> None:
    now = time.time()
    events: list[tuple[float, str, str, str, str]] = []
    for ago, model, reason, seconds, outcome in LOADS:
        error = "exit 1: tensor data out of bounds" if outcome == "failed" else ""
        await store.add_load(
            LoadRecord(0, now - ago, model, "d1", reason, seconds, None, outcome, 1, "load", error)
        )
        kind = "loaded" if outcome == "ready" else "load-failed"
        events.append((now - ago, "load", model, reason, "1 request waiting, oldest 0.1s"))
        events.append((now - ago + seconds, kind, model, reason, error or f"in {seconds} s"))
    for ago, model, reason, whom, again in EVICTIONS:
        held, there = 9 << 30, (0.7, "calm", 1.4, 800.0, 60.0)
        await store.add_eviction(
            EvictionRecord(0, now - ago, model, reason, whom, held, *there, again, "gone")
        )
        events.append((now - ago, "evict", model, reason, f"for {whom}, idle 60s" if whom else "idle 60s"))
    for event in sorted(events):
        await store.add_event(*event)


def _fill_samples(board: Board) -> None:
    now, total = time.time(), 128 << 30
    for ago, held, reserved, used, level in SAMPLES:
        amounts = (int(108.8 * GIB), int(held * GIB), int(reserved * GIB), int(total * (1 - used)))
        board.samples.note(Sample(now - ago, *amounts, used, level, relieving=False, models={}), total)
