"""What the guard makes of keys, of pages of other sites, and of its own cost."""

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from gateway_rig import CHAT, receive_until, request, rig, snapshot
from reconciler.board import Board
from reconciler.core.types import ModelSpec
from reconciler.gateway.access.guard import KEY, Guard
from reconciler.gateway.access.keyring import KeyRing, sent_keys
from reconciler.gateway.access.refusals import LOG_SECONDS
from reconciler.gateway.protocol.upgrade import EXTENSION
from reconciler.manifest.applied import ApiKey, GatewaySettings
from reconciler.manifest.applied import Scope as KeyScope

pytestmark = pytest.mark.anyio

FIRST, SECOND = ApiKey("CANARY-first", "phone"), ApiKey("CANARY-zweiter-schlüssel", "desk")
KEYS = GatewaySettings(api_keys=(FIRST, SECOND), origins=("https://chat.example",))
Pairs = list[tuple[bytes, bytes]]


def basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([(b"authorization", b"Bearer CANARY-first")], FIRST),
        ([(b"authorization", b"BEARER   CANARY-first ")], FIRST),
        ([(b"x-api-key", b" CANARY-first")], FIRST),
        ([(b"x-api-key", "CANARY-zweiter-schlüssel".encode())], SECOND),
        ([(b"authorization", basic("anybody:CANARY-first"))], FIRST),
        ([(b"authorization", basic(":CANARY-first"))], FIRST),
        ([(b"authorization", basic("a:CANARY-zweiter-schlüssel"))], SECOND),
        ([(b"authorization", b"Bearer dummy"), (b"x-api-key", b"CANARY-first")], FIRST),
        ([(b"authorization", b"Bearer dummy"), (b"authorization", b"Bearer CANARY-first")], FIRST),
        ([(b"authorization", basic("CANARY-first:"))], None),
        ([(b"authorization", basic("CANARY-first"))], None),
        ([(b"authorization", b"Basic !!!")], None),
        ([(b"authorization", b"Basic")], None),
        ([(b"authorization", b"Digest CANARY-first")], None),
        ([(b"authorization", b"Bearer CANARY-first,CANARY-first")], None),
        ([(b"x-api-key", b"")], None),
        ([(b"x-api-key", b"CANARY-first" + b"x" * 9000)], None),
        ([(b"x-api-key", b"no")] * 4 + [(b"x-api-key", b"CANARY-first")], None),
    ],
)
def test_which_key_was_sent(headers: Pairs, key: ApiKey | None) -> None:
    named = [
        [value for name, value in headers if name == wanted] for wanted in (b"authorization", b"x-api-key")
    ]
    assert KeyRing(KEYS.api_keys).find(sent_keys(*named)) is key


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([], "no API key was sent"),
        ([(b"x-api-key", b"")], "no API key was sent"),
        ([(b"x-api-key", b"CANARY-no")], "the API key that was sent is none of the manifest's"),
        ([(b"authorization", b"Bearer CANARY-no")], "the API key that was sent is none of the manifest's"),
        ([(b"authorization", basic("a:CANARY-no"))], "the API key that was sent is none of the manifest's"),
        ([(b"authorization", b"Digest CANARY-no")], "there is no API key in this Authorization header"),
        ([(b"authorization", b"CANARY-first")], "there is no API key in this Authorization header"),
        ([(b"authorization", b"Bearer")], "there is no API key in this Authorization header"),
    ],
)
async def test_a_missing_key_is_told_from_a_wrong_one(headers: Pairs, words: str) -> None:
    async with rig() as r:
        r.settings(KEYS)
        answer = await r.client.get("/v1/models", headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (401, "invalid_api_key")
    assert error["message"].startswith(words)
    assert "CANARY" not in answer.text


@given(st.lists(st.text(min_size=1, max_size=20), unique=True, max_size=20), st.text(max_size=20))
def test_exactly_the_keys_of_the_ring_are_found(texts: list[str], other: str) -> None:
    keys = [ApiKey(text) for text in texts]
    ring = KeyRing(keys)
    assert bool(ring) is bool(keys)
    assert [ring.find([key.key.encode()]) for key in keys] == keys
    if other not in texts:
        assert ring.find([other.encode()]) is None


class Behind:
    """What stands behind the guard: remembers the requests that came through."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        headers = [(b"x-reconciler-model", b"chat"), (b"retry-after", b"1"), (b"x-other", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


class Guarded:
    """A guard with settings, a clock that a test moves, and something behind it."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.now = 100.0
        self.behind = Behind()
        self.board = Board()
        self.guard = Guard(self.behind, self.board, clock=lambda: self.now)
        self.apply(settings)

    def apply(self, settings: GatewaySettings) -> None:
        self.board.publish(snapshot(ModelSpec("chat", "d"), settings=settings))

    async def ask(
        self, *headers: tuple[bytes, bytes], method: str = "POST", path: str = CHAT, **more: Any
    ) -> tuple[int, dict[bytes, bytes]]:
        """Send a request; return the status and the headers of the answer."""
        sent: list[Message] = []
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "headers": [(b"host", b"127.0.0.1:8080"), *headers],
            "server": ("127.0.0.1", 8080),
            "client": ("10.1.2.3", 5555),
            **more,
        }

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            raise AssertionError("the guard reads no body")

        await self.guard(scope, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"])


BEARER = (b"authorization", b"Bearer CANARY-first")
ORIGIN, SITE = b"origin", b"sec-fetch-site"


async def test_the_key_goes_along_with_the_request() -> None:
    guarded = Guarded(KEYS)
    assert (await guarded.ask(BEARER))[0] == 200
    guarded.apply(GatewaySettings())
    assert (await guarded.ask())[0] == 200
    assert [scope[KEY] for scope in guarded.behind.scopes] == [FIRST, None]


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        # curl and every SDK: no Origin, nothing of a browser.
        ((), "POST", 200),
        (((b"content-type", b"application/x-www-form-urlencoded"),), "POST", 200),
        (((ORIGIN, b"https://chat.example"),), "POST", 200),
        (((ORIGIN, b"http://127.0.0.1:8080"),), "POST", 200),
        (((ORIGIN, b"https://chat.example"), (SITE, b"cross-site")), "POST", 200),
        (((SITE, b"same-origin"),), "POST", 200),
        (((SITE, b"none"),), "POST", 200),
        (((SITE, b"cross-site"),), "GET", 200),
        (((ORIGIN, b"https://evil.example"),), "GET", 200),
        (((ORIGIN, b"https://evil.example"),), "POST", 403),
        (((ORIGIN, b"null"),), "POST", 403),
        (((ORIGIN, b"null"), (SITE, b"same-origin")), "POST", 403),
        (((ORIGIN, b"https://chat.example"), (ORIGIN, b"https://chat.example")), "POST", 403),
        (((SITE, b"cross-site"),), "POST", 403),
        (((SITE, b"same-site"),), "POST", 403),
        (((SITE, b"none"), (SITE, b"cross-site")), "POST", 403),
        (((SITE, b"cross-site"),), "DELETE", 403),
        (((ORIGIN, b"https://evil.example"),), "PUT", 403),
    ],
)
async def test_pages_of_other_sites(
    headers: tuple[tuple[bytes, bytes], ...], method: str, status: int
) -> None:
    guarded = Guarded(GatewaySettings(origins=("https://chat.example",)))
    assert (await guarded.ask(*headers, method=method))[0] == status
    assert len(guarded.behind.scopes) == (status == 200)


