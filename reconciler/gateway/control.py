"""The gateway's own answers: model list, health, status, plan, and the few things people may ask of the loop."""

import time
from collections.abc import Callable
from typing import Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reconciler.board import STOP_SECONDS, Board, Snapshot
from reconciler.core.machine import Halted
from reconciler.core.types import Residency
from reconciler.gateway import whoami
from reconciler.gateway.access.guard import started
from reconciler.gateway.advice import Advisor
from reconciler.gateway.errors import ApiError
from reconciler.gateway.history import Past
from reconciler.gateway.holds import Holds, body_of
from reconciler.gateway.metrics.endpoint import Metrics
from reconciler.gateway.model_page import ModelPages
from reconciler.gateway.naming import nowhere, resolve, unknown
from reconciler.gateway.openapi.endpoint import openapi
from reconciler.gateway.stream import Streams
from reconciler.gateway.timeline import Timeline
from reconciler.gateway.views import View, Views, check_loadable, model_entry, model_ids, verdict_entry
from reconciler.leases import LeaseBook
from reconciler.manifest.applied import OnExit

#: Seconds since the loop's last pass after which it is taken to be stuck; it looks far more often.
HEALTHY_SECONDS: Final = 30.0
ACCEPTED: Final = 202


class Control:
    """The endpoints. Nothing here waits for anything, and no GET changes anything."""

    def __init__(self, book: LeaseBook, board: Board, views: Views, clock: Callable[[], float]) -> None:
        self.book = book
        self.board = board
        self.views = views
        self.clock = clock
        self.created = int(time.time())

    def routes(self) -> list[Route]:
        """Return the routes; those with a free tail come after the ones they would swallow."""
        return [
            Route("/v1/models", self.models),
            Route("/models", self.models),
            Route("/v1/models/{id:path}", self.model),
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/api/v1/status", self._view(self.views.status)),
            Route("/api/v1/plan", self._view(self.views.plan)),
            Route("/api/v1/world", self._view(self.views.world)),
            Route("/api/v1/budget", self._view(self.views.budget)),
            Route("/api/v1/openapi.json", openapi),
            Route("/api/v1/models/{name:path}/load", self.load, methods=["POST"]),
            Route("/api/v1/models/{name:path}/evict", self.evict, methods=["POST"]),
            Route("/api/v1/models/{name:path}/forget", self.forget, methods=["POST"]),
            Route("/api/v1/resume", self.resume, methods=["POST"]),
            Route("/api/v1/stop", self.stop, methods=["POST"]),
            *Holds(self.book, self.board, self.clock).routes(),
            *Metrics(self.book, self.board, self.clock).routes(),
            *Past(self.board).routes(),
            *Streams(self.board, self.views.live, self.clock).routes(),
            *Timeline(self.board).routes(),
            *whoami.routes(),
            *Advisor(self.board, self.views.advice, self.clock).routes(),
            *ModelPages(self.board, self.clock).routes(),
        ]

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot; raises `ApiError` (503) before the first."""
        return started(self.board.snapshot)

    async def models(self, _request: Request) -> Response:
        """List every id a client may use: names, aliases and virtual models. Loads nothing."""
        snapshot = self.snapshot
        data = [model_entry(snapshot, i, self.created) for i in model_ids(snapshot)]
        return JSONResponse({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        """Show one id."""
        snapshot, model_id = self.snapshot, request.path_params["id"]
        if not model_id:
            raise nowhere(request.url.path, own_paths(request))
        if model_id not in (known := model_ids(snapshot)):
            raise unknown(model_id, known)
        return JSONResponse(model_entry(snapshot, model_id, self.created))

    async def healthz(self, _request: Request) -> Response:
        """Say whether the loop turns."""
        age = max(0.0, self.clock() - self.snapshot.at)
        if age > HEALTHY_SECONDS:
            raise ApiError("not_ready", f"the loop has not turned for {age:.0f} s")
        return JSONResponse({"status": "ok", "age_seconds": round(age, 3)})

    async def readyz(self, _request: Request) -> Response:
        """Say whether every pinned model is ready."""
        snapshot = self.snapshot
        if isinstance(snapshot.state, Halted):
            raise ApiError("not_ready", "reconcile is stopping")
        ready = {i.model for i in snapshot.world.observation.instances if i.ready}
        pinned = [m.name for m in snapshot.applied.manifest.models if m.residency is Residency.PINNED]
        missing = [name for name in pinned if name not in ready]
        if missing:
            raise ApiError("not_ready", f"not ready yet: {', '.join(missing)}", retry_after=1)
        return JSONResponse({"status": "ready", "pinned": pinned})

    async def load(self, request: Request) -> Response:
        """Ask for a model as a request would, without one."""
        snapshot = self.snapshot
        model = resolve(snapshot, request.path_params["name"])
        check_loadable(snapshot, model)
        self.book.want(model)
        return self._accepted(snapshot, model, "load")

    async def evict(self, request: Request) -> Response:
        """Ask for a model to go once its requests are done."""
        snapshot = self.snapshot
        model = resolve(snapshot, request.path_params["name"])
        for spec in snapshot.applied.manifest.models:
            if spec.name == model and spec.residency is Residency.PINNED:
                text = (
                    f"model {model!r} is pinned: set its residency to warm or on_demand, save, and ask again"
                )
                raise ApiError("model_pinned", text)
        self.book.dismiss(model)
        return self._accepted(snapshot, model, "evict")

    async def forget(self, request: Request) -> Response:
        """Have what was measured of a model forgotten."""
        snapshot = self.snapshot
        model = resolve(snapshot, request.path_params["name"])
        self.board.forget(model)
        return self._accepted(snapshot, model, "forget")

    async def resume(self, _request: Request) -> Response:
        """Ask the loop to leave safe mode; say whether it was on."""
        on = any(c.type == "SafeMode" for c in self.snapshot.manifest_conditions)
        self.board.resume()
        return JSONResponse({"requested": "resume", "safe_mode": on}, status_code=ACCEPTED)

    async def stop(self, request: Request) -> Response:
        """Ask the loop to end; say whom it waits for, whose leases end, and what becomes of the models."""
        on_exit = _on_exit(await body_of(request, b"{}"))
        requests = [{"model": d.model, "active": d.active} for d in self.book.demands() if d.active]
        leases = [{"model": h.model, "owner": h.owner} for h in self.book.holds() if not h.ended]
        self.board.request_stop(on_exit)
        models = OnExit.LEAVE if self.board.leaves() else OnExit.STOP
        body = {
            "requested": "stop",
            "within": STOP_SECONDS,
            "models": models.value,
            "requests": requests,
            "leases": leases,
        }
        return JSONResponse(body, status_code=ACCEPTED)

    def _accepted(self, snapshot: Snapshot, model: str, requested: str) -> Response:
        verdict = verdict_entry(snapshot, model)
        body = {"model": model, "requested": requested, "verdict": verdict}
        return JSONResponse(body, status_code=ACCEPTED)

    def _view(self, view: View) -> "Callable[[Request], object]":
        """Return the endpoint of a document, which is made in a worker thread: advice takes its time."""

        async def endpoint(_request: Request) -> Response:
            snapshot = started(await self.board.fresh())
            now = self.clock()
            return JSONResponse(await to_thread.run_sync(view, snapshot, now))

        return endpoint


def _on_exit(asked: dict[str, Any]) -> OnExit | None:
    """Return what is to become of the models; None = nothing is said of that."""
    said = asked.get("models")
    if said is None:
        return None
    if said not in list(OnExit):
        raise ApiError("invalid_request", "`models` is `stop` or `leave`")
    return OnExit(said)


def own_paths(request: Request) -> list[str]:
    """Return the paths of ours that are always the same."""
    return [r.path for r in request.app.routes if isinstance(r, Route) and "{" not in r.path]
