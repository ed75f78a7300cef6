"""Leases from outside the proxy, for batch jobs and queues it does not see: begun, renewed and ended over HTTP."""

import json
from collections.abc import Callable
from typing import Any, Final

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reconciler.awake import move_on_after
from reconciler.board import Board, Snapshot
from reconciler.gateway.access.guard import started
from reconciler.gateway.errors import ApiError
from reconciler.gateway.naming import resolve
from reconciler.gateway.views import check_loadable
from reconciler.leases import MAX_SECONDS, RETRY_AFTER_SECONDS, Hold, LeaseBook, LeaseRefused
from reconciler.manifest.applied import RequestLimits
from reconciler.manifest.sizes import UnitError, parse_duration

#: Bytes of a body at most: it names a model, an owner and a time.
MAX_BODY: Final = 64 << 10
CREATED: Final = 201


class Holds:
    """The endpoints below `/api/v1/leases`."""

    def __init__(self, book: LeaseBook, board: Board, clock: Callable[[], float]) -> None:
        self.book = book
        self.board = board
        self.clock = clock

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/v1/leases", self.all, methods=["GET", "POST"]),
            Route("/api/v1/leases/{id}", self.one, methods=["PUT", "DELETE"]),
        ]

    async def all(self, request: Request) -> Response:
        """List the leases, or begin one."""
        if request.method == "POST":
            return await self._begin(request)
        now = self.clock()
        return JSONResponse({"leases": [document(hold, now) for hold in self.book.holds()]})

    async def one(self, request: Request) -> Response:
        """Renew a lease, or end it."""
        hold_id = request.path_params["id"]
        try:
            if request.method == "DELETE":
                self.book.release(hold_id)
                return Response(status_code=204)
            seconds, now = _seconds(await body_of(request)), self.clock()
            return JSONResponse(document(self.book.renew(hold_id, seconds, now), now))
        except LeaseRefused as refused:
            raise ApiError.refused(refused.refusal) from None

    async def _begin(self, request: Request) -> Response:
        asked = await body_of(request)
        snapshot = started(self.board.snapshot)
        model = resolve(snapshot, _name(asked))
        wait = asked.get("wait", False)
        if not isinstance(wait, bool):
            raise ApiError("invalid_lease", "`wait` is true or false")
        seconds = _seconds(asked)
        check_loadable(snapshot, model)
        try:
            hold = self.book.hold(model, _owner(asked), seconds, self.clock())
        except LeaseRefused as refused:
            raise ApiError.refused(refused.refusal) from None
        if wait and hold.granted is None:
            hold = await self._granted(request, hold, seconds, snapshot)
        return JSONResponse(document(hold, self.clock()), status_code=CREATED)

    async def _granted(self, request: Request, hold: Hold, seconds: float, snapshot: Snapshot) -> Hold:
        """Return the lease once it is in force, its time counted from then; if that fails it is withdrawn."""
        limits = snapshot.applied.limits.get(hold.model, RequestLimits())
        here = False
        try:
            with move_on_after(limits.queue.timeout):
                here = await self._settled(request, hold)
            now = self._now(hold)
            if here and now.granted is not None and not now.ended:
                return self.book.renew(hold.id, seconds, self.clock())
        except BaseException:
            self._withdraw(hold)
            raise
        self._withdraw(hold)
        if now.ended:
            raise ApiError("cannot_load", f"model {hold.model!r} cannot be held: {now.ended}")
        text = f"model {hold.model!r} was not ready within {limits.queue.timeout:g} s"
        raise ApiError("queue_timeout", text, retry_after=RETRY_AFTER_SECONDS)

    async def _settled(self, request: Request, hold: Hold) -> bool:
        """Return True once the lease is in force or over, False if the client leaves before."""
        settled = False

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            while (now := self._now(hold)).granted is None and not now.ended:
                await self.board.published()
            settled = True
            tasks.cancel_scope.cancel()
        return settled

    def _withdraw(self, hold: Hold) -> None:
        """End a lease whose id nobody will learn, unless it has ended."""
        if any(h.id == hold.id and not h.ended for h in self.book.holds()):
            self.book.release(hold.id)

    def _now(self, hold: Hold) -> Hold:
        """Return the lease as it stands; one that is forgotten has ended."""
        return next((h for h in self.book.holds() if h.id == hold.id), hold)


def document(hold: Hold, now: float) -> dict[str, Any]:
    """Return a lease as clients see it; `now` is on the clock of its times."""
    state = "ended" if hold.ended else "waiting" if hold.granted is None else "held"
    made: dict[str, Any] = {"id": hold.id, "model": hold.model, "owner": hold.owner, "state": state}
    if hold.ended:
        return {**made, "ends_in": 0.0, "reason": hold.ended}
    return {**made, "ends_in": round(max(0.0, hold.until - now), 3)}


async def body_of(request: Request, otherwise: bytes = b"") -> dict[str, Any]:
    """Return the JSON object that was sent; `otherwise` stands for an empty body. Raises ApiError."""
    data = b""
    try:
        async for part in request.stream():
            data += part
            if len(data) > MAX_BODY:
                raise ApiError("request_too_large", f"this is asked for in at most {MAX_BODY} bytes")
    except ClientDisconnect:
        raise ApiError("invalid_json", "the body did not arrive whole") from None
    try:
        value = json.loads(data or otherwise)
    except (ValueError, RecursionError) as error:
        raise ApiError("invalid_json", f"the body is not JSON: {error}"[:300]) from None
    if not isinstance(value, dict):
        raise ApiError("invalid_json", "the body is JSON, but not an object")
    return value


def _name(asked: dict[str, Any]) -> str:
    name = asked.get("model")
    if not isinstance(name, str) or not name:
        raise ApiError("invalid_model", "`model` must be the name or an alias of a model")
    return name


def _owner(asked: dict[str, Any]) -> str:
    owner = asked.get("owner")
    if not isinstance(owner, str):
        raise ApiError("invalid_lease", "`owner` must say who holds the model")
    return owner


def _seconds(asked: dict[str, Any]) -> float:
    """Return the time of a lease: `seconds` as a number, or `for` as a duration. Raises ApiError."""
    seconds, duration = asked.get("seconds"), asked.get("for")
    if (seconds is None) == (duration is None):
        raise ApiError("invalid_lease", 'give either `seconds` (a number) or `for` (like "30m")')
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        return float(min(seconds, MAX_SECONDS * 2))  # no integer is too large for that; the book refuses it
    if not isinstance(duration, str):
        raise ApiError("invalid_lease", 'give `seconds` as a number, or `for` as text like "30m"')
    try:
        return parse_duration(duration)
    except UnitError as error:
        raise ApiError("invalid_lease", f"`for`: {error}: {error.hint}") from None
