"""The manager is stopped for a while, in every state, alone or with all its models, and goes on."""

from faults.cells import Cell

CELLS: tuple[Cell, ...] = ()
