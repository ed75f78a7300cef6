"""What is known of one word."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Where a word is said. The value stands in a sentence: "`MakeRoom` is ..."."""

    VERDICT = "why a model is loaded, kept, unloaded or stays out"
    FAILURE = "why a launch failed"
    CONDITION = "a condition, shown by `reconcile status`"
    ERROR = "an error of the gateway"
    FAULT = "a fault in a manifest"


@dataclass(frozen=True, slots=True)
class Word:
    """One word, what it means, what helps (empty = nothing has to be done), and the page that has the rest."""

    name: str
    kind: Kind
    means: str
    helps: str
    #: Below docs/, with the place in it.
    page: str
