"""One Chromium for each module: its loop, like every loop of asyncio, suffers no other in the same thread."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from browser_found import ARGUMENTS, MISSING, chromium
from dashboard_page import Opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser; without one the tests that need it are skipped."""
    path = chromium()
    if path is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Opens pages; at the end none of them may have complained of anything."""
    with ExitStack() as stack:
        yield Opened(browser, stack)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the module's own."""
    return tmp_path_factory.mktemp("browser")
