"""What macOS says of its GPU ceiling. Its memory and swap are read by its own probe."""

from collections.abc import Iterator
from typing import Final

from reconciler.core.memory import Memory
from reconciler.doctor.finding import Finding, cannot_tell, note, ok
from reconciler.doctor.graphics import check_ceiling
from reconciler.memory.commands import Run, ask
from reconciler.memory.macos.sysctl import number, parse_sysctl, sysctl_command

_WIRED: Final = "iogpu.wired_limit_mb"


def check_macos(memory: Memory, run: Run) -> Iterator[Finding]:
    """Yield how much of the memory the GPU may hold wired. Blocks: it asks sysctl."""
    text, problem = ask(run, sysctl_command((_WIRED,)))
    limit = number(parse_sysctl(text), _WIRED) if text is not None else None
    if problem is not None:
        yield cannot_tell("gpu", problem)
    elif limit is None:
        yield cannot_tell("gpu", f"sysctl does not state {_WIRED}")
    elif limit == 0:
        yield note(
            "gpu",
            f"{_WIRED} is 0: the system's default, about two thirds to three quarters of the memory",
            f"sudo sysctl {_WIRED}=N (MiB, until the next boot) lets models hold more; leave the system 8 GiB",
        )
    else:
        yield ok("gpu", f"{_WIRED} is {limit} MiB")
    yield from check_ceiling(memory, True)
