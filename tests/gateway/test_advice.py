"""`GET /api/v1/models/NAME/advice`: by name and alias, with what explain prints, and for nobody unknown."""

import json
import threading
import time
from dataclasses import replace

import anyio
import anyio.to_thread
import jsonschema
import pytest

from gateway_rig import rig, snapshot
from reconciler.board import Snapshot
from reconciler.core.plan import plan
from reconciler.core.types import Demand, Manifest, ModelSpec
from reconciler.gateway.views import standard_views
from reconciler.manifest.applied import ApiKey, GatewaySettings, Scope
from reconciler.render import schemas
from worlds import MIB, running, world

pytestmark = pytest.mark.anyio

ODD = ModelSpec("team/über:7b", "d", steady=60 * MIB)


def full(**settings: object) -> Snapshot:
    """`chat` holds what `team/über:7b` would need."""
    base = snapshot(ModelSpec("chat", "chat-v1", steady=80 * MIB), ODD, aliases={"odd": ODD.name})
    now = time.monotonic()
    old = running("old", 10, loaded_at=now - 60, last_used=now - 60)
    seen = world(
        running("chat", 80, loaded_at=now - 60, last_used=now - 60),
        old,
        demands=(Demand("chat", active=1),),
    )
    manifest = Manifest(base.applied.manifest.models, memory=100 * MIB, reserve=0)
    applied = replace(base.applied, manifest=manifest, **settings)  # type: ignore[arg-type]
    return replace(base, world=seen, plan=plan(manifest, seen, now), applied=applied)


@pytest.mark.parametrize("name", ["team%2F%C3%BCber:7b", "odd"])
async def test_the_document_of_a_model_that_does_not_fit(name: str) -> None:
    async with rig(views=standard_views()) as r:
        r.publish(full())
        answer = await r.client.get(f"/api/v1/models/{name}/advice")
        document = answer.json()
        jsonschema.validate(json.loads(json.dumps(document)), schemas.advice_schema())
        assert document["model"] == ODD.name
        assert not document["fits"]
        assert document["changes"][0]["kind"] == "wait"
        assert "is drained for one that waits" in document["changes"][0]["text"]


async def test_of_a_model_that_is_left_over_too() -> None:
    async with rig(views=standard_views()) as r:
        r.publish(full())
        document = (await r.client.get("/api/v1/models/old/advice")).json()
        assert document["worth"] is None
        assert document["verdict"]["reason"] == "Removed"


async def test_an_unknown_name_gets_the_near_one() -> None:
    async with rig() as r:
        r.publish(full())
        answer = await r.client.get("/api/v1/models/caht/advice")
        assert answer.status_code == 404
        assert "did you mean 'chat'?" in answer.json()["error"]["message"]


async def test_it_is_read_and_changes_nothing() -> None:
    keys = (ApiKey("reads", scopes=frozenset({Scope.READ})), ApiKey("asks", scopes=frozenset({Scope.INFER})))
    async with rig() as r:
        r.publish(full(gateway=GatewaySettings(api_keys=keys)))
        path = "/api/v1/models/chat/advice"
        for key, status in (("reads", 200), ("asks", 403), ("", 401)):
            answer = await r.client.get(path, headers={"Authorization": f"Bearer {key}"} if key else {})
            assert answer.status_code == status, key
        assert r.book.demands() == ()


async def test_other_answers_do_not_wait_for_it() -> None:
    """Advice is worked out in a thread: the loop that serves everybody goes on meanwhile."""
    began, may_end = threading.Event(), threading.Event()

    def slow(_snapshot: Snapshot, _now: float, model: str) -> dict[str, object]:
        began.set()
        assert may_end.wait(10)
        return {"model": model}

    async with rig(views=replace(standard_views(), advice=slow)) as r, anyio.create_task_group() as tasks:
        r.publish(full())
        tasks.start_soon(r.client.get, "/api/v1/models/chat/advice")
        assert await anyio.to_thread.run_sync(began.wait, 10)
        try:
            assert (await r.client.get("/v1/models")).status_code == 200
        finally:
            may_end.set()
