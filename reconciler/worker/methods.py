"""Which keywords a function of the user's takes: it is given those, and no others."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Callable

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Method:
    """A bound method, or a class, with what its signature says. `leading` parameters are given by position."""

    def __init__(self, function: Callable[..., Any], leading: int = 0) -> None:
        self.function = function
        parameters = list(inspect.signature(function).parameters.values())
        self._any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        named = [p for p in parameters[leading:] if p.kind in _NAMED]
        self._names = frozenset(p.name for p in named)
        #: Keywords without a default, in the order they are written.
        self.required = tuple(p.name for p in named if p.default is inspect.Parameter.empty)

    def takes(self, name: str) -> bool:
        """Say whether the keyword may be given."""
        return self._any or name in self._names

    def choose(self, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the keywords offered that it takes."""
        return {name: value for name, value in offered.items() if self.takes(name)}

    def missing(self, offered: Mapping[str, Any]) -> list[str]:
        """Return the keywords it asks for that are not offered."""
        return [name for name in self.required if name not in offered]

    def __call__(self, *positional: Any, **keywords: Any) -> Any:
        """Call it."""
        return self.function(*positional, **keywords)
