"""Telling the service manager how we are: systemd's notification protocol, one datagram a message.

Without NOTIFY_SOCKET in the environment (nobody asked, or macOS) nothing is ever sent.
"""

import os
import socket
from collections.abc import MutableMapping
from typing import Final

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
WATCHDOG_PID: Final = "WATCHDOG_PID"


class Notifier:
    """The way to the service manager. Never raises and never waits: nothing we do depends on its listening."""

    def __init__(self, address: str = "", watchdog: float | None = None) -> None:
        #: Seconds within which the service manager wants to hear WATCHDOG=1; None = it keeps no watch.
        self.watchdog = watchdog
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> "Notifier":
        """Return the notifier that `environ` describes, and take the variables out: they are for this process alone.

        Addresses that are neither a path nor abstract (`@name`) are not spoken to.
        """
        address, usec, pid = (environ.pop(name, "") for name in (SOCKET, WATCHDOG, WATCHDOG_PID))
        ours = not pid or pid == str(os.getpid())
        watchdog = int(usec) / 1e6 if ours and usec.isascii() and usec.isdecimal() and int(usec) else None
        return cls(address, watchdog) if address.startswith(("/", "@")) and len(address) > 1 else cls()

    @property
    def wanted(self) -> bool:
        """Whether anybody asked to be told."""
        return self._socket is not None

    def send(self, *fields: str) -> bool:
        """Send `NAME=value` fields as one message; return whether it was taken. What is not may be sent again."""
        if self._socket is None:
            return False
        message = "\n".join(" ".join(field.splitlines()) for field in fields)
        try:
            self._socket.sendto(message.encode("utf-8", "replace"), socket.MSG_DONTWAIT, self._address)
        except OSError:  # its queue is full, or it is being restarted itself
            return False
        return True

    def close(self) -> None:
        """Close the socket; nothing is sent any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
