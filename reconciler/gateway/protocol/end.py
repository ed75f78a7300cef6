"""How a client's connection ends: refusals that get through, and clients that take nothing."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from typing import Any, Final

import structlog
from uvicorn.server import ServerState

from reconciler.awake import Timer
from reconciler.gateway.errors import ApiError
from reconciler.gateway.protocol.base import HttpProtocol
from reconciler.gateway.protocol.config import GatewayConfig, raw_error
from reconciler.gateway.protocol.flow import has_left

log = structlog.get_logger(__name__)

#: Seconds between two looks whether a client is still there that is not read from.
PRESENCE_SECONDS: Final = 1.0

#: macOS: bytes in a socket's send queue.
SO_NWRITE: Final = 0x1024


def unsent_bytes(transport: asyncio.Transport) -> int:
    """Return the bytes written for a client that its machine has not taken yet, those in the kernel included.

    The kernel holds megabytes: a slow client may empty them for minutes before it takes any from our own buffer.
    """
    own = transport.get_write_buffer_size()
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return own
    if sys.platform == "darwin":
        return own + int(sock.getsockopt(socket.SOL_SOCKET, SO_NWRITE))
    (queued,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    return own + int(queued)


def last_words(transport: asyncio.Transport, words: bytes, seconds: float) -> asyncio.TimerHandle:
    """Send `words` and end our direction; the connection is closed when the client ends its own, or after `seconds`.

    Closing at once, with bytes of the client unread, would take the words from it again. What still arrives is the
    caller's to drop. Cancel the timer when the connection is lost.
    """
    try:
        if words:
            transport.write(words)
        transport.write_eof()
        transport.resume_reading()
    except OSError:  # it is gone already, and the event loop has not told yet
        transport.abort()
    return asyncio.get_running_loop().call_later(seconds, transport.abort)


class EndingProtocol(HttpProtocol):
    """A connection with orderly ends."""

    def __init__(
        self,
        config: GatewayConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits = config.limits
        #: What arrives is read, so that the last words get through, and dropped.
        self._deaf = False
        #: A body is arriving that belongs to the newest request.
        self._in_body = False
        self._unsent = 0
        self._read_timer: Timer | None = None
        self._write_timer: Timer | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._presence_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything: a timer that stays would keep all this in memory until it is due."""
        self.rules.refused.discard(self)
        self._cancel_timers()
        super().connection_lost(exc)

    # --- clients that leave ---

    def eof_received(self) -> None:
        """End the requests of a client that ended its direction, and say so in case it is still there.

        Hanging up and ending one direction look the same from here until something is sent. Most clients hang up,
        and a model that computes for nobody costs everybody, so both count as leaving.
        """
        cycle = self._answered
        if cycle is None or cycle.response_complete or self._deaf:
            return
        silent = cycle.response_started
        cycle.leave()
        if not silent and not self.transport.is_closing():
            text = "the client ended its side of the connection before it had its answer, which counts as leaving"
            self.transport.write(raw_error(ApiError("invalid_http", text)))
        if self.transport.get_write_buffer_size():
            self._watch_writing()

    def _watch_presence(self) -> None:
        """Look from time to time whether the client is there, as long as it is not read from."""
        if self._presence_timer is None:
            self._presence_timer = self.loop.call_later(PRESENCE_SECONDS, self._look_for_client)

    def _look_for_client(self) -> None:
        self._presence_timer = None
        if self.transport.is_closing() or not self.flow.read_paused:
            return
        if has_left(self.transport):
            self.eof_received()
            self.transport.close()
        else:
            self._watch_presence()

    def shutdown(self) -> None:
        """End in order: at once what is idle or refused, after its answer what is not."""
        if self._end_timer is not None:
            self.transport.abort()
        else:
            super().shutdown()

    def _refuse(self, error: ApiError) -> None:
        """Answer what cannot be read any further with `error`, and end the connection.

        Requests that came whole before it get their answers first: a client takes answers in order. An answer
        that has begun cannot be replaced; it ends without its end.
        """
        self._deaf = True
        self._cancel_read_timer()
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._say(error)
        elif not self._in_body:
            cycle.keep_alive = False
        else:
            cycle.leave()
            if cycle.response_started or self.pipeline:
                self.transport.abort()
            else:
                self._say(error)

    def too_far_ahead(self) -> None:
        """Drop what comes, but read it: a client that leaves is seen only by reading."""
        super().too_far_ahead()
        self._deaf = True
        self._cancel_read_timer()

    def _say(self, error: ApiError) -> None:
        self._deaf = True
        self._idle.lift()
        self._end_timer = last_words(self.transport, raw_error(error), self.limits.linger_seconds)

    # --- clients that take nothing ---

    def pause_writing(self) -> None:
        """Watch whether the client takes anything."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """Be content."""
        super().resume_writing()
        if self._write_timer is not None and not self.transport.is_closing():
            self._write_timer.cancel()
            self._write_timer = None

    def on_response_complete(self) -> None:
        """Go on with the next request, or see the rest of the last answer off."""
        super().on_response_complete()
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._watch_writing()

    def idle_too_long(self) -> None:
        """Close an idle connection; one that has not even taken its last answer would never be closed."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().idle_too_long()

    def _watch_writing(self) -> None:
        self._unsent = unsent_bytes(self.transport)
        if self._write_timer is None:
            self._write_timer = self.awake.call_later(self.limits.write_seconds, self._look_at_writing)

    def _look_at_writing(self) -> None:
        self._write_timer = None
        if not self.transport.get_write_buffer_size():
            return
        unsent = unsent_bytes(self.transport)
        if unsent < self._unsent:
            self._watch_writing()
            return
        client = self.client[0] if self.client else "?"
        log.info(
            "client cut: it took nothing", client=client, seconds=self.limits.write_seconds, bytes=unsent
        )
        self.transport.abort()

    # --- timers ---

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _cancel_timers(self) -> None:
        self._cancel_read_timer()
        for timer in (self._write_timer, self._end_timer, self._presence_timer):
            if timer is not None:
                timer.cancel()
        self._write_timer = self._end_timer = self._presence_timer = None
