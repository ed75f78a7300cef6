"""Names of models as clients write them: listing, near misses, and a form that is safe in a header."""

import difflib
from collections.abc import Iterable
from urllib.parse import quote

from reconciler.board import Snapshot
from reconciler.gateway.errors import ApiError

SHOWN = 20


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`: other case, a tag too many or too few, a typing slip; or None.

    >>> near("Chat:latest", ["chat", "code"])
    'chat'
    """
    ids = sorted(known)
    folded = name.casefold()
    for form in (str.casefold, lambda text: text.casefold().partition(":")[0]):
        for candidate in ids:
            if form(candidate) == form(name):
                return candidate
    by_fold = {candidate.casefold(): candidate for candidate in reversed(ids)}
    close = difflib.get_close_matches(folded, sorted(by_fold), n=1)
    return by_fold[close[0]] if close else None


def unknown(name: str, known: Iterable[str]) -> ApiError:
    """Return the 404 for a name nobody has: the nearest one, and what there is."""
    ids = sorted(known)
    shown = name if len(name) <= 100 else name[:100] + "..."
    guess = near(shown, ids)
    text = f"no model or alias is called {shown!r}"
    text += f"; did you mean {guess!r}?" if guess else "."
    listed = ", ".join(ids[:SHOWN]) + (f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else "")
    return ApiError("model_not_found", f"{text} Known: {listed or 'none'}")


def resolve(snapshot: Snapshot, name: str) -> str:
    """Return the model that serves a name or alias; raise the 404 `ApiError` if nobody does."""
    model = snapshot.applied.routes.get(name)
    if model is None:
        raise unknown(name, snapshot.applied.routes)
    return model


def header_form(name: str) -> bytes:
    """Return a name as a header value: printable ASCII stays, the rest is percent-encoded UTF-8."""
    return quote(name, safe="".join(map(chr, range(0x21, 0x7F))).replace("%", "")).encode()
