"""Advice on one model as people read it; written from the document, so that both always say the same."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from reconciler.render.paint import one_line
from reconciler.render.plan_text import why_text
from reconciler.render.units import size

Json = Mapping[str, Any]
#: Changes that are told.
_CHANGES: Final = 8


def worth_lines(advice: Json) -> Iterable[tuple[str, str]]:
    """Yield what a model in memory is worth, if that decides anything, and when it would give way; label and text."""
    worth = advice["worth"]
    if worth is None:
        return
    if worth["decides"]:
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
    """Return `8.8 s = (10.6 s to load + 4.0 s for making room) x 0.6000 for how soon; used again ...: about 78 %`.

    Where several are expected to wait together, their number is a third term.
    """
    load, besides = worth["load_seconds"], worth["return_seconds"] - worth["load_seconds"]
    back = f"({load:.1f} s to load + {besides:.1f} s for making room)"
    if worth["soon"] is None:
        return f"0.0 s = {back} x 0; nothing is known yet of when it is used"
    guess = "" if worth["learned"] else ", by its idle time alone"
    terms = f"{worth['seconds']:.1f} s = {back} x {worth['returns']:.4f} for how soon"
    if worth["waiters"] != 1.0:
        terms += f" x {worth['waiters']:.2f} who wait together"
    return f"{terms}; used again within 15 min: {_percent(worth['soon'])}{guess}"


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
