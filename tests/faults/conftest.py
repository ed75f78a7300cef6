"""Rigs that are shared by the cells of one file, and replaced when a cell has failed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from faults.cells import Cell
from faults.oracle import judge
from faults.rig import Rig, standing
from nursery import Nursery

#: Runs one cell on a rig and judges it.
Trial = Callable[[Cell], None]
#: Sets a rig up in a folder.
Stand = Callable[[Path, Nursery], AbstractContextManager[Rig]]


class Shelf:
    """Keeps one rig until a cell fails on it: nobody knows what it is like then."""

    def __init__(self, make: Callable[[], Path], nursery: Nursery, stand: Stand) -> None:
        self._make, self._nursery, self._stand = make, nursery, stand
        self._rig: Rig | None = None
        self._stack = ExitStack()

    @contextmanager
    def borrow(self) -> Iterator[Rig]:
        """Lend the rig."""
        if self._rig is None:
            self._rig = self._stack.enter_context(self._stand(self._make(), self._nursery))
        try:
            yield self._rig
        except BaseException:
            print(self._rig.output.read_text()[self._rig.cell_began :])
            self.close()
            raise

    def close(self) -> None:
        """End the rig."""
        self._rig = None
        self._stack.close()
        self._stack = ExitStack()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs on demand."""
    if not config.getoption("--slow-faults"):
        skip = pytest.mark.skip(reason="on demand: --slow-faults")
        for item in items:
            if item.get_closest_marker("slow_faults"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """What all managers of this process of pytest are forked from."""
    with Nursery("faults.zygote") as one:
        yield one


@pytest.fixture(scope="module")
def stand() -> Stand:
    """How the rig of one file of tests is set up: a file that needs another says so."""
    return standing


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery, stand: Stand) -> Iterator[Shelf]:
    """The rig of one file of tests."""
    one = Shelf(lambda: tmp_path_factory.mktemp("rig"), nursery, stand)
    yield one
    one.close()


@pytest.fixture
def trial(shelf: Shelf) -> Trial:
    """Run a cell on the shared rig: begin, do it, judge it, and bring all back to rest."""

    def run(cell: Cell) -> None:
        borrowed: AbstractContextManager[Rig] = shelf.borrow()
        with borrowed as rig:
            rig.begin()
            cell.run(rig)
            judge(rig)
            rig.rest()

    return run
