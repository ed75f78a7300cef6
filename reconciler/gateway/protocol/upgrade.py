"""Leaving HTTP: how an application takes over the connection of a client that asked for a WebSocket."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from reconciler.gateway.protocol.connection import GatewayProtocol

#: Key in `scope["extensions"]` under which an `Upgrade` is found. Without it there is nothing to take over.
EXTENSION: Final = "reconciler.upgrade"
#: Bytes a client may send before its handshake is answered; it is not read any further then.
EARLY_BYTES: Final = 64 * 1024


class Successor(Protocol):
    """What serves the connection from then on: an asyncio protocol that the server can end."""

    def taken_over(self, transport: asyncio.Transport, left: Callable[[], None]) -> None:
        """Take the connection; `left` is to be called when it is lost."""

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""

    def shutdown(self) -> None:
        """End in order: the server stops."""


class Upgrade:
    """One handshake that is not answered yet. Bytes that come after its head are kept."""

    def __init__(self, protocol: "GatewayProtocol") -> None:
        self._protocol: GatewayProtocol | None = protocol
        self._early = bytearray()

    def early(self, data: bytes) -> None:
        """Keep bytes that came before the answer to the handshake."""
        self._early += data
        if self._protocol is not None and len(self._early) > EARLY_BYTES:
            self._protocol.flow.pause_reading()

    def take(self, successor: Successor) -> asyncio.Transport | None:
        """Hand the connection to `successor`, which gets the early bytes, too; return it, or None if it is lost.

        The HTTP side has no part in it afterwards: nothing may be sent through ASGI.
        """
        protocol, self._protocol = self._protocol, None
        transport = protocol.release(successor) if protocol is not None else None
        if transport is not None and self._early:
            successor.data_received(bytes(self._early))
        self._early.clear()
        return transport
