"""One request's wait for its lease: how urgent it is, and what its client is told meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from reconciler.board import Board
from reconciler.gateway.errors import ApiError
from reconciler.gateway.reply import Reply
from reconciler.gateway.upstream.pool import Headers
from reconciler.gateway.waiting import place_text, state_text
from reconciler.leases import Ticket
from reconciler.manifest.applied import ApiKey
from reconciler.manifest.fields import PRIORITIES

#: Seconds between two comments on a stream that waits.
COMMENT_SECONDS: Final = 5.0
PRIORITY_HEADER: Final = b"x-reconciler-priority"
COMMENTS_HEADER: Final = b"x-reconciler-comments"
_SWITCH: Final = {
    **dict.fromkeys((b"on", b"true", b"1", b"yes"), True),
    **dict.fromkeys((b"off", b"false", b"0", b"no"), False),
}


def priority_of(headers: Headers, key: ApiKey | None, model: int) -> int:
    """Return how urgent a request is: as its key says, else as its model; a client may only ask for less.

    Raises `ApiError` (400) for a header that is neither a number nor one of the manifest's words.
    """
    granted = model if key is None or key.priority is None else key.priority
    asked = dict(headers).get(PRIORITY_HEADER)
    if asked is None:
        return granted
    text = asked.decode("latin-1").strip().lower()
    if text in PRIORITIES:
        return min(granted, PRIORITIES[text])
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(granted, int(text))
    words = ", ".join(PRIORITIES)
    raise ApiError("invalid_header", f"X-Reconciler-Priority is {text[:40]!r}: it takes a number, or {words}")


def asked_comments(headers: Headers) -> bool | None:
    """Return what a client says of comments while it waits; None = nothing.

    Raises `ApiError` (400) for a header that says neither yes nor no.
    """
    asked = dict(headers).get(COMMENTS_HEADER)
    if asked is None:
        return None
    wish = _SWITCH.get(asked.strip().lower())
    if wish is None:
        text = asked.decode("latin-1").strip()[:40]
        raise ApiError(
            "invalid_header",
            f"X-Reconciler-Comments is {text!r}: it takes on or off (true, false, 1, 0, yes, no)",
        )
    return wish


def ticket_text(board: Board, ticket: Ticket, now: float) -> str:
    """Return what a request in the queue waits for: `loading chat, 12 s of about 18 s; 3rd in line`."""
    what = ticket.waits_for
    if what == "load":
        text = state_text(board.snapshot, ticket.model, now) or f"waiting for {ticket.model}"
    elif what == "place":
        text = f"{ticket.model} serves as many requests as it may"
    else:
        text = f"waiting for {what}"
    place = place_text(ticket.place, ticket.waiting)
    return f"{text}; {place}" if place else text


class Comments:
    """Tells the client of a stream what it waits for, at once and then every few seconds, until it waits no more."""

    def __init__(self, reply: Reply, text: Callable[[], str], seconds: float = COMMENT_SECONDS) -> None:
        self._reply = reply
        self._text = text
        self._seconds = seconds
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, extra: Headers) -> None:
        """Begin to tell; `extra` are headers of the answer."""
        self._task = asyncio.get_running_loop().create_task(self._tell(extra))

    async def end(self) -> None:
        """Return when nothing more is told. Never in the middle of a comment, unless cancelled."""
        self._over.set()
        if self._task is not None:
            await self._task

    @property
    def over(self) -> bool:
        """Whether nothing is told any more."""
        return self._task is None or self._task.done()

    def cancel(self) -> None:
        """Stop telling at once: nobody listens any more."""
        if self._task is not None:
            self._task.cancel()

    async def _tell(self, extra: Headers) -> None:
        await self._reply.begin_events(extra)
        while not self._over.is_set():
            await self._reply.comment(self._text())
            await _first(self._over.wait(), self._seconds)


async def _first(waiting: Awaitable[object], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return
