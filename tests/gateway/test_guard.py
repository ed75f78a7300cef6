"""Who may call: Host, Origin, preflight and API keys, on every route."""

import json

import httpx
import pytest

from gateway_rig import CHAT, Rig, receive_until, request, rig
from reconciler.gateway.access.hosts import host_allowed, host_name, origin_allowed
from reconciler.manifest.applied import ApiKey, GatewaySettings

pytestmark = pytest.mark.anyio

ROUTES = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/chat"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/api/v1/status"),
    ("GET", "/api/v1/plan"),
    ("GET", "/api/v1/world"),
    ("POST", "/api/v1/models/chat/load"),
    ("POST", "/api/v1/models/chat/evict"),
    ("POST", "/api/v1/stop"),
    ("POST", CHAT),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ("localhost", True),
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("localhost.", True),
        ("127.0.0.1", True),
        ("127.0.0.1:1", True),
        ("127.8.8.8:8080", True),
        ("[::1]:8080", True),
        ("[::1]", True),
        ("[::ffff:127.0.0.1]", True),
        ("box.lan:8080", True),
        ("BOX.lan", True),
        ("192.168.1.5:8080", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example:8080", False),
        ("192.168.1.6", False),
        ("0.0.0.0:8080", False),
        ("[::]", False),
        ("8.8.8.8", False),
        ("", False),
        (":8080", False),
        ("localhost:", True),
        ("localhost:http", False),
        ("localhost:99999", False),
        ("localhost:" + "9" * 5000, False),
        ("localhost:80:80", False),
        ("::1", False),
        ("[::1", False),
        ("[::1]x", False),
        ("[localhost]", False),
        ("user@localhost", False),
        ("localhost/x", False),
        ("127.1", False),
        ("2130706433", False),
    ],
)
def test_which_hosts_are_ours(header: str, allowed: bool) -> None:
    assert host_allowed(header, ("box.lan", "bad host"), "192.168.1.5") is allowed


def test_a_host_is_read_without_port_and_case() -> None:
    assert [host_name(h) for h in ("A.b:1", "[FE80::1]:2", "[x]")] == ["a.b", "fe80::1", None]


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://127.0.0.1:8080", True),
        ("HTTP://127.0.0.1:8080", True),
        ("https://chat.example", True),
        ("http://127.0.0.1:3000", False),
        ("https://127.0.0.1:8080", False),
        ("http://chat.example", False),
        ("https://chat.example.evil", False),
        ("null", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_which_origins_may_call(origin: str, allowed: bool) -> None:
    assert origin_allowed(origin, "127.0.0.1:8080", ("https://chat.example/",)) is allowed


async def test_a_foreign_host_is_refused_on_every_route() -> None:
    async with rig() as r:
        for method, path in ROUTES:
            answer = await r.client.request(method, path, headers={"host": "evil.example"})
            assert answer.status_code == 403, path
            assert answer.json()["error"]["code"] == "forbidden_host"
        assert r.book.demands() == ()
        for host in (f"localhost:{r.port}", "127.0.0.1", "[::1]:1"):
            answer = await r.client.request("GET", "/v1/models", headers={"host": host})
            assert answer.status_code == 200


@pytest.mark.parametrize("hosts", ["", "Host:\r\n", "Host:  \r\n", "Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n"])
async def test_no_host_and_two_hosts_are_bad_requests(hosts: str) -> None:
    async with rig() as r:
        data = f"GET /v1/models HTTP/1.1\r\n{hosts}\r\n".encode()
        async with await r.raw(data) as stream:
            answer = await receive_until(stream, b"}}")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_host"


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost:1/v1/models", "localhost", 200),
        ("HTTP://127.0.0.1/v1/models?x=http://evil.example/", "localhost", 200),
        ("/v1/models?x=http://evil.example/", "localhost", 200),
        ("http://localhost", "localhost", 404),
        ("http://evil.example/v1/models", "localhost", 403),
        ("http://evil.example:80/v1/models", "localhost", 403),
        ("http://localhost@evil.example/v1/models", "localhost", 403),
        ("http://evil.example?/v1/models", "localhost", 403),
        ("http://localhost/v1/models", "evil.example", 403),
        ("http:///v1/models", "localhost", 400),
        ("evil.example:80", "localhost", 400),
    ],
)
async def test_the_name_in_a_target_counts_as_host(target: str, host: str, status: int) -> None:
    async with rig() as r:
        async with await r.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()) as stream:
            answer = await receive_until(stream, b"\r\n\r\n")
        assert int(answer.split()[1]) == status


