"""The object that serves, and how its methods are called for a request."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Union

from .caches import Caches
from .coroutines import Coroutines
from .direct import Direct
from .errors import Failed, Refused
from .jobs import Batch, Job, Stream
from .methods import METHODS, Method
from .runner import Runner
from .settings import Settings
from .stats import Stats


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


@dataclass(frozen=True)
class Events:
    """An answer in pieces, as server-sent events."""

    pieces: Generator[bytes, None, None]


Answer = Union[Reply, Events]


@dataclass(frozen=True)
class Request:
    """What a client asks. `gone` says whether it has left; `tiny`: the first piece of a text is all that is wanted."""

    path: str
    body: bytes
    content_type: str
    gone: Callable[[], bool]
    tiny: bool = False


class Service:
    """One constructed object. Its methods are called by `run`'s thread, or side by side if it allows that."""

    def __init__(self, model: Any, settings: Settings, stats: Stats) -> None:
        self.model = model
        self.role = settings.role
        self.name = settings.name
        self.saves = settings.saves
        self.stats = stats
        self._caches = Caches(model)
        concurrent = bool(getattr(model, "concurrent", False))
        self._coroutines = Coroutines(shared=concurrent)
        self._work: Runner | Direct = (
            Direct(settings.batch_max, self._caches, stats)
            if concurrent
            else Runner(settings.batch_max, settings.batch_wait, self._caches, stats)
        )
        self._methods = {
            name: Method(getattr(model, name), leading)
            for name, leading in METHODS.items()
            if callable(getattr(model, name, None))
        }

    def run(self) -> None:
        """Serve until `stop`. Call it in the thread that constructed the object."""
        self._work.run()

    def stop(self) -> None:
        """Have `run` return after the call that is being made."""
        self._work.stop()

    def close(self) -> None:
        """Put away what calls were made with, after `run` and the last answer."""
        self._coroutines.close()

    def has(self, name: str) -> bool:
        """Say whether the class has a method."""
        return name in self._methods

    def method(self, name: str) -> Method:
        """Return a method. Raises Refused (404) if the class has none."""
        try:
            return self._methods[name]
        except KeyError:
            raise Refused(f"{type(self.model).__name__} has no method {name}", 404) from None

    def call(self, request: Request, name: str, *positional: Any, options: Mapping[str, Any]) -> Any:
        """Call a method with those options that it takes, and return its result."""
        job = Job(lambda: self._resolved(name, positional, options))
        self._work.submit(job)
        return job.result(request.gone)

    def stream(self, request: Request, name: str, argument: Any, options: Mapping[str, Any]) -> Iterator[Any]:
        """Call a method that may return text or an iterator; yield the pieces as they come."""
        most = 1 if request.tiny else None
        job = Stream(lambda: _pieces(self._resolved(name, (argument,), options)), most)
        self._work.submit(job)
        return job.pieces(request.gone)

    def batch(
        self, request: Request, name: str, items: Sequence[Any], options: Mapping[str, Any], *before: Any
    ) -> list[Any]:
        """Call a method with a list, perhaps together with items of other requests; return a result for each item.

        `before` are arguments before the list: only requests with equal ones, and equal options, go together.
        """
        chosen = self.method(name).choose(options)
        key = json.dumps([name, before, chosen], sort_keys=True, default=repr)

        def together(part: list[Any]) -> list[Any]:
            return rows(name, self._resolved(name, (*before, part), chosen), len(part))

        job = Batch(key, together, items)
        self._work.submit(job)
        return list(job.result(request.gone))

    def count_tokens(self, request: Request, texts: Sequence[str]) -> int | None:
        """Return the tokens of texts, or None if the class has no `count_tokens`."""
        if not self.has("count_tokens"):
            return None
        job = Job(lambda: sum(int(self._resolved("count_tokens", (text,), {})) for text in texts))
        self._work.submit(job)
        return int(job.result(request.gone))

    def _resolved(self, name: str, positional: Sequence[Any], options: Mapping[str, Any]) -> Any:
        method = self.method(name)
        return self._coroutines.resolve(method(*positional, **method.choose(options)))


def _pieces(result: Any) -> Iterator[Any]:
    if hasattr(result, "__next__"):
        return iter(result)
    return iter((result,))


def rows(name: str, result: Any, count: int) -> list[Any]:
    """Return a result as a list with one entry for each item. Raises Failed if there are fewer or more."""
    plain = result.tolist() if hasattr(result, "tolist") else result
    wanted = f"a list of {count}, one for each item, is wanted"
    if isinstance(plain, (str, bytes, bytearray, dict, set, frozenset)):
        raise Failed(f"{name} returned a {type(plain).__name__}: {wanted}")
    try:
        found = list(plain)
    except TypeError as error:
        if hasattr(plain, "__iter__"):
            raise  # it can be gone through, but what it yields raised this: that is what has to be told
        raise Failed(f"{name} returned a {type(plain).__name__}: {wanted}") from error
    if len(found) != count:
        raise Failed(f"{name} returned {len(found)} results for {count} items: {wanted}")
    return [row.tolist() if hasattr(row, "tolist") else row for row in found]


def reply(value: Any, status: int = 200) -> Reply:
    """Return a value as JSON. Raises Failed for one that has no form in JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        return Reply(text.encode("utf-8", "replace"), status=status)
    except (TypeError, ValueError) as error:
        raise Failed(f"the result cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    """Return arrays, tensors and numbers of numeric libraries as lists and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
