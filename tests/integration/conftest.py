"""Managers for tests against the whole program."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from manager import Manager


@pytest.fixture
def new_manager(tmp_path: Path) -> Iterator[Callable[..., Manager]]:
    """Make managers that are not started yet; all they leave running is ended afterwards."""
    numbers = itertools.count(1)
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Manager(tmp_path / f"manager-{next(numbers)}", **options))


@pytest.fixture
def manager(new_manager: Callable[..., Manager]) -> Manager:
    """One manager that is not started yet."""
    return new_manager()
