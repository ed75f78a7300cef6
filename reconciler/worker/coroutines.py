"""Methods may be `async`: what they return is awaited here, in one event loop for the life of the worker."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from .errors import say, trace_of

if TYPE_CHECKING:
    import asyncio


class Coroutines:
    """One event loop. With `shared` it runs in a thread of its own, so that calls from many threads overlap."""

    def __init__(self, shared: bool) -> None:
        self._shared = shared
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = False

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
                self._run(_awaited(iterator.aclose()))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        import asyncio  # a tenth of a second that few classes need

        loop, kept = self._running(), _kept(coroutine)
        if self._shared:
            result = asyncio.run_coroutine_threadsafe(kept, loop).result()
        else:
            result = loop.run_until_complete(kept)
        if isinstance(result, _Raised):
            raise result.error
        return result

    def _running(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                if self._shared:
                    self._thread = threading.Thread(target=self._run_forever, args=(self._loop,), daemon=True)
                    self._thread.start()
            return self._loop

    def _run_forever(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop again where a task that the class began by itself has ended it: others' calls are in it."""
        while not self._ended:
            _run_once(loop)

    def close(self) -> None:
        """Put the loop away, once nobody calls any more."""
        with self._lock:
            loop, self._loop, self._ended = self._loop, None, True
        if loop is None:
            return
        if self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
        loop.close()


class _Raised:
    """What a coroutine raised. Some exceptions, raised in a task, end the loop with all other calls in it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _kept(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coroutine
    except BaseException as error:
        return _Raised(error)


def _run_once(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    except BaseException as error:
        say(f"{trace_of(error)}\nworker: raised in a task that nobody awaits")


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _next(iterator: AsyncIterator[Any]) -> Any:
    try:
        return await iterator.__anext__()
    except StopAsyncIteration:
        return _END


_END = object()
