"""Clients of a lease book, each a task that holds its lease until it is told to finish, is cut, or leaves."""

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from reconciler.leases import Endpoint, Lease, LeaseBook, LeaseRefused, QueueLimits, Refusal, Ticket

DEFAULT = QueueLimits(2, 60.0)
_ports = itertools.count(1)


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Wakes:
    """Counts how often the loop was woken."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@dataclass(eq=False)
class Client:
    """One request."""

    book: LeaseBook
    model: str
    priority: int = 500
    owner: str = ""
    quiet: bool = False
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    lease: Lease | None = None
    refusal: Refusal | None = None
    ticket: Ticket | None = None
    task: "asyncio.Task[None] | None" = None

    def start(self) -> "Client":
        self.task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def _run(self) -> None:
        lease = self.book.lease(
            self.model, priority=self.priority, owner=self.owner, quiet=self.quiet, seen=self._seen
        )
        try:
            async with lease as self.lease:
                self.lease.cut.on_set(self.finish.set)
                await self.finish.wait()
        except LeaseRefused as error:
            self.refusal = error.refusal

    def _seen(self, ticket: Ticket) -> None:
        self.ticket = ticket

    def waits(self) -> bool:
        return self.lease is None and self.task is not None and not self.task.done()

    def served(self) -> bool:
        return self.lease is not None and self.task is not None and not self.task.done()

    async def leave(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    async def end(self) -> None:
        assert self.task is not None
        self.finish.set()
        await self.task


def new_book(
    limits: QueueLimits = DEFAULT, models: str = "ab", gates: dict[str, int] | None = None
) -> tuple[LeaseBook, Wakes, Clock]:
    """Return a book that knows the models (a letter each), none of them open."""
    wakes, clock = Wakes(), Clock()
    book = LeaseBook(wakes, clock)
    book.configure(dict.fromkeys(models, limits), gates=gates or {})
    wakes.count = 0
    return book, wakes, clock


def endpoint(model: str) -> Endpoint:
    """Return a new address for the model."""
    return Endpoint(model, f"http://127.0.0.1:{next(_ports)}")


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(6):
        await anyio.lowlevel.checkpoint()
