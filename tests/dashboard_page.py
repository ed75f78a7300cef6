"""Pages of the dashboard in a browser, watched for what they complain of."""

import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

#: What a browser says of an answer that is an error, and of an address where nobody listens: tests cause these.
_EXPECTED = re.compile(r"Failed to load resource|net::ERR_")

expect.set_options(timeout=15_000)


@dataclass
class Opened:
    """Opens pages, each in a profile of its own, and closes them with the test."""

    browser: Browser
    stack: ExitStack
    #: Errors of scripts, and refusals of the policy.
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stack.callback(self._check)

    def __call__(
        self,
        url: str,
        *,
        theme: Literal["light", "dark"] = "light",
        width: int = 1280,
        height: int = 900,
        lenient: bool = False,
        first: str | None = None,
    ) -> Page:
        """Open an address; `lenient` lets a test run scripts in it, `first` is run before its own."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
            bypass_csp=lenient,
        )
        self.stack.callback(context.close)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self._hear(said.type, said.text))
        if first is not None:
            page.add_init_script(first)
        page.goto(url)
        return page

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not _EXPECTED.search(text):
            self.complaints.append(text)

    def _check(self) -> None:
        assert self.complaints == []


def row(page: Page, model: str) -> Locator:
    """Return a model's row in the table."""
    return page.locator("#models tbody tr").filter(has=page.get_by_role("link", name=model, exact=True))


def violations(page: Page) -> list[str]:
    """Return what axe finds wrong with a page, with the elements it is about."""
    response = Axe().run(page).response
    assert len(response["passes"]) > 15, "axe has looked at next to nothing"
    found = response["violations"]
    return [f"{v['id']}: {v['help']}: {[node['html'][:160] for node in v['nodes'][:3]]}" for v in found]
