"""Another program that takes memory and gives it back when told; run as a script it is that program.

Script: reads a number of MiB a line, holds exactly so many from then on, and answers with the number.
"""

import mmap
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

MIB = 1 << 20
PAGE = 4096


class Hog:
    """A process beside the models. `enter` is run in it before it begins (see `SmallMachine.enter`)."""

    def __init__(self, enter: Callable[[], None] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=enter,
        )
        self.hold(0)

    def hold(self, mib: int) -> None:
        """Have it hold `mib` MiB from now on; returns once it does."""
        assert self._process.stdin is not None, "a pipe"
        assert self._process.stdout is not None, "a pipe"
        self._process.stdin.write(f"{max(0, mib)}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer == f"{max(0, mib)}\n", f"the hog is gone: {self._process.poll()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Hold what the last line says until the input ends."""
    held: list[mmap.mmap] = []
    for line in sys.stdin:
        mib = int(line)
        while len(held) > mib:
            held.pop().close()
        while len(held) < mib:
            # Private memory of its own for each MiB: what is closed really goes back to the system.
            block = mmap.mmap(-1, MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for at in range(0, MIB, PAGE):
                block[at] = 1
            held.append(block)
        print(mib, flush=True)


if __name__ == "__main__":
    main()