async def test_further_hosts_come_from_the_newest_manifest() -> None:
    async with rig() as r:
        headers = {"host": "box.lan:8080"}
        assert (await r.client.get("/v1/models", headers=headers)).status_code == 403
        r.settings(GatewaySettings(hosts=("box.lan",)))
        assert (await r.client.get("/v1/models", headers=headers)).status_code == 200


async def test_a_page_elsewhere_changes_nothing() -> None:
    async with rig() as r:
        stopped: list[bool] = []
        r.board.request_stop = lambda on_exit: stopped.append(True)
        headers = {"origin": "https://evil.example", "content-type": "text/plain"}
        for path in (path for method, path in ROUTES if method == "POST"):
            answer = await r.client.post(path, json={"model": "chat"}, headers=headers)
            assert answer.status_code == 403, path
            assert answer.json()["error"]["code"] == "forbidden_origin"
            assert "access-control-allow-origin" not in answer.headers
        assert (r.book.demands(), stopped) == ((), [])


async def test_a_page_elsewhere_cannot_read_what_it_gets() -> None:
    async with rig() as r:
        answer = await r.client.get("/v1/models", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers


async def test_allowed_pages_may_read_answers_and_errors() -> None:
    async with rig() as r:
        own = f"http://127.0.0.1:{r.port}"
        r.settings(GatewaySettings(origins=("https://chat.example",)))
        for origin in (own, "https://chat.example"):
            for path in ("/v1/models", "/nowhere"):
                answer = await r.client.get(path, headers={"origin": origin})
                assert answer.headers["access-control-allow-origin"] == origin
                assert answer.headers["vary"] == "Origin"
            answer = await r.client.post(CHAT, content=b"{", headers={"origin": origin})
            assert answer.status_code == 400
            assert answer.headers["access-control-allow-origin"] == origin


async def preflight(r: Rig, origin: str, path: str = CHAT) -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,x-stainless-os",
    }
    return await r.client.request("OPTIONS", path, headers=headers)


async def test_a_preflight_needs_no_key_but_an_allowed_origin() -> None:
    async with rig() as r:
        r.settings(GatewaySettings(api_keys=(ApiKey("secret"),), origins=("https://chat.example",)))
        answer = await preflight(r, "https://chat.example")
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "https://chat.example"
        assert answer.headers["access-control-allow-headers"] == "authorization,x-stainless-os"
        assert "POST" in answer.headers["access-control-allow-methods"]
        foreign = await preflight(r, "https://evil.example")
        assert foreign.status_code == 403
        assert not [name for name in foreign.headers if name.startswith("access-control")]


KEYS = GatewaySettings(api_keys=(ApiKey("first"), ApiKey("zweiter-schlüssel")))


SENT: list[tuple[dict[str, str], bool]] = [
    ({}, False),
    ({"authorization": "Bearer first"}, True),
    ({"authorization": "bearer  first"}, True),
    ({"x-api-key": "first"}, True),
    ({"authorization": "Bearer wrong", "x-api-key": "first"}, True),
    ({"authorization": "Bearer wrong"}, False),
    ({"authorization": "Bearer firs"}, False),
    ({"authorization": "Bearer"}, False),
    ({"authorization": "first"}, False),
    ({"authorization": "Basic first"}, False),
    ({"x-api-key": "FIRST"}, False),
    ({"x-api-key": "zweiter-schlüssel".encode().decode("latin-1")}, True),
]


async def test_api_keys() -> None:
    async with rig() as r:
        r.settings(KEYS)
        for headers, passes in SENT:
            encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            answer = await r.client.get("/v1/models", headers=encoded)
            assert answer.status_code == (200 if passes else 401), headers
            if not passes:
                assert answer.json()["error"]["code"] == "invalid_api_key"
                assert answer.headers["www-authenticate"] == "Bearer"
                assert "first" not in answer.text


async def test_every_route_but_healthz_asks_for_the_key() -> None:
    async with rig() as r:
        r.settings(KEYS)
        for method, path in ROUTES:
            answer = await r.client.request(method, path, json={"model": "chat"})
            assert answer.status_code == (200 if path == "/healthz" else 401), path
        assert r.book.demands() == ()


async def test_before_the_first_pass_every_route_says_starting() -> None:
    async with rig() as r:
        r.board.snapshot = None
        for method, path in ROUTES:
            answer = await r.client.request(method, path, json={"model": "chat"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "starting"), path
            assert answer.headers["retry-after"] == "1"


async def test_the_guard_sees_the_raw_request() -> None:
    async with rig() as r:
        data = request(b"{}", host="127.0.0.1", path="http://evil.example/v1/models", method="GET")
        async with await r.raw(data) as stream:
            assert (await receive_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
        data = request(b"{}", host="evil.example", path="http://127.0.0.1/v1/models", method="GET")
        async with await r.raw(data) as stream:
            assert (await receive_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
