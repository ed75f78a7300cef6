"""What a metric is: its name, its kind, what it says, and by what its samples are told apart."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `help` names the unit; a counter's name ends with `_total`."""

    name: str
    kind: Kind
    help: str
    #: Names of the labels, in the order in which they are written.
    labels: tuple[str, ...] = ()


def gauge(name: str, text: str, *labels: str) -> Family:
    """Return a metric that rises and falls."""
    return Family(f"reconcile_{name}", "gauge", text, labels)


def counter(name: str, text: str, *labels: str) -> Family:
    """Return a metric that only grows while the program runs."""
    return Family(f"reconcile_{name}_total", "counter", text, labels)


def histogram(name: str, text: str, *labels: str) -> Family:
    """Return a metric that counts values by their size."""
    return Family(f"reconcile_{name}", "histogram", text, labels)
