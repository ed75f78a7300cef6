"""Processes, ports, log files, adoption, the lock: the only code that starts or stops anything."""

from reconciler.host.adopt import Record, Survivor
from reconciler.host.errors import (
    HostError,
    PortsExhausted,
    StartError,
    StateLocked,
    StateUnwritable,
    StopError,
)
from reconciler.host.exits import Exit
from reconciler.host.host import LOG_CAP, Host
from reconciler.host.identity import Process, alive, ending, identify
from reconciler.host.listeners import Listener, PortOwner, PortProof, listeners
from reconciler.host.lock import StateLock, holder_of
from reconciler.host.logs import Logs
from reconciler.host.ports import Ports, is_free
from reconciler.host.stop import StopReport

__all__ = [
    "LOG_CAP",
    "Exit",
    "Host",
    "HostError",
    "Listener",
    "Logs",
    "PortOwner",
    "PortProof",
    "Ports",
    "PortsExhausted",
    "Process",
    "Record",
    "StartError",
    "StateLock",
    "StateLocked",
    "StateUnwritable",
    "StopError",
    "StopReport",
    "Survivor",
    "alive",
    "ending",
    "holder_of",
    "identify",
    "is_free",
    "listeners",
]
