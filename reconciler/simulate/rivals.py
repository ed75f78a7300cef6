"""Models that swapped with each other and can never stand together: what no choice of a victim can help."""

from collections import Counter

from reconciler.core.types import Manifest, Residency
from reconciler.render.simulate_shapes import RivalsDocument
from reconciler.simulate.result import Result

#: Seconds after an eviction within which its model, wanted again, was in use at the time.
AT_ONCE = 600.0
#: Swaps below which two models are not worth a line: it may have been chance.
_FEW = 3


def rivals(manifest: Manifest, result: Result) -> tuple[RivalsDocument, ...]:
    """Return the pairs that gave way to each other while both were used, and lack memory to stand together."""
    swaps = Counter(
        (min(a.model, a.for_model), max(a.model, a.for_model))
        for a in result.actions
        if a.kind == "evict" and a.for_model and a.wanted_after is not None and a.wanted_after <= AT_ONCE
    )
    found = []
    for pair, count in swaps.items():
        short = _short(manifest, result, pair)
        if short > 0 and count >= _FEW:
            found.append(RivalsDocument(pair, count, short))
    return tuple(sorted(found, key=lambda r: (-r.swaps, r.models)))


def _short(manifest: Manifest, result: Result, pair: tuple[str, str]) -> int:
    """Return the bytes that two models lack to stand together beside the pinned ones; 0 = they fit, or unknown."""
    pinned = {m.name for m in manifest.models if m.residency is Residency.PINNED}
    sizes = [result.sizes.get(name) for name in sorted(pinned.union(pair))]
    known = [size for size in sizes if size is not None]
    return max(0, sum(known) - result.budget) if len(known) == len(sizes) else 0
