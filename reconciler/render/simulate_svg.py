"""SVG as text: escaping, numbers, paths, and the colours for light and dark."""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from xml.sax.saxutils import escape

from reconciler.render.paint import one_line

#: What XML cannot hold at all, however it is written.
_NO_XML: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")
#: One a model, told apart on white and on black; the thirteenth begins anew.
COLOURS: Final = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948"),
    *("#9c755f", "#d37295", "#8cd17d", "#499894", "#a0a6ad", "#7a6fbf"),
)
_LIGHT: Final = {
    "page": "#ffffff",
    "ink": "#1f2328",
    "faint": "#59636e",
    "grid": "#d1d9e0",
    "wait": "#d1242f",
}
_DARK: Final = {"page": "#0d1117", "ink": "#e6edf3", "faint": "#9198a1", "grid": "#3d444d", "wait": "#ff6b62"}


def text(value: str) -> str:
    """Return text that may stand anywhere in a document: nothing in a name ends an element or an attribute."""
    return escape(_NO_XML.sub("\N{REPLACEMENT CHARACTER}", one_line(value)), {'"': "&quot;"})


def shortened(value: str, most: int) -> str:
    """Return a name of at most so many characters."""
    return value if len(value) <= most else value[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def number(value: float) -> str:
    """Return a coordinate: a tenth of a pixel is enough, and short.

    >>> number(12.0), number(3.14159), number(-0.04)
    ('12', '3.1', '0')
    """
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def label(x: float, y: float, kind: str, value: str, *, anchor: str = "") -> str:
    """Return a line of text whose foot is at `y`."""
    ends = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{number(x)}" y="{number(y)}" class="{kind}"{ends}>{text(value)}</text>'


def path(kind: str, pieces: Iterable[str], *, hatched: bool = False) -> str:
    """Return all pieces as one element, or nothing if there are none. `hatched`: with the filling of that name."""
    drawn = "".join(pieces)
    return f'<path {look(kind, hatched=hatched)} d="{drawn}"/>' if drawn else ""


def look(kind: str, *, hatched: bool = False) -> str:
    """Return the attributes that make an element look like its kind."""
    return f'class="{kind}" fill="url(#{kind})"' if hatched else f'class="{kind}"'


def box(left: float, top: float, right: float, bottom: float) -> str:
    """Return the piece of a path that is a rectangle."""
    width, height = number(right - left), number(bottom - top)
    return f"M{number(left)} {number(top)}h{width}v{height}h-{width}z"


def band(left: float, tops: Sequence[float], bottoms: Sequence[float]) -> str:
    """Return the piece of a path between two stairs with a step a pixel; only changes are written."""
    if all(top == bottom for top, bottom in zip(tops, bottoms, strict=True)):
        return ""
    end = left + len(tops)
    there = _stairs([(left + n, y) for n, y in enumerate(tops)], end)
    back = [(left + n + 1, y) for n, y in enumerate(bottoms)][::-1]
    return f"M{number(left)} {number(tops[0])}{there}V{number(bottoms[-1])}{_stairs(back, left)}z"


def _stairs(points: Sequence[tuple[float, float]], end: float) -> str:
    pieces, level = [], number(points[0][1])
    for x, y in points[1:]:
        if number(y) != level:
            level = number(y)
            pieces.append(f"H{number(x)}V{level}")
    return "".join(pieces) + f"H{number(end)}"


def style() -> str:
    """Return the style sheet; the reader's program chooses between light and dark."""
    models = "".join(f".m{n}{{fill:{colour}}}" for n, colour in enumerate(COLOURS))
    return (
        "<style>text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif}"
        ".h{font-weight:600;font-size:15px}.s{font-size:10px}"
        f"{models}{_sheet(_LIGHT)}@media (prefers-color-scheme:dark){{{_sheet(_DARK)}}}</style>"
    )


def _sheet(colours: dict[str, str]) -> str:
    return (
        f".page{{fill:{colours['page']}}}.t,.h{{fill:{colours['ink']}}}.s{{fill:{colours['faint']}}}"
        f".g{{stroke:{colours['grid']};fill:none}}.d{{stroke:{colours['faint']};fill:none}}"
        f".b{{stroke:{colours['ink']};fill:none;stroke-dasharray:5 3}}"
        f".w{{fill:{colours['wait']}}}.lb{{fill:{colours['page']}}}.ll{{stroke:{colours['ink']};stroke-width:1.6}}"
        f".eb{{fill:{colours['faint']}}}.el{{stroke:{colours['page']};stroke-width:1.4}}"
    )


def hatchings() -> str:
    """Return the fillings of loads (rising lines) and of evictions (falling lines on a darker ground)."""
    return (
        '<defs><pattern id="load" width="5" height="5" patternUnits="userSpaceOnUse">'
        '<rect width="5" height="5" class="lb"/><path class="ll" d="M-1 6L6-1M-1 1L1-1M4 6L6 4"/></pattern>'
        '<pattern id="evict" width="5" height="5" patternUnits="userSpaceOnUse">'
        '<rect width="5" height="5" class="eb"/><path class="el" d="M-1-1L6 6M4-1L6 1M-1 4L1 6"/></pattern></defs>'
    )
