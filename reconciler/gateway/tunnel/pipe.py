"""Bytes both ways between a client and an engine, with back-pressure, and a lease that sleeps when they do."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from reconciler.awake import Timer, awake
from reconciler.gateway.protocol.end import last_words
from reconciler.gateway.tunnel.engine import EngineSide
from reconciler.gateway.tunnel.frames import GOING_AWAY, Frames, close_frame
from reconciler.leases import Lease

#: Seconds without a message in either direction after which a WebSocket does not keep its model any longer. Pings
#: do not count: many servers and clients send them all the time.
IDLE_SECONDS: Final = 60.0
#: Seconds for a client to take the last frames and to close.
FAREWELL_SECONDS: Final = 2.0


class ClientSide(asyncio.Protocol):
    """The client's connection, taken over from HTTP."""

    def __init__(self, pipe: "Pipe") -> None:
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._pipe: Pipe | None = pipe
        self._left: Callable[[], None] = lambda: None
        self._end: asyncio.TimerHandle | None = None

    def taken_over(self, transport: asyncio.Transport, left: Callable[[], None]) -> None:
        """Begin to serve the connection; `left` is to be called when it is lost."""
        self.transport, self._left = transport, left

    def data_received(self, data: bytes) -> None:
        """Hand on what came; after the farewell it is dropped."""
        if self._pipe is not None:
            self._pipe.from_client(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the engine's side, too."""
        if self._end is not None:
            self._end.cancel()
        self._left()
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.client_gone()

    def pause_writing(self) -> None:
        """The client takes no more for now: no more is read from the engine."""
        if self._pipe is not None:
            self._pipe.read_engine(on=False)

    def resume_writing(self) -> None:
        """The client takes more."""
        if self._pipe is not None:
            self._pipe.read_engine(on=True)

    def shutdown(self) -> None:
        """Say goodbye: the server stops."""
        if self._pipe is not None:
            self._pipe.end("the gateway is being stopped")

    def read(self, *, on: bool) -> None:
        """Read from the client, or let it wait."""
        if not self.transport.is_closing():
            (self.transport.resume_reading if on else self.transport.pause_reading)()

    def farewell(self, words: bytes) -> None:
        """Send `words` and close; what the client still sends is dropped."""
        self._pipe = None
        if self._end is None and not self.transport.is_closing():
            self._end = last_words(self.transport, words, FAREWELL_SECONDS)


class Pipe:
    """One WebSocket between its handshake and its end."""

    def __init__(self, engine: EngineSide, lease: Lease, idle_seconds: float = IDLE_SECONDS) -> None:
        self.client = ClientSide(self)
        self.lease = lease
        #: Whether the lease sleeps.
        self.quiet = False
        self._engine = engine
        self._idle_seconds = idle_seconds
        self._frames, self._asked = Frames(), Frames()
        self._awake = awake()
        self._last = self._awake.time()
        self._timer: Timer | None = None

    def start(self, head: bytes, frames: bytes) -> None:
        """Answer the client's handshake with `head`, and let bytes flow; `frames` came with the engine's answer."""
        self.client.transport.write(head)
        self._engine.gone, self._engine.flow = self._engine_gone, self._read_client
        self._moved()
        if frames:
            self._from_engine(frames)
        self._engine.begin(self._from_engine)
        if self._engine.lost.is_set():
            self._engine_gone()

    async def ended(self) -> None:
        """Return when the engine's connection is closed: nothing of the model is in use any more."""
        try:
            await self._engine.lost.wait()
        finally:
            self._stop()
            self._engine.transport.abort()
            self.client.farewell(b"")

    def end(self, reason: str) -> None:
        """Close both sides now; the client is told why, unless that would be in the middle of a frame."""
        self._stop()
        self._engine.transport.abort()
        polite = self._frames.whole and not self._frames.closing
        self.client.farewell(close_frame(GOING_AWAY, reason) if polite else b"")

    # --- the two sides ---

    def from_client(self, data: bytes) -> None:
        """Pass bytes on to the engine."""
        if self._asked.feed(data):
            self._moved()
        self._engine.transport.write(data)

    def client_gone(self) -> None:
        """Close the engine's side."""
        self._stop()
        self._engine.close()

    def read_engine(self, *, on: bool) -> None:
        """Read from the engine, or let it wait."""
        transport = self._engine.transport
        if not transport.is_closing():
            (transport.resume_reading if on else transport.pause_reading)()

    def _from_engine(self, data: bytes) -> None:
        if self._frames.feed(data):
            self._moved()
        self.client.transport.write(data)

    def _engine_gone(self) -> None:
        self._stop()
        self.client.farewell(b"")

    def _read_client(self, on: bool) -> None:
        self.client.read(on=on)

    # --- the lease ---

    def _moved(self) -> None:
        """Note that something was said. A lease that finds no place when it wakes tries again with the next."""
        self._last = self._awake.time()
        if self.quiet and self.lease.speak():
            self.quiet = False
        if self._timer is None and not self.quiet:
            self._timer = self._awake.call_later(self._idle_seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        left = self._last + self._idle_seconds - self._awake.time()
        if left > 0:
            self._timer = self._awake.call_later(left, self._look)
        else:
            self.quiet = True
            self.lease.hush()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
