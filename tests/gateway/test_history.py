"""Events, single requests and histories over HTTP, and events as they come."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

from gateway_rig import Rig, receive_all, receive_until, request, rig, snapshot
from history_samples import EVENTS, NOW, filled
from reconciler.core.types import ModelSpec
from reconciler.gateway import event_stream
from reconciler.gateway.history import STREAMS_MOST
from reconciler.manifest.applied import Virtual
from reconciler.render.history_shapes import EventDocument
from reconciler.render.schemas import SCHEMAS
from reconciler.store import AsyncStore
from reconciler.store.paths import DATABASE
from support import wait_for_async

pytestmark = pytest.mark.anyio
#: The last words of a stream, and the end of its chunks.
ENDED = b": over\n\n\r\n0\r\n\r\n"
STREAM = ("Accept: text/event-stream",)


@asynccontextmanager
async def past(folder: Path, *, full: bool = True) -> AsyncIterator[tuple[Rig, AsyncStore]]:
    """Serve a gateway for chat (also called gpt) and other, with a ledger."""
    path = filled(folder / DATABASE) if full else folder / DATABASE
    store = await AsyncStore.open(path)
    try:
        async with rig() as r:
            r.publish(snapshot(ModelSpec("chat", "d"), ModelSpec("other", "d"), aliases={"gpt": "chat"}))
            r.board.ask = store.ask
            yield r, store
    finally:
        await store.close()


def ids(document: Any) -> list[int]:
    return [event["id"] for event in document["events"]]


def data_of(text: bytes) -> list[Any]:
    """Return the events in a stream's bytes."""
    return [json.loads(line[6:]) for line in text.split(b"\n") if line.startswith(b"data: ")]


PAGES: tuple[tuple[str, list[int], int, bool], ...] = (
    ("", [1, 2, 3, 4, 5, 6, 7], 7, False),
    ("limit=2", [6, 7], 7, False),
    ("after=0&limit=2", [1, 2], 2, True),
    ("after=5", [6, 7], 7, False),
    ("after=7", [], 7, False),
    ("model=gpt", [2, 3], 7, False),
    ("model=coder&kind=loaded", [5], 7, False),
    ("after=0&limit=1&model=coder", [4], 4, True),
    (f"since={NOW - 3465}", [5, 6, 7], 7, False),
    ("kind=nothing", [], 7, False),
    ("model=other", [], 7, False),
)


async def test_events_by_page_model_kind_and_time(tmp_path: Path) -> None:
    valid = jsonschema.Draft202012Validator(SCHEMAS["events"]())
    async with past(tmp_path) as (r, _):
        for query, found, last, more in PAGES:
            document = (await r.client.get(f"/api/v1/events?{query}")).json()
            valid.validate(document)
            assert (ids(document), document["last"], document["more"]) == (found, last, more), query


async def test_an_event_says_what_was_written(tmp_path: Path) -> None:
    async with past(tmp_path) as (r, _):
        [event] = (await r.client.get("/api/v1/events?kind=evict")).json()["events"]
        ago, kind, model, reason, message = EVENTS[1]
        wanted = {
            "id": 2,
            "at": NOW - ago,
            "kind": kind,
            "model": model,
            "reason": reason,
            "message": message,
        }
        assert event == wanted


MISTAKES = (
    ("model=chta", 404, "model_not_found", "did you mean 'chat'"),
    ("model=auto", 404, "model_not_found", "virtual model"),
    ("since=yesterday", 400, "invalid_request", "`since` is a time"),
    ("since=nan", 400, "invalid_request", "`since` is a time"),
    ("since=-1", 400, "invalid_request", "`since` is a time"),
)


async def test_what_makes_no_sense_is_said(tmp_path: Path) -> None:
    async with past(tmp_path) as (r, _):
        made = r.board.snapshot
        assert made is not None
        applied = replace(made.applied, virtual={"auto": Virtual("auto", ())})
        r.publish(replace(made, applied=applied))
        for page in ("events", "requests", "history"):
            for query, status, code, words in MISTAKES:
                answer = await r.client.get(f"/api/v1/{page}?{query}")
                assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), (page, query)
                assert words in answer.json()["error"]["message"], (page, query)


async def test_bad_pages_are_said(tmp_path: Path) -> None:
    async with past(tmp_path) as (r, _):
        for query in ("limit=0", "limit=1001", "limit=x", "limit=9" + "9" * 30, "after=-1", "after=²"):
            answer = await r.client.get(f"/api/v1/events?{query}")
            assert answer.status_code == 400, query
            assert query.split("=")[0] in answer.json()["error"]["message"]


async def test_without_a_ledger_it_says_so(tmp_path: Path) -> None:
    async with rig() as r:
        answer = await r.client.get("/api/v1/events")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "history_unavailable")


async def test_single_requests_come_by_pages(tmp_path: Path) -> None:
    async with past(tmp_path) as (r, _):
        seen: list[Any] = []
        after, more = 0, True
        while more:
            page = (await r.client.get(f"/api/v1/requests?limit=4&after={after}")).json()
            jsonschema.Draft202012Validator(SCHEMAS["requests"]()).validate(page)
            seen += page["requests"]
            after, more = page["last"], page["more"]
        assert [q["model"] for q in seen] == ["chat", "coder", "chat", "chat", "chat", "chat"]
        assert (seen[1]["client"], seen[1]["cold"], seen[1]["prompt_tokens"]) == ("agents", 34.5, 8000)
        assert seen[4]["outcome"] == "refused:queue_full"
        mine = (await r.client.get(f"/api/v1/requests?model=gpt&since={NOW - 7400}")).json()
        assert [q["id"] for q in mine["requests"]] == [5, 6]


