"""Questions of our own to an engine, in httpx's terms, over the connections that also carry its requests."""

from collections.abc import Callable
from typing import Final

import httpx

from reconciler.gateway.errors import ApiError
from reconciler.gateway.upstream.pool import UpstreamError, UpstreamPool, build_request
from reconciler.leases import Endpoint

#: Seconds for an answer whose request names no time.
READ_SECONDS: Final = 10.0
#: Bytes of an answer at most: eight million tokens.
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024


class PoolTransport(httpx.AsyncBaseTransport):
    """Sends requests to one engine, whatever address they name; `abort` must end the work when the model goes.

    A connection is kept like any other to the engine, and closed with them before its process is stopped.
    """

    def __init__(self, pool: UpstreamPool, endpoint: Endpoint, abort: Callable[[], None]) -> None:
        self._pool = pool
        self._endpoint = endpoint
        self._abort = abort

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the whole answer. Raises `httpx.TransportError`."""
        body = await request.aread()
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        outgoing = build_request(request.url.raw_path, headers, body, method=request.method, length=len(body))
        seconds = request.extensions.get("timeout", {}).get("read") or READ_SECONDS
        try:
            async with self._pool.exchange(
                self._endpoint, outgoing, first_byte=seconds, chunk=seconds, abort=self._abort
            ) as incoming:
                answer = await incoming.whole(MAX_ANSWER_BYTES)
                if answer is None:
                    raise httpx.ReadError("the answer is too large", request=request)
                return httpx.Response(incoming.status, headers=incoming.headers, content=answer)
        except UpstreamError as error:
            raise httpx.NetworkError(str(error), request=request) from error
        except ApiError as error:
            raise httpx.ReadTimeout(error.message, request=request) from error
