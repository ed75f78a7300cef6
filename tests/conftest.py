"""Fixtures every test may use."""

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

# Where Python is told to keep no bytecode, every program that a test starts compiles all of it: half a second each.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell has what it starts in the background ignore Ctrl-C, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have the faults that take long run, too."""
    parser.addoption(
        "--slow-faults", action="store_true", help="run the cells of tests/faults that take long"
    )


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio: it is what the program runs on."""
    return "asyncio"
