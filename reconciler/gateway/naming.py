"""Names of models as clients write them: listing, near misses, and a form that is safe in a header."""

import difflib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from reconciler.board import Snapshot
from reconciler.gateway.errors import ApiError
from reconciler.gateway.surface import SURFACE
from reconciler.manifest.applied import Virtual

SHOWN = 20
SHOWN_PATH: Final = 200
NO_VIRTUAL: Final[Mapping[str, Virtual]] = MappingProxyType({})
#: Begins the paths that go to an engine as they are.
UPSTREAM: Final = b"/upstream/"

_EVICT: Final = "POST /api/v1/models/NAME/evict"
#: Paths of other programs' own that have another name here, with all below them: whose, theirs, ours.
_ELSEWHERE: Final = {
    "llama-swap": {
        "/running": "GET /api/v1/status",
        "/unload": _EVICT,
        "/api/models/unload": _EVICT,
        "/logs": "`reconcile logs NAME`",
        "/ui": "/",
        "/health": "/healthz",
    },
    "Ollama": {
        "/api/chat": "POST /v1/chat/completions",
        "/api/generate": "POST /v1/completions",
        "/api/embed": "POST /v1/embeddings",
        "/api/embeddings": "POST /v1/embeddings",
        "/api/tags": "GET /v1/models",
        "/api/ps": "GET /api/v1/status",
    },
    "LM Studio": {"/api/v0": "/v1"},
}


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


def nowhere(path: str, own: Iterable[str]) -> ApiError:
    """Return the 404 for a path that is none: the nearest of the data API's and of our `own`, if one is like it.

    Mostly a base URL was given without its `/v1`, or with it twice, or with a slash too many.
    """
    known = {*SURFACE, *own}
    plain = "/" + "/".join(part for part in path.split("/") if part)
    forms = (plain, f"/v1{plain}", plain.removeprefix("/v1"), f"/api{plain}", f"/api/v1{plain}")
    guess = next((form for form in forms if form in known), None)
    if guess is None:
        close = difflib.get_close_matches(plain[:SHOWN_PATH], sorted(known), n=1, cutoff=0.8)
        guess = close[0] if close else None
    shown = path if len(path) <= SHOWN_PATH else path[:SHOWN_PATH] + "..."
    hint = elsewhere(plain) or (f"; did you mean {guess}?" if guess else "")
    return ApiError("not_found", f"there is nothing at {shown}{hint}")


def elsewhere(path: str) -> str:
    """Return what takes the place of a path that another program has, for clients that moved in; "" = none of theirs.

    >>> elsewhere("/running")
    "; /running is llama-swap's: here it is GET /api/v1/status"
    """
    for whose, paths in _ELSEWHERE.items():
        for theirs, ours in paths.items():
            if path == theirs or path.startswith(f"{theirs}/"):
                return f"; {theirs} is {whose}'s: here it is {ours}"
    return ""


def resolve(snapshot: Snapshot, name: str) -> str:
    """Return the model that serves a name or alias; raise the 404 `ApiError` if nobody does."""
    model = snapshot.applied.routes.get(name)
    if model is not None:
        return model
    virtual = snapshot.applied.virtual.get(name)
    if virtual is not None:
        raise several(virtual)
    raise unknown(name, {*snapshot.applied.routes, *snapshot.applied.virtual})


def several(virtual: Virtual) -> ApiError:
    """Return the 404 for a virtual model where one of those behind it has to be named."""
    text = f"{virtual.name!r} is a virtual model ({', '.join(virtual.models)}): name one of them"
    return ApiError("model_not_found", text)


def split_upstream(
    tail: bytes, routes: Mapping[str, str], virtual: Mapping[str, Virtual] = NO_VIRTUAL
) -> tuple[str, bytes]:
    """Split what follows `/upstream/` into the longest name or alias it begins with, and the engine's path.

    A `/` within a name may be written as it is or as `%2F`; the rest stays byte for byte. Raises the 404 `ApiError`
    if nobody has such a name, or several models stand behind it.

    >>> split_upstream(b"a%2Fb/x%2Fy/", {"a": "a", "a/b": "b"})
    ('a/b', b'/x%2Fy/')
    """
    parts = tail.split(b"/")
    # No name has more parts than the one with the most: a path of a thousand is not tried a thousand times.
    most = 1 + max((name.count("/") for name in (*routes, *virtual)), default=0)
    for count in range(min(most, len(parts)), 0, -1):
        name = _text(b"/".join(parts[:count]))
        if name in routes:
            return name, b"/" + b"/".join(parts[count:])
        if name in virtual:
            raise several(virtual[name])
    raise unknown(_text(parts[0]), routes)


def _text(part: bytes) -> str:
    return unquote_to_bytes(part).decode("utf-8", "replace")


@lru_cache(maxsize=1024)
def header_form(name: str) -> bytes:
    """Return a name as a header value: printable ASCII stays, the rest is percent-encoded UTF-8."""
    return quote(name, safe="".join(map(chr, range(0x21, 0x7F))).replace("%", "")).encode()
