"""The browser that tests of the dashboard use: a Chromium of the system; none is downloaded."""

import os
import shutil
from typing import Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: It speaks to nobody but the page under test.
ARGUMENTS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MISSING: Final = "no Chromium: install one (Debian: apt install chromium), or name it in CHROMIUM"


def chromium() -> str | None:
    """Return the path of a Chromium: `CHROMIUM` if it is set, else what is installed; None = there is none."""
    named = os.environ.get("CHROMIUM")
    if named:
        return shutil.which(named)
    return next((path for name in _NAMES if (path := shutil.which(name))), None)