async def test_a_web_socket_of_another_page_is_refused() -> None:
    guarded = Guarded(KEYS)
    evil = (ORIGIN, b"https://evil.example")
    path, extensions = "/upstream/chat/ws", {EXTENSION: object()}
    assert (await guarded.ask(BEARER, evil, method="GET", path=path, extensions=extensions))[0] == 403
    assert (await guarded.ask(BEARER, method="GET", path=path, extensions=extensions))[0] == 200


async def test_a_page_may_read_our_headers() -> None:
    guarded = Guarded(KEYS)
    page = (ORIGIN, b"https://chat.example")
    status, headers = await guarded.ask(BEARER, page)
    assert (status, headers[b"access-control-allow-origin"]) == (200, b"https://chat.example")
    assert headers[b"access-control-expose-headers"] == b"retry-after, x-reconciler-model"
    for refused in (await guarded.ask(page), await guarded.ask((b"x-api-key", b"no"), page)):
        assert refused[0] == 401
        assert refused[1][b"access-control-allow-origin"] == b"https://chat.example"
    assert b"access-control-allow-origin" not in (await guarded.ask(BEARER))[1]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_a_preflight_allows_the_methods_there_are(method: str) -> None:
    guarded = Guarded(KEYS)
    asked = (b"access-control-request-method", method.encode())
    status, headers = await guarded.ask((ORIGIN, b"https://chat.example"), asked, method="OPTIONS")
    assert status == 204
    assert method in headers[b"access-control-allow-methods"].decode().split(", ")
    status, headers = await guarded.ask((ORIGIN, b"https://evil.example"), asked, method="OPTIONS")
    assert status == 403
    assert not [name for name in headers if name.startswith(b"access-control")]


