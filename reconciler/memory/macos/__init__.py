"""Memory of macOS on Apple silicon: what its commands and `libproc` say, and what may be believed of it."""

from reconciler.memory.commands import Output, Run
from reconciler.memory.macos.machine import MacMachine

__all__ = ["MacMachine", "Output", "Run"]
