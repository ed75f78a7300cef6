"""From fields to a trace: whole columns at a time, and row by row where something in them is not as it should be."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from math import isfinite
from typing import Any, Final

from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_columns import floats, lengths, tokens
from reconciler.simulate.trace_errors import Faults
from reconciler.simulate.trace_fields import FieldError, seconds_of, time_of, tokens_of
from reconciler.simulate.trace_names import Names
from reconciler.simulate.trace_order import ascends, in_order
from reconciler.simulate.trace_times import (
    TEN_YEARS,
    TOO_LATE,
    Moment,
    Written,
    day_and_time,
    midnight_before,
)

#: What a row may say, in the order in which it is written, and what it must.
KEYS: Final = ("t", "model", "client", "prompt_tokens", "output_tokens", "think", "seconds")
NEEDED: Final = ("t", "model")
#: Requests a trace may have: it takes 40 bytes for each.
MOST_REQUESTS: Final = 20_000_000
#: A time that is so many seconds before the one above it is not merely out of order.
BACK: Final = 43_200.0

Columns = Mapping[str, Sequence[object]]
LineOf = Callable[[int], int]


class Gather:
    """Makes a trace of columns of fields, each a text or a JSON value. `zone` None = that of this machine."""

    def __init__(self, faults: Faults, zone: tzinfo | None = None) -> None:
        self.trace = Trace()
        self._faults = faults
        self._zone = zone
        self._settled = False
        self._written: Written | None = None
        self._models, self._clients = Names("model"), Names("client")
        self._readers: dict[str, Callable[[object], Any]] = {
            "t": self._time,
            "model": self._models.number,
            "client": self._clients.number,
            "prompt_tokens": partial(tokens_of, key="prompt_tokens"),
            "output_tokens": partial(tokens_of, key="output_tokens"),
            "think": partial(seconds_of, key="think"),
            "seconds": partial(seconds_of, key="seconds"),
        }

    def add(self, columns: Columns, line_of: LineOf) -> None:
        """Append rows; `line_of` gives the line of the one that is counted from 0 in `columns`.

        Raises TraceError when there are too many.
        """
        before = len(self.trace)
        lines = None if self._add_fast(columns) else self._add_slowly(columns, line_of)
        if self._written is Written.SECONDS and not ascends(self.trace.at, before):
            self._look_back(before, line_of if lines is None else lines.__getitem__)
        if len(self.trace) > MOST_REQUESTS:
            raise self._faults.error(
                line_of(0), f"there are more than {MOST_REQUESTS:,} requests; cut the file"
            )

    def settle_zone(self, zone: tzinfo | None) -> None:
        """Let the first zone that the file names be that of its midnights; None = it names none here."""
        if self._written is None and not self._settled and zone is not None:
            self._zone, self._settled = zone, True

    def finish(self) -> Trace:
        """Return the trace, in order of time. Raises TraceError for all faults, and if there are no rows."""
        self._faults.raise_any()
        trace = self.trace
        if not len(trace):
            raise self._faults.error(
                0, "there is no request in it; below the header, each is a line of its own"
            )
        trace.models, trace.clients = self._models.names, self._clients.names
        if self._written is not Written.SECONDS:
            midnight = midnight_before(min(trace.at), self._zone)
            trace.at = array("d", (round(at - midnight, 6) for at in trace.at))
        return in_order(trace)

    def _add_fast(self, columns: Columns) -> bool:
        """Append all rows, or none if any might be refused."""
        try:
            times = self._times(columns["t"])
            models, clients = (
                self._models.column(columns["model"]),
                self._clients.column(columns["client"]),
            )
            prompts, outputs = tokens(columns["prompt_tokens"]), tokens(columns["output_tokens"])
            thinks, seconds = lengths(columns["think"]), lengths(columns["seconds"])
        except (ValueError, TypeError, OverflowError):
            return False
        trace = self.trace
        trace.at.extend(times)
        trace.model.extend(models)
        trace.client.extend(clients)
        trace.prompt_tokens.extend(prompts)
        trace.output_tokens.extend(outputs)
        trace.think.extend(thinks)
        trace.seconds.extend(seconds)
        return True

    def _times(self, values: Sequence[Any]) -> "array[float]":
        if self._written is None:
            self._time(values[0])
        if self._written is Written.DATES:
            return array("d", [Moment(v.strip(), self._zone).epoch for v in values])
        times = floats(values)
        least, most = (0.0, TEN_YEARS) if self._written is Written.SECONDS else (TEN_YEARS, TOO_LATE)
        if not isfinite(sum(times)) or min(times) < least or max(times) >= most:
            raise ValueError
        return times

    def _add_slowly(self, columns: Columns, line_of: LineOf) -> list[int]:
        """Append the rows that are right, note what is wrong with the others; return the lines of the former."""
        lines: list[int] = []
        for place in range(len(columns["t"])):
            row: dict[str, Any] = {}
            for key, read in self._readers.items():
                try:
                    row[key] = read(columns[key][place])
                except FieldError as error:
                    self._faults.add(line_of(place), str(error))
            if len(row) == len(KEYS):
                self.trace.add(row.pop("t"), **row)
                lines.append(line_of(place))
        return lines

    def _time(self, value: object) -> float:
        at, written, zone = time_of(value, self._zone)
        if self._written is None:
            self.settle_zone(zone)
            self._written = written
        if written is not self._written:
            raise FieldError(f"t counts {written.value} here, and {self._written.value} in the rows above")
        return at

    def _look_back(self, begin: int, line_of: LineOf) -> None:
        """Note times that are long before the one above: sorting them would mix what happened on different days."""
        at = self.trace.at
        for place in range(max(begin, 1), len(at)):
            if at[place] <= at[place - 1] - BACK:
                told = f"t is {day_and_time(at[place])}, after {day_and_time(at[place - 1])} above"
                why = "count on over midnight (86400 and more), or give each trace a file of its own"
                self._faults.add(line_of(place - begin), f"{told}: {why}")
