"""Who listens on a port, and the proof that it is the process we started."""

import ipaddress
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import Final

import psutil

from reconciler.host.identity import LINUX, Process, alive
from reconciler.host.tree import Mark, members

_LISTEN: Final = "0A"
_SYN_RECEIVED: Final = "03"
#: Where a model is asked.
_REACHED: Final = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """One listening TCP socket. `pid` is one process that holds it; None = another user's, not visible to us."""

    port: int
    address: str
    pid: int | None
    #: The kernel's number of the socket; 0 where it has none.
    inode: int = 0

    @property
    def place(self) -> str:
        """`127.0.0.1:18100` or `[::1]:18100`."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def on_loopback(self) -> bool:
        """A connection to 127.0.0.1 or ::1 can reach it."""
        address = ipaddress.ip_address(self.address)
        mapped = getattr(address, "ipv4_mapped", None)
        # 127.0.0.2 is on the loopback as well, but another address of it.
        return str(mapped or address) in _REACHED or address.is_unspecified


class PortOwner(Enum):
    """Whose a port is."""

    OURS = "ours"
    NOBODY = "nobody"
    STRANGER = "stranger"
    OTHER_PORT = "other port"


@dataclass(frozen=True, slots=True)
class PortProof:
    """Who listens on `port`. STRANGER and OURS carry the listener's pid; OTHER_PORT also where it listens.

    `addresses` of OURS are those on which it answers.
    """

    owner: PortOwner
    port: int
    pid: int | None = None
    ports: tuple[int, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The loopback address that reaches a port of ours, as a URL has it: some servers listen on ::1 alone."""
        six = [":" in address and "." not in address for address in self.addresses]
        return "[::1]" if self.owner is PortOwner.OURS and six and all(six) else "127.0.0.1"

    @property
    def message(self) -> str:
        """One sentence for people."""
        who = "another user's process" if self.pid is None else f"pid {self.pid}"
        match self.owner:
            case PortOwner.OURS:
                return f"{who} listens on {self.port}"
            case PortOwner.NOBODY:
                return f"nobody listens on {self.port}"
            case PortOwner.STRANGER:
                return f"port {self.port} belongs to {who}, which is not part of this model"
            case PortOwner.OTHER_PORT:
                if self.port in self.ports:
                    places, host = ", ".join(self.addresses), _REACHED[0]
                    return f"{who} listens on {places}, which is not reached at {host}"
                return f"{who} listens on {', '.join(map(str, self.ports))}, manifest says {self.port}"


def listeners(port: int) -> tuple[Listener, ...]:
    """Return who listens on `port`, on any address, sorted. Blocking (reads the open files of all processes)."""
    if LINUX:
        return _by_inode({inode: place for inode, place in _kernel_table().items() if place[1] == port})
    return tuple(found for found in _held_by(psutil.pids()) if found.port == port)


def owns_port(process: Process, mark: Mark, port: int) -> PortProof:
    """Prove whether a connection to `port` on the loopback reaches this launch. Blocking.

    A stranger beside us on the same port (in the other address family, or sharing it) makes it STRANGER: a client
    might reach that one.
    """
    # Nearly always the started process listens, and nobody else: then no other process need be read about.
    alone = _held_by([process.pid]) if alive(process) else ()
    mine = [found for found in alone if found.port == port and found.on_loopback]
    if mine and not _unclaimed(port, alone):
        return PortProof(PortOwner.OURS, port, process.pid, addresses=_addresses(mine))
    held = _held_by(p.pid for p in members(process, mark))
    mine = [found for found in held if found.port == port and found.on_loopback]
    others: list[Listener] = []
    for found in _unclaimed(port, held):
        ours = found.pid is not None and mark.on(found.pid)
        (mine if ours else others).append(found)
    if others:
        return PortProof(PortOwner.STRANGER, port, pid=others[0].pid)
    if mine:
        return PortProof(PortOwner.OURS, port, mine[0].pid, addresses=_addresses(mine))
    held = held or _held_by(p.pid for p in members(process, mark, thorough=True))
    if not held:
        return PortProof(PortOwner.NOBODY, port)
    ports = tuple(sorted({found.port for found in held}))
    return PortProof(PortOwner.OTHER_PORT, port, held[0].pid, ports, tuple(found.place for found in held))


