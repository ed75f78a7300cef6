"""The lease book: who is served by which model right now, who waits, and which models take no new request."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bound of one model's queue: requests waiting at most, and seconds each waits at most."""

    max: int = 64
    timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a ready model is reached."""

    model: str
    #: `http://127.0.0.1:18100`
    base_url: str
    #: Name to put into the `model` field of requests; None = leave the client's.
    upstream_model: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a waiting request is answered with an error now. The gateway turns it into an OpenAI-shaped reply."""

    status: int
    code: str
    message: str
    #: Seconds after which trying again makes sense; None = trying again will not help.
    retry_after: float | None = None
