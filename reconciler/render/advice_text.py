"""Advice on one model as people read it; written from the document, so that both always say the same."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from reconciler.render.paint import one_line
from reconciler.render.plan_text import why_text
from reconciler.render.units import size, span

Json = Mapping[str, Any]
#: Seconds for which nobody waits.
_NOTHING: Final = 0.05
#: Changes that are told.
_CHANGES: Final = 8


def worth_lines(advice: Json) -> Iterable[tuple[str, str]]:
    """Yield what a model in memory is worth, and when it would give way, as label and text."""
    worth = advice["worth"]
    if worth is None:
        return
    yield "value", _value(worth)
    if worth["rank"] is not None:
        others = "the only one that may have to give way"
        first = "" if worth["rank"] == 1 else "; 1 goes first"
        yield "rank", others if worth["of"] == 1 else f"{worth['rank']} of {worth['of']} to give way{first}"


def room_lines(advice: Json) -> Iterable[tuple[str, str]]:
    """Yield who would go for a model, or what would make it fit, and whom it cannot stand together with."""
    if advice["worth"] is not None and advice["fits"] and advice["verdict"]["outcome"] != "keep":
        yield "room", _room(advice["goes"])
    for change in advice["changes"][:_CHANGES]:
        yield "would load", one_line(change["text"])
    for rivalry in advice["rivalries"]:
        yield "rivals", one_line(rivalry["text"])


def _value(worth: Json) -> str:
    """Return `12s to spare: 18s to come back, used again within 15 min: about 64 %`."""
    saves = f"{span(worth['seconds'])} to spare" if worth["seconds"] >= _NOTHING else "nothing to spare"
    back = f"{span(worth['return_seconds'])} to come back"
    if worth["soon"] is None:
        return f"{saves}: {back}; nothing is known yet of when it is used"
    guess = "" if worth["learned"] else ", by its idle time alone"
    return f"{saves}: {back}, used again within 15 min: {_percent(worth['soon'])}{guess}"


def _percent(share: float) -> str:
    """Return a probability; one that is worked out is never quite none or all."""
    if share < 0.01:
        return "less than 1 %"
    return "more than 99 %" if share > 0.99 else f"about {share * 100:.0f} %"


def _room(goes: Iterable[Json]) -> str:
    texts = [_goes(going) for going in goes]
    if not texts:
        return "there is room for it, nobody would go"
    return f"if it were asked for now: {'; '.join(texts)}"


def _goes(going: Json) -> str:
    verb = "sleeps" if going["sleeps"] else "goes"
    return f"{going['model']} {verb}, {size(going['bytes'])} ({why_text(going['reason'], going['detail'])})"
