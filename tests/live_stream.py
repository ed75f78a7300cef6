"""A client of server-sent events for tests: reads one event after the other from a raw connection."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc


@dataclass
class Reader:
    """What comes over a connection, event by event."""

    stream: anyio.abc.SocketStream
    #: What has come and is no event yet.
    text: bytes = b""
    #: All that came before the last event and is none: the head, comments, framing.
    rest: bytes = b""

    async def next(self) -> tuple[str, Any]:
        """Return the kind and the data of the next event (5 s at most); events of the ledger have their id in both."""
        with anyio.fail_after(5):
            while True:
                block = await self._block()
                fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
                if b"event" in fields and b"data" in fields:
                    data = json.loads(fields[b"data"])
                    assert int(fields.get(b"id", data.get("id", 0))) == data.get("id", 0)
                    return fields[b"event"].decode(), data
                self.rest += block

    async def all(self) -> tuple[list[tuple[str, Any]], bytes]:
        """Return the events up to the end of the body (5 s at most), and the last bytes of it."""
        with anyio.fail_after(5), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while not self.text.endswith(b"0\r\n\r\n"):
                self.text += await self.stream.receive()
        last, found = self.text[-40:], []
        while b"event: " in self.text:
            found.append(await self.next())
        return found, last

    async def _block(self) -> bytes:
        pieces, tail = [self.text], b""
        while b"\n\n" not in tail + pieces[-1]:
            tail = pieces[-1][-1:]
            pieces.append(await self.stream.receive())
        block, _, self.text = b"".join(pieces).partition(b"\n\n")
        return block + b"\n\n"
