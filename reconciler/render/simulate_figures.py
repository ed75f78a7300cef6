"""What is told of one run: the rows of its table, each with how it is read from the document and compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reconciler.render.units import size

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: a value of each run."""

    label: str
    value: Callable[[Json], float | None]
    shown: Callable[[float], str]
    #: Which of the ratios to the first run belongs to it; "" = none.
    ratio: str = ""
    #: Whether the lowest value is the best.
    low: bool = False


def seconds(value: float) -> str:
    """Return seconds that are compared with each other, so always in seconds: `0.42 s`, `8.5 s`, `11448 s`.

    >>> seconds(0), seconds(0.4249), seconds(8.46), seconds(11448.2)
    ('0 s', '0.42 s', '8.5 s', '11448 s')
    """
    digits = 0 if not value or value >= 99.95 else 1 if value >= 0.995 else 2
    return f"{value:.{digits}f} s"


def share(value: float) -> str:
    """Return a share as per cent.

    >>> share(0.1986), share(0.00042), share(0)
    ('19.9 %', '0.042 %', '0 %')
    """
    if not value:
        return "0 %"
    return f"{value * 100:.1f} %" if value >= 0.001 else f"{value * 100:.2g} %"


def whole(value: float) -> str:
    """Return a count."""
    return f"{value:.0f}"


def figures(runs: Sequence[Json]) -> list[Figure]:
    """Return the rows that say anything of these runs: a reason that no run knows has none."""
    rows = [_REQUESTS, *_by_key(runs, "refused", ("waits", "refused")), *_WAITS]
    rows += _by_key(runs, "evicted", ("evictions",))
    rows.append(_REGRETS)
    if any(run["prewarm"] != "off" for run in runs):
        rows += _PREWARMS
    return rows + _MEMORY


def _by_key(runs: Sequence[Json], label: str, path: tuple[str, ...]) -> list[Figure]:
    keys = sorted({key for run in runs for key in _at(run, path)})
    return [Figure(f"{label} {key}", _getter(*path, key), whole, low=path[0] == "waits") for key in keys]


def _getter(*path: str) -> Callable[[Json], Any]:
    return lambda run: _at(run, path, 0)


def _at(run: Json, path: Sequence[str], missing: Any = None) -> Any:
    found: Any = run
    for key in path:
        found = found.get(key, missing)
    return found


def _of_budget(key: str) -> Callable[[Json], float | None]:
    return lambda run: run[key] / run["budget"] if run["budget"] else None


_REQUESTS: Final = Figure("requests", _getter("waits", "requests"), whole)
_WAITS: Final = [
    Figure("cold wait", _getter("waits", "cold_seconds"), seconds, "cold_seconds", low=True),
    Figure("waited for a load", _getter("waits", "cold"), whole, "cold", low=True),
    Figure("  of all requests", _getter("waits", "cold_share"), share),
    Figure("wait, median", _getter("waits", "p50"), seconds, "p50", low=True),
    Figure("wait, 95 %", _getter("waits", "p95"), seconds, "p95", low=True),
    Figure("wait, longest", _getter("waits", "longest"), seconds, "longest", low=True),
    Figure("loads", _getter("loads"), whole, "loads", low=True),
    Figure("load time", _getter("load_seconds"), seconds, "load_seconds", low=True),
    Figure("slot busy", _getter("slot_share"), share),
]
_REGRETS: Final = Figure("regrets", _getter("regrets"), whole, "regrets", low=True)
_PREWARMS: Final = [
    Figure("loads in advance", _getter("prewarms", "begun"), whole),
    Figure("  used", _getter("prewarms", "used"), whole),
    Figure("  in vain", _getter("prewarms", "in_vain"), whole),
    Figure("  broken off", _getter("prewarms", "aborted"), whole),
]
_MEMORY: Final = [
    Figure("memory for models", _getter("budget"), lambda v: size(int(v))),
    Figure("  held on average", _of_budget("held_mean"), share),
    Figure("  held at most", _of_budget("held_most"), share),
]
