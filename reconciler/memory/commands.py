"""Asking programs of the system. They are run by a function given from outside: nothing here starts a process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

#: Seconds after which a command is given up. They take 5-10 ms; `footprint` up to 0.1 s a process.
TIMEOUT: Final = 2.0


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed on standard output, and its exit status (0 = it says that all went well)."""

    text: str
    status: int = 0


#: Runs an argv (the program by its absolute path, no shell, `LC_ALL=C`, nothing on standard input) for at most so many
#: seconds. Raises OSError when it cannot be started, and TimeoutError, which is an OSError, when it takes longer.
Run = Callable[[Sequence[str], float], Output]


def ask(run: Run, argv: Sequence[str], *, partial: bool = False) -> tuple[str | None, str | None]:
    """Return what a command printed, or None and a sentence that says why there is nothing to read. Blocks.

    With `partial`, what it printed before it failed is returned too, beside the sentence.
    """
    name = PurePosixPath(argv[0]).name
    try:
        output = run(argv, TIMEOUT)
    except TimeoutError:
        return None, f"{name} did not answer within {TIMEOUT:.0f} s"
    except OSError as error:
        return None, f"{name} cannot be run: {error.strerror or error}"
    if output.status != 0:
        return output.text if partial else None, f"{name} failed with exit status {output.status}"
    return output.text, None


def no_commands(argv: Sequence[str], timeout: float) -> Output:
    """Stand for a way to run commands where none was given: every question fails with a sentence."""
    del timeout
    raise OSError(f"nothing was given that may start {argv[0]}")
