"""`/upstream/MODEL/path`: byte for byte in both directions, and quiet for whoever only looks."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_rig import receive_all, receive_until, request, rig, scripted, snapshot
from reconciler.core.types import ModelSpec
from reconciler.gateway.errors import ApiError
from reconciler.gateway.naming import split_upstream
from support import wait_for_async

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nX-Odd: 1\r\n\r\nhi"
ROUTES = {"a": "a", "a/b": "b", "team/über:7b": "c"}


@pytest.mark.parametrize(
    ("tail", "name", "rest"),
    [
        (b"a", "a", b"/"),
        (b"a/", "a", b"/"),
        (b"a/x%2Fy//z/", "a", b"/x%2Fy//z/"),
        (b"a/b", "a/b", b"/"),
        (b"a%2Fb/c", "a/b", b"/c"),
        (b"a/bc", "a", b"/bc"),
        (b"%61/x", "a", b"/x"),
        (b"team/%C3%BCber:7b/x", "team/über:7b", b"/x"),
        ("team/über:7b/x".encode(), "team/über:7b", b"/x"),
    ],
)
def test_the_longest_name_wins_and_the_rest_stays_as_it_is(tail: bytes, name: str, rest: bytes) -> None:
    assert split_upstream(tail, ROUTES) == (name, rest)


@given(st.binary(max_size=30))
def test_any_other_tail_is_unknown(tail: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        split_upstream(b"zz" + tail, ROUTES)
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("tail", ["?", "", "?x"])
async def test_a_question_mark_is_kept(tail: str) -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b"", path=f"/upstream/chat/x{tail}", method="GET")):
            assert (await engine.next()).head.startswith(f"GET /x{tail} HTTP/1.1\r\n".encode())
        await r.idle()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "POST", "OPTIONS"])
async def test_every_method_path_and_query_goes_on_byte_for_byte(method: str) -> None:
    path = "/upstream/chat/userdata/a%2Fb.json?x=%2F&y=1+2"
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        body = b"" if method in ("GET", "OPTIONS") else b"\x00\xffno json"
        sent = request(
            body, "X-Odd: 1", "Cookie: CANARY", "Connection: X-Hop", "X-Hop: 1", path=path, method=method
        )
        async with await r.raw(sent) as stream:
            got = await engine.next()
            assert got.head.startswith(f"{method} /userdata/a%2Fb.json?x=%2F&y=1+2 HTTP/1.1\r\n".encode())
            assert (got.body, got.header("x-odd")) == (body, ["1"])
            assert got.header("x-hop") == got.header("cookie") == []
            assert got.header("content-length") == ([str(len(body))] if body else [])
            await got.write(OK)
            answer = await receive_until(stream, b"hi")
            assert b"x-odd: 1\r\n" in answer
            assert b"x-reconciler-model: chat\r\n" in answer
        await r.idle()


async def test_a_body_of_unknown_length_is_passed_on_while_it_comes() -> None:
    async with rig() as r:
        heads: list[bytes] = []
        seen = bytearray()

        async def engine(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                while b"0\r\n\r\n" not in seen:
                    seen.extend(await stream.receive())
                await stream.send(OK)

        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, engine)
            r.open(listener.extra(anyio.abc.SocketAttribute.local_port))
            head = b"POST /upstream/chat/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            async with await r.raw(head + b"3\r\nabc\r\n") as stream:
                await wait_for_async(lambda: b"abc" in seen, 2, "the first piece")
                assert b"0\r\n\r\n" not in seen
                await stream.send(b"3\r\ndef\r\n0\r\n\r\n")
                assert (await receive_until(stream, b"hi")).startswith(b"HTTP/1.1 200")
            heads.append(bytes(seen[: seen.index(b"\r\n\r\n")]).lower())
            group.cancel_scope.cancel()
        assert heads[0].count(b"transfer-encoding: chunked") == 1
        assert b"content-length" not in heads[0]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_looking_at_a_model_that_is_not_loaded_loads_nothing(method: str) -> None:
    async with rig() as r:
        answer = await r.client.request(method, "/upstream/chat/metrics")
        assert answer.status_code == 409
        if method == "GET":
            assert answer.json()["error"]["code"] == "not_loaded"
            assert "POST /api/v1/models/chat/load" in answer.json()["error"]["message"]
        assert (r.book.demands(), r.wakes) == ((), [])


async def test_looking_is_no_use_and_a_post_is() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        before = (r.book.last_used("chat"), r.book.served("chat"))
        for method in ("GET", "POST"):
            async with await r.raw(request(b"", path="/upstream/chat/metrics", method=method)) as stream:
                got = await engine.next()
                assert r.book.active("chat") == (method == "POST")
                await got.write(OK)
                await receive_until(stream, b"hi")
            await r.idle()
            same = (r.book.last_used("chat"), r.book.served("chat")) == before
            assert same == (method == "GET")


async def test_a_post_loads_and_a_client_that_leaves_while_it_waits_wants_nothing() -> None:
    async with rig() as r:
        async with await r.raw(request(b"x" * 1000, path="/upstream/chat/x")):
            await wait_for_async(lambda: [d.waiting for d in r.book.demands()] == [1], 2, "the demand")
        await r.idle()


async def test_trace_and_unknown_names_are_refused() -> None:
    async with rig() as r:
        r.publish(snapshot(ModelSpec("chat", "d")))
        answer = await r.client.get("/upstream/chatt/x")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        answer = await r.client.request("TRACE", "/upstream/chat/x")
        assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
        assert "GET" in answer.headers["allow"]


async def test_an_engine_that_dies_in_the_middle_ends_the_transfer_without_its_proper_end() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b"x", path="/upstream/chat/x")) as stream:
            got = await engine.next()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
            await got.write(head + b"2\r\nhi\r\n")
            await receive_until(stream, b"hi")
            wakes = len(r.wakes)
            got.writer.close()
            assert b"0\r\n\r\n" not in await receive_all(stream)
            await wait_for_async(lambda: len(r.wakes) > wakes, 2, "the loop to be told")
        await r.idle()


@pytest.mark.parametrize("framing", ["Content-Length: 5", "Content-Length: 1234", "X: y"])
@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_is_one_whatever_it_says(status: str, framing: str) -> None:
    """And the next request of the connection is answered."""
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        sent = request(b"", path="/upstream/chat/x", method="GET")
        async with await r.raw(sent + request(b"", "Connection: close", path="/nothing")) as stream:
            await (await engine.next()).write(f"HTTP/1.1 {status}\r\n{framing}\r\n\r\n".encode())
            first, _, rest = (await receive_all(stream)).partition(b"\r\n\r\n")
        assert first.startswith(f"HTTP/1.1 {status}\r\n".encode())
        assert (b"content-length" in first) == ("304" in status and "Length" in framing)
        assert rest.startswith(b"HTTP/1.1 404 ")
        await r.idle()
