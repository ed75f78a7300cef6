"""Queues, gates, virtual models and leases as people read them; written from the status document."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.render.paint import Paint, one_line
from reconciler.render.units import span

Json = Mapping[str, Any]


def gate_lines(gates: Sequence[Json]) -> list[str]:
    """Return one line, `gates    heavy 1 of 1 (chat), 2 waiting   llm 0 of 2`, or none without gates."""
    return ["gates    " + "   ".join(f"{g['name']} {gate_text(g)}" for g in gates)] if gates else []


def virtual_lines(virtual: Sequence[Json]) -> list[str]:
    """Return one line, `virtual  auto (quick, big)`, or none without virtual models."""
    return ["virtual  " + "   ".join(map(virtual_text, virtual))] if virtual else []


def virtual_text(virtual: Json) -> str:
    """Return `auto (quick, big)`."""
    return f"{virtual['name']} ({', '.join(virtual['models'])})"


def gate_text(gate: Json) -> str:
    """Return `1 of 1 (chat), 2 waiting`."""
    inside = f" ({', '.join(gate['inside'])})" if gate["inside"] else ""
    waiting = f", {gate['waiting']} waiting" if gate["waiting"] else ""
    return f"{len(gate['inside'])} of {gate['limit']}{inside}{waiting}"


def lease_lines(leases: Sequence[Json], paint: Paint) -> list[str]:
    """Return a table of the leases that have not ended; no line without one."""
    live = [lease for lease in leases if lease["state"] != "ended"]
    if not live:
        return []
    rows = [("LEASE", "MODEL", "STATE", "ENDS IN", "OWNER")]
    rows += [(x["id"], x["model"], x["state"], span(x["ends_in"]), one_line(x["owner"])) for x in live]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    lines = ["  ".join([*(row[n].ljust(width) for n, width in enumerate(widths)), row[4]]) for row in rows]
    return [paint(lines[0], "bold"), *lines[1:]]


def queue_text(model: Json) -> str:
    """Return who is next in a model's queue, and how long it may get; nothing while nobody waits."""
    queue = model["queue"]
    if queue is None or queue["next"] is None:
        return ""
    first = queue["next"]
    owner = f" of {one_line(first['owner'])}" if first["owner"] else ""
    place = f"; the oldest is number {queue['oldest_place']}" if queue["oldest_place"] > 1 else ""
    return (
        f"next is a request{owner} of priority {first['priority']} that waits {span(first['waits'])} for"
        f" {_waits_for(first['waits_for'])}{place}; at most {queue['max']} wait, {span(queue['timeout'])} each"
    )


def _waits_for(what: str) -> str:
    return {"load": "the model to be loaded", "place": "one that is served to end"}.get(what, what)


def gate_texts(status: Json, model: Json) -> Iterator[str]:
    """Yield what goes on at each gate of a model."""
    names = model["queue"]["gates"] if model["queue"] else ()
    for gate in status["gates"]:
        if gate["name"] in names:
            yield f"{gate['name']}: {gate_text(gate)}"


def lease_texts(status: Json, model: str) -> Iterator[str]:
    """Yield the leases on a model, and for those that ended lately why."""
    for lease in status["leases"]:
        if lease["model"] != model:
            continue
        end = (
            f"ended: {one_line(lease['reason'])}"
            if lease["state"] == "ended"
            else f"{lease['state']}, ends in {span(lease['ends_in'])}"
        )
        yield f"{lease['id']} of {one_line(lease['owner'])}, {end}"
