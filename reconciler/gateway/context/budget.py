"""How long a request may be, and how long an answer it asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.board import Snapshot
from reconciler.core.launch import Role
from reconciler.manifest.applied import Overflow, RequestLimits

#: The names of one wish, in the order in which they are told to people.
ANSWER_FIELDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict")
_STANDARD: Final = RequestLimits()
_WITHOUT: Final = frozenset({Role.EMBEDDING, Role.RERANK})


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that prompt and answer may have together, and what happens to a longer prompt."""

    tokens: int
    overflow: Overflow = Overflow.REJECT
    #: The model that summarises.
    summarizer: str | None = None


def budget_of(snapshot: Snapshot, model: str) -> Budget | None:
    """Return the budget of one request to `model`; None = it has none, or nobody knows it.

    What the manifest states comes first, then what the engine was asked for at its start. Embeddings and reranking
    have none: their engines split or refuse each text for themselves.
    """
    limits = snapshot.applied.limits.get(model, _STANDARD)
    if limits.role in _WITHOUT:
        return None
    tokens = limits.context.tokens or _started_with(snapshot, model)
    return Budget(tokens, limits.context.overflow, limits.context.summarizer) if tokens else None


def _started_with(snapshot: Snapshot, model: str) -> int | None:
    """Return the tokens one request has of what the engine was asked for (its slots share that)."""
    launch = snapshot.applied.launches.get(model)
    if launch is not None and launch.context_tokens:
        return launch.context_tokens
    preflights = snapshot.world.observation.preflights
    whole = next((p.context_tokens for p in preflights if p.model == model), None)
    return whole // max(1, launch.slots if launch else 1) if whole else None


def answer_tokens(document: Mapping[str, Any]) -> int:
    """Return the tokens of answer that a request asks for, the largest of what it says; 0 = it does not say."""
    return max(_number(document.get(field)) for field in ANSWER_FIELDS)


def _number(value: Any) -> int:
    """Return a number of tokens; what is none, and the negative ones for "no end", are 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < 2**53 else 2**53 if value >= 2**53 else 0
