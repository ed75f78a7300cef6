"""The history of one model as a page; written from its JSON, so both say the same."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.words import counted, times
from reconciler.render.events_text import clock_text
from reconciler.render.history_bars import bars
from reconciler.render.history_text import seconds_text, since_line
from reconciler.render.paint import Paint, one_line, painter
from reconciler.render.units import size, span

Json = Mapping[str, Any]

#: Characters before the text of a line.
_INDENT = 10
_DIGEST = 8


def history_model_text(document: Json, *, colour: bool = False, blocks: bool = False) -> str:
    """Return the history of the only model of a document as text without a final newline."""
    paint = painter(colour)
    [model] = document["models"]
    lines = [paint(one_line(model["model"]), "bold"), since_line(document)]
    lines += _labelled("loads", _loads(model["loads"]))
    lines += _labelled("evicted", _evictions(model["evictions"], document["regret"], paint))
    lines += _labelled("prewarm", _prewarms(model["prewarms"]))
    lines += _labelled("cost", _cost(model))
    lines += _labelled("hours", _hours(model["arrivals"], blocks=blocks))
    return "\n".join(lines)


def _labelled(label: str, texts: Iterator[str]) -> list[str]:
    """Return lines below each other, the first with what they are about."""
    return [f"{label if n == 0 else '':<{_INDENT - 1}}{text}".rstrip() for n, text in enumerate(texts)]


def _loads(loads: Json) -> Iterator[str]:
    starts, digests = loads["starts"], loads["digests"]
    parts = [f"{starts['count']} ready"]
    parts += [
        f"{loads[key]} {word}"
        for key, word in (("wakes", "woken"), ("failed", "failed"), ("given_up", "given up"))
        if loads[key]
    ]
    yield ", ".join(parts) + (f"; {_starts(starts)}" if starts["count"] else "")
    if len(digests) > 1:
        for one in digests:
            settings = f"settings {one['digest'][:_DIGEST]}"
            count = counted(one["starts"]["count"], "load")
            yield f"  {settings}  {count}, last {clock_text(one['last_at'])}; {_starts(one['starts'])}"
    failed = [load for load in loads["newest"] if load["outcome"] == "failed"]
    for load in failed[-3:]:
        kind = f" ({load['failure']})" if load["failure"] else ""
        yield f"  {clock_text(load['at'])}  failed after {span(load['seconds'])}{kind}: {one_line(load['error'])}"


def _starts(starts: Json) -> str:
    held = f", held {size(starts['peak'])} at most" if starts["peak"] is not None else ""
    figures = ((starts["last"], "last"), (starts["median"], "median"), (starts["p95"], "95 % within"))
    return ", ".join(f"{word} {seconds_text(seconds)}" for seconds, word in figures) + held


def _evictions(evictions: Json, regret: float, paint: Paint) -> Iterator[str]:
    if not evictions["count"]:
        yield "never"
        return
    within = f"wanted again within {span(regret)}"
    reasons = [
        f"{r['count']} {r['reason']}" + (f" ({r['regretted']} regretted)" if r["regretted"] else "")
        for r in evictions["reasons"]
    ]
    bad = f"; {evictions['regretted']} regretted: {within}" if evictions["regretted"] else ""
    yield f"{times(evictions['count'])}: {', '.join(reasons)}{bad}"
    for one in [e for e in evictions["newest"] if e["outcome"] != "given-up"][-10:]:
        line = _eviction(one)
        yield paint(line, "red") if one["regretted"] else line


def _eviction(one: Json) -> str:
    whom = f" for {one_line(one['for_model'])}" if one["for_model"] else ""
    used = f", {_percent(one['used'])} in use" if one["used"] is not None else ""
    again = (
        "not wanted since"
        if one["wanted_after"] is None
        else f"wanted again after {span(one['wanted_after'])}"
    )
    state = f"{one['pressure']}{used}"
    return (
        f"  {clock_text(one['at'])}  {one['reason']}{whom}  ({state}; idle {span(one['idle'])} of"
        f" {span(one['resident'])})  {again}"
    )


def _prewarms(prewarms: Json) -> Iterator[str]:
    if not prewarms["count"] and not prewarms["aborted"]:
        yield "never loaded in advance"
        return
    parts = [f"{prewarms['used']} used", f"{prewarms['in_vain']} in vain"]
    parts += [f"{prewarms[key]} {word}" for key, word in _REST if prewarms[key]]
    shares = [
        f"{name} {_percent(prewarms[name])}" for name in ("precision", "recall") if prewarms[name] is not None
    ]
    spared = f"; spared {span(prewarms['spared'])} of waiting" if prewarms["spared"] else ""
    yield (
        f"{times(prewarms['count'])} in advance: {', '.join(parts)}"
        + "".join(f", {s}" for s in shares)
        + spared
    )


_REST = (("undecided", "not used yet"), ("aborted", "given up"))


def _cost(model: Json) -> Iterator[str]:
    arrivals, starts = model["arrivals"], model["loads"]["starts"]
    came = counted(arrivals["requests"], "request")
    waits = ""
    if arrivals["cold_seconds"]:
        waits = f", and waited {span(arrivals['cold_seconds'])} for it together"
    if arrivals["median"] is not None:
        figures = (("median", "median"), ("p95", "95 % within"), ("longest", "longest"))
        waits += ": " + ", ".join(f"{word} {span(arrivals[key])}" for key, word in figures)
    yield f"{arrivals['cold']} of {came} came while it took none{waits}"
    if starts["count"]:
        yield f"{span(starts['seconds'])} of loading"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _hours(arrivals: Json, *, blocks: bool) -> Iterator[str]:
    hours = arrivals["hours"]
    counts = [hour["requests"] for hour in hours]
    if not any(counts):
        yield "no requests"
        return
    busiest = max(hours, key=lambda hour: hour["requests"])
    most = f"most from {busiest['hour']:02}:00 to {busiest['hour'] + 1:02}:00 ({busiest['requests']})"
    yield f"0 |{bars(counts, blocks=blocks)}| 24  {most}"
