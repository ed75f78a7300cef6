"""`python -m benchmarks [NAME ...]`: run the named benchmarks, or all, and print one table."""

import argparse
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final

from benchmarks.report import Figure, machine, progress, table

NAMES: Final = ("planning", "reaction", "load_overhead", "footprint", "proxy")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=NAMES, default=NAMES, metavar="NAME")
    names = parser.parse_args().names
    print(machine(), flush=True)
    figures: list[Figure] = []
    for name in names:
        progress(f"benchmark: {name}")
        run: Callable[[], Iterator[Figure]] = import_module(f"benchmarks.{name}").run
        figures += run()
    print("\n" + table(figures))


if __name__ == "__main__":
    main()
