"""The gateway's own answers: model list, health, documents, load, evict, stop, and the paths there are."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gateway_rig import CHAT, request, rig, snapshot
from reconciler.core.machine import Evicting, Loading, State
from reconciler.core.types import (
    Account,
    Demand,
    Evict,
    Load,
    ModelSpec,
    Outcome,
    Plan,
    Reason,
    Residency,
    Verdict,
)
from reconciler.gateway.errors import CODES
from reconciler.gateway.naming import header_form, near, unknown
from reconciler.gateway.views import model_state, standard_views
from reconciler.manifest.applied import ApiKey, GatewaySettings, OnExit, Scope

pytestmark = pytest.mark.anyio

CHAT_SPEC = ModelSpec("chat", "d", residency=Residency.PINNED)
ODD = ModelSpec("team/über:7b", "d", residency=Residency.WARM)
READS = [
    "/v1/models",
    "/v1/models/chat",
    "/healthz",
    "/readyz",
    "/api/v1/status",
    "/api/v1/plan",
    "/api/v1/world",
]


def planned(*verdicts: Verdict) -> Plan:
    return Plan(0, 1, Account(), verdicts=verdicts)


async def test_the_model_list_names_every_id_that_works() -> None:
    async with rig() as r:
        r.publish(snapshot(CHAT_SPEC, ODD, aliases={"gpt-4o": "chat"}, ready=("chat",)))
        listed = (await r.client.get("/v1/models")).json()
        assert listed["object"] == "list"
        assert [m["id"] for m in listed["data"]] == ["chat", "gpt-4o", "team/über:7b"]
        first = listed["data"][1]
        assert first["reconcile"] == {
            "model": "chat",
            "state": "ready",
            "residency": "pinned",
            "role": "chat",
        }
        assert first["capabilities"] == ["chat", "completion"]
        assert (await r.client.get("/models")).json() == listed
        assert (first["object"], first["owned_by"]) == ("model", "reconcile")
        assert abs(first["created"] - time.time()) < 60
        assert listed["data"][2]["reconcile"]["state"] == "cold"
        for entry in listed["data"]:
            assert (await r.client.get(f"/v1/models/{entry['id']}")).json() == entry
        assert (await r.client.get("/v1/models/team%2F%C3%BCber:7b")).json() == listed["data"][2]
        assert r.book.demands() == ()


async def test_an_unknown_id_is_a_404_with_the_near_name() -> None:
    async with rig() as r:
        answer = await r.client.get("/v1/models/chatt")
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "model_not_found"
        assert "did you mean 'chat'?" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("GET", "//v1/models", "/v1/models"),
        ("GET", "/v1/models/", "/v1/models"),
        ("GET", "/models/", "/models"),
        ("POST", "/chat/completions", "/v1/chat/completions"),
        ("POST", "/chat/completions/", "/v1/chat/completions"),
        ("POST", "/embeddings", "/v1/embeddings"),
        ("POST", "/messages", "/v1/messages"),
        ("POST", "/v1/v1/chat/completions", "/v1/chat/completions"),
        ("POST", "/v1/v1/messages", "/v1/messages"),
        ("POST", "/v1/chat/completion", "/v1/chat/completions"),
        ("POST", "//v1/chat/completions", "/v1/chat/completions"),
        ("POST", "/rerank/", "/rerank"),
        ("GET", "/v1/status", "/api/v1/status"),
        ("GET", "/status", "/api/v1/status"),
        ("POST", "/v1/rerank/", "/v1/rerank"),
        ("GET", "/", None),
        ("GET", "/favicon.ico", None),
        ("GET", "/" + "x" * 9000, None),
    ],
)
async def test_an_unknown_path_is_a_404_with_the_near_one(method: str, path: str, meant: str | None) -> None:
    async with rig() as r:
        # Clients have keys for models only, and must not be told that they lack a scope.
        phone = ApiKey("CANARY-phone", "phone", frozenset({Scope.INFER}))
        r.settings(GatewaySettings(api_keys=(phone,)))
        key = "Authorization: Bearer CANARY-phone"
        data = request(b"", "Connection: close", key, path=path, method=method)
        answer = await r.exchange(data)
    assert answer.startswith(b"HTTP/1.1 404 ")
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error.get("code", "not_found") == "not_found"
    said = f"; did you mean {meant}?" if meant else "did you mean"
    assert (said in error["message"]) is (meant is not None)
    assert error["message"].endswith(said) is (meant is not None)
    assert len(error["message"]) < 300


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/running", "/running is llama-swap's: here it is GET /api/v1/status"),
        ("/unload", "/unload is llama-swap's: here it is POST /api/v1/models/NAME/evict"),
        ("/logs/stream", "/logs is llama-swap's: here it is `reconcile logs NAME`"),
        ("/api/chat", "/api/chat is Ollama's: here it is POST /v1/chat/completions"),
        ("/api/v0/models", "/api/v0 is LM Studio's: here it is /v1"),
    ],
)
async def test_who_moved_in_is_told_where_a_path_went(path: str, said: str) -> None:
    async with rig() as r:
        answer = await r.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"there is nothing at {path}; {said}"


async def test_head_is_get_without_a_body_and_reading_changes_nothing() -> None:
    async with rig() as r:
        for path in READS:
            got = await r.client.get(path)
            head = await r.client.head(path)
            assert got.status_code == head.status_code == 200, path
            assert head.content == b""
            assert head.headers["content-type"] == got.headers["content-type"] == "application/json"
            assert abs(int(head.headers["content-length"]) - len(got.content)) < 30  # ages differ in digits
        assert (r.book.demands(), r.wakes) == ((), [])


async def test_the_documents_come_from_the_views() -> None:
    async with rig() as r:
        assert (await r.client.get("/api/v1/status")).json() == {"seen": "status", "models": 2}
        assert (await r.client.get("/api/v1/plan")).json() == {"seen": "plan", "generation": 0}
        assert 0 <= (await r.client.get("/api/v1/world")).json()["age"] < 10


def test_the_standard_views_show_a_snapshot() -> None:
    views, made = standard_views(), snapshot(CHAT_SPEC, ready=("chat",))
    assert [m["name"] for m in views.status(made, made.at)["models"]] == ["chat"]
    assert views.plan(made, made.at)["formatVersion"] == 1
    assert views.world(made, made.at)["world"]["observation"]["instances"][0]["model"] == "chat"


async def test_healthz_tells_a_loop_that_turns_from_one_that_does_not() -> None:
    async with rig() as r:
        assert (await r.client.get("/healthz")).json()["status"] == "ok"
        r.publish(snapshot(CHAT_SPEC, at=time.monotonic() - 31))
        answer = await r.client.get("/healthz")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")


async def test_readyz_waits_for_every_pinned_model() -> None:
    async with rig() as r:
        r.publish(snapshot(CHAT_SPEC, ODD))
        answer = await r.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "not ready yet: chat"
        r.publish(snapshot(CHAT_SPEC, ODD, ready=("chat",)))
        answer = await r.client.get("/readyz")
        assert (answer.status_code, answer.json()["pinned"]) == (200, ["chat"])


async def test_load_records_the_wish_and_shows_the_verdict() -> None:
    async with rig() as r:
        verdict = Verdict("team/über:7b", Outcome.BLOCKED, Reason.INSUFFICIENT_MEMORY, 1, "7 GiB short", 3.0)
        r.publish(snapshot(CHAT_SPEC, ODD, plan=planned(verdict), aliases={"u": "team/über:7b"}))
        for name in ("team/über:7b", "team%2F%C3%BCber:7b", "u"):
            answer = await r.client.post(f"/api/v1/models/{name}/load")
            assert answer.status_code == 202
            assert answer.json() == {
                "model": "team/über:7b",
                "requested": "load",
                "verdict": {
                    "outcome": "blocked",
                    "reason": "InsufficientMemory",
                    "detail": "7 GiB short",
                    "retry_in": 3.0,
                },
            }
        [demand] = r.book.demands()
        assert demand == Demand("team/über:7b", wanted=True, wished=demand.wished)
        assert demand.wished is not None
        assert r.wakes


@pytest.mark.parametrize("reason", [Reason.NEVER_FITS, Reason.NOT_STARTABLE])
async def test_load_of_what_cannot_be_loaded_is_a_conflict(reason: Reason) -> None:
    async with rig() as r:
        verdict = Verdict("chat", Outcome.BLOCKED, reason, None, "needs 9 GiB of 8")
        r.publish(snapshot(CHAT_SPEC, plan=planned(verdict)))
        answer = await r.client.post("/api/v1/models/chat/load")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "cannot_load")
        assert f"({reason.value}: needs 9 GiB of 8)" in answer.json()["error"]["message"]
        assert r.book.demands() == ()


async def test_evict_records_the_wish_but_not_against_a_pin() -> None:
    async with rig() as r:
        r.publish(snapshot(CHAT_SPEC, ODD))
        assert (await r.client.post("/api/v1/models/team/über:7b/evict")).status_code == 202
        assert r.book.demands() == (Demand("team/über:7b", dismissed=True),)
        answer = await r.client.post("/api/v1/models/chat/evict")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "model_pinned")
        assert "set its residency" in answer.json()["error"]["message"]
        assert [d.model for d in r.book.demands()] == ["team/über:7b"]


@pytest.mark.parametrize("verb", ["load", "evict"])
async def test_load_and_evict_of_an_unknown_model_are_404(verb: str) -> None:
    async with rig() as r:
        answer = await r.client.post(f"/api/v1/models/..%2F..%2Fetc/{verb}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert r.book.demands() == ()


async def test_forgetting_is_passed_to_the_owner() -> None:
    async with rig() as r:
        asked: list[str] = []
        r.board.forget = asked.append
        answer = await r.client.post("/api/v1/models/chat/forget")
        assert (answer.status_code, answer.json()["requested"]) == (202, "forget")
        assert (await r.client.post("/api/v1/models/nobody/forget")).status_code == 404
        assert asked == ["chat"]


async def test_stop_asks_the_owner() -> None:
    async with rig() as r:
        stopped: list[OnExit | None] = []
        r.board.request_stop = stopped.append
        answer = await r.client.post("/api/v1/stop")
        assert answer.status_code == 202
        assert answer.json() == {
            "requested": "stop",
            "within": 30.0,
            "models": "stop",
            "requests": [],
            "leases": [],
        }
        assert stopped == [None]


async def test_stop_says_what_becomes_of_the_models_and_takes_no_other_word() -> None:
    async with rig() as r:
        stopped: list[OnExit | None] = []
        r.board.request_stop, r.board.leaves = stopped.append, lambda: True
        answer = await r.client.post("/api/v1/stop", json={"models": "leave"})
        assert (answer.status_code, answer.json()["models"]) == (202, "leave")
        for wrong, code in (({"models": "go"}, "invalid_request"), ([], "invalid_json")):
            refused = await r.client.post("/api/v1/stop", json=wrong)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)
        assert stopped == [OnExit.LEAVE]


async def test_stop_says_whom_it_waits_for_and_whose_leases_end() -> None:
    async with rig() as r:
        r.open(1)
        now = time.monotonic()
        over = r.book.hold("chat", "early", 60, now)
        r.book.hold("chat", "batch 7", 60, now)
        r.book.hold("other", "me", 60, now)
        r.book.cut("nobody")
        r.book.release(over.id)
        async with r.book.lease("chat"):
            said = (await r.client.post("/api/v1/stop")).json()
    assert said["requests"] == [{"model": "chat", "active": 1}]
    assert said["leases"] == [{"model": "chat", "owner": "batch 7"}, {"model": "other", "owner": "me"}]


PATHS: list[tuple[str, str, int, str | None]] = [
    ("GET", CHAT, 405, "POST"),
    ("HEAD", CHAT, 405, "POST"),
    ("DELETE", "/v1/models", 405, "GET, HEAD"),
    ("POST", "/v1/models", 405, "GET, HEAD"),
    ("GET", "/api/v1/models/chat/load", 405, "POST"),
    ("GET", "/api/v1/stop", 405, "POST"),
    ("OPTIONS", CHAT, 405, "POST"),
    ("GET", "/", 404, None),
    ("GET", "/v1/models/", 404, None),
    ("POST", "/v1/chat/completions/", 404, None),
    ("GET", "/%2e%2e/etc/passwd", 404, None),
]


async def test_unknown_paths_and_methods() -> None:
    async with rig() as r:
        for method, path, status, allow in PATHS:
            answer = await r.client.request(method, path)
            assert answer.status_code == status, (method, path)
            assert answer.headers.get("allow") == allow
            if method != "HEAD":
                assert answer.json()["error"]["code"] in (
                    "method_not_allowed",
                    "not_found",
                    "model_not_found",
                )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (Loading(Load("chat", "d", 1, Reason.DEMANDED), 0, 1), "loading"),
        (Evicting(Evict("chat", 1, 1, 1, Reason.MAKE_ROOM), 0, 1), "evicting"),
    ],
)
def test_the_action_in_flight_is_seen_in_the_state(state: State, expected: str) -> None:
    assert model_state(replace(snapshot(CHAT_SPEC), state=state), "chat") == expected


@pytest.mark.parametrize(
    ("reason", "expected"), [(Reason.BACKING_OFF, "failing"), (Reason.NEVER_FITS, "blocked")]
)
def test_a_blocked_model_says_so(reason: Reason, expected: str) -> None:
    made = snapshot(CHAT_SPEC, plan=planned(Verdict("chat", Outcome.BLOCKED, reason)))
    assert model_state(made, "chat") == expected


def test_near_names_and_long_lists() -> None:
    ids = [f"model-{n:04d}" for n in range(3000)]
    assert near("MODEL-0007", ids) == "model-0007"
    assert near("model-0007:latest", ids) == "model-0007"
    assert near("zzz", ["chat"]) is None
    text = unknown("x" * 5000, ids).message
    assert "and 2980 more" in text
    assert len(text) < 600


def test_names_are_safe_in_headers() -> None:
    assert header_form("team/chat:7b") == b"team/chat:7b"
    assert header_form("ü\r\nx: y%") == b"%C3%BC%0D%0Ax:%20y%25"


def test_the_page_about_the_gateway_lists_every_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
    rows = page.partition("| Code |")[2].partition("\n\n")[0].splitlines()[2:]
    assert rows == [f"| `{name}` | {c.status} | `{c.type}` | {c.when} |" for name, c in CODES.items()]
