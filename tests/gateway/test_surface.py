"""Every path of the data API: where it leads, which models it is for, and what is refused before anything is loaded."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway_rig import CHAT, receive_until, request, rig, scripted, sha256, snapshot
from reconciler.board import Snapshot
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import ModelSpec
from reconciler.gateway.surface import PATHS, SURFACE, spelling_for
from reconciler.manifest.applied import RequestLimits, Rule, Strategy, Virtual, When
from support import get_json, wait_for_async

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
ROLES = {"chat": Role.CHAT, "embed": Role.EMBEDDING, "rank": Role.RERANK, "ears": Role.ASR}


def typed(engine: str = "llama.cpp", **changes: Any) -> Snapshot:
    """Return a snapshot with a model for each of some roles."""
    made = snapshot(*(ModelSpec(name, "d") for name in ROLES))
    launches = {
        n: LaunchSpec(n, engine if n != "ears" else "command", role=role) for n, role in ROLES.items()
    }
    limits = {name: RequestLimits(role=role) for name, role in ROLES.items()}
    return replace(made, applied=replace(made.applied, launches=launches, limits=limits, **changes))


async def test_every_path_reaches_the_engine_as_it_came() -> None:
    body = b'{ "model":"chat","messages":[],"prompt":"x" }'
    # An engine of which nobody knows what it serves is asked Anthropic's in another form: see test_messages_path.
    paths = [path for path, meant in sorted(SURFACE.items()) if not meant.anthropic]
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        for path in paths:
            async with await r.raw(request(body, path=path + "?a=%2F")) as stream:
                got = await engine.next()
                assert got.head.startswith(f"POST {path}?a=%2F HTTP/1.1\r\n".encode())
                assert got.body == body
                await got.write(OK)
                assert b"x-reconciler-model: chat\r\n" in await receive_until(stream, b"{}")
        await r.idle()


async def test_they_take_nothing_but_post() -> None:
    async with rig() as r:
        for path in ("/v1/messages", "/v1/rerank", "/tokenize"):
            for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
                answer = await r.client.request(method, path)
                assert (answer.status_code, answer.headers["allow"]) == (405, "POST"), (method, path)
                if method != "HEAD":
                    assert answer.json()["error"]["code"] == "method_not_allowed"
                    assert (answer.json().get("type") == "error") == (path == "/v1/messages")


@pytest.mark.parametrize(
    ("path", "model", "fits"),
    [
        ("/v1/chat/completions", "embed", "'chat'"),
        ("/v1/completions", "rank", "'chat'"),
        ("/v1/messages", "embed", "'chat'"),
        ("/v1/messages/count_tokens", "embed", "'chat'"),
        ("/infill", "embed", "'chat'"),
        ("/v1/embeddings", "rank", "'embed'"),
        ("/reranking", "embed", "'rank'"),
        ("/v1/audio/transcriptions", "chat", "'ears'"),
        ("/v1/images/generations", "chat", None),
    ],
)
async def test_a_model_for_something_else_is_refused_before_it_is_loaded(
    path: str, model: str, fits: str | None
) -> None:
    async with rig() as r:
        r.publish(typed())
        answer = await r.post({"model": model, "messages": [], "max_tokens": 1}, path)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "wrong_role")
        assert f"ask {fits}" in error["message"] if fits else "no model of the manifest" in error["message"]
        assert (r.book.demands(), r.wakes) == ((), [])


async def test_an_engine_that_cannot_tell_what_it_serves_is_asked() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(typed("command"))
        r.open(engine.port, "embed")
        async with await r.raw(request(b'{"model":"embed"}')):
            assert (await engine.next()).body == b'{"model":"embed"}'


def test_the_engine_gets_a_spelling_it_serves() -> None:
    rerank = SURFACE["/rerank"]
    assert rerank is SURFACE["/v1/reranking"]
    assert spelling_for(frozenset({"/v1/rerank"}), rerank, "/reranking") == "/v1/rerank"
    assert spelling_for(frozenset({"/v1/rerank", "/rerank"}), rerank, "/rerank") == "/rerank"
    assert spelling_for(None, rerank, "/reranking") == "/reranking"
    assert [path.name for path in PATHS] == list(dict.fromkeys(path.name for path in PATHS))


async def test_another_spelling_of_rerank_reaches_llama_cpp_as_the_usual_one() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(typed())
        r.open(engine.port, "rank")
        async with await r.raw(request(b'{"model":"rank"}', path="/reranking?x=%2F")):
            assert (await engine.next()).head.startswith(b"POST /v1/rerank?x=%2F HTTP/1.1\r\n")


async def test_the_model_may_be_in_the_query_of_llama_cpps_own_paths_only() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"content":"x"}', path="/tokenize?model=ch%61t")):
            assert (await engine.next()).body == b'{"content":"x"}'
        answer = await r.client.post(CHAT + "?model=chat", content=b"{}")
        assert answer.json()["error"]["code"] == "invalid_model"


MARK = "x0x"
KIND = f"multipart/form-data; boundary={MARK}"


def form(model: str, data: bytes) -> bytes:
    """Return a form whose model comes after the file."""
    lines = (
        f'--{MARK}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'.encode(),
        data,
        f'\r\n--{MARK}\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n--{MARK}--\r\n'.encode(),
    )
    return b"".join(lines)


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/images/edits"])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_form_arrives_byte_for_byte_with_its_model_after_the_file(path: str, chunked: bool) -> None:
    body = form("chat", b"\x00\r\n" + os.urandom(3_000_000))

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    async with rig() as r:
        port = r.engine()
        r.open(port)
        content = pieces() if chunked else body
        answer = await r.client.post(path, content=content, headers={"content-type": KIND})
        assert answer.status_code == 200
        seen = get_json(f"http://127.0.0.1:{port}/stats")["last_bodies"][0]
        assert (seen["sha256"], seen["length"]) == (sha256(body), len(body))
        assert seen["headers"] == {"content-length": str(len(body)), "content-type": KIND}
        await r.idle()


async def test_the_model_of_a_form_is_renamed_for_engines_that_want_it() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port, upstream_model="whisper-1")
        sent = request(form("chat", b"sound"), f"Content-Type: {KIND}", path="/v1/audio/translations")
        async with await r.raw(sent):
            assert (await engine.next()).body == form("whisper-1", b"sound")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/audio/transcriptions", form("chat", b"")[:-9], "invalid_form"),
        ("/v1/audio/transcriptions", form("", b""), "invalid_model"),
        (CHAT, form("chat", b""), "invalid_json"),
    ],
)
async def test_a_bad_form_is_refused(path: str, body: bytes, code: str) -> None:
    async with rig() as r:
        answer = await r.client.post(path, content=body, headers={"content-type": KIND})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
        assert r.book.demands() == ()


async def test_nothing_a_client_says_changes_how_a_model_is_loaded() -> None:
    plain = b'{"model":"chat"}'
    rich = json.dumps(
        {
            "model": "chat",
            "n_ctx": 9,
            "ctx_size": 9,
            "options": {"num_ctx": 9},
            "args": ["--x"],
            "env": {"A": "b"},
        }
    ).encode()
    async with rig() as r:
        seen = []
        for body in (plain, rich):
            async with await r.raw(request(body, "X-Reconciler-Context: 9")):
                await wait_for_async(r.book.demands, 2, "the demand")
                seen += [replace(demand, oldest=None) for demand in r.book.demands()]
            await r.idle()
        assert seen[0] == seen[1]


VIRTUAL = Virtual(
    "auto",
    (
        Rule(When(tools=True), ("other",)),
        Rule(When(), ("chat", "other"), Strategy.READY),
    ),
)


@pytest.mark.parametrize(
    ("tools", "model", "why"),
    [([], "chat", "auto -> chat (rule 2: otherwise)"), ([{}], "other", "auto -> other (rule 1: tools)")],
)
async def test_a_virtual_model_is_answered_by_the_one_its_rules_choose(
    tools: list[Any], model: str, why: str
) -> None:
    async with rig() as r, scripted() as engine:
        made = snapshot(ModelSpec("chat", "d"), ModelSpec("other", "d"), ready=("chat", "other"))
        r.publish(replace(made, applied=replace(made.applied, virtual={"auto": VIRTUAL})))
        r.open(engine.port, model)
        body = json.dumps({"x": 1.50, "model": "auto", "tools": tools}).encode()
        async with await r.raw(request(body)) as stream:
            got = await engine.next()
            assert got.body == body.replace(b'"auto"', f'"{model}"'.encode())
            await got.write(OK)
            head = await receive_until(stream, b"{}")
            assert f"x-reconciler-route: {why}\r\n".encode() in head
            assert f"x-reconciler-model: {model}\r\n".encode() in head
        listed = (await r.client.get("/v1/models/auto")).json()
        assert listed["reconcile"] == {"virtual": True, "models": ["chat", "other"], "state": "ready"}
        assert "'auto'" in (await r.post({"model": "aut"})).json()["error"]["message"]
        load = await r.client.post("/api/v1/models/auto/load")
        hold = await r.post({"model": "auto", "owner": "me", "for": "1m"}, "/api/v1/leases")
        path = await r.client.get("/upstream/auto/v1/models")
        for refused in (load, hold, path):
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
            said = refused.json()["error"]["message"]
            assert said == "'auto' is a virtual model (other, chat): name one of them"
