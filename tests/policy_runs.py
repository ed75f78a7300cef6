"""Runs of open traces, each made once for all tests that ask for it."""

from functools import cache

from benchmarks.policies import VARIANTS
from benchmarks.policy_desks import desk
from benchmarks.policy_table import Outcome
from reconciler.simulate.result import Result


@cache
def result(name: str, variant: str) -> Result:
    """Return what a variant of the benchmark makes of an open trace."""
    layout, trace = desk(name)
    return VARIANTS[variant].run(layout, trace)


def outcome(name: str, variant: str) -> Outcome:
    """Return what counts of it."""
    return Outcome.of(result(name, variant))


def cold_ratio(name: str, variant: str, base: str = "plain") -> float:
    """Return the seconds waited for models that were not there, relative to those of plain LRU."""
    return outcome(name, variant).cold / outcome(name, base).cold
