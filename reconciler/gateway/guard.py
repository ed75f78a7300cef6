"""What every request passes first: `Host`, `Origin`, API key. Pure ASGI, so that streams pass untouched."""

import hmac
from collections.abc import Iterable
from email.utils import formatdate
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.board import Board, Snapshot
from reconciler.gateway.errors import ApiError
from reconciler.gateway.hosts import host_allowed, origin_allowed
from reconciler.manifest.applied import ApiKey, GatewaySettings

Headers = list[tuple[bytes, bytes]]

#: Methods that change nothing: a page elsewhere may send them, it just cannot read the answer.
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Paths that answer without a key, for supervisors.
KEYLESS: Final = frozenset({"/healthz"})
#: Listening there is no name: a page may call `http://0.0.0.0` from anywhere.
WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  compared, not bound
PREFLIGHT_SECONDS: Final = b"600"
EXPOSED: Final = b"Retry-After, X-Reconciler-Model, X-Reconciler-Waited"


class Guard:
    """Middleware; reads the newest applied settings for each request."""

    def __init__(self, app: ASGIApp, board: Board) -> None:
        self.app = app
        self.board = board

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what must not pass, add CORS headers to what does."""
        if scope["type"] != "http":
            return
        snapshot = self.board.snapshot
        settings = snapshot.applied.gateway if snapshot else GatewaySettings()
        cors: Headers = []
        try:
            host = check_host(scope, settings)
            cors = check_origin(scope, settings, host)
            if is_preflight(scope):
                await _send_preflight(scope, _with_headers(send, cors))
                return
            if scope["path"] not in KEYLESS:
                check_key(scope, started(snapshot).applied.gateway.api_keys)
        except ApiError as error:
            await error.send(_with_headers(send, cors))
            return
        await self.app(scope, receive, _with_headers(send, cors))


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Return all values of one request header; `name` in lower case."""
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key == name]


def check_host(scope: Scope, settings: GatewaySettings) -> str:
    """Return the `Host` header; raise `ApiError` unless it names us, exactly once."""
    values = header_values(scope, b"host")
    if len(values) != 1:
        raise ApiError("invalid_host", f"the request has {len(values)} Host headers instead of one")
    local = scope["server"][0] if scope.get("server") else None
    own = () if settings.host in WILDCARDS else (settings.host,)
    if not host_allowed(values[0], (*settings.hosts, *own), local):
        text = f"Host {values[0][:100]!r} is not served here; add it to gateway.hosts if it should be"
        raise ApiError("forbidden_host", text)
    return values[0]


def check_origin(scope: Scope, settings: GatewaySettings, host: str) -> Headers:
    """Return the CORS headers for the answer; raise `ApiError` where a foreign page would change something."""
    values = header_values(scope, b"origin")
    if not values:
        return []
    if len(values) == 1 and origin_allowed(values[0], host, settings.origins):
        return [
            (b"access-control-allow-origin", values[0].encode("latin-1")),
            (b"access-control-expose-headers", EXPOSED),
            (b"vary", b"Origin"),
        ]
    if scope["method"] in SAFE and not is_preflight(scope):
        return []
    text = f"pages of {values[0][:100]!r} may not call; add the origin to gateway.origins if they should"
    raise ApiError("forbidden_origin", text)


def check_key(scope: Scope, keys: Iterable[ApiKey]) -> None:
    """Raise `ApiError` unless one of `keys` was sent; all are compared, each in constant time."""
    wanted = [key.key.encode() for key in keys]
    if not wanted:
        return
    sent = [value.encode("latin-1") for value in _sent_keys(scope)]
    matches = [hmac.compare_digest(key, value) for key in wanted for value in sent]
    if not any(matches):
        text = "send one of the manifest's API keys: Authorization: Bearer KEY, or x-api-key: KEY"
        raise ApiError("invalid_api_key", text, headers=((b"www-authenticate", b"Bearer"),))


def started(snapshot: Snapshot | None) -> Snapshot:
    """Return the snapshot; raise the 503 `ApiError` before the first: without it no rule is known."""
    if snapshot is None:
        raise ApiError("starting", "the first look at the machine is not over yet", retry_after=1)
    return snapshot


def is_preflight(scope: Scope) -> bool:
    """Say whether a browser asks if it may send another request."""
    asks = header_values(scope, b"access-control-request-method")
    return scope["method"] == "OPTIONS" and bool(asks) and bool(header_values(scope, b"origin"))


def _sent_keys(scope: Scope) -> list[str]:
    keys = header_values(scope, b"x-api-key")
    for value in header_values(scope, b"authorization"):
        scheme, _, token = value.partition(" ")
        if scheme.lower() == "bearer":
            keys.append(token.strip())
    return keys


async def _send_preflight(scope: Scope, send: Send) -> None:
    asked = header_values(scope, b"access-control-request-headers")
    headers = [
        (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
        (b"access-control-max-age", PREFLIGHT_SECONDS),
        *[(b"access-control-allow-headers", value.encode("latin-1")) for value in asked],
    ]
    if header_values(scope, b"access-control-request-private-network") == ["true"]:
        headers.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _with_headers(send: Send, extra: Headers) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            date = formatdate(usegmt=True).encode()
            message["headers"] = [*message.get("headers", []), *extra, (b"date", date)]
        await send(message)

    return sender
