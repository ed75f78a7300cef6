"""What policies made of many desks, relative to plain LRU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Final

from benchmarks.policies import BASE, VARIANTS
from reconciler.simulate.result import Result

#: No desk counts as better than this: one that is all habit must not carry the mean.
FLOOR: Final = 0.30


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run. Seconds."""

    cold: float
    loads: int
    longest: float
    regrets: int
    refused: int

    @classmethod
    def of(cls, result: Result) -> "Outcome":
        """Return what counts of a result."""
        total = result.total
        return cls(
            total.cold_seconds, result.loads, total.longest, result.regrets, sum(total.refused.values())
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """One policy over many desks; ratios to the other one over the same desks."""

    #: Seconds of waiting for a model that is not there: the geometric mean over the desks, and the worst desk.
    cold: float
    worst: float
    #: Of the sums over all desks.
    loads: float
    regrets: float
    #: Of the longest wait of all, and on the desk where it is worst.
    longest: float
    longest_worst: float
    #: Requests that were refused, which must be none.
    refused: int


def summary(ours: Sequence[Outcome], base: Sequence[Outcome]) -> Summary:
    """Compare the same desks, in the same order."""
    pairs = list(zip(ours, base, strict=True))
    cold = [o.cold / b.cold for o, b in pairs]
    return Summary(
        cold=exp(sum(log(max(FLOOR, ratio)) for ratio in cold) / len(cold)),
        worst=max(cold),
        loads=sum(o.loads for o in ours) / sum(b.loads for b in base),
        regrets=sum(o.regrets for o in ours) / max(1, sum(b.regrets for b in base)),
        longest=max(o.longest for o in ours) / max(b.longest for b in base),
        longest_worst=max(o.longest / b.longest for o, b in pairs),
        refused=sum(o.refused for o in ours),
    )


def summaries(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Summary]:
    """Compare each variant with plain LRU, which must be among them."""
    return {name: summary(rows, outcomes[BASE]) for name, rows in outcomes.items()}


def table(title: str, found: Mapping[str, Summary]) -> str:
    """Return the comparison as a Markdown table."""
    lines = [
        f"| {title} | cold wait | loads | worst trace | longest wait | evicted too early |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {VARIANTS[name].what} | {s.cold:.3f} | {s.loads:.2f} | {s.worst:.2f} | {s.longest:.2f} | {s.regrets:.2f} |"
        for name, s in found.items()
    ]
    return "\n".join(lines)
