"""Back-pressure of a client's connection, and whether the client has gone while it is not read from."""

import asyncio
import socket
import struct
import sys
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl

#: The option that tells the state of a TCP connection in its first byte, and the state of one that nobody has ended.
#: (macOS: TCP_CONNECTION_INFO and TCPS_ESTABLISHED of netinet/tcp.h.)
_STATE_OPTION: Final = 0x106 if sys.platform == "darwin" else socket.TCP_INFO
_ESTABLISHED: Final = 4 if sys.platform == "darwin" else 1


class Flow(FlowControl):
    """Stops and goes on reading; of a connection that is being closed nothing is wanted any more."""

    def pause_reading(self) -> None:
        """Do not read from the client for now."""
        if not self._transport.is_closing():
            super().pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again."""
        if not self._transport.is_closing():
            super().resume_reading()


def has_left(transport: asyncio.Transport) -> bool:
    """Return whether the client has ended the connection, or its direction of it, though nothing is read.

    The event loop sees that only by reading, and what lies unread before the end hides it.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0 or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    return bool(sock.getsockopt(socket.IPPROTO_TCP, _STATE_OPTION, 1)[0] != _ESTABLISHED)


def reset(transport: asyncio.Transport) -> None:
    """Close in a way that no client takes for an orderly end."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