async def test_the_history_of_all_models_and_of_one(tmp_path: Path) -> None:
    async with past(tmp_path) as (r, _):
        document = (await r.client.get(f"/api/v1/history?since={NOW - 7 * 86400}")).json()
        jsonschema.Draft202012Validator(SCHEMAS["history"]()).validate(document)
        assert [m["model"] for m in document["models"]] == ["chat", "coder", "embed"]
        assert document["since"] == NOW - 7 * 86400
        one = (await r.client.get(f"/api/v1/history?model=gpt&since={NOW - 7 * 86400}")).json()
        assert one["models"] == document["models"][:1]
        known = (await r.client.get("/api/v1/history?model=other")).json()
        assert known["models"] == []


async def test_a_stream_begins_with_the_newest_and_goes_on(tmp_path: Path) -> None:
    ask = request(b"", *STREAM, method="GET", path="/api/v1/events?limit=2")
    async with past(tmp_path) as (r, store), await r.raw(ask) as stream:
        head = await receive_until(stream, b'"id":7')
        assert b"200 OK" in head
        assert b"content-type: text/event-stream" in head
        assert [e["id"] for e in data_of(head)] == [6, 7]
        for kind in ("load", "loaded"):
            await store.add_event(NOW, kind, "chat", "Demanded", "for a test")
            r.board.noted()
            more = await receive_until(stream, b"\n\n")
            assert [(e["kind"], e["message"]) for e in data_of(more)] == [(kind, "for a test")]
        r.board.end()
        assert (await receive_until(stream, b"0\r\n\r\n")).endswith(ENDED)


@pytest.mark.parametrize("header", [True, False])
async def test_a_stream_is_taken_up_where_it_was_cut(header: bool, tmp_path: Path) -> None:
    async with past(tmp_path) as (r, _):
        r.board.end()
        more = "Last-Event-ID: 3" if header else "X: y"
        path = "/api/v1/events?model=coder&limit=1&after=" + ("0" if header else "3")
        whole = await r.exchange(request(b"", *STREAM, more, "Connection: close", method="GET", path=path))
        assert [e["id"] for e in data_of(whole)] == [4, 5, 7]
        assert whole.endswith(ENDED)


async def test_more_events_than_a_page_reach_a_stream(tmp_path: Path) -> None:
    async with past(tmp_path, full=False) as (r, store):
        for n in range(250):
            await store.add_event(NOW, "load", "chat", "Demanded", str(n))
        r.board.end()
        path = "/api/v1/events?after=0&limit=10"
        whole = await r.exchange(request(b"", *STREAM, "Connection: close", method="GET", path=path))
        assert [e["message"] for e in data_of(whole)] == [str(n) for n in range(250)]


async def test_a_quiet_stream_says_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_SECONDS", 0.05)
    ask = request(b"", *STREAM, method="GET", path="/api/v1/events")
    async with past(tmp_path, full=False) as (r, _), await r.raw(ask) as stream:
        assert b": alive\n\n" in await receive_until(stream, b": alive\n\n")


async def test_streams_are_counted_and_one_that_is_left_makes_room(tmp_path: Path) -> None:
    async with past(tmp_path, full=False) as (r, _):
        ask = request(b"", *STREAM, method="GET", path="/api/v1/events")
        streams = [await r.raw(ask) for _ in range(STREAMS_MOST)]
        for stream in streams:
            await receive_until(stream, b"retry:")
        answer = await r.client.get("/api/v1/events", headers={"accept": "text/event-stream"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_many_connections")
        assert (await r.client.get("/api/v1/events")).status_code == 200
        await streams.pop().aclose()

        async def let_in() -> bool:
            async with await r.raw(ask) as again:
                return b"200 OK" in await receive_until(again, b"\r\n\r\n")

        with anyio.fail_after(5):
            while not await let_in():
                pass
        r.board.end()
        for stream in streams:
            assert (await receive_until(stream, b"0\r\n\r\n")).endswith(ENDED)
            await stream.aclose()


async def test_a_client_that_takes_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "STALL_SECONDS", 0.1)
    pages: list[int] = []
    encoded = event_stream.encoded

    def counted(found: tuple[EventDocument, ...]) -> bytes:
        pages.append(len(found))
        return encoded(found)

    monkeypatch.setattr(event_stream, "encoded", counted)
    async with past(tmp_path, full=False) as (r, store):
        for n in range(1500):
            await store.add_event(NOW, "load", "chat", "Demanded", str(n) + "x" * 20_000)
        ask = request(b"", *STREAM, method="GET", path="/api/v1/events?after=0&limit=1")
        async with await r.raw(ask) as stream:
            await receive_until(stream, b"retry:")
            # It reads no more: what the sockets take is taken, and then the stream is given up.
            await wait_for_async(lambda: not r.server.server_state.tasks, 10, "the stream to be given up")
            cut = await receive_all(stream)
        assert max(pages) <= event_stream.PAGE
        assert sum(pages) < 1500
        assert not cut.endswith(b"0\r\n\r\n")
