"""Whether a model that is ready still answers, as a document and as people read it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reconciler.render.paint import one_line
from reconciler.render.shapes import HealthDocument
from reconciler.render.units import span

if TYPE_CHECKING:
    from reconciler.board import Health


def health_document(health: "Health | None", now: float) -> HealthDocument | None:
    """Return what is known; None = the model is not ready."""
    if health is None:
        return None
    asked = health.asked_at is not None
    return HealthDocument(
        liveness="auto" if health.probed else "off",
        suspect=health.suspect,
        hung=health.hung,
        faults=health.faults,
        fault=health.fault,
        probing=health.asking,
        probed=None if health.asked_at is None else max(0.0, now - health.asked_at),
        probe_seconds=health.took if asked else None,
        probe_error=health.wrong,
    )


def health_text(health: Mapping[str, Any] | None) -> str:
    """Return it in a sentence; "" = there is nothing to say."""
    if health is None:
        return ""
    parts = []
    if health["hung"]:
        parts.append(f"hangs: {one_line(health['hung'])}")
    elif health["suspect"]:
        watched = "" if health["liveness"] == "auto" else ", and is only watched (liveness: off)"
        parts.append(f"may hang: {one_line(health['suspect'])}{watched}")
    elif health["faults"]:
        parts.append(f"failed {health['faults']} in a row: {one_line(health['fault'])}")
    if health["probing"]:
        parts.append("a request of our own waits for its answer")
    if health["probed"] is not None:
        wrong = f" wrongly ({one_line(health['probe_error'])})" if health["probe_error"] else ""
        took = f" in {span(health['probe_seconds'])}" if health["probe_seconds"] is not None else ""
        parts.append(f"answered a request of our own{wrong}{took}, {span(health['probed'])} ago")
    return "; ".join(parts)
