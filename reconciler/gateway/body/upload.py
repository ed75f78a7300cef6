"""A request body that goes to the engine as it comes: a few pieces are held, and the client's leaving is seen."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.types import Receive

#: Bytes that wait here at most before the client is not read any further.
HELD_BYTES: Final = 256 * 1024


class Upload:
    """Reads a request in the background; `gone` is called when its client leaves."""

    def __init__(self, receive: Receive, gone: Callable[[], None]) -> None:
        self._receive = receive
        self._gone = gone
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._whole = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def pump(self) -> None:
        """Read until the client leaves; the server reports that also once the answer is complete."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone()
                return
            piece = message.get("body", b"")
            if piece:
                self._pieces.append(piece)
                self._held += len(piece)
            self._whole = self._whole or not message.get("more_body", False)
            self._changed.set()
            if self._held >= HELD_BYTES and not self._whole:
                self._room.clear()
                await self._room.wait()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._held -= len(piece)
                self._room.set()
                yield piece
            if self._whole:
                return
            self._changed.clear()
            await self._changed.wait()
