"""Methods may be `async`: what they return is awaited here, in one event loop for the life of the worker."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


class Coroutines:
    """One event loop. With `shared` it runs in a thread of its own, so that calls from many threads overlap."""

    def __init__(self, shared: bool) -> None:
        self._shared = shared
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def resolve(self, value: Any) -> Any:
        """Return what a method returned, awaited if it has to be; an asynchronous iterator becomes a plain one."""
        if inspect.isawaitable(value):
            return self._run(_awaited(value))
        return self._iterate(value) if hasattr(value, "__aiter__") else value

    def _iterate(self, pieces: AsyncIterator[Any]) -> Iterator[Any]:
        iterator = pieces.__aiter__()
        try:
            while (piece := self._run(_next(iterator))) is not _END:
                yield piece
        finally:
            if hasattr(iterator, "aclose"):
                self._run(iterator.aclose())

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        import asyncio  # a tenth of a second that few classes need

        loop = self._running()
        if self._shared:
            return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
        return loop.run_until_complete(coroutine)

    def _running(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                if self._shared:
                    threading.Thread(target=self._loop.run_forever, daemon=True).start()
            return self._loop


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _next(iterator: AsyncIterator[Any]) -> Any:
    try:
        return await iterator.__anext__()
    except StopAsyncIteration:
        return _END


_END = object()
