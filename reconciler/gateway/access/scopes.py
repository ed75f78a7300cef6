"""Which scope a request needs. The first line of the table that is meant decides; docs/gateway.md shows it."""

from typing import Final

from reconciler.dashboard import PATHS
from reconciler.gateway.surface import SURFACE
from reconciler.manifest.applied import Scope

#: Methods that change nothing.
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Paths that answer without a key: for supervisors, and the files of the dashboard, which hold no data.
KEYLESS: Final = PATHS | {"/healthz"}

#: Any key will do.
ANY: Final = frozenset(Scope)
_INFER: Final = frozenset({Scope.INFER})
_READ: Final = frozenset({Scope.READ})
_ADMIN: Final = frozenset({Scope.ADMIN})
#: A client that may ask models may also see which there are.
_LISTS: Final = frozenset({Scope.INFER, Scope.READ})


def scopes_for(method: str, path: str) -> frozenset[Scope]:
    """Return the scopes of which a key needs one for this request.

    What an engine shows at its own paths may be other people's prompts, so all of `/upstream` is for those who may
    ask models. A path that nobody knows is told so to any key, unless the request could change something.
    """
    safe = method in SAFE
    if path in SURFACE or path.startswith("/upstream/"):
        return _INFER
    if path.startswith("/api/"):
        return _control(path, safe)
    if path == "/metrics":
        return _READ
    if path in ("/v1/models", "/models") or path.startswith("/v1/models/"):
        return _LISTS if safe else _INFER
    if path.startswith("/v1/"):
        return ANY if safe else _INFER
    if not safe and _meant(path):
        return _INFER
    return ANY if safe else _ADMIN


def _control(path: str, safe: bool) -> frozenset[Scope]:
    """Return the scopes for a path of the loop's API. What a model's server wrote may be other people's prompts."""
    if not safe:
        return _ADMIN
    if path == "/api/v1/whoami":
        return ANY
    return _ADMIN if path.startswith("/api/v1/models/") and path.endswith("/log") else _READ


def _meant(path: str) -> bool:
    """Say whether a path is one of the data API but for its `/v1` or its slashes: there is nothing but the hint."""
    plain = "/" + "/".join(part for part in path.split("/") if part)
    return plain in SURFACE or f"/v1{plain}" in SURFACE
