"""What clients cost that stay, and what those leave behind that go: idle connections, and a soak of disconnects.

The soak asks three models of which two fit, through a real manager; half of its clients leave: while they queue, while
their model loads, before the first byte, in the middle of a stream. Afterwards no lease may be left.
"""

import asyncio
import collections
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from benchmarks.manager import Manager, fake, manifest, running
from benchmarks.report import Figure, progress
from crowd import Caller, call, chat, need_descriptors
from support import get_json, wait_for, wait_for_async

IDLE: Final = 2_000
REQUESTS: Final = 50_000
#: Not counted for memory: the first ones pay for what is made once.
WARM_UP: Final = 5_000
WORKERS: Final = 200
#: The soak ends here, whatever it has done by then.
MOST_SECONDS: Final = 600.0
CLOSED_SECONDS: Final = 10.0
#: Before a client that found the queue full asks for something else.
TURNED_AWAY_SECONDS: Final = 0.1
MIB: Final = 1 << 20
PING: Final = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
#: How often each model is asked; the last one has to push another out each time.
SHARES: Final = {"often": 90, "sometimes": 9, "seldom": 1}
#: When a client leaves; None = it stays.
LEAVES: Final = (None, None, None, None, "at once", "soon", "first byte", "mid-stream")
#: Answers that must not be are all but these, and none at all for who stays.
RIGHT: Final = frozenset({(200, "whole"), (429, "whole")})
GOAL_GROWTH: Final = 8 * MIB


def run() -> Iterator[Figure]:
    """Measure idle connections, then soak."""
    need_descriptors(2 * IDLE + 500)
    options = ("--load", "0.2", "--think", "0.002", "--stream", "10", "--delay", "0.05")
    models = {
        name: {**fake(*options), "memory": {"steady": "800MiB"}, "queue": {"max": 150, "timeout": "60s"}}
        for name in SHARES
    }
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        path = Path(name) / "models.yaml"
        path.write_text(manifest(models), encoding="utf-8")
        with running(path) as manager:
            yield asyncio.run(_idle(manager))
            yield from _soak(manager)


# --- connections that stay ---


async def _idle(manager: Manager) -> Figure:
    process = psutil.Process(manager.pid)
    for caller in await _ping(manager, 100):
        caller.leave()
    before, files = process.memory_info().rss, process.num_fds()
    callers = await _ping(manager, IDLE)
    each = (process.memory_info().rss - before) / IDLE
    for caller in callers:
        caller.leave()
    await wait_for_async(lambda: process.num_fds() <= files, CLOSED_SECONDS, "them to be closed")
    return Figure(
        what=f"memory of an idle connection, of {IDLE:,}",
        measured=f"{each / 1024:.1f} KiB",
        reference=f"without them: {before / MIB:.1f} MiB",
        ratio=(before + each * IDLE) / before,
    )


async def _ping(manager: Manager, count: int) -> list[Caller]:
    callers: list[Caller] = []
    while len(callers) < count:
        step = min(100, count - len(callers))
        callers += await asyncio.gather(*(call(manager.port, PING) for _ in range(step)))
    await asyncio.gather(*(caller.ended for caller in callers))
    if any(caller.status.result() != 200 for caller in callers):
        raise RuntimeError("not every connection was served")
    return callers


# --- clients that leave ---


@dataclass
class _Tally:
    """What came of all requests."""

    left: int = REQUESTS
    began: float = field(default_factory=time.monotonic)
    answers: collections.Counter[tuple[int, str]] = field(default_factory=collections.Counter)
    leavers: collections.Counter[str] = field(default_factory=collections.Counter)
    #: Bytes of the manager once it is warm.
    memory: int = 0
    warm: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def done(self) -> int:
        """How many are over."""
        return self.answers.total() + self.leavers.total()


