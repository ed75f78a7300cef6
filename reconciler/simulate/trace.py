"""A trace: requests in order of time, kept in columns, since there may be millions of them."""

from array import array
from dataclasses import dataclass, field
from math import nan
from typing import Final

#: A number of tokens that nobody told.
UNKNOWN: Final = 0xFFFF_FFFF


@dataclass(slots=True)
class Trace:
    """Requests, ascending by time. One row is the same place in every column.

    A row with `think` is begun that many seconds after the one of its client before it has ended (a session that waits
    for its answers); its time says when that would be were nothing ever loaded.
    """

    #: Seconds since a local midnight (any day's): what time of the day it is matters.
    at: "array[float]" = field(default_factory=lambda: array("d"))
    #: Which of `models` and of `clients` it is.
    model: "array[int]" = field(default_factory=lambda: array("I"))
    client: "array[int]" = field(default_factory=lambda: array("I"))
    #: `UNKNOWN` where nobody told it.
    prompt_tokens: "array[int]" = field(default_factory=lambda: array("I"))
    output_tokens: "array[int]" = field(default_factory=lambda: array("I"))
    #: Seconds after the answer to the request before; nan = it comes at its time, whatever became of that one.
    think: "array[float]" = field(default_factory=lambda: array("d"))
    #: Seconds it takes once it is served; nan = to be worked out from its tokens.
    seconds: "array[float]" = field(default_factory=lambda: array("d"))
    #: Names by number.
    models: list[str] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    #: Sentences on how it was read, for people: what was sorted, left out, or taken for something.
    notes: list[str] = field(default_factory=list, compare=False)

    def __len__(self) -> int:
        return len(self.at)

    def add(
        self,
        at: float,
        model: int,
        client: int,
        prompt_tokens: int = 0,
        output_tokens: int = 0,
        think: float = nan,
        seconds: float = nan,
    ) -> None:
        """Append one request; `model` and `client` are numbers in the lists of names."""
        self.at.append(at)
        self.model.append(model)
        self.client.append(client)
        self.prompt_tokens.append(prompt_tokens)
        self.output_tokens.append(output_tokens)
        self.think.append(think)
        self.seconds.append(seconds)
