"""One lease, and how its holder is told that it ends early."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from reconciler.leases.types import Endpoint


class Cut:
    """Told once, when a lease ends before its holder is done: the holder must stop at once."""

    __slots__ = ("_cut", "_event", "_hooks", "why")

    def __init__(self) -> None:
        self._cut = False
        #: Why, where it is not that the model has to go, in a sentence for the holder; "" = it is that.
        self.why = ""
        #: Made by whoever waits first: most leases end without anybody having waited for their cut.
        self._event: anyio.Event | None = None
        self._hooks: list[Callable[[], None]] | None = None

    def is_set(self) -> bool:
        """Return whether the lease was cut."""
        return self._cut

    async def wait(self) -> None:
        """Return when the lease is cut."""
        if not self._cut:
            self._event = self._event or anyio.Event()
            await self._event.wait()

    def on_set(self, hook: Callable[[], None]) -> None:
        """Call `hook` when the lease is cut; now, if it already is."""
        if self._cut:
            hook()
        elif self._hooks is None:
            self._hooks = [hook]
        else:
            self._hooks.append(hook)

    def set(self, why: str = "") -> None:
        """Cut: wake who waits and run every hook, once. The first reason counts."""
        hooks, self._hooks = self._hooks or (), None
        if not self._cut:
            self._cut, self.why = True, why
        if self._event is not None:
            self._event.set()
        for hook in hooks:
            hook()


class Home(Protocol):
    """What a lease needs of the book it is written in."""

    def hush(self, lease: "Lease") -> None:
        """Give the lease's place to others."""

    def speak(self, lease: "Lease") -> bool:
        """Take a place for the lease again, if there is one."""


class Flow(Protocol):
    """What comes from the model for one lease, as it is while it is looked at."""

    @property
    def received(self) -> int:
        """How often something came. Only a difference between two looks means something."""

    @property
    def owed(self) -> bool:
        """Whether the model is waited for now: it has all it needs to go on, and the holder takes what there is."""


@dataclass(eq=False, slots=True)
class Lease:
    """One request being served. Ends with the block of `LeaseBook.lease`.

    A *quiet* lease lets its holder reach the model and be told of its end, and counts for nothing else.
    """

    id: str
    model: str
    endpoint: Endpoint
    #: When it was granted (or became a normal one again), and seconds it had waited for that (0 = granted at once).
    since: float
    home: Home = field(repr=False)
    waited: float = 0.0
    cut: Cut = field(default_factory=Cut)
    #: Which opening of the model it belongs to.
    run: int = 0
    priority: int = 500
    #: Its holder got no answer: the server failed.
    failed: bool = False
    #: How the server failed, in a few words; "" = it did not, or it is not the server's fault.
    fault: str = ""
    #: What comes from the model; None = nobody can tell (a WebSocket), or nothing was sent to it yet.
    flow: Flow | None = None
    #: Who asked, and of the seconds it had waited those in which the model took no requests.
    owner: str = ""
    cold: float = 0.0
    #: Tokens of the prompt and of the answer, where the holder knows them.
    tokens: tuple[int | None, int | None] | None = None

    def hush(self) -> None:
        """Make it a quiet lease: its place is free for others. Nothing happens if it is one, or has ended."""
        self.home.hush(self)

    def speak(self) -> bool:
        """Make it a normal lease again; return False if there is no place now, or it was cut or has ended."""
        return self.home.speak(self)
