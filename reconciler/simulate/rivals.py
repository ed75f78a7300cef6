"""Models that swapped with each other and can never stand together: what no choice of a victim can help."""

from collections import Counter

from reconciler.render.advice_document import rivalry_document
from reconciler.render.simulate_shapes import RivalsDocument
from reconciler.simulate.adviser import Adviser
from reconciler.simulate.result import Result

#: Seconds after an eviction within which its model, wanted again, was in use at the time.
AT_ONCE = 600.0
#: Swaps below which two models are not worth a line: it may have been chance.
_FEW = 3


def rivals(adviser: Adviser, result: Result) -> tuple[RivalsDocument, ...]:
    """Return the pairs that gave way to each other while both were used, and lack memory to stand together."""
    swaps = Counter(
        (min(a.model, a.for_model), max(a.model, a.for_model))
        for a in result.actions
        if a.kind == "evict" and a.for_model and a.wanted_after is not None and a.wanted_after <= AT_ONCE
    )
    found = []
    for pair, count in swaps.items():
        apart = adviser.rivalry(pair) if count >= _FEW else None
        if apart is not None:
            told = rivalry_document(apart)
            found.append(RivalsDocument(pair, count, told.short, told.changes, told.together, told.text))
    return tuple(sorted(found, key=lambda r: (-r.swaps, r.models)))
