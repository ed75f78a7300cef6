"""What the page shows of desks that are made up: pictures, reasons, notices, odd names, many models."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

import dashboard_desks as desks
from dashboard_page import Opened, row, violations
from dashboard_served import Served, served
from reconciler.core.memory import Memory
from reconciler.core.status import Condition, Truth
from reconciler.core.types import Residency
from reconciler.manifest.applied import ApiKey, GatewaySettings, Scope

#: Seconds in which a page with 100 models has to be there. What it takes is told in docs/dashboard.md; this bound is
#: for a machine that does other things, too.
PAINT_SECONDS = 4.0
EVIL = "<img src=x onerror=alert(1)>/'\"&amp;"
#: Has a page note the model of every row in which something is changed.
WATCH_ROWS = """() => {
  window.touched = [];
  const note = ({target}) => {
    const row = (target.closest ? target : target.parentElement).closest('tr');
    window.touched.push(row?.querySelector('a')?.textContent ?? 'the table itself');
  };
  const what = {childList: true, characterData: true, attributes: true, subtree: true};
  new MutationObserver(all => all.forEach(note)).observe(document.querySelector('#models tbody'), what);
}"""
#: Has a page note, in milliseconds since it was asked for, when the frame with all 100 models has been drawn.
TIME_ROWS = """new MutationObserver((_, watching) => {
  if (document.querySelectorAll('#models tbody tr').length < 100) return;
  watching.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.complete = performance.now(); }));
}).observe(document, {childList: true, subtree: true})"""


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Served]:
    """A gateway before a desk."""
    with served(folder, desks.desk) as made:
        yield made


@pytest.fixture(autouse=True)
def _as_it_was(gateway: Served) -> None:
    gateway.publish(desks.desk(time.monotonic()))


def test_why_a_model_is_not_in_memory_stands_in_its_row(gateway: Served, opened: Opened) -> None:
    page = opened(gateway.url)
    expect(row(page, "llama4-109b")).to_contain_text("blocked")
    expect(row(page, "llama4-109b")).to_contain_text("not enough memory 68.4 GiB short")
    expect(row(page, "mistral-old")).to_contain_text("failed 3 times")
    expect(row(page, "mistral-old")).to_contain_text("in 4")  # seconds to the next try
    expect(row(page, "vision-7b")).to_contain_text("nobody has asked for it")
    expect(row(page, "flux")).to_contain_text("the soft mark is 75 %")
    expect(page.locator("#plan .action")).to_contain_text("Loading coder-32b")
    # What is in flight is told once, and no time that stands still beside the one that counts on.
    expect(page.locator("#plan .steps")).not_to_contain_text("coder-32b")
    expect(page.locator("#plan")).to_contain_text(
        "Nothing is planned after that. llama4-109b cannot be loaded now."
    )
    expect(page.locator("#models")).not_to_contain_text("tries again in")
    expect(page.locator("#models")).not_to_contain_text("idle ")
    expect(page.locator("#banners")).to_contain_text("only what is pinned or waited for is loaded")


def test_trouble_stands_first_even_if_nobody_waits(gateway: Served, opened: Opened) -> None:
    page = opened(gateway.url)
    names = page.locator("#models tbody th a")
    expect(names).to_have_count(10)
    assert names.all_text_contents()[:3] == ["coder-32b", "llama4-109b", "mistral-old"]
    expect(row(page, "mistral-old").locator(".state")).to_have_attribute("data-stuck", "yes")
    page.get_by_label("Show").select_option("trouble")
    expect(names).to_have_text(["llama4-109b", "mistral-old"])


def test_it_says_why_nothing_is_done(gateway: Served, opened: Opened) -> None:
    made = [m for m in desks.DESK if m.name in ("bge-embed", "qwen3-72b", "llama4-109b")]
    broken = [replace(m, residency=Residency.WARM) for m in desks.DESK if m.name == "mistral-old"]
    gateway.publish(desks.snapshot([*made, *broken], time.monotonic(), others=40.0))
    page = opened(gateway.url)
    rest = page.locator("#plan")
    expect(rest).to_contain_text("Nothing can be done at the moment. llama4-109b cannot be loaded now.")
    expect(rest).to_contain_text("mistral-old failed, and its next try is in 4")
    gateway.publish(desks.few(time.monotonic()))
    expect(rest).to_contain_text("Nothing to do: everything is as the manifest wants it")


def test_the_account_is_one_picture_with_its_figures(gateway: Served, opened: Opened) -> None:
    page = opened(gateway.url)
    picture = page.get_by_role("img", name="Models are charged 81.7 GiB of 108.8 GiB")
    expect(picture).to_be_visible()
    for kind in ("weights", "context", "promised", "mapped", "others", "kernel", "unattributed", "reserve"):
        expect(page.locator(f"#account .bar .kind-{kind}").first).to_be_visible()
    # What is charged, what can be loaded and this are the whole budget.
    expect(page.locator("#account .lead")).to_contain_text(
        "(24.5 GiB of it for the load in progress); 94 MiB can be loaded without evicting anyone."
        " The other 27.0 GiB are not free now"
    )
    marks = page.locator("#account .mark")
    expect(marks).to_have_text(["target, soft 75 %", "hard 85 %", "budget 108.8 GiB", "critical 95 %"])
    # What is charged and not held yet reaches as far as the loading model needs.
    lengths = (
        page.locator("#account .line")
        .nth(1)
        .locator(".stretch")
        .evaluate_all("all => all.map(e => parseFloat(e.style.width))")
    )
    assert abs(sum(lengths) - 100) < 0.1
    page.get_by_text("In figures", exact=True).click()
    table = page.get_by_role("table", name="The memory account in figures")
    cells = table.get_by_role("row").filter(has_text="qwen3-72b").get_by_role("cell")
    expect(cells).to_have_text(
        ["40.0 GiB", "2.5 GiB", "680 MiB", "88 MiB", "43.2 GiB", "43.2 GiB", "42.3 GiB"]
    )


def test_charges_beyond_the_budget_are_marked(gateway: Served, opened: Opened) -> None:
    gateway.publish(desks.over_budget(time.monotonic()))
    page = opened(gateway.url)
    expect(page.locator("#account .lead")).to_contain_text(
        "Models are charged 112.6 GiB of 90.0 GiB, 22.6 GiB too much."
    )
    expect(page.locator("#account .kind-over")).to_be_visible()
    expect(page.locator("#banners")).to_contain_text("Memory pressure: hard")
    expect(page.locator("#plan .steps")).to_contain_text("evict flux: frees 22.7 GiB")


def test_notices_name_the_lines_of_a_refused_manifest_and_what_else_is_wrong(
    gateway: Served, opened: Opened
) -> None:
    now = time.monotonic()
    made = desks.desk(now)
    lines = (
        'manifests/desk.yaml:3:5: error: unknown key "modles" [unknown-key]',
        "manifests/desk.yaml:9:13: error: 8g is no size [size]",
    )
    safe = Condition("SafeMode", Truth.TRUE, "MachineWentDown", "the machine went down 3 times", 7, now)
    observation = replace(made.world.observation, memory=Memory(None, None, "/proc/meminfo cannot be read"))
    blind = replace(made.plan, account=replace(made.plan.account, budget=None, held=None, free=None))
    gateway.publish(
        replace(
            made,
            refused=lines,
            manifest_conditions=(safe,),
            plan=blind,
            world=replace(made.world, observation=observation),
        )
    )
    page = opened(gateway.url)
    notices = page.get_by_role("region", name="Notices")
    for line in lines:
        expect(notices.get_by_text(line)).to_be_visible()
    expect(notices).to_contain_text("Safe mode the machine went down 3 times")
    expect(notices).to_contain_text("The machine's memory is not known")
    expect(notices.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.locator("#account .lead")).to_have_text(
        "The memory is not known: /proc/meminfo cannot be read."
    )
    gateway.publish(made)
    expect(notices.get_by_text("Safe mode")).to_be_hidden()


def test_models_are_found_sorted_and_filtered(gateway: Served, opened: Opened) -> None:
    gateway.publish(desks.crowd(time.monotonic()))
    page = opened(gateway.url)
    rows = page.locator("#models tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("columnheader", name="Model").get_by_role("button").click()
    expect(rows.first).to_contain_text("model-000")
    page.get_by_role("columnheader", name="Model").get_by_role("button").click()
    expect(rows.first).to_contain_text("model-099")
    expect(page.get_by_role("columnheader", name="Model")).to_have_attribute("aria-sort", "descending")
    page.get_by_label("Show").select_option("in")
    expect(rows).to_have_count(34)
    page.get_by_label("Find").fill("model-03")
    expect(rows).to_have_count(4)
    page.get_by_label("Find").fill("no such model")
    expect(page.locator("#models")).to_contain_text("No model is like that.")


def test_many_models_are_there_at_once(gateway: Served, opened: Opened) -> None:
    gateway.publish(desks.crowd(time.monotonic()))
    opened(gateway.url).locator("#models tbody tr").nth(99).wait_for()  # once, for a browser that is warm
    page = opened(gateway.url, first=TIME_ROWS, lenient=True)
    page.wait_for_function("window.complete")
    took = page.evaluate("window.complete") / 1000
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
    print(f"first paint {paint:.3f} s, 100 models {took:.3f} s")
    assert paint < PAINT_SECONDS
    assert took < PAINT_SECONDS


def test_only_what_changed_is_touched(gateway: Served, opened: Opened) -> None:
    now = time.monotonic()
    gateway.publish(desks.crowd(now))
    page = opened(gateway.url)
    expect(page.locator("#models tbody tr")).to_have_count(100)
    page.evaluate(WATCH_ROWS)
    made = desks.crowd(now)
    verdicts = tuple(
        replace(v, detail="CHANGED") if v.model == "model-005" else v for v in made.plan.verdicts
    )
    gateway.publish(replace(made, plan=replace(made.plan, verdicts=verdicts)))
    expect(row(page, "model-005")).to_contain_text("CHANGED")
    # Besides the one, only ages count on: of models in memory, of those that wait, of those that are tried again.
    touched = set(page.evaluate("window.touched"))
    quiet = {
        m["name"]
        for m in page.evaluate("fetch('/api/v1/status').then(r => r.json())")["models"]
        if m["state"] == "cold" and m["retry_in"] is None and not m["waiting"]
    }
    assert touched & quiet == {"model-005"}


def test_names_reasons_and_log_lines_stay_text(gateway: Served, opened: Opened) -> None:
    now = time.monotonic()
    evil = desks.Made(EVIL, 1, 0.1, aliases=(f"alias{EVIL}",), failures=2, error=f"error {EVIL}", waiting=1)
    gateway.publish(desks.snapshot((*desks.DESK, evil), now, others=20.0))
    gateway.event("crashed", EVIL, f"<b>{EVIL}", f"message {EVIL}")
    page = opened(gateway.url)
    alerts: list[str] = []
    page.on("dialog", lambda dialog: alerts.append(dialog.message))
    expect(row(page, EVIL)).to_contain_text(f"error {EVIL}")
    expect(page.locator("#events")).to_contain_text(f"message {EVIL}")
    row(page, EVIL).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(EVIL)
    expect(page.locator("#model .why-large")).to_contain_text(f"error {EVIL}")
    assert page.locator("img[src=x], b b").count() == 0
    assert alerts == []


KEYS = GatewaySettings(
    api_keys=(
        ApiKey("CANARY-read", "grafana", frozenset({Scope.READ})),
        ApiKey("CANARY-admin", "mine", frozenset({Scope.READ, Scope.ADMIN})),
        ApiKey("CANARY-infer", "phone", frozenset({Scope.INFER})),
    )
)


def test_a_key_is_asked_for_and_decides_which_buttons_are_there(gateway: Served, opened: Opened) -> None:
    page = opened(gateway.url)
    expect(row(page, "vision-7b")).to_be_visible()
    gateway.publish(desks.desk(time.monotonic()), KEYS)  # keys are saved while somebody looks
    dialog = page.get_by_role("dialog", name="An API key is needed")
    field = dialog.get_by_label("Key")
    field.press("Escape")
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Enter a key").click()
    field.fill("wrong")
    field.press("Enter")
    expect(dialog).to_contain_text("the API key that was sent is none of the manifest's")
    field.fill("CANARY-infer")
    field.press("Enter")
    expect(dialog).to_contain_text("it needs the scope read")
    field.fill("CANARY-read")
    field.press("Enter")
    expect(dialog).to_be_hidden()
    expect(row(page, "vision-7b")).to_be_visible()
    expect(page.get_by_role("button", name="Load vision-7b")).to_be_hidden()
    page.reload()
    expect(row(page, "vision-7b")).to_be_visible()  # kept for this tab
    assert "CANARY" not in page.url
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie") == "{}"
    page.get_by_role("button", name="Forget the key of grafana").click()
    field.fill("CANARY-admin")
    field.press("Enter")
    expect(page.get_by_role("button", name="Load vision-7b")).to_be_visible()
    expect(page.get_by_role("button", name="Evict bge-embed")).to_be_hidden()  # pinned


@pytest.mark.parametrize(
    ("where", "theme", "width"),
    [
        ("#/", "light", 1280),
        ("#/", "dark", 1280),
        ("#/", "light", 360),
        ("#/models/mistral-old", "dark", 360),
        ("#/models/qwen3-72b", "light", 1280),
    ],
)
def test_nothing_bars_anybody(
    gateway: Served, opened: Opened, where: str, theme: Literal["light", "dark"], width: int
) -> None:
    page = opened(f"{gateway.url}/{where}", theme=theme, width=width, lenient=True)
    expect(
        page.locator("#model .facts div" if "models" in where else "#models tbody tr").first
    ).to_be_visible()
    expect(page.locator("#model .log" if "models" in where else "#timeline svg path").first).to_be_attached()
    for summary in page.locator("summary:visible").all():
        summary.click()
    assert violations(page) == []
    # Nothing stands out to the side.
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_can_be_chosen_and_is_kept(gateway: Served, opened: Opened) -> None:
    page = opened(gateway.url)
    button = page.get_by_role("button", name="Theme")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    button.click()
    button.click()
    expect(button).to_have_text("Theme: dark")
    assert page.evaluate(background) != light
    page.reload()
    expect(button).to_have_text("Theme: dark")
    button.click()
    expect(button).to_have_text("Theme: auto")


def test_without_a_stream_it_looks_every_two_seconds(gateway: Served, opened: Opened) -> None:
    page = opened("about:blank")
    page.route("**/api/v1/stream", lambda route: route.abort())
    page.goto(gateway.url)
    expect(page.locator("#link")).to_have_text("every 2 s")
    gateway.publish(desks.few(time.monotonic()))
    expect(page.locator("#models tbody tr")).to_have_count(3)
    page.unroute("**/api/v1/stream")
    expect(page.locator("#link")).to_have_text("live")


def test_a_page_that_nobody_sees_asks_nothing(gateway: Served, opened: Opened) -> None:
    page = opened("about:blank")
    page.clock.install()
    page.goto(gateway.url)
    link = page.locator("#link")
    expect(link).to_have_text("live")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    page.clock.fast_forward(31_000)
    expect(link).to_have_text("paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(10_000)
    assert asked == []
    page.evaluate(hide, False)
    expect(link).to_have_text("live")
