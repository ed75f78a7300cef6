"""`python -m benchmarks [NAME ...]`: run the named benchmarks, or all but the longest, and print one table."""

import argparse
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final

from benchmarks.report import Figure, machine, progress, table

NAMES: Final = (
    "planning",
    "reaction",
    "load_overhead",
    "footprint",
    "start",
    "gateway",
    "estimates",
    "account",
    "metrics",
    "alternation",
    "gates",
    "worker",
)
#: These take many minutes: run only when they are named.
LONG: Final = ("soak", "connections", "state", "policy")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*NAMES, *LONG)))
    parser.add_argument("--steps", type=int, default=500, help="of the soak (default: 500)")
    parser.add_argument("--seed", type=int, help="of the soak (default: a new one, which is printed)")
    parser.add_argument(
        "--seeds", type=int, default=2, help="of the policy: unseen desks of each kind (default: 2)"
    )
    given = parser.parse_args()
    said: dict[str, tuple[int | None, ...]] = {
        "soak": (given.steps, given.seed),
        "policy": (max(1, given.seeds),),
    }
    names = given.names or NAMES
    if unknown := [name for name in names if name not in (*NAMES, *LONG)]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join((*NAMES, *LONG))}")
    print(machine(), flush=True)
    figures: list[Figure] = []
    for name in names:
        progress(f"benchmark: {name}")
        run: Callable[..., Iterator[Figure]] = import_module(f"benchmarks.{name}").run
        figures += run(*said.get(name, ()))
    print("\n" + table(figures))


if __name__ == "__main__":
    main()
