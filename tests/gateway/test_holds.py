"""Leases from outside the proxy over HTTP: begun, waited for, renewed, ended, refused."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from gateway_rig import Rig, rig, snapshot
from reconciler.core.types import Account, Demand, ModelSpec, Outcome, Plan, Reason, Verdict
from reconciler.leases import MAX_SECONDS, QueueLimits, Refusal
from reconciler.manifest.applied import RequestLimits
from support import wait_for_async

pytestmark = pytest.mark.anyio
LEASES = "/api/v1/leases"
CHAT = ModelSpec("chat", "d")
ASKED = {"model": "chat", "owner": "job 7", "seconds": 60}


async def listed(r: Rig) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await r.client.get(LEASES)).json()["leases"]
    return found


def turn(r: Rig) -> None:
    """Be the loop at the end of a turn."""
    assert r.board.snapshot is not None
    r.publish(r.board.snapshot)


async def test_a_lease_is_begun_waits_is_held_renewed_and_ended() -> None:
    async with rig() as r:
        answer = await r.post(ASKED, LEASES)
        made = answer.json()
        assert answer.status_code == 201
        assert {k: made[k] for k in ("model", "owner", "state")} == {
            "model": "chat",
            "owner": "job 7",
            "state": "waiting",
        }
        assert 55 < made["ends_in"] <= 60
        assert r.wakes, "the loop has a model to load"
        [demand] = r.book.demands()
        assert (demand.waiting, demand.held) == (1, 0)
        r.open(9)
        assert r.book.demands() == (Demand("chat", held=1),)
        assert [(x["id"], x["state"]) for x in await listed(r)] == [(made["id"], "held")]
        renewed = await r.client.put(f"{LEASES}/{made['id']}", json={"for": "2h"})
        assert (renewed.status_code, renewed.json()["state"]) == (200, "held")
        assert 7190 < renewed.json()["ends_in"] <= 7200
        ended = await r.client.delete(f"{LEASES}/{made['id']}")
        assert (ended.status_code, ended.content) == (204, b"")
        assert r.book.demands() == ()
        for again in (
            await r.client.delete(f"{LEASES}/{made['id']}"),
            await r.client.put(f"{LEASES}/{made['id']}", json={"seconds": 1}),
        ):
            assert (again.status_code, again.json()["error"]["code"]) == (404, "lease_not_found")


async def test_of_a_model_in_memory_it_is_held_at_once_and_by_any_of_its_names() -> None:
    async with rig() as r:
        r.publish(snapshot(CHAT, aliases={"gpt-4o": "chat"}))
        r.open(9)
        made = (await r.post({"model": "gpt-4o", "owner": "me", "for": "30m", "wait": True}, LEASES)).json()
        assert (made["model"], made["state"]) == ("chat", "held")


async def test_who_waits_is_told_when_it_is_held_with_its_time_from_then() -> None:
    async with rig() as r:
        asking = asyncio.create_task(r.post({**ASKED, "wait": True}, LEASES))
        await wait_for_async(lambda: r.book.demands(), 5, "the lease waits")
        turn(r)
        assert not asking.done()
        r.open(9)
        turn(r)
        answer = await asking
        assert (answer.status_code, answer.json()["state"]) == (201, "held")
        assert len(r.book.holds()) == 1


async def test_a_wait_that_runs_out_withdraws_the_lease() -> None:
    async with rig() as r:
        r.publish(snapshot(CHAT, limits=RequestLimits(queue=QueueLimits(timeout=0.1))))
        began = time.monotonic()
        answer = await r.post({**ASKED, "wait": True}, LEASES)
        assert time.monotonic() - began >= 0.1
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "queue_timeout")
        assert int(answer.headers["retry-after"]) >= 1
        assert r.book.demands() == ()
        assert r.book.holds() == ()


async def test_a_client_that_leaves_withdraws_it_too() -> None:
    async with rig() as r:
        with pytest.raises(httpx.ReadTimeout):
            await r.post({**ASKED, "wait": True}, LEASES, timeout=0.2)
        await r.idle()
        assert r.book.holds() == ()


async def test_a_model_that_cannot_be_loaded_is_told_at_once_and_while_waiting() -> None:
    async with rig() as r:
        asking = asyncio.create_task(r.post({**ASKED, "wait": True}, LEASES))
        await wait_for_async(lambda: r.book.demands(), 5, "the lease waits")
        r.book.refuse("chat", Refusal(507, "never_fits", "400 MiB short"))
        turn(r)
        answer = await asking
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "cannot_load")
        assert "400 MiB short" in answer.json()["error"]["message"]
        assert [(x["state"], x["reason"]) for x in await listed(r)] == [("ended", "400 MiB short")]
        never = Verdict("chat", Outcome.COLD, Reason.NEVER_FITS, 1, "1 MiB short")
        r.publish(snapshot(CHAT, plan=Plan(0, 1, Account(), verdicts=(never,))))
        answer = await r.post(ASKED, LEASES)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "cannot_load")
        assert r.book.demands() == ()


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"model": "chta"}, 404, "model_not_found"),
        ({"model": ""}, 400, "invalid_model"),
        ({"model": 7}, 400, "invalid_model"),
        ({"owner": None}, 400, "invalid_lease"),
        ({"owner": ""}, 400, "invalid_lease"),
        ({"owner": "a\nb"}, 400, "invalid_lease"),
        ({"owner": "x" * 201}, 400, "invalid_lease"),
        ({"seconds": 0}, 400, "invalid_lease"),
        ({"seconds": -5}, 400, "invalid_lease"),
        ({"seconds": True}, 400, "invalid_lease"),
        ({"seconds": "60"}, 400, "invalid_lease"),
        ({"seconds": 10**400}, 400, "invalid_lease"),
        ({"seconds": MAX_SECONDS + 1}, 400, "invalid_lease"),
        ({"seconds": None}, 400, "invalid_lease"),
        ({"for": "30m"}, 400, "invalid_lease"),
        ({"seconds": None, "for": "a while"}, 400, "invalid_lease"),
        ({"seconds": None, "for": 30}, 400, "invalid_lease"),
        ({"wait": "yes"}, 400, "invalid_lease"),
    ],
)
async def test_what_is_refused(change: dict[str, object], status: int, code: str) -> None:
    async with rig() as r:
        answer = await r.post({**ASKED, **change}, LEASES)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert r.book.demands() == ()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"[]", 400, "invalid_json"),
        (b'{"seconds": NaN, "model": "chat", "owner": "x"}', 400, "invalid_lease"),
        (b"[" * 50_000, 400, "invalid_json"),
        (b" " * 70_000, 413, "request_too_large"),
    ],
)
async def test_bodies_that_are_none(body: bytes, status: int, code: str) -> None:
    async with rig() as r:
        answer = await r.client.post(LEASES, content=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("PUT", LEASES, "GET, HEAD, POST"), ("POST", f"{LEASES}/x", "DELETE, PUT")],
)
async def test_methods(method: str, path: str, allow: str) -> None:
    async with rig() as r:
        answer = await r.client.request(method, path, json=ASKED)
        assert (answer.status_code, answer.headers["allow"]) == (405, allow)