@dataclass(frozen=True, slots=True)
class Door:
    """One open file of a process by which it listens."""

    pid: int
    descriptor: int
    inode: int

    def is_open(self) -> bool:
        """Return whether it still is that, in microseconds; the list of all sockets takes milliseconds."""
        try:
            return os.readlink(f"/proc/{self.pid}/fd/{self.descriptor}") == f"socket:[{self.inode}]"
        except OSError:
            return False


def door(pids: Iterable[int], port: int) -> Door | None:
    """Return by which open file one of `pids` listens on `port`; None = by none, or nobody tells. Blocking."""
    if not LINUX:
        return None
    wanted = {inode for inode, (_, number) in _kernel_table().items() if number == port}
    for pid in pids:
        for descriptor, inode in _sockets(pid):
            if inode in wanted:
                return Door(pid, descriptor, inode)
    return None


def _addresses(found: Iterable[Listener]) -> tuple[str, ...]:
    return tuple(sorted({listener.address for listener in found}))


def _unclaimed(port: int, held: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Return those that can answer on `port` and are not among `held`."""
    if LINUX:
        inodes = {found.inode for found in held}
        table = {i: place for i, place in _kernel_table().items() if place[1] == port and i not in inodes}
        # Only now is it worth reading the open files of every process.
        found = _by_inode(table) if table else ()
    else:
        found = tuple(listener for listener in listeners(port) if listener not in held)
    return tuple(listener for listener in found if listener.on_loopback)


def _held_by(pids: Iterable[int]) -> tuple[Listener, ...]:
    """Return the listening sockets of `pids`, sorted."""
    if not LINUX:
        return tuple(sorted(found for pid in pids for found in _from_psutil(pid)))
    table = _kernel_table()
    return tuple(
        sorted(
            Listener(table[inode][1], table[inode][0], pid, inode)
            for pid in pids
            for inode in _socket_inodes(pid)
            if inode in table
        )
    )


def _by_inode(table: dict[int, tuple[str, int]]) -> tuple[Listener, ...]:
    """Return the sockets of `table` with one holder each (the lowest pid that we may see)."""
    holders: dict[int, int] = {}
    for pid in sorted(psutil.pids()):
        for inode in _socket_inodes(pid) & table.keys():
            holders.setdefault(inode, pid)
    found = (Listener(port, address, holders.get(i), i) for i, (address, port) in table.items())
    return tuple(sorted(found, key=lambda listener: (listener.port, listener.address, listener.inode)))


def _socket_inodes(pid: int) -> set[int]:
    return {inode for _, inode in _sockets(pid)}


def _sockets(pid: int) -> Iterator[tuple[int, int]]:
    """Yield descriptor and inode of the open sockets of a process; nothing if it is gone, or another user's."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            yield int(name), int(target[8:-1])


def _kernel_table() -> dict[int, tuple[str, int]]:
    """Return inode -> (address, port) of every listening TCP socket of our network namespace."""
    found = {}
    for name in ("tcp", "tcp6"):
        try:
            with Path(f"/proc/net/{name}").open(encoding="ascii") as lines:
                next(lines, "")
                for fields in takewhile(_may_listen, map(str.split, lines)):
                    if fields[3] == _LISTEN:
                        address, _, port = fields[1].partition(":")
                        found[int(fields[9])] = (_address(address), int(port, 16))
        except OSError:
            continue  # a kernel without IPv6
    return found


def _may_listen(fields: list[str]) -> bool:
    """Tell whether a line is still among the listening sockets, which the kernel lists before all others.

    Those of closed connections alone can be thousands. Old kernels put half-open ones behind their listener.
    """
    return fields[3] in (_LISTEN, _SYN_RECEIVED)


def _address(text: str) -> str:
    """Turn the kernel's hexadecimal words, each in the machine's byte order, into the usual form."""
    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)


def _from_psutil(pid: int) -> Iterator[Listener]:
    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr:
            yield Listener(connection.laddr.port, connection.laddr.ip, pid)
