"""What is said about leases: bounds, admission, addresses, refusals. Values only."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

#: Seconds after which a client that met a full or slow queue may try again.
RETRY_AFTER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bound of one model's queue: requests waiting at most, and seconds each waits at most."""

    max: int = 64
    timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class Admission:
    """What a request needs besides a model that takes requests: one of its places, and all of its gates.

    Raises `ValueError` for a concurrency below one.
    """

    #: Requests at the model at once; None = any number.
    concurrency: int | None = None
    #: Names of the gates the model passes; one that is not configured does not count.
    gates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"a concurrency of {self.concurrency} admits nobody")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a ready model is reached."""

    model: str
    #: `http://127.0.0.1:18100`
    base_url: str
    #: Name to put into the `model` field of requests; None = leave the client's.
    upstream_model: str | None = None
    #: Value of `Authorization` that its server asks for; None = it asks for none. Never shown, nor told to clients.
    authorization: str | None = field(default=None, repr=False)
    #: Set when its process has ended; None = nobody watches it.
    exited: anyio.Event | None = field(default=None, repr=False, compare=False)
    #: Return whether a process of its server is just ending, which shows sooner than `exited`; None = nobody can tell.
    ending: Callable[[], bool] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a waiting request is answered with an error now; the gateway makes it an OpenAI-shaped reply."""

    status: int
    code: str
    message: str
    #: Seconds after which trying again makes sense; None = trying again will not help.
    retry_after: float | None = None


class LeaseRefused(Exception):
    """No lease was granted; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def unknown(model: str) -> Refusal:
    """Nobody knows the model."""
    return Refusal(404, "model_not_found", f"model {model!r} is not in the manifest")


def full(model: str, limits: QueueLimits) -> Refusal:
    """The queue is as long as it may be."""
    text = f"{limits.max} requests already wait for model {model!r}"
    return Refusal(429, "queue_full", text, RETRY_AFTER_SECONDS)


def late(model: str, limits: QueueLimits, waits_for: str) -> Refusal:
    """The request waited as long as it may; `waits_for` as a `Ticket` says it."""
    what = {
        "load": f"model {model!r} was not ready",
        "place": f"model {model!r} had no place for another request",
    }.get(waits_for, f"model {model!r} was not let through {waits_for}")
    return Refusal(503, "queue_timeout", f"{what} within {limits.timeout:g} s", RETRY_AFTER_SECONDS)


def not_loaded(model: str) -> Refusal:
    """Somebody who loads nothing asked for a model that takes no requests now."""
    return Refusal(409, "not_loaded", f"model {model!r} is not in memory, and this request does not load it")
