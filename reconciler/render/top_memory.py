"""The memory on a live screen: the budget and the machine as two bars with one legend."""

from collections.abc import Iterable
from typing import Final

from reconciler.render.cells import cut
from reconciler.render.paint import Paint, one_line
from reconciler.render.status_text import machine_lines, memory_line
from reconciler.render.stretches import Signs, Stretch, drawn, of_models
from reconciler.render.top_view import Json
from reconciler.render.units import Scale

_INDENT: Final = " " * 9
_NARROWEST: Final = 10
_BAD: Final = frozenset({"hard", "critical"})


def memory_block(status: Json, scale: Scale, signs: Signs, width: int, paint: Paint) -> list[str]:
    """Return the account and the machine, a bar below each where the figures are known, and what the signs mean."""
    memory = status["memory"]
    names = _by_size(status["models"])
    wide = max(_NARROWEST, width - len(_INDENT) - 2)
    budget, machine = _budget(status, names, signs), _machine(status, names, signs)
    lines = [memory_line(memory, scale)]
    lines += [f"{_INDENT}[{drawn(budget, wide)}]"] if budget else []
    lines += machine_lines(memory, scale)
    lines += [f"{_INDENT}[{_marked(machine, memory.get('marks'), signs, wide)}]"] if machine else []
    if budget or machine:
        lines.append(_INDENT + _legend(status, names, signs, paint))
    if memory["budget"] is None:
        lines.append(paint(f"{_INDENT}memory is unknown: {one_line(memory['source'])}", "red"))
    return [cut(line, width) for line in lines]


def _by_size(models: Iterable[Json]) -> list[Json]:
    """Return the models in memory, the largest first."""
    inside = [m for m in models if m["pid"] is not None and _holds(m)]
    return sorted(inside, key=lambda m: (-_holds(m), m["name"]))


def _holds(model: Json) -> int:
    return max(model["held"] or 0, model["size"] or 0)


def _budget(status: Json, models: list[Json], signs: Signs) -> list[Stretch]:
    """Return what the budget is made of: the models' charges together are `held`, each file once."""
    memory = status["memory"]
    if memory["budget"] is None or memory["held"] is None or memory["free"] is None:
        return []
    loading = {m["name"] for m in models if m["state"] == "loading"}
    charges = [(m["name"], 0 if m["name"] in loading else m["size"] or 0) for m in models]
    held = of_models(_within(charges, memory["held"]), signs)
    rest = memory["budget"] - memory["held"] - memory["reserved"] - memory["free"]
    return [
        *held,
        Stretch("reserved", memory["reserved"], signs.reserved),
        Stretch("free", memory["free"], signs.free),
        Stretch("taken", max(0, rest), signs.taken),
    ]


def _machine(status: Json, models: list[Json], signs: Signs) -> list[Stretch]:
    """Return the machine by who holds it; mapped weights, which the system may drop, count for their models."""
    memory, parts = status["memory"], status["memory"]["breakdown"]
    if parts is None:
        return []
    own = _within([(m["name"], m["memory"]["committed"] or 0) for m in models], parts["models"])
    warm = _within([(m["name"], m["memory"]["warm"] or 0) for m in models], parts["warm"])
    mapped = dict(warm)
    mine = [(name, size + mapped[name]) for name, size in own]
    inside = sum(size for _, size in mine)
    astray = parts["unattributed"]
    others = max(0, parts["total"] - parts["available"] - parts["models"] - astray)
    reserved = max(0, min(memory["reserved"], parts["total"] - inside - others - astray))
    free = max(0, parts["total"] - inside - others - astray - reserved)
    kept = min(free, memory.get("reserve") or 0)
    return [
        *of_models(mine, signs),
        Stretch("others", others, signs.taken),
        Stretch("unattributed", astray, signs.astray),
        Stretch("reserved", reserved, signs.reserved),
        Stretch("free", free - kept, signs.free),
        Stretch("reserve", kept, signs.reserve),
    ]


def _within(sizes: Iterable[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    """Return sizes whose sum is `most` at most: what several models share is in memory once."""
    found, left = [], most
    for name, size in sizes:
        taken = min(size, left)
        left -= taken
        found.append((name, taken))
    return found


def _marked(parts: list[Stretch], marks: Json | None, signs: Signs, width: int) -> str:
    """Return the machine's bar with a sign where each watermark stands: use grows from the left."""
    bar = drawn(parts, width)
    for name in ("soft", "hard", "critical") if marks is not None else ():
        at = min(width - 1, round((marks or {})[name] * width))
        bar = bar[:at] + signs.mark + bar[at + 1 :]
    return bar


def _legend(status: Json, models: list[Json], signs: Signs, paint: Paint) -> str:
    """Return what the signs mean; how much each is stands in the table and in the lines above."""
    memory = status["memory"]
    named = len(signs.models) - 1
    words = [f"{sign} {one_line(m['name'])}" for sign, m in zip(signs.models[:named], models, strict=False)]
    words += [f"{signs.models[-1]} {len(models) - named} more"] if len(models) > named else []
    words += [f"{signs.taken} others", f"{signs.free} free"]
    words += (
        [f"{signs.astray} unattributed"]
        if memory["breakdown"] and memory["breakdown"]["unattributed"]
        else []
    )
    words += [f"{signs.reserved} reserved"] if memory["reserved"] else []
    words += [f"{signs.reserve} reserve"] if memory.get("reserve") else []
    return "  ".join([*words, *_marks(memory, signs, paint)])


def _marks(memory: Json, signs: Signs, paint: Paint) -> list[str]:
    marks, pressure = memory.get("marks"), memory["pressure"]
    words = []
    if pressure["level"] != "calm":
        colour = "red" if pressure["level"] in _BAD else "yellow"
        words.append(paint(f"{pressure['level']}: {pressure['used'] or 0:.0%} in use", colour))
    if marks is not None:
        words.append(f"{signs.mark} marks {marks['soft']:.0%} {marks['hard']:.0%} {marks['critical']:.0%}")
    return words
