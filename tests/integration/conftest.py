"""Managers for tests against the whole program."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from manager import Manager
from nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """What managers of this process of pytest are forked from."""
    with Nursery() as one:
        yield one


@pytest.fixture
def new_manager(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Manager]]:
    """Make managers that are not started yet; all they leave running is ended afterwards.

    They are forked, which spares their imports; those of tests marked `program` are started as people do.
    """
    whole = request.node.get_closest_marker("program") is not None
    nursery = None if whole else request.getfixturevalue("nursery")
    numbers = itertools.count(1)

    def made(**options: Any) -> Manager:
        folder = tmp_path / f"manager-{next(numbers)}"
        return stack.enter_context(Manager(folder, **{"nursery": nursery, **options}))

    with ExitStack() as stack:
        yield made


@pytest.fixture
def manager(new_manager: Callable[..., Manager]) -> Manager:
    """One manager that is not started yet."""
    return new_manager()
