"""What an HTTP answer, or the lack of one, says about a starting server."""

from typing import Final

import httpx

from reconciler.engines import api_key
from reconciler.engines.base import Probe, Readiness

#: Seconds a health address gets to answer; a server busy loading may be slow, and is asked again.
HEALTH_TIMEOUT: Final = 5.0
_ASK_AGAIN: Final = frozenset({408, 425, 429})


def unreachable(error: httpx.HTTPError) -> Probe:
    """Judge a request that got no answer: while the process lives, that is a server not there yet."""
    if isinstance(error, httpx.ConnectError):
        return Probe(Readiness.LOADING, "its port is not open yet")
    if isinstance(error, httpx.TimeoutException):
        return Probe(Readiness.LOADING, "it accepts connections but does not answer yet")
    return Probe(Readiness.LOADING, f"it does not answer in HTTP: {error}")


def judge_health(
    status: int, path: str, key: str | None = None, fatal: frozenset[int] = frozenset()
) -> Probe:
    """Judge the status code of the health address at `path`, which was sent the server's own `key`, if it has one.

    `fatal` are codes by which this server says that it has failed for good.
    """
    if status in fatal:
        return Probe(
            Readiness.FAILED, f"it answers {path} with {status}: it could not load its model, or lost it"
        )
    if status == 401 and key is not None:
        hint = "`health:` may name another address"
        return Probe(Readiness.FAILED, f"it answers {path} with 401 although it was sent its own key; {hint}")
    if status in (401, 403):
        return Probe(Readiness.READY, f"it answers {path} with {status}: it is up and wants a key")
    if 200 <= status < 400:
        return Probe(Readiness.READY)
    if status in _ASK_AGAIN or status >= 500:
        return Probe(Readiness.LOADING, f"it answers {path} with {status}")
    hint = "; set `health:` to an address that answers 200 when it is ready"
    return Probe(Readiness.FAILED, f"it answers {path} with {status}{hint}")


async def ask_health(
    base_url: str,
    path: str,
    client: httpx.AsyncClient,
    key: str | None = None,
    fatal: frozenset[int] = frozenset(),
) -> Probe:
    """GET the health address once, with the server's own `key`. Never raises for a dead or odd server."""
    headers = api_key.headers(key)
    try:
        response = await client.get(
            base_url + path, headers=headers, timeout=HEALTH_TIMEOUT, follow_redirects=False
        )
    except httpx.HTTPError as error:
        return unreachable(error)
    return judge_health(response.status_code, path, key, fatal)
