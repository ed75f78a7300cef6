"""What is measured of the loop, its manifest and its gates."""

import platform
from typing import Final

from reconciler.board import Snapshot
from reconciler.core.machine import Evicting, Halted, Idle, Loading, Settling, State
from reconciler.counts import Histogram
from reconciler.gateway.metrics.exposition import Page, labels
from reconciler.gateway.metrics.family import gauge, histogram
from reconciler.leases import Traffic

#: What the loop does, by the state of its machine.
DOING: Final[dict[type[State], str]] = {
    Idle: "idle",
    Loading: "loading",
    Evicting: "evicting",
    Settling: "settling",
    Halted: "halted",
}

BUILD = gauge("build_info", "Always 1: which version runs, and on which Python.", "version", "python")
GENERATION = gauge(
    "manifest_generation", "Number of the manifest in force; each change of its content adds one."
)
VALID = gauge(
    "manifest_valid", "1 = the newest manifest is in force, 0 = it was refused and an older one is."
)
COMMIT = gauge(
    "manifest_info",
    "Always 1: the commit of the manifest in force, and whether its files differ from it.",
    "commit",
    "dirty",
)
SAFE_MODE = gauge(
    "safe_mode", "1 while only pinned models are loaded, for the machine went down under others."
)
DEGRADED = gauge(
    "degraded", "1 while the ledger cannot be written, or the memory cannot be read or told apart."
)
ACTION = gauge("loop_action", "1 for what the loop does now, 0 for the rest.", "action")
SINCE = gauge("loop_action_seconds", "Seconds since the action in flight was begun; 0 = none is.")
AGE = gauge(
    "snapshot_age_seconds", "Seconds since the loop last finished a turn; it looks every 10 s when calm."
)
TURNS = histogram(
    "loop_turn_seconds", "Seconds that turns of the loop took; their count is how often it turned."
)
GATE_LIMIT = gauge("gate_limit", "Models that may compute behind a gate at once.", "gate")
GATE_INSIDE = gauge("gate_models", "Models that compute behind a gate.", "gate")
GATE_WAITING = gauge("gate_requests_waiting", "Requests that wait for a gate.", "gate")
FAMILIES: Final = (
    BUILD,
    GENERATION,
    VALID,
    COMMIT,
    SAFE_MODE,
    DEGRADED,
    ACTION,
    SINCE,
    AGE,
    TURNS,
    GATE_LIMIT,
    GATE_INSIDE,
    GATE_WAITING,
)


def write(page: Page, snapshot: Snapshot, traffic: Traffic, turns: Histogram, now: float) -> None:
    """Write how the loop is."""
    page.add(BUILD, 1, labels(version=snapshot.version, python=platform.python_version()))
    _manifest(page, snapshot)
    true = {c.type for c in snapshot.manifest_conditions if c.status == "True"}
    page.add(SAFE_MODE, int("SafeMode" in true))
    page.add(DEGRADED, int("Degraded" in true))
    state = snapshot.state
    for kind, doing in DOING.items():
        page.add(ACTION, int(isinstance(state, kind)), f'action="{doing}"')
    began = None if isinstance(state, Idle | Halted) else state.since
    page.add(SINCE, 0.0 if began is None else max(0.0, now - began))
    page.add(AGE, max(0.0, now - snapshot.at))
    page.spread(TURNS, turns)
    for gate in traffic.gates:
        known = labels(gate=gate.name)
        page.add(GATE_LIMIT, gate.limit, known)
        page.add(GATE_INSIDE, len(gate.inside), known)
        page.add(GATE_WAITING, gate.waiting, known)


def _manifest(page: Page, snapshot: Snapshot) -> None:
    page.add(GENERATION, snapshot.plan.generation)
    page.add(VALID, int(not snapshot.refused))
    source = snapshot.applied.source
    dirty = "true" if source.git_dirty else "false"
    page.add(COMMIT, 1, labels(commit=source.git_commit or "", dirty=dirty))
