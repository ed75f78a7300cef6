"""Samples as text: Prometheus' format 0.0.4, and OpenMetrics 1.0.0 for who asks for it.

Written here for its speed: a hundred models have more than ten thousand samples, for which `prometheus_client` takes
five to ten times as long; here the labels of a model are made into text once. The tests read it with that library.
"""

import math
from collections.abc import Iterable
from typing import Final

from reconciler.counts import Histogram
from reconciler.gateway.metrics.family import Family

PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_OPEN_TYPE: Final = "application/openmetrics-text"
_OPEN_VERSIONS: Final = ("", "1.0.0")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def wants_open(accept: str) -> bool:
    """Return whether an `Accept` header prefers OpenMetrics 1.0.0 to the plain format."""
    best = {True: 0.0, False: 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        said = dict(p.partition("=")[::2] for p in parameters)
        version = said.get("version", "").strip('" ')
        weight = _weight(said.get("q", "1"))
        if kind == _OPEN_TYPE:
            if version in _OPEN_VERSIONS:
                best[True] = max(best[True], weight)
        elif kind in ("text/plain", "text/*", "*/*"):
            best[False] = max(best[False], weight)
    return best[True] > 0 and best[True] >= best[False]


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0


def labels(**values: str) -> str:
    """Return labels as they stand in a sample.

    >>> labels(model='a"b', state="ready")
    'model="a\\\\"b",state="ready"'
    """
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in values.items())


class Page:
    """Collects samples, of whatever metric in whatever order, and writes each metric's together."""

    def __init__(self, families: Iterable[Family], *, open_metrics: bool) -> None:
        self._families = tuple(families)
        self._lines: dict[str, list[str]] = {family.name: [] for family in self._families}
        self._open = open_metrics

    def add(self, family: Family, value: float | None, labels: str = "") -> None:
        """Take one sample of a gauge or a counter. None = unknown, which is never written as a number."""
        if value is not None:
            shown = f"{{{labels}}}" if labels else ""
            self._lines[family.name].append(f"{family.name}{shown} {number(value)}\n")

    def spread(self, family: Family, values: Histogram, labels: str = "") -> None:
        """Take all samples of a histogram."""
        lines, name, known = self._lines[family.name], family.name, f"{labels}," if labels else ""
        below = 0
        for bound, count in zip((*values.bounds, math.inf), values.counts, strict=True):
            below += count
            lines.append(f'{name}_bucket{{{known}le="{_bound(bound)}"}} {below}\n')
        shown = f"{{{labels}}}" if labels else ""
        lines.append(f"{name}_count{shown} {below}\n")
        lines.append(f"{name}_sum{shown} {number(values.sum)}\n")

    def text(self) -> bytes:
        """Return the page."""
        made = []
        for family in self._families:
            # OpenMetrics names a counter without what its samples end with.
            name = family.name.removesuffix("_total") if self._open else family.name
            made.append(f"# HELP {name} {_help(family.help, self._open)}\n# TYPE {name} {family.kind}\n")
            made += self._lines[family.name]
        if self._open:
            made.append("# EOF\n")
        return "".join(made).encode()


def number(value: float) -> str:
    """Return a value as it is written. Counts and bytes stay whole numbers."""
    if isinstance(value, int):
        return str(int(value))
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _bound(value: float) -> str:
    return "+Inf" if value == math.inf else repr(float(value))


def _help(text: str, open_metrics: bool) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if open_metrics else escaped
