"""Shortening a conversation by its oldest turns, with few questions to the tokenizer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.gateway.context import estimate
from reconciler.gateway.context.budget import Budget, answer_tokens
from reconciler.gateway.context.media import counted_form
from reconciler.gateway.context.refusal import COUNTED, ESTIMATED
from reconciler.gateway.context.text import extent_of
from reconciler.gateway.context.turns import Talk

#: Asks the engine's tokenizer for the prompt tokens of (path, document); None = it cannot tell.
Counter = Callable[[str, Mapping[str, Any]], Awaitable[int | None]]

#: Of the budget, what is left for an answer of which the request says no length.
_FREE: Final = 4
#: Tries to find how much must go; the last one leaves out all that may go.
_TRIES: Final = 3


class Tally:
    """Counts prompts: by the tokenizer, and from the moment it cannot, by the plain estimate."""

    def __init__(self, counter: Counter, *, media: bool) -> None:
        """`media` = there may be images or audio, which are counted by their figures."""
        self._counter = counter
        self._media = media
        self.exact = True

    async def __call__(self, path: str, document: Mapping[str, Any]) -> int:
        """Return the tokens of a request's prompt."""
        if self.exact:
            media = extent_of(path, document).media if self._media else 0
            tokens = await self._counter(path, counted_form(path, document) if media else document)
            if tokens is not None:
                return tokens + media
            self.exact = False
        return estimate.estimated_tokens(path, document)

    @property
    def how(self) -> str:
        """Where the last figure comes from."""
        return COUNTED if self.exact else ESTIMATED


@dataclass(frozen=True, slots=True)
class Cut:
    """A conversation without its oldest turns. `document` is None where even the shortest is too long."""

    document: dict[str, Any] | None
    #: Turns left out, and tokens of what is left.
    dropped: int
    tokens: int


def room(budget: Budget, document: Mapping[str, Any]) -> tuple[int, int]:
    """Return the prompt tokens to aim at when shortening, and those that are just possible."""
    wanted = answer_tokens(document)
    return budget.tokens - (wanted or max(1, budget.tokens // _FREE)), budget.tokens - max(wanted, 1)


def first_cut(talk: Talk, aim: int, ratio: float, least: int = 0) -> int:
    """Return how many turns must go at least by the estimates, each `ratio` times what it says."""
    left = talk.size(least)
    for dropped in range(least, talk.most):
        if left * ratio <= aim:
            return dropped
        left -= talk.sizes[dropped]
    return talk.most


async def cut(
    talk: Talk, budget: Budget, tally: Tally, *, ratio: float, least: int = 1, note: str | None = None
) -> Cut:
    """Leave out as many of the oldest turns as it takes, `least` at least; asks the tokenizer three times at most.

    `ratio` is what one estimated token was found to be.
    """
    aim, most = room(budget, talk.document)
    dropped = first_cut(talk, aim, ratio, least)
    for attempt in range(1, _TRIES + 1):
        if attempt == _TRIES:
            dropped = talk.most
        document = talk.without(dropped, note)
        tokens = await tally(talk.path, document)
        if tokens <= (most if dropped == talk.most else aim):
            return Cut(document, dropped, tokens)
        if dropped == talk.most:
            break
        found = tokens / max(1, talk.size(dropped))
        dropped = first_cut(talk, aim, found, dropped + 1)
    return Cut(None, dropped, tokens)