def _soak(manager: Manager) -> Iterator[Figure]:
    process, tally, seed = psutil.Process(manager.pid), _Tally(), random.randrange(1 << 32)
    progress(f"connections: {REQUESTS:,} requests, seed {seed}")
    files = process.num_fds()
    asyncio.run(_drive(manager, process, tally, random.Random(seed)))
    took = time.monotonic() - tally.began
    wait_for(lambda: _leases(manager) == 0, 60, "all leases to end")
    counts = ", ".join(f"{status} {how}: {count}" for (status, how), count in sorted(tally.answers.items()))
    progress(f"connections: {counts}; left {dict(sorted(tally.leavers.items()))}")
    wrong = sum(count for answer, count in tally.answers.items() if answer not in RIGHT)
    requests = get_json(f"{manager.url}/api/v1/status")["requests"]
    yield Figure(
        what=f"leases left after {tally.done:,} requests, {tally.leavers.total():,} disconnects",
        measured=str(requests["granted"] - requests["ended"]),
        goal="0",
        met=requests["granted"] == requests["ended"] and _leases(manager) == 0,
        reference=f"granted: {requests['granted']:,}, in {took:.0f} s",
        ratio=tally.done / took,
    )
    yield Figure(
        "answers that must not be", str(wrong), f"of {tally.done:,}", wrong / tally.done, "0", not wrong
    )
    grown = process.memory_info().rss - tally.memory
    yield Figure(
        what=f"memory grown over the last {tally.done - WARM_UP:,} of them",
        measured=f"{grown / MIB:.1f} MiB",
        goal=f"<= {GOAL_GROWTH // MIB} MiB",
        met=grown <= GOAL_GROWTH,
        reference=f"after the first {WARM_UP:,}: {tally.memory / MIB:.1f} MiB",
        ratio=(tally.memory + grown) / tally.memory,
    )
    still = process.num_fds()
    yield Figure("descriptors open afterwards", str(still), f"before: {files}", still / files)


def _leases(manager: Manager) -> int:
    """Return how many requests are served or wait."""
    status = get_json(f"{manager.url}/api/v1/status", timeout=10)
    if status is None:
        return -1
    requests = status["requests"]
    waiting = sum(model["waiting"] + model["gated"] for model in status["models"])
    return int(requests["granted"] - requests["ended"] + waiting)


async def _drive(manager: Manager, process: psutil.Process, tally: _Tally, chance: random.Random) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(_worker(manager.port, tally, random.Random(chance.random())))
        await tally.warm.wait()
        tally.memory = process.memory_info().rss
        told = tally.done
        while tally.left > 0:
            await asyncio.sleep(0.5)
            if time.monotonic() - tally.began > MOST_SECONDS:
                tally.left = 0
            if tally.done - told >= 10_000:
                told = tally.done
                progress(f"connections: {told:,} requests, {process.memory_info().rss / MIB:.1f} MiB")


async def _worker(port: int, tally: _Tally, chance: random.Random) -> None:
    names, weights = list(SHARES), list(SHARES.values())
    while tally.left > 0:
        tally.left -= 1
        model = chance.choices(names, weights)[0]
        leaves = chance.choice(LEAVES)
        stream = leaves == "mid-stream" or chance.random() < 0.3
        caller = await call(port, chat(model, stream=stream), patience=60)
        await _until(caller, leaves, chance)
        if leaves is not None and not caller.ended.done():
            tally.leavers[leaves if caller.status.done() or leaves == "at once" else "waiting"] += 1
        else:
            await caller.ended
            if caller.status.result() == 429:
                await asyncio.sleep(TURNED_AWAY_SECONDS)
            tally.answers[caller.status.result(), "whole" if caller.clean else "broken"] += 1
        caller.leave()
        if tally.done >= WARM_UP:
            tally.warm.set()


async def _until(caller: Caller, leaves: str | None, chance: random.Random) -> None:
    """Return when the client leaves, or when it has its answer."""
    if leaves is None:
        await caller.ended
    elif leaves == "soon":
        await asyncio.sleep(chance.random() * 0.3)
    elif leaves in ("first byte", "mid-stream"):
        await (caller.middle if leaves == "mid-stream" else caller.status)
