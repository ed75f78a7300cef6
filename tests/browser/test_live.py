"""The dashboard before a real manager: what happens shows by itself, and what is asked for is done."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dashboard_page import Opened, row
from manager import SOON, Manager


@pytest.fixture(scope="module")
def desk(folder: Path) -> Iterator[Manager]:
    """A manager of two models of which one fits at a time, and a small one."""
    with Manager(folder / "desk") as manager:
        manager.write(models(manager), memory=500)
        yield manager.start()


def models(manager: Manager) -> dict[str, dict[str, object]]:
    """Return the manifest's models."""
    return {
        "big": manager.fake("big", "--load", "0.5", size=400, residency="on_demand"),
        "other": manager.fake("other", size=300, residency="on_demand"),
        "small": manager.fake("small", size=50, residency="pinned"),
    }


def test_a_model_is_loaded_held_released_and_evicted_by_buttons(desk: Manager, opened: Opened) -> None:
    page = opened(desk.url)
    expect(page.locator("#link")).to_have_text("live")
    page.get_by_role("button", name="Load other").click()
    expect(page.get_by_role("status").filter(has_text="other: its load was asked for")).to_be_visible()
    expect(row(page, "other")).to_contain_text("ready")
    # Its 300 MiB are next to nothing of the machine, but not of the budget.
    enlarged = page.locator("#account .line").filter(has_text="Budget")
    expect(enlarged.locator(".kind-caption").filter(has_text="other")).to_be_visible()
    page.get_by_role("button", name="Hold other").click()
    dialog = page.get_by_role("dialog", name="Hold other")
    dialog.get_by_label("For").select_option("10 minutes")
    dialog.get_by_role("button", name="Hold", exact=True).click()
    expect(row(page, "other")).to_contain_text("1 lease")
    (lease,) = desk.status()["leases"]
    assert (lease["model"], lease["owner"], lease["state"]) == ("other", "dashboard", "held")
    assert 590 < lease["ends_in"] <= 600
    row(page, "other").get_by_role("link").click()
    expect(page.get_by_text("Held for dashboard, ends in")).to_be_visible()
    page.get_by_role("button", name="Release the lease of dashboard").click()
    expect(page.get_by_text("Held for dashboard")).to_be_hidden()
    page.get_by_role("button", name="Evict").click()
    expect(page.locator("#model .state").first).to_have_text("cold")
    assert desk.model("other")["dismissed"]


def test_a_hold_of_a_model_that_is_not_there_says_so(desk: Manager, opened: Opened) -> None:
    page = opened(desk.url)
    page.get_by_role("button", name="Hold big").click()
    page.get_by_role("dialog", name="Hold big").get_by_role("button", name="Hold", exact=True).click()
    expect(
        page.get_by_role("status").filter(has_text="big: it is held as soon as it is loaded")
    ).to_be_visible()
    expect(row(page, "big")).to_contain_text("1 lease")
    row(page, "big").get_by_role("link").click()
    page.get_by_role("button", name="Release the lease of dashboard").click()
    expect(page.get_by_text("Held for dashboard")).to_be_hidden()
    page.get_by_role("button", name="Evict").click()
    expect(page.locator("#model .state").first).to_have_text("cold")


def test_a_refusal_is_told_and_stays(desk: Manager, opened: Opened) -> None:
    page = opened(desk.url)
    expect(row(page, "small")).to_contain_text("ready")
    expect(row(page, "small")).not_to_contain_text(" ago")  # it was loaded, and never used
    # The button is not there for it; what the gateway says to somebody quicker than the page is shown.
    page.evaluate("import('/ui/js/actions.js').then(m => m.evict('small', document.body))")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("model 'small' is pinned")
    alert.get_by_role("button").click()
    expect(alert).to_be_hidden()


def test_an_edit_shows_without_a_reload_and_a_mistake_with_its_place(desk: Manager, opened: Opened) -> None:
    page = opened(desk.url)
    expect(row(page, "small")).to_be_visible()
    page.evaluate("window.same = true")
    desk.write({**models(desk), "added": desk.fake("added", size=10)}, memory=500)
    expect(row(page, "added")).to_contain_text("nobody has asked for it")
    text = desk.text(models(desk), 500).replace("apiVersion", "apiVersio")
    desk.file.write_text(text)
    notices = page.get_by_role("region", name="Notices")
    expect(notices).to_contain_text("The newest manifest was refused")
    expect(notices).to_contain_text("models.yaml:1:1: error: unknown key")
    expect(row(page, "added")).to_be_visible()
    desk.write(models(desk), memory=500)
    expect(notices).not_to_contain_text("refused")
    expect(row(page, "added")).to_be_hidden()
    expect(page.locator("#events")).to_contain_text("manifest")
    assert page.evaluate("window.same")


