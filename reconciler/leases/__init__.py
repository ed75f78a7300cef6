"""Leases: who is served by which model right now, who waits and for what, and which models take no new request."""

from reconciler.leases.book import LeaseBook
from reconciler.leases.entry import Entry
from reconciler.leases.gates import RESERVE_SECONDS
from reconciler.leases.holds import MAX_HOLDS, MAX_SECONDS, Hold
from reconciler.leases.lease import Cut, Flow, Lease
from reconciler.leases.page import AGEING_PRIORITY, AGEING_SECONDS, Ticket
from reconciler.leases.record import Arrival, Ended
from reconciler.leases.traffic import GateTraffic, Head, QueueTraffic, Traffic
from reconciler.leases.types import (
    RETRY_AFTER_SECONDS,
    Admission,
    Endpoint,
    LeaseRefused,
    QueueLimits,
    Refusal,
)

__all__ = [
    "AGEING_PRIORITY",
    "AGEING_SECONDS",
    "MAX_HOLDS",
    "MAX_SECONDS",
    "RESERVE_SECONDS",
    "RETRY_AFTER_SECONDS",
    "Admission",
    "Arrival",
    "Cut",
    "Ended",
    "Endpoint",
    "Entry",
    "Flow",
    "GateTraffic",
    "Head",
    "Hold",
    "Lease",
    "LeaseBook",
    "LeaseRefused",
    "QueueLimits",
    "QueueTraffic",
    "Refusal",
    "Ticket",
    "Traffic",
]
