"""The context budget: how long a request may be, and what happens to a longer one."""

from reconciler.gateway.context.budget import Budget, answer_tokens, budget_of
from reconciler.gateway.context.check import Fitted, count_answer, early, fit
from reconciler.gateway.context.estimate import estimated_tokens
from reconciler.gateway.context.overflow import Counter
from reconciler.gateway.context.summary import Ask, Summaries, Wish

__all__ = [
    "Ask",
    "Budget",
    "Counter",
    "Fitted",
    "Summaries",
    "Wish",
    "answer_tokens",
    "budget_of",
    "count_answer",
    "early",
    "estimated_tokens",
    "fit",
]
