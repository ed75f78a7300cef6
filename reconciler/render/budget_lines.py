"""The first lines of a budget: what models may have, and of which memory. Written from the JSON document."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.render.units import Scale

Json = Mapping[str, Any]


def memory_lines(machine: Json, scale: Scale) -> list[str]:
    """Return the share of models, the control group if one limits us, and the machine; each adds up by itself.

    What is not known of a machine is left out; only the first figure of a line carries the unit.
    """
    lines = [_models(machine, scale)]
    if machine["limited"]:
        lines.append(_line("group", [(machine["total"], "limit"), *_room(machine)], scale))
    if whole := _whole(machine):
        lines.append(_line("machine", whole, scale))
    return lines


def _models(machine: Json, scale: Scale) -> str:
    return _line(
        "models",
        [
            (machine["share"], _of_what(machine, scale)),
            (machine["reserve"], "reserve"),
            (machine["budget"], f"budget{_budget_bound(machine)}"),
            (machine["held"], "held"),
            (machine["reserved"], "reserved"),
            (machine["headroom"], f"headroom{_headroom_bound(machine, scale)}"),
        ],
        scale,
        unknown=True,
    )


def _of_what(machine: Json, scale: Scale) -> str:
    stated, share = machine["stated"], machine["share"]
    if share is None or (stated is not None and stated <= share):
        return "stated" if share is not None else "memory"
    place = "of the control group" if machine["limited"] else "of the machine"
    return place if stated is None else f"{place} ({scale.number(stated)} stated)"


def _budget_bound(machine: Json) -> str:
    """Return why the budget is not the share without the reserve."""
    budget, share, reserve = machine["budget"], machine["share"], machine["reserve"]
    if budget is None or budget == share - reserve:
        return ""
    if share <= reserve:
        return " (the reserve leaves nothing)"
    return " (the GPU ceiling)" if budget == machine["gpu"] else " (the hard mark)"


def _headroom_bound(machine: Json, scale: Scale) -> str:
    """Return why the headroom is not what is left of the budget."""
    headroom, budget, held = machine["headroom"], machine["budget"], machine["held"]
    if headroom is None or held is None or headroom >= max(0, budget - held - machine["reserved"]):
        return ""
    return f" (of {scale.number(machine['available'])} available)"


def _room(machine: Json) -> list[tuple[int | None, str]]:
    """Return what is left of the machine or group, and the marks in it."""
    return [(machine["available"], "available"), (machine["soft"], "soft"), (machine["hard"], "hard")]


def _whole(machine: Json) -> list[tuple[int | None, str]]:
    """Return the whole machine by who holds it: the figures behind the total are the total."""
    host = machine["host"]
    if host is None:
        if machine["total"] is None:
            return []
        return [(machine["total"], "total"), *_room(machine), (machine["gpu"], "GPU ceiling")]
    named = [
        (host["available"], "available"),
        (host["models"], "models"),
        (host["others"], "others"),
        (host["unattributed"], "unattributed"),
    ]
    # The kernel's own pages, pools of huge pages, and what is compressed.
    kernel = max(0, host["total"] - sum(count for count, _ in named))
    marks = [] if machine["limited"] else _room(machine)[1:]
    return [
        (host["total"], "total"),
        *named[:3],
        (kernel, "kernel"),
        named[3],
        *marks,
        (machine["gpu"], "GPU ceiling"),
    ]


def _line(
    label: str, figures: Iterable[tuple[int | None, str]], scale: Scale, *, unknown: bool = False
) -> str:
    words: list[str] = []
    for count, name in figures:
        if count is None and not unknown:
            continue
        bare = any(word[0].isdigit() for word in words) or count is None
        words.append(
            f"{scale.number(count)} {name}" if bare else f"{scale.number(count)} {scale.name} {name}"
        )
    return f"{label:<8} " + "   ".join(words)
