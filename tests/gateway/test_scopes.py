"""Which scope each route needs, and what a key without it is told."""

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from gateway_rig import VIEWS, rig
from reconciler.board import Board
from reconciler.gateway.access.scopes import scopes_for
from reconciler.gateway.control import Control
from reconciler.gateway.surface import SURFACE
from reconciler.leases import LeaseBook
from reconciler.manifest.applied import ApiKey, GatewaySettings, Scope

pytestmark = pytest.mark.anyio

INFER, READ, ADMIN = frozenset({Scope.INFER}), frozenset({Scope.READ}), frozenset({Scope.ADMIN})
LISTS, ANY = INFER | READ, frozenset(Scope)

#: Every route that is not of the data API: method, path, the scopes of which one is needed.
CONTROL: list[tuple[str, str, frozenset[Scope]]] = [
    ("GET", "/v1/models", LISTS),
    ("HEAD", "/v1/models", LISTS),
    ("GET", "/models", LISTS),
    ("GET", "/v1/models/org/chat", LISTS),
    ("GET", "/readyz", ANY),
    ("GET", "/metrics", READ),
    ("GET", "/api/v1/status", READ),
    ("HEAD", "/api/v1/status", READ),
    ("GET", "/api/v1/plan", READ),
    ("GET", "/api/v1/world", READ),
    ("GET", "/api/v1/budget", READ),
    ("GET", "/api/v1/openapi.json", READ),
    ("GET", "/api/v1/events", READ),
    ("GET", "/api/v1/requests", READ),
    ("GET", "/api/v1/history", READ),
    ("GET", "/api/v1/models/chat/advice", READ),
    ("GET", "/api/v1/models/chat", READ),
    ("GET", "/api/v1/models/chat/log", ADMIN),
    ("GET", "/api/v1/timeline", READ),
    ("GET", "/api/v1/stream", READ),
    ("GET", "/api/v1/whoami", ANY),
    ("GET", "/api/v1/leases", READ),
    ("POST", "/api/v1/leases", ADMIN),
    ("PUT", "/api/v1/leases/7", ADMIN),
    ("DELETE", "/api/v1/leases/7", ADMIN),
    ("POST", "/api/v1/models/chat/load", ADMIN),
    ("POST", "/api/v1/models/chat/evict", ADMIN),
    ("POST", "/api/v1/models/chat/forget", ADMIN),
    ("POST", "/api/v1/resume", ADMIN),
    ("POST", "/api/v1/stop", ADMIN),
]
OTHER: list[tuple[str, str, frozenset[Scope]]] = [
    ("POST", "/upstream/chat/v1/chat/completions", INFER),
    ("GET", "/upstream/chat/slots", INFER),
    ("DELETE", "/upstream/chat/x", INFER),
    ("POST", "/v1/typo", INFER),
    ("GET", "/v1/typo", ANY),
    ("GET", "/", ANY),
    ("GET", "/nowhere", ANY),
    ("POST", "/nowhere", ADMIN),
    ("PATCH", "/api/v1/status", ADMIN),
    ("GET", "/api/v2/x", READ),
]
DATA = [("POST", path, INFER) for path in sorted(SURFACE)]


@pytest.mark.parametrize(("method", "path", "scopes"), [*CONTROL, *OTHER, *DATA])
def test_what_a_route_needs(method: str, path: str, scopes: frozenset[Scope]) -> None:
    assert scopes_for(method, path) == scopes


def test_no_route_is_missing_here() -> None:
    routes = Control(LeaseBook(lambda: None), Board(), VIEWS, lambda: 0.0).routes()
    listed = {(method, path) for method, path, _ in CONTROL} | {("GET", "/healthz"), ("HEAD", "/healthz")}
    missing = []
    for route in routes:
        assert isinstance(route, Route)
        for method in route.methods or ():
            wanted = "GET" if method == "HEAD" else method
            if not any(m == wanted and route.path_regex.match(path) for m, path in listed):
                missing.append((method, route.path))
    assert missing == []


KEYS = {
    "all": ApiKey("CANARY-all", "all"),
    "infer": ApiKey("CANARY-infer", "infer-key", INFER),
    "read": ApiKey("CANARY-read", "read-key", READ),
    "admin": ApiKey("CANARY-admin", "admin-key", ADMIN),
    "none": ApiKey("CANARY-none", "none-key", frozenset()),
}


async def test_every_route_holds_every_key_to_its_scopes() -> None:
    async with rig() as r:
        r.settings(GatewaySettings(api_keys=tuple(KEYS.values())))
        for method, path, scopes in [*CONTROL, *OTHER, *DATA]:
            for key in KEYS.values():
                if key.scopes & scopes or (scopes == ANY and key.scopes <= ANY):
                    continue  # what it may do is done by other tests; here nothing must get through
                answer = await r.client.request(method, path, headers={"x-api-key": key.key}, json={})
                assert answer.status_code == 403, (method, path, key)
                if method != "HEAD":
                    said = answer.json()["error"]
                    assert said["code"] == "insufficient_scope"
                    wanted = " or ".join(sorted(scopes))
                    assert f"needs the scope {wanted}," in said["message"]
                    assert repr(key.name) in said["message"]
                    assert "CANARY" not in answer.text
        assert r.book.demands() == ()


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("all", {"/v1/models", "/readyz", "/api/v1/status", "/nowhere"}),
        ("infer", {"/v1/models", "/readyz", "/nowhere"}),
        ("read", {"/v1/models", "/readyz", "/api/v1/status", "/nowhere"}),
        ("admin", {"/readyz", "/nowhere"}),
    ],
)
async def test_what_a_key_may_read(key: str, allowed: set[str]) -> None:
    async with rig() as r:
        r.settings(GatewaySettings(api_keys=tuple(KEYS.values())))
        seen: set[str] = set()
        for path in ("/v1/models", "/readyz", "/api/v1/status", "/nowhere"):
            answer = await r.client.get(path, headers={"authorization": f"Bearer {KEYS[key].key}"})
            if answer.status_code in (200, 404):
                seen.add(path)
        assert seen == allowed


async def test_admin_may_do_and_infer_may_ask() -> None:
    async with rig() as r:
        r.settings(GatewaySettings(api_keys=tuple(KEYS.values())))
        headers: dict[str, Any] = {"authorization": f"Bearer {KEYS['admin'].key}"}
        assert (await r.client.post("/api/v1/models/chat/load", headers=headers)).status_code == 202
        assert (await r.client.post("/api/v1/models/chat/evict", headers=headers)).status_code == 202
        headers = {"authorization": f"Bearer {KEYS['infer'].key}"}
        answer = await r.client.post("/v1/chat/completions", headers=headers, json={"model": "nobody"})
        assert answer.json()["error"]["code"] == "model_not_found"


def test_the_users_page_names_every_scope() -> None:
    page = (Path(__file__).parents[2] / "docs" / "manifest.md").read_text("utf-8")
    assert all(re.search(rf"`{scope.value}`", page) for scope in Scope)
