"""Made-up desks of many kinds, each with any number of seeds: a manifest, a machine and what is asked of it.

    python examples/traces/kinds.py pingpong --seed 3 --to /tmp/pingpong     # manifest.yaml, machine.yaml, trace.csv.gz

Mixes, memory and disk are drawn from the seed, around what such desks have.
"""

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.traces import mixes
from examples.traces.catalogue import FIVE, SPEECH, TWELVE, Kind, machine_text, manifest_text
from examples.traces.days import days
from examples.traces.mixes import Mix, Much
from reconciler.simulate.layout import Speed
from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_read import write_trace


@dataclass(frozen=True, slots=True)
class Desk:
    """One kind of desk. `gb` are the sizes of memory it is tried with."""

    note: str
    models: Mapping[str, Kind]
    gb: tuple[float, ...]
    days: int
    mix: Callable[[Much], Mix]


@dataclass(frozen=True, slots=True)
class Made:
    """A desk as one seed makes it."""

    name: str
    manifest: str
    machine: str
    trace: Trace


#: Name of a kind -> what it is.
KINDS: Final[Mapping[str, Desk]] = {
    "chat-code": Desk("A 70B for chat and a coder: never together", FIVE, (62, 64, 65), 5, mixes.chat_code),
    "rag": Desk(
        "Documents are taken in and asked about; pictures come between", FIVE, (68, 72, 76), 5, mixes.rag
    ),
    "agent": Desk(
        "Agents alternate between planner and coder: never together", FIVE, (62, 64), 3, mixes.agent
    ),
    "speech": Desk(
        "Recordings by the hour, chat, pictures, a big model rarely", SPEECH, (66, 68, 72), 5, mixes.speech
    ),
    "mixed": Desk("Twelve models, a bit of everything", TWELVE, (78, 84, 92), 5, mixes.mixed),
    "team": Desk("A small team at the same time", TWELVE, (92, 100, 110), 3, mixes.team),
    "night": Desk(
        "Batches at night, people by day, a heartbeat every half hour", TWELVE, (76, 82), 6, mixes.night
    ),
    "wrong": Desk(
        "Single calls to models that are not used again soon", TWELVE, (74, 80, 86), 5, mixes.wrong
    ),
    "uniform": Desk("Any model at any time", TWELVE, (84, 90, 100), 3, mixes.uniform),
    "pingpong": Desk(
        "Two people at once with models that exclude each other", FIVE, (60, 62), 2, mixes.pingpong
    ),
    "drift": Desk("Other models from the fourth day on", TWELVE, (78, 88), 7, mixes.drift),
    "weekend": Desk("Other habits at the week-end", TWELVE, (76, 84, 96), 7, mixes.weekend),
    "fan-out": Desk("Work is handed out to many models at once", TWELVE, (80, 90), 3, mixes.fan_out),
    "heartbeat": Desk("Programs that ask by the clock, and people", SPEECH, (66, 70), 4, mixes.heartbeat),
}


def make(kind: str, seed: int) -> Made:
    """Return what one kind of desk is with one seed. Raises KeyError for a kind that there is not."""
    desk = KINDS[kind]
    draw = random.Random(f"{kind}/{seed}")  # noqa: S311 - nothing secret
    gb, disk = draw.choice(desk.gb), draw.choice((2.5, 3.0, 3.5, 4.0))
    speeds: dict[str, Speed] = {name: model.speed(disk) for name, model in desk.models.items()}
    mix = desk.mix(lambda mean: mean * draw.uniform(0.6, 1.5))
    return Made(
        name=f"{kind}-{seed}",
        manifest=manifest_text(desk.models, gb, f"{desk.note}."),
        machine=machine_text(speeds, gb),
        trace=days(mix, speeds, desk.days, seed),
    )


def main(words: Sequence[str]) -> int:
    """Write the files of one desk. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--seed", type=int, default=1, help="another seed, another desk (default 1)")
    parser.add_argument(
        "--to", type=Path, required=True, metavar="FOLDER", help="where the files are written"
    )
    said = parser.parse_args(words)
    made, folder = make(said.kind, said.seed), said.to
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.yaml").write_text(made.manifest, "utf-8")
    (folder / "machine.yaml").write_text(made.machine, "utf-8")
    write_trace(made.trace, folder / "trace.csv.gz")
    print(f"{folder}: {len(made.trace):,} requests to {len(made.trace.models)} models")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
