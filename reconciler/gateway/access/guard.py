"""What every request passes first: `Host`, `Origin`, API key. Pure ASGI, so that streams pass untouched.

It stands before every request, so it looks at the headers once, and what follows from the settings alone is worked
out once for each manifest.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.board import Board, Snapshot
from reconciler.counts import OTHER
from reconciler.gateway.access.hosts import AUTHORITY, host_allowed, is_loopback, origin_allowed
from reconciler.gateway.access.keyring import KeyRing, sent_keys
from reconciler.gateway.access.refusals import Refusals
from reconciler.gateway.access.scopes import ANY, KEYLESS, SAFE, scopes_for
from reconciler.gateway.errors import ApiError, send_json
from reconciler.gateway.messages.errors import body_for
from reconciler.gateway.protocol.upgrade import EXTENSION
from reconciler.manifest.applied import EVERYTHING, ApiKey, GatewaySettings

Headers = list[tuple[bytes, bytes]]
#: The headers looked at, by name, each with all its values.
Seen = dict[bytes, list[bytes]]

#: Key of `scope` under which the request's `ApiKey` is found; None there = no key is asked for.
KEY: Final = "reconciler.key"
#: Listening there is no name: a page may call `http://0.0.0.0` from anywhere.
WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  compared, not bound
METHODS: Final = b"GET, HEAD, POST, PUT, DELETE, OPTIONS"
PREFLIGHT_SECONDS: Final = b"600"
#: `Host` headers remembered as ours; each client has its own, there are few.
REMEMBERED: Final = 64

_HOST: Final = b"host"
_ORIGIN: Final = b"origin"
_SITE: Final = b"sec-fetch-site"
_ASKED_METHOD: Final = b"access-control-request-method"
_READ: Final = frozenset({_HOST, _ORIGIN, _SITE, _ASKED_METHOD, b"authorization", b"x-api-key"})
#: What a browser says of a request that no other site caused.
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})
_BEFORE_THE_FIRST: Final = GatewaySettings()


class Access:
    """What one manifest's settings allow."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.keys = KeyRing(settings.api_keys)
        own = () if settings.host in WILDCARDS else (settings.host,)
        self._names = (*settings.hosts, *own)
        self._ours: set[tuple[bytes, str | None]] = set()

    def host(self, seen: Seen, local: str | None) -> bytes:
        """Return the `Host` header; raise `ApiError` unless it names us, exactly once."""
        values = seen.get(_HOST, ())
        if len(values) != 1:
            raise ApiError("invalid_host", f"the request has {len(values)} Host headers instead of one")
        if (values[0], local) not in self._ours:
            self._check_host(values[0], local, "Host header")
        return values[0]

    def authority(self, authority: bytes, local: str | None) -> None:
        """Raise `ApiError` unless the authority of an absolute target names us, as `Host` must (RFC 9112, 3.2.2)."""
        if (authority, local) not in self._ours:
            self._check_host(authority, local, "authority in the target")

    def _check_host(self, value: bytes, local: str | None, where: str) -> None:
        text = _text(value)
        if not text:
            raise ApiError("invalid_host", f"the {where} of the request is empty")
        if not host_allowed(text, self._names, local):
            shown = f"Host {text[:100]!r} is not served here; add it to gateway.hosts if it should be"
            raise ApiError("forbidden_host", shown)
        if len(self._ours) >= REMEMBERED:
            self._ours.clear()
        self._ours.add((value, local))

    def origin(self, seen: Seen, host: bytes, changes: bool) -> bytes | None:
        """Return the origin that may read the answer; raise `ApiError` where a foreign page would change something."""
        origins = seen.get(_ORIGIN, ())
        if len(origins) == 1 and origin_allowed(_text(origins[0]), _text(host), self.settings.origins):
            return origins[0]
        if not changes:
            return None
        if origins:
            shown = _text(origins[0])[:100]
            text = f"pages of {shown!r} may not call; add the origin to gateway.origins if they should"
            raise ApiError("forbidden_origin", text)
        if not _OWN_SITES.issuperset(seen.get(_SITE, ())):
            raise ApiError("forbidden_origin", "a page of another site may not send this")
        return None

    def key(self, seen: Seen, scope: Scope) -> ApiKey | None:
        """Return the key that was sent, None where none is asked for; raise `ApiError` unless it may do this."""
        if not self.keys:
            _check_unguarded(scope)
            return None
        key = self.keys.find(_sent(seen))
        if key is None:
            raise ApiError("invalid_api_key", _no_key(seen), headers=((b"www-authenticate", b"Bearer"),))
        scope[KEY] = key
        if key.scopes is not EVERYTHING:
            check_scope(key, scope["method"], scope["path"])
        return key


