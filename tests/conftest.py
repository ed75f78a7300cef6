"""Fixtures every test may use."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio: it is what the program runs on."""
    return "asyncio"
