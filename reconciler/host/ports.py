"""Ports for models, from the machine's range."""

import errno
import socket
import threading
from collections.abc import Iterable
from typing import Final

from reconciler.host.errors import PortsExhausted

_NO_SUCH_FAMILY: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})


class Ports:
    """Hands out ports `first` to `last`, both included, going round, so that a released one rests a while."""

    def __init__(self, first: int, last: int) -> None:
        if not 0 < first <= last < 65536:
            raise ValueError(f"no port range: {first}-{last}")
        self.first = first
        self.last = last
        self._next = first
        self._lock = threading.Lock()

    def any_free(self, taken: Iterable[int] = ()) -> bool:
        """Return whether `allocate` would find a port now. Blocking."""
        promised = frozenset(taken)
        ahead = range(self._next, self.last + 1)
        return any(p not in promised and is_free(p) for p in (*ahead, *range(self.first, self._next)))

    def allocate(self, taken: Iterable[int] = (), preferred: int | None = None) -> int:
        """Return a port that can be bound now: `preferred` if that is free, else the next free one of the range.

        `taken` are ports already promised. Nothing reserves the port until the server binds it. Raises
        PortsExhausted. Blocking, some microseconds a port.
        """
        promised = frozenset(taken)
        if preferred is not None and preferred not in promised and is_free(preferred):
            return preferred
        with self._lock:
            size = self.last - self.first + 1
            for step in range(size):
                port = self.first + (self._next - self.first + step) % size
                if port not in promised and is_free(port):
                    self._next = port + 1 if port < self.last else self.first
                    return port
        held = len([port for port in promised if self.first <= port <= self.last])
        raise PortsExhausted(
            f"no free port in {self.first}-{self.last}: {held} belong to our models, the others to other programs;"
            " widen machine.ports"
        )


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port` on both loopbacks and on all addresses. Blocking."""
    return all(
        _binds(family, address, port)
        for family, address in (
            (socket.AF_INET, "127.0.0.1"),
            (socket.AF_INET, "0.0.0.0"),  # noqa: S104 - bound for an instant, never listening
            (socket.AF_INET6, "::1"),
            (socket.AF_INET6, "::"),
        )
    )


def _binds(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            # As servers do: connections of the previous owner that still linger are no hindrance.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address, port))
    except OSError as error:
        return error.errno in _NO_SUCH_FAMILY
    return True
