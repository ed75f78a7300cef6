"""The live stream: status, plan and events as they come, made once for all who look."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

from gateway_rig import VIEWS, Rig, receive_all, receive_until, request, rig, snapshot
from history_samples import NOW, filled
from live_stream import Reader
from reconciler.board import Snapshot
from reconciler.core.types import ModelSpec
from reconciler.gateway import event_stream, live
from reconciler.gateway.stream import STREAMS_MOST
from reconciler.gateway.views import standard_views
from reconciler.manifest.applied import ApiKey, GatewaySettings
from reconciler.render.schemas import SCHEMAS
from reconciler.store import AsyncStore
from reconciler.store.paths import DATABASE
from support import wait_for_async

pytestmark = pytest.mark.anyio
Shown = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PACE_SECONDS", 0.02)
    monkeypatch.setattr(live, "AGES_SECONDS", 30.0)


def ask(query: str = "", *headers: str) -> bytes:
    return request(b"", *headers, method="GET", path=f"/api/v1/stream{query}")


@asynccontextmanager
async def opened(r: Rig, query: str = "", *headers: str, skip: int = 2) -> AsyncIterator[Reader]:
    """Open a stream and read over its first documents."""
    async with await r.raw(ask(query, *headers)) as stream:
        reader = Reader(stream)
        for _ in range(skip):
            await reader.next()
        yield reader


def changed(r: Rig, seq: int) -> Snapshot:
    """Return what the loop shows now with another plan."""
    assert r.board.snapshot is not None
    return replace(r.board.snapshot, plan=replace(r.board.snapshot.plan, generation=seq))


@asynccontextmanager
async def ledger(folder: Path, r: Rig) -> AsyncIterator[AsyncStore]:
    store = await AsyncStore.open(filled(folder / DATABASE))
    r.board.ask = store.ask
    try:
        yield store
    finally:
        await store.close()


async def test_it_begins_with_everything_and_goes_on_with_what_changes() -> None:
    async with rig() as r, opened(r, skip=0) as stream:
        kind, status = await stream.next()
        assert (kind, status["models"]) == ("status", 2)
        assert b"content-type: text/event-stream" in stream.rest
        assert b"cache-control: no-store" in stream.rest
        assert b"retry: 2000" in stream.rest
        assert await stream.next() == ("plan", {"generation": 0, "seq": 1})
        r.publish(changed(r, 7))
        assert await stream.next() == ("plan", {"generation": 7, "seq": 1})
        r.publish(replace(changed(r, 7), applied=snapshot(ModelSpec("chat", "d")).applied))
        kind, status = await stream.next()
        assert (kind, status["models"]) == ("status", 1)


async def test_the_documents_are_those_of_status_and_plan() -> None:
    async with rig(views=standard_views()) as r, opened(r, skip=0) as stream:
        for name in ("status", "plan"):
            kind, seen = await stream.next()
            assert kind == name
            jsonschema.Draft202012Validator(SCHEMAS[name]()).validate(seen)
            alone = (await r.client.get(f"/api/v1/{name}")).json()
            assert {**alone, "memory": 0} == {**seen, "memory": 0}


async def test_ages_alone_are_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r, opened(r) as stream:
        assert r.board.snapshot is not None
        r.publish(replace(r.board.snapshot))  # nothing but ages
        await wait_for_async(lambda: r.board.snapshot is not None, 1, "it")
        r.publish(changed(r, 3))
        assert (await stream.next())[0] == "plan"
        monkeypatch.setattr(live, "AGES_SECONDS", 0.05)
        r.publish(changed(r, 4))  # from now on nobody publishes any more
        kinds = [(await stream.next())[0] for _ in range(6)]
        assert kinds.count("status") == kinds.count("plan") == 3


async def test_a_document_is_made_once_for_all_streams() -> None:
    made: list[float] = []

    def counted(shown: Snapshot, now: float) -> Shown:
        made.append(now)
        return VIEWS.live(shown, now)

    async with rig(views=replace(VIEWS, live=counted)) as r, AsyncExitStack() as stack:
        r.publish(changed(r, 1))
        assert made == []  # nobody looks
        streams = [await stack.enter_async_context(opened(r)) for _ in range(5)]
        before = len(made)
        r.publish(changed(r, 9))
        for stream in streams:
            assert await stream.next() == ("plan", {"generation": 9, "seq": 1})
        assert len(made) == before + 1
        # Any of them may have made it: when it leaves, the others go on.
        for left in (streams.pop(0), streams.pop()):
            await left.stream.aclose()
        r.publish(changed(r, 10))
        for stream in streams:
            assert await stream.next() == ("plan", {"generation": 10, "seq": 1})
        assert len(made) == before + 2


async def test_changes_that_come_fast_are_told_once_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PACE_SECONDS", 0.5)
    async with rig() as r, opened(r) as stream:
        for n in range(2, 60):
            r.publish(changed(r, n))
        assert (await stream.next())[1]["generation"] == 59


async def test_events_come_from_now_on_or_from_where_it_was_cut(tmp_path: Path) -> None:
    async with rig() as r, ledger(tmp_path, r) as store:
        async with opened(r, "?after=5") as stream:
            assert [(await stream.next())[1]["id"] for _ in range(2)] == [6, 7]
            async with opened(r) as other:
                await store.add_event(NOW, "load", "chat", "Demanded", "for a test")
                r.board.noted()
                for reader in (stream, other):
                    kind, event = await reader.next()
                    assert (kind, event["id"], event["message"]) == ("event", 8, "for a test")
        async with opened(r, "?after=0", "Last-Event-ID: 6") as stream:
            assert [(await stream.next())[1]["id"] for _ in range(2)] == [7, 8]
        refused = await r.client.get("/api/v1/stream?after=x")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")


async def test_without_a_ledger_the_rest_is_shown() -> None:
    async with rig() as r, opened(r, "?after=0") as stream:
        r.board.noted()
        r.publish(changed(r, 5))
        assert (await stream.next())[0] == "plan"


async def test_it_ends_with_the_loop_and_the_last_of_all(tmp_path: Path) -> None:
    async with rig() as r, ledger(tmp_path, r) as store, opened(r, "?after=7") as stream:
        await store.add_event(NOW, "evicted", "chat", "Shutdown", "the last")
        r.publish(changed(r, 99))
        r.board.end()
        found, last = await stream.all()
        assert found[-1] == ("end", {})
        assert [data["id"] for kind, data in found if kind == "event"] == [8]
        assert ("plan", {"generation": 99, "seq": 1}) in found
        assert last.endswith(b": over\n\n\r\n0\r\n\r\n")


async def test_it_ends_when_the_keys_are_others() -> None:
    async with rig() as r, opened(r) as stream:
        r.settings(GatewaySettings(api_keys=(ApiKey("sk-new"),)))
        found, last = await stream.all()
        assert found == []
        assert last.endswith(b"0\r\n\r\n")
        assert (await r.client.get("/api/v1/stream")).status_code == 401


async def test_a_quiet_stream_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.05)
    async with rig() as r, await r.raw(ask()) as stream:
        assert b": alive\n\n" in await receive_until(stream, b": alive\n\n")


async def test_streams_are_counted_and_one_that_is_left_makes_room() -> None:
    async with rig() as r, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(opened(r)) for _ in range(STREAMS_MOST)]
        answer = await r.client.get("/api/v1/stream")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_many_connections")
        assert answer.headers["retry-after"] == "5"
        assert (await r.client.head("/api/v1/stream")).headers["content-type"].startswith("text/event-stream")
        await streams.pop().stream.aclose()

        async def let_in() -> bool:
            async with await r.raw(ask()) as again:
                return b"200 OK" in await receive_until(again, b"\r\n\r\n")

        with anyio.fail_after(5):
            while not await let_in():
                pass


async def test_a_client_that_takes_little_is_given_the_newest_and_one_that_takes_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "PACE_SECONDS", 0.0)
    much = "x" * 2_000_000

    def large(shown: Snapshot, _now: float) -> Shown:
        return {"n": shown.plan.generation, "much": much}, {"n": 0}

    async with rig(views=replace(VIEWS, live=large)) as r, await r.raw(ask()) as stream:
        await receive_until(stream, b"retry:")
        for n in range(1, 40):  # it reads nothing meanwhile
            r.publish(changed(r, n))
            await anyio.sleep(0.005)
        reader, seen = Reader(stream), [0]
        while seen[-1] != 39:
            kind, data = await reader.next()
            seen += [data["n"]] if kind == "status" else []
        assert len(seen) < 20
        monkeypatch.setattr(event_stream, "STALL_SECONDS", 0.1)
        n = 100
        with anyio.fail_after(10):
            while r.server.server_state.tasks:
                r.publish(changed(r, n := n + 1))
                await anyio.sleep(0.01)
        assert not (await receive_all(stream)).endswith(b"0\r\n\r\n")


async def test_before_the_first_look_it_is_refused_like_all() -> None:
    async with rig() as r:
        r.board.snapshot = None
        answer = await r.client.get("/api/v1/stream")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "starting")