@pytest.mark.parametrize(
    ("local", "status"),
    [("127.0.0.1", 200), ("::1", 200), ("127.9.9.9", 200), ("192.168.1.5", 401), ("::ffff:10.0.0.1", 401)],
)
async def test_whoever_listens_to_other_machines_asks_for_a_key(local: str, status: int) -> None:
    """Also when the keys are taken out of the manifest of a manager that was started with them."""
    guarded = Guarded(GatewaySettings(host="127.0.0.1"))
    assert (await guarded.ask(server=(local, 8080)))[0] == status


async def test_newly_saved_keys_hold_at_once() -> None:
    guarded = Guarded(KEYS)
    assert (await guarded.ask(BEARER))[0] == 200
    guarded.apply(GatewaySettings(api_keys=(SECOND,)))
    assert (await guarded.ask(BEARER))[0] == 401
    guarded.apply(GatewaySettings(api_keys=(ApiKey("CANARY-first", "x", frozenset({KeyScope.READ})),)))
    assert (await guarded.ask(BEARER))[0] == 403
    assert (await guarded.ask(BEARER, method="GET", path="/api/v1/status"))[0] == 200


async def test_hosts_are_remembered_but_not_for_ever() -> None:
    guarded = Guarded(GatewaySettings(hosts=("box.lan",)))
    for port in range(300):
        assert (await guarded.ask(headers=[(b"host", f"box.lan:{port}".encode())]))[0] == 200
    guarded.apply(GatewaySettings())
    assert (await guarded.ask(headers=[(b"host", b"box.lan:7")]))[0] == 403
    # The address one client connected to is no name for another's.
    here = [(b"host", b"192.168.1.5")]
    keyed = Guarded(KEYS)
    assert (await keyed.ask(headers=[*here, BEARER], server=("192.168.1.5", 80)))[0] == 200
    assert (await keyed.ask(headers=[*here, BEARER], server=("127.0.0.1", 80)))[0] == 403


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


async def test_refused_keys_are_logged_seldom_and_without_the_key(logged: list[Any]) -> None:
    guarded = Guarded(GatewaySettings(api_keys=(ApiKey("CANARY-r", "reader", frozenset({KeyScope.READ})),)))
    for _ in range(50):
        await guarded.ask((b"x-api-key", b"CANARY-wrong"))
    assert len(logged) == 1
    guarded.now += LOG_SECONDS
    await guarded.ask((b"x-api-key", b"CANARY-r"), path="/v1/chat/completions")
    wrong, scope = logged
    assert (wrong["reason"], wrong["client"], wrong["requests"]) == ("invalid_api_key", "10.1.2.3", 1)
    assert (scope["reason"], scope["sender"], scope["requests"]) == ("insufficient_scope", "reader", 50)
    assert "CANARY" not in repr(logged)


async def test_a_plain_form_post_needs_nothing_but_the_key() -> None:
    async with rig() as r:
        r.settings(KEYS)
        sent = "Content-Type: application/x-www-form-urlencoded", "Authorization: Bearer CANARY-first"
        async with await r.raw(request(b'{"model": "nobody"}', *sent)) as stream:
            assert (await receive_until(stream, b"}}")).startswith(b"HTTP/1.1 404 ")


async def test_the_date_is_this_seconds() -> None:
    async with rig() as r:
        before = int(time.time())
        date = (await r.client.get("/healthz")).headers["date"]
    seconds = time.mktime(time.strptime(date, "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
    assert before <= seconds <= time.time()
