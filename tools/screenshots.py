"""Takes pictures of the dashboard before made-up desks: `python tools/screenshots.py FOLDER [NAME ...]`.

The first of them is docs/images/dashboard.png.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import dashboard_desks as desks
from browser_found import ARGUMENTS, chromium
from dashboard_served import served
from reconciler.board import Snapshot


@dataclass(frozen=True)
class Shot:
    """One picture."""

    name: str
    desk: Callable[[float], Snapshot] = desks.desk
    dark: bool = False
    width: int = 1280
    height: int = 900
    page: str = "#/"
    whole: bool = False


SHOTS = (
    Shot("light"),
    Shot("dark", dark=True),
    Shot("whole", whole=True),
    Shot("few", desks.few, whole=True),
    Shot("narrow", width=360, height=780, whole=True),
    Shot("over-budget", desks.over_budget, whole=True),
    Shot("crowd", desks.crowd, whole=True),
    Shot("model", page="#/models/qwen3-72b", whole=True),
    Shot("model-dark-narrow", dark=True, width=360, height=780, page="#/models/mistral-old", whole=True),
)


def main(arguments: Sequence[str]) -> int:
    """Take all pictures, or those that are named; return the exit status."""
    path = chromium()
    if not arguments or path is None:
        sys.stderr.write("usage: tools/screenshots.py FOLDER [NAME ...]  (Chromium has to be installed)\n")
        return 64
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        for shot in SHOTS:
            if len(arguments) == 1 or shot.name in arguments[1:]:
                take(browser, shot, folder)
        browser.close()
    return 0


def take(browser: Browser, shot: Shot, folder: Path) -> None:
    """Take one picture."""
    with tempfile.TemporaryDirectory() as root, served(Path(root), shot.desk) as gateway:
        page = browser.new_page(
            viewport={"width": shot.width, "height": shot.height},
            color_scheme="dark" if shot.dark else "light",
            reduced_motion="reduce",
        )
        page.goto(f"{gateway.url}/{shot.page}")
        page.wait_for_selector("#models tbody tr, #model .facts div", state="attached")
        page.wait_for_timeout(2500)  # the timeline and the figures come on their own
        page.screenshot(path=folder / f"{shot.name}.png", full_page=shot.whole)
        page.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
