"""`python -m benchmarks [NAME ...]`: run the named benchmarks, or all, and print one table."""

import argparse
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final

from benchmarks.report import Figure, machine, progress, table

NAMES: Final = ("planning", "reaction", "load_overhead", "footprint", "proxy", "estimates", "account")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    names = parser.parse_args().names or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    print(machine(), flush=True)
    figures: list[Figure] = []
    for name in names:
        progress(f"benchmark: {name}")
        run: Callable[[], Iterator[Figure]] = import_module(f"benchmarks.{name}").run
        figures += run()
    print("\n" + table(figures))


if __name__ == "__main__":
    main()