def press_until(page: Page, key: str, name: str, most: int = 60) -> None:
    """Press a key until the element of this accessible name has the focus."""
    for _ in range(most):
        page.keyboard.press(key)
        if (
            page.evaluate(
                "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
            )
            == name
        ):
            return
    raise AssertionError(f"{key} does not lead to {name}")


def test_everything_can_be_done_with_the_keyboard(desk: Manager, opened: Opened) -> None:
    page = opened(desk.url)
    expect(row(page, "big")).to_be_visible()
    press_until(page, "Tab", "Load big")
    page.keyboard.press("Enter")
    expect(row(page, "big")).to_contain_text("ready")
    # The button that was pressed is gone; the focus is on what took its place.
    focused = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused) == "Evict big"
    expect(page.locator("#announce")).not_to_be_empty()
    press_until(page, "Shift+Tab", "big")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="big")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "main"
    expect(page.locator("#model .command")).to_contain_text("--load 0.5")
    expect(page.locator("#model .log")).to_contain_text("listening")
    press_until(page, "Tab", "Evict")
    page.keyboard.press("Enter")
    expect(page.locator("#model .state").first).to_have_text("cold")
    expect(page.get_by_role("table", name="Loads and evictions")).to_contain_text(
        "somebody asked for it to go"
    )
    press_until(page, "Shift+Tab", "← All models")
    page.keyboard.press("Enter")
    expect(row(page, "big")).to_be_visible()


def test_the_last_hour_tells_what_was_done(desk: Manager, opened: Opened) -> None:
    desk.cli("load", "other")
    page = opened(desk.url)
    mark = page.locator("#timeline .layer-marks .time-load").last
    expect(mark).to_be_visible()
    expect(page.locator("#timeline .lead")).to_contain_text("load")
    page.get_by_text("As a list").click()
    table = page.get_by_role("table", name="What was done in the last hour")
    expect(table.get_by_role("row").nth(1)).to_contain_text("other")


def test_what_was_done_is_counted(desk: Manager, opened: Opened) -> None:
    """An eviction that is regretted is one, a reload is neither a load nor an eviction."""
    page = opened(desk.url)
    done = [
        {"action": action, "outcome": "ready", "regretted": regretted}
        for action, regretted in [
            ("load", False),
            ("evict", True),
            ("evict", False),
            *[("reload", False)] * 4,
        ]
    ]
    ask = "actions => import('/ui/js/timeline.js').then(m => m.summary({ actions }))"
    assert page.evaluate(ask, done) == "1 load, 2 evictions; 2 reloads, 1 of the evictions regretted."
    assert page.evaluate(ask, [*done[:1]]) == "1 load, 0 evictions."
    assert page.evaluate(ask, []) == "Nothing was loaded or evicted."


def test_it_says_that_the_manager_hangs(desk: Manager, opened: Opened) -> None:
    page = opened("about:blank")
    page.clock.install()
    page.goto(desk.url)
    link = page.locator("#link")
    expect(link).to_have_text("live")
    os.kill(desk.pid, signal.SIGSTOP)
    try:
        page.clock.fast_forward(13_000)
        expect(link).to_have_text("disconnected", timeout=5_000)
    finally:
        os.kill(desk.pid, signal.SIGCONT)
    expect(link).to_have_text("live", timeout=SOON * 1000)


def test_it_says_that_the_manager_is_gone_and_finds_it_again(desk: Manager, opened: Opened) -> None:
    page = opened(desk.url)
    expect(row(page, "small")).to_be_visible()
    page.evaluate("window.same = true")
    desk.kill()
    expect(page.locator("#link")).to_have_text("disconnected")
    expect(page.get_by_role("region", name="Notices")).to_contain_text(
        "Disconnected reconcile does not answer"
    )
    expect(row(page, "small")).to_be_visible()  # what was known stays
    desk.start()
    expect(page.locator("#link")).to_have_text("live", timeout=SOON * 1000)
    expect(page.get_by_role("region", name="Notices")).not_to_contain_text("Disconnected")
    assert page.evaluate("window.same")
    assert desk.stop() == 0
    expect(page.locator("#link")).to_have_text("reconcile has ended")