class Guard:
    """Middleware; the newest applied settings hold for each request. `clock` tells monotonic seconds."""

    def __init__(self, app: ASGIApp, board: Board, clock: Callable[[], float] = time.monotonic) -> None:
        self.app = app
        self.board = board
        self.clock = clock
        self._access = Access(_BEFORE_THE_FIRST)
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what must not pass, add CORS headers to what does."""
        if scope["type"] != "http":
            return
        snapshot = self.board.snapshot
        access = self.access(snapshot)
        cors: Headers = []
        try:
            seen = _look(scope)
            server = scope.get("server")
            local = server[0] if server else None
            host = access.host(seen, local)
            if AUTHORITY in scope:
                access.authority(scope[AUTHORITY], local)
            preflight = scope["method"] == "OPTIONS" and _ORIGIN in seen and _ASKED_METHOD in seen
            if len(seen) > 1:
                changes = preflight or _may_change(scope)
                origin = access.origin(seen, host, changes)
                cors = _cors(origin) if origin is not None else []
            scope[KEY] = None
            if preflight:
                await _send_preflight(scope, _sending(send, cors))
                return
            if scope["path"] not in KEYLESS:
                started(snapshot)
                access.key(seen, scope)
        except ApiError as error:
            self._note(scope, error)
            self.board.counts.error(OTHER, error.code)
            body = body_for(scope["path"], error)
            await send_json(_sending(send, cors), error.status, body, error.headers())
            return
        await self.app(scope, receive, _sending(send, cors))

    def access(self, snapshot: Snapshot | None) -> Access:
        """Return what the settings in force allow; worked out anew only when they change."""
        settings = snapshot.applied.gateway if snapshot is not None else _BEFORE_THE_FIRST
        if settings is not self._access.settings:
            self._access = Access(settings)
        return self._access

    def _note(self, scope: Scope, error: ApiError) -> None:
        if error.code in ("invalid_api_key", "insufficient_scope"):
            key = scope.get(KEY)
            self._refusals.note(scope, error.code, key.name if key else "", self.clock())


def _sent(seen: Seen) -> Iterator[bytes]:
    return sent_keys(seen.get(b"authorization", ()), seen.get(b"x-api-key", ()))


def _no_key(seen: Seen) -> str:
    """Return what is wrong with the key of a request: that tells its sender nothing that was not sent."""
    form = "Authorization: Bearer KEY, or x-api-key: KEY"
    if any(_sent(seen)):
        return "the API key that was sent is none of the manifest's"
    if any(value.strip() for value in seen.get(b"authorization", ())):
        return f"there is no API key in this Authorization header: send {form} (or Basic, the key as its password)"
    return f"no API key was sent: send one of the manifest's, {form}"


def started(snapshot: Snapshot | None) -> Snapshot:
    """Return the snapshot; raise the 503 `ApiError` before the first: without it no rule is known."""
    if snapshot is None:
        text = "reconcile has just started, and has not looked at the machine yet: ask again in a moment"
        raise ApiError("starting", text, retry_after=1)
    return snapshot


def check_scope(key: ApiKey, method: str, path: str) -> None:
    """Raise `ApiError` (403) unless the key allows this; the message names key and scope, never the key's text."""
    needed = scopes_for(method, path)
    if needed is ANY or not needed.isdisjoint(key.scopes):
        return
    who = f"the API key {key.name!r}" if key.name else "this API key"
    has, wants = ", ".join(sorted(key.scopes)), " or ".join(sorted(needed))
    raise ApiError(
        "insufficient_scope", f"{who} does not allow this: it needs the scope {wants}, it has {has}"
    )


def _look(scope: Scope) -> Seen:
    """Return the headers that count, in one pass; names come in lower case."""
    headers = scope["headers"]
    by_name = dict(headers)
    if len(by_name) == len(headers):  # none comes twice
        return {name: [by_name[name]] for name in _READ.intersection(by_name)}
    seen: Seen = {}
    for name, value in headers:
        if name in _READ:
            if name in seen:
                seen[name].append(value)
            else:
                seen[name] = [value]
    return seen


def _may_change(scope: Scope) -> bool:
    """Say whether a request could change something; a WebSocket can, and no browser keeps its answer from a page."""
    return scope["method"] not in SAFE or EXTENSION in scope.get("extensions", ())


def _check_unguarded(scope: Scope) -> None:
    """Raise `ApiError` where other machines reach us without a key.

    No manifest says so, but one may have been saved after the start whose loopback address takes effect later.
    """
    server = scope.get("server")
    if server is not None and server[0] not in ("127.0.0.1", "::1") and not is_loopback(server[0]):
        text = "this address can be reached from other machines, and the manifest has no API keys"
        raise ApiError("invalid_api_key", text)


def _text(value: bytes) -> str:
    return value.decode("latin-1").strip()


def _cors(origin: bytes) -> Headers:
    return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]


def _sending(send: Send, cors: Headers) -> Send:
    """Return what sends answers with CORS headers; without any, `send` itself: nothing stands before a stream."""
    if not cors:
        return send

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", [])
            message["headers"] = [*headers, *cors, *_exposed(headers)]
        await send(message)

    return sender


def _exposed(headers: Headers) -> Headers:
    """Return the header that lets a page read those of ours that are in this answer."""
    names = sorted({n for n, _ in headers if n.startswith(b"x-reconciler-") or n == b"retry-after"})
    return [(b"access-control-expose-headers", b", ".join(names))] if names else []


async def _send_preflight(scope: Scope, send: Send) -> None:
    asked = [value for name, value in scope["headers"] if name == b"access-control-request-headers"]
    private = (b"access-control-request-private-network", b"true") in scope["headers"]
    headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-max-age", PREFLIGHT_SECONDS),
        *[(b"access-control-allow-headers", value) for value in asked],
    ]
    if private:
        headers.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
