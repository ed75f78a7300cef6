"""Which keywords a function of the user's takes: it is given those, and no others."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Callable

#: Methods, and how many of their parameters are given by position.
METHODS: Mapping[str, int] = {
    "chat": 1,
    "complete": 1,
    "embed": 1,
    "rerank": 2,
    "transcribe": 1,
    "speak": 1,
    "image": 1,
    "classify": 1,
    "infer": 1,
    "save_state": 1,
    "load_state": 1,
    "probe": 0,
    "count_tokens": 1,
}
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Method:
    """A bound method, or a class, with what its signature says. `leading` parameters are given by position."""

    def __init__(self, function: Callable[..., Any], leading: int = 0) -> None:
        self.function = function
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (
            ValueError
        ):  # a class of the library in C, or made of one, does not tell: it is given nothing by name
            parameters = []
        #: What is given by position must not come by name as well, whatever fields a request has.
        self._leading = frozenset(p.name for p in parameters[:leading]) | _bound_to(function)
        self._any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        named = [p for p in parameters[leading:] if p.kind in _NAMED]
        self._names = frozenset(p.name for p in named)
        #: Keywords without a default, in the order they are written.
        self.required = tuple(p.name for p in named if p.default is inspect.Parameter.empty)

    def takes(self, name: str) -> bool:
        """Say whether the keyword may be given."""
        return name not in self._leading and (self._any or name in self._names)

    def choose(self, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the keywords offered that it takes."""
        return {name: value for name, value in offered.items() if self.takes(name)}

    def missing(self, offered: Mapping[str, Any]) -> list[str]:
        """Return the keywords it asks for that are not offered."""
        return [name for name in self.required if name not in offered]

    def __call__(self, /, *positional: Any, **keywords: Any) -> Any:
        """Call it."""
        return self.function(*positional, **keywords)


def _bound_to(function: Any) -> frozenset[str]:
    """Return what a bound method calls the object it belongs to: `self`, as a rule."""
    try:
        first = next(iter(inspect.signature(function.__func__).parameters.values()))
    except (AttributeError, StopIteration, ValueError):
        return frozenset()
    return frozenset({first.name})


def signed(function: Callable[..., Any]) -> bool:
    """Say whether a function tells its parameters; those written in C need not."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True
