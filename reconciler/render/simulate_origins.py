"""Where the figures of a simulation come from, in a line or two: stated, measured here, or assumed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reconciler.core.words import counted
from reconciler.render.paint import one_line

Json = Mapping[str, Any]

#: What is told together, and the figures it is made of.
_KINDS: Final = {"loads": ("load",), "evictions": ("evict",), "answers": ("prompt", "output", "fixed")}
_WORDS: Final = {
    "measured": "measured here",
    "stated": "as described",
    "in part": "in part as described",
    "assumed": "assumed by size",
}
#: Models that are named of each kind before they are counted.
_NAMED: Final = 4


def origin_lines(trace: Json, runs: Sequence[Json]) -> list[str]:
    """Return what the seconds of these runs rest on; a manifest with other figures than the rest has its own lines."""
    manifests = {run["manifest"]: list(_of_run(trace, run)) for run in runs}
    told = list(manifests.values())
    if all(lines == told[0] for lines in told):
        return told[0]
    return [f"{one_line(name)}: {line}" for name, lines in manifests.items() for line in lines]


def _of_run(trace: Json, run: Json) -> Iterator[str]:
    """Yield a line for all kinds of figures that come from the same places."""
    used = [m for m in run["models"] if m["speed"] is not None and (m["waits"]["requests"] or m["loads"])]
    if not used:
        return
    same: dict[str, list[str]] = {}
    for kind, keys in _KINDS.items():
        if kind != "answers" or trace["timed"] < trace["requests"]:
            same.setdefault(_origins(used, keys), []).append(kind)
    for text, kinds in same.items():
        yield f"{_listed(kinds)}: {text}"
    if timed := trace["timed"]:
        all_of_them = timed == trace["requests"]
        which = "answers" if all_of_them else f"answers to {counted(timed, 'request')}"
        yield f"{which}: as long as the trace says"


def _origins(models: Sequence[Json], keys: Sequence[str]) -> str:
    """Return which models have their figures from where; the best known first."""
    found: dict[str, list[str]] = {}
    for model in models:
        found.setdefault(_origin(model["speed"], keys), []).append(one_line(model["name"]))
    if len(found) == 1:
        return _WORDS[next(iter(found))]
    return "; ".join(
        f"{words} for {_named(found[origin])}" for origin, words in _WORDS.items() if origin in found
    )


def _origin(speed: Json, keys: Sequence[str]) -> str:
    origins = {speed[key]["origin"] for key in keys}
    return origins.pop() if len(origins) == 1 else "in part"


def _named(names: Sequence[str]) -> str:
    """Return the first names, and how many there are besides.

    >>> _named(["a", "b"]), _named(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c, d and 1 more')
    """
    more = len(names) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def _listed(kinds: Sequence[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"
