"""What is kept from engines that load whatever a request names: no account would show it.

Such a server also tells, by its errors, which files there are.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from reconciler.engines import registry
from reconciler.gateway.body import forms
from reconciler.gateway.body.json_fields import read_object
from reconciler.gateway.call import Call
from reconciler.gateway.errors import ApiError
from reconciler.manifest.applied import ApiKey, Applied, Scope


def check_fields(applied: Applied, model: str, call: Call) -> None:
    """Raise `ApiError` (400) if a request names files for the model's server to load. A field that is null does not."""
    launch = applied.launches.get(model)
    withheld = registry.get(launch.engine).withheld if launch is not None else frozenset()
    if launch is None or not withheld:
        return
    for name in _stated(call, withheld):
        text = f"the field {name!r} is not passed on: the engine {launch.engine} would load what it names"
        raise ApiError("invalid_request", f"{text}; the manifest states what a model is made of")


def check_raw(applied: Applied, model: str, key: ApiKey | None) -> None:
    """Raise `ApiError` (403) if what is passed on unread could make the model's server load another model."""
    launch = applied.launches.get(model)
    if launch is None or key is None or Scope.ADMIN in key.scopes or not registry.get(launch.engine).swaps:
        return
    text = f"the engine {launch.engine} loads whatever model a request names: to pass one on unread"
    raise ApiError("insufficient_scope", f"{text} needs the scope admin; the paths of the data API do not")


def _stated(call: Call, names: frozenset[str]) -> Iterable[str]:
    if not call.is_json:
        fields = {field.name for field in forms.fields(call.body, call.header(b"content-type"))}
        return sorted(names & fields)
    try:
        found = _decoder(names).decode(call.body)
    except (msgspec.DecodeError, RecursionError):  # it takes no escape of half a surrogate pair
        document = read_object(call.body)
        return [name for name in sorted(names) if document.get(name) is not None]
    return [name for name in sorted(names) if getattr(found, name) is not None]


@lru_cache(maxsize=16)
def _decoder(names: frozenset[str]) -> "msgspec.json.Decoder[Any]":
    """Return what reads these fields and passes over all others, without making objects of them."""
    return msgspec.json.Decoder(msgspec.defstruct("Withheld", [(name, Any, None) for name in sorted(names)]))
