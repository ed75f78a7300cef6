"""Traces of the desks A, B and C of this folder, and large ones.

    python examples/traces/desks.py desk-a --days 7 --seed 1 > trace.csv
    python examples/traces/desks.py large --requests 1000000 --to large.csv.gz     # twelve models, a team for months

The same arguments make the same trace. What it asks for is made up; how much, by what their authors wrote.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.traces import behaviours as b
from examples.traces.catalogue import TWELVE
from examples.traces.days import days
from examples.traces.mixes import Mix, mixed
from reconciler.simulate.layout import Speed
from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_csv import write_csv
from reconciler.simulate.trace_order import number_anew
from reconciler.simulate.trace_read import write_trace

#: How fast answers are there: it decides when the next question of a session comes. Loads do not matter for a trace.
_A: Final[Mapping[str, Speed]] = {
    "llm": Speed(6.0, prompt=1500, output=45),
    "embed": Speed(3.0, prompt=4000, output=100),
    "asr": Speed(3.0, prompt=1000, output=60),
    "vit": Speed(2.5, prompt=4000, output=100),
    "retriever": Speed(2.5, prompt=8000, output=100),
}
_B: Final[Mapping[str, Speed]] = {
    "chat": Speed(18.0, prompt=350, output=10),
    "quick": Speed(6.0, prompt=1200, output=25),
    "vision": Speed(4.5, prompt=900, output=35),
    "embed": Speed(2.0, prompt=20_000, output=100),
    "rerank": Speed(2.0, prompt=20_000, output=100),
}
_C: Final[Mapping[str, Speed]] = {
    "chat": Speed(20.0, prompt=300, output=12),
    "assistant": Speed(20.0, prompt=300, output=12),
    "embed": Speed(4.0, prompt=8000, output=100),
    "whisper": Speed(3.0, prompt=1500, output=90),
    "code": Speed(4.0, prompt=1000, output=45),
    "pictures": Speed(9.0, prompt=1000, output=0.8),
}

_MIX_A: Final[Mix] = [
    ("chat", b.on_weekdays(b.chats(["llm"], 20), b.chats(["llm"], 6, (10.0, 22.0)))),
    ("rag", b.on_weekdays(b.questions("embed", "retriever", "llm", 9))),
    ("ingest", b.on_weekdays(b.ingests("embed", 2))),
    ("asr", b.on_weekdays(b.recordings("asr", "llm", (9, 11, 14, 16)))),
    ("vit", b.odd_calls(["vit"], 12)),
]
_MIX_B: Final[Mix] = [
    ("chat", b.chats(["chat"], 9, (8.5, 23.0))),
    ("quick", b.chats(["quick"], 16, (8.0, 23.5))),
    ("code", b.on_weekdays(b.coding("quick", 4))),
    ("vision", b.chats(["vision"], 5, (9.0, 22.0))),
    ("rag", b.on_weekdays(b.questions("embed", "rerank", "chat", 7))),
    ("ingest", b.ingests("embed", 1.5)),
    ("beat", b.heartbeats("quick", 3600.0)),
]
_MIX_C: Final[Mix] = [
    ("chat", b.chats(["assistant"], 14, (8.0, 23.0))),
    ("code", b.on_weekdays(b.coding("code", 6), b.coding("code", 2, hours=(10.0, 23.0)))),
    ("agent", b.on_weekdays(b.agents("chat", "code", 2))),
    ("img", b.pictures("pictures", 3, (10.0, 23.5))),
    ("asr", b.recordings("whisper", "chat", (8, 13, 18))),
    ("ingest", b.ingests("embed", 2)),
]
DESKS: Final = {"desk-a": (_A, _MIX_A), "desk-b": (_B, _MIX_B), "desk-c": (_C, _MIX_C)}

#: A team of so many times as many people as an ordinary desk has.
_TEAM: Final = 6.0
_DAYS_AT_MOST: Final = 10_000


def desk(name: str, count: int, seed: int) -> Trace:
    """Return so many days of a desk. Raises KeyError for one that there is not."""
    speeds, mix = DESKS[name]
    return days(mix, speeds, count, seed)


def large(requests: int, seed: int) -> Trace:
    """Return a trace of exactly so many requests to twelve models."""
    speeds = {name: kind.speed(3.0) for name, kind in TWELVE.items()}
    trace = days(mixed(lambda mean: mean * _TEAM), speeds, _DAYS_AT_MOST, seed, most=requests)
    for column in (trace.at, trace.model, trace.client, trace.prompt_tokens, trace.output_tokens):
        del column[requests:]
    del trace.think[requests:], trace.seconds[requests:]
    number_anew(trace)
    return trace


def main(words: Sequence[str]) -> int:
    """Write a trace. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("desk", choices=[*sorted(DESKS), "large"])
    parser.add_argument(
        "--days", type=int, default=7, help="of a desk (default 7); the first one is a Monday"
    )
    parser.add_argument("--requests", type=int, default=1_000_000, help="of a large one (default 1000000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another trace (default 1)")
    parser.add_argument("--to", type=Path, metavar="FILE", help="a file, instead of standard output")
    said = parser.parse_args(words)
    if said.days < 1 or said.requests < 1:
        parser.error("there must be 1 day and 1 request at least")
    large_one = said.desk == "large"
    trace = large(said.requests, said.seed) if large_one else desk(said.desk, said.days, said.seed)
    if said.to is not None:
        write_trace(trace, said.to)
    else:
        write_csv(trace, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
