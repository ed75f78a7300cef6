"""What was loaded before anybody asked, as parts of the status document, and as the line that people read."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reconciler.render.prewarm_shapes import ModelPrewarmDocument, PrewarmDocument

if TYPE_CHECKING:  # the command line renders, too, and needs no event loop
    from reconciler.board import Snapshot


#: Seconds of an hour.
_HOUR: Final = 3600.0


def prewarm_document(snapshot: "Snapshot", now: float) -> PrewarmDocument:
    """Return how good it was to load models in advance."""
    manifest, figures = snapshot.applied.manifest, snapshot.prewarmed
    return PrewarmDocument(
        mode=manifest.prewarm.value,
        per_hour=manifest.prewarm_per_hour,
        last_hour=sum(now - at < _HOUR for at in snapshot.world.prewarms.begun),
        begun=sum(m.begun for m in figures.models),
        used=sum(m.used for m in figures.models),
        in_vain=sum(m.in_vain for m in figures.models),
        broken_off=sum(m.broken_off for m in figures.models),
        precision=figures.precision,
        recall=figures.recall,
    )


def model_prewarm(snapshot: "Snapshot", model: str, now: float) -> ModelPrewarmDocument | None:
    """Return what became of a model's loads in advance; None = there were none, and nothing forbids them."""
    count = next((m for m in snapshot.prewarmed.models if m.model == model), None)
    until = dict(snapshot.world.prewarms.until).get(model, now)
    again_in = until - now if until > now else None
    if count is None:
        return None if again_in is None else ModelPrewarmDocument(0, 0, 0, 0, again_in)
    return ModelPrewarmDocument(count.begun, count.used, count.in_vain, count.broken_off, again_in)


def prewarm_lines(prewarm: Mapping[str, Any]) -> list[str]:
    """Return `prewarm  full: 12 begun in advance, 9 used, 2 in vain; ...`, or nothing if none was begun."""
    if not prewarm["begun"]:
        return []
    parts = [f"{prewarm['begun']} begun in advance", f"{prewarm['used']} used"]
    for key, words in (("in_vain", "in vain"), ("broken_off", "broken off")):
        if prewarm[key]:
            parts.append(f"{prewarm[key]} {words}")
    text = f"prewarm  {prewarm['mode']}: {', '.join(parts)}"
    if prewarm["recall"] is not None:
        text += f"; {prewarm['recall']:.0%} of all loads that somebody wanted were begun so"
    if prewarm["mode"] != "off" and prewarm["last_hour"] >= prewarm["per_hour"]:
        text += f"; no more this hour ({prewarm['last_hour']} of {prewarm['per_hour']})"
    return [text]
