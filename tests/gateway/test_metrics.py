"""GET /metrics: Prometheus' own parsers and `promtool` read it, and it says what loop and leases know."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from board_samples import NOW, refused_snapshot
from gateway_rig import rig, snapshot
from golden_files import assert_golden
from lease_clients import Client, settle
from metrics_samples import busy, counts, scrape
from reconciler.board import Snapshot
from reconciler.core.machine import Halted
from reconciler.core.memory import Memory
from reconciler.core.types import ModelSpec
from reconciler.counts import MOST_MODELS, Counts, Histogram
from reconciler.gateway.metrics.exposition import OPEN, PLAIN, Page, labels, wants_open
from reconciler.gateway.metrics.family import gauge, histogram
from reconciler.gateway.metrics.page import FAMILIES, page
from reconciler.leases import Traffic
from reconciler.manifest.applied import ApiKey, GatewaySettings, Scope

Values = dict[str, float]
PROMTOOL = shutil.which("promtool")


def families(text: str, *, open_metrics: bool) -> list[Metric]:
    """Return what the client library understands."""
    parse: Callable[[str], Iterable[Metric]] = open_families if open_metrics else plain_families
    return list(parse(text))


def read(text: str, *, open_metrics: bool = False) -> Values:
    """Return sample -> value, as Prometheus would understand it; a sample that comes twice is a fault."""
    found: Values = {}
    for family in families(text, open_metrics=open_metrics):
        for sample in family.samples:
            said = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            key = f"{sample.name}{{{said}}}" if said else sample.name
            assert key not in found, key
            found[key] = sample.value
    return found


def values(made: Snapshot, traffic: Traffic | None = None, counted: Counts | None = None) -> Values:
    return read(page(made, traffic or Traffic(), counted or Counts(), NOW).decode())


def test_both_forms_say_the_same_and_are_understood_by_the_client_library() -> None:
    moving = re.compile("process_")
    plain, opened = read(scrape()), read(scrape(open_metrics=True), open_metrics=True)
    assert {k: v for k, v in plain.items() if not moving.match(k)} == {
        k: v for k, v in opened.items() if not moving.match(k)
    }
    assert scrape(open_metrics=True).endswith("# EOF\n")


def test_the_page_of_a_busy_desk() -> None:
    text = re.sub(r"^(process_\w+) .*$", r"\1 ...", scrape(), flags=re.MULTILINE)
    text = re.sub(r'python="[^"]*"', 'python="3.x"', text)
    # Of kinds of failures there are many, and more from time to time.
    text = re.sub(r"^reconcile_failures_total.* 0\n", "", text, flags=re.MULTILINE)
    assert_golden("metrics.txt", text)


def test_what_a_model_is_and_holds() -> None:
    seen = read(scrape())
    assert seen["reconcile_model_state{model=coder,state=loading}"] == 1
    assert sum(v for k, v in seen.items() if k.startswith("reconcile_model_state{model=coder,")) == 1
    assert seen["reconcile_model_state{model=flaky,state=failing}"] == 1
    assert seen["reconcile_model_held_bytes{model=chat}"] == 6 << 30
    assert seen["reconcile_model_held_bytes{model=vision}"] == 0
    assert seen["reconcile_model_estimate_bytes{model=coder,part=weights}"] == 16 << 30
    assert seen["reconcile_model_peak_bytes{model=coder}"] == 19 << 30
    assert seen["reconcile_model_requests_waiting{for=load,model=coder}"] == 2
    assert seen["reconcile_model_oldest_wait_seconds{model=coder}"] == 12.5
    assert seen["reconcile_model_requests_active{model=embed}"] == 3
    assert seen["reconcile_model_failures_in_a_row{model=flaky}"] == 3


def test_what_the_machine_and_the_loop_do() -> None:
    seen = read(scrape())
    assert seen["reconcile_machine_swap_used_bytes"] == 1 << 30
    assert seen["reconcile_watermark_ratio{mark=critical}"] == 0.95
    assert seen["reconcile_pressure_level"] == 1
    assert seen["reconcile_loop_action{action=loading}"] == 1
    assert seen["reconcile_loop_action_seconds"] == 12
    assert seen["reconcile_snapshot_age_seconds"] == 1
    assert seen["reconcile_loop_turn_seconds_count"] == 1
    assert seen["reconcile_manifest_valid"] == 1
    assert seen["reconcile_manifest_info{commit=3f2c1ab,dirty=false}"] == 1
    assert seen["reconcile_gate_requests_waiting{gate=heavy}"] == 2
    assert seen["process_resident_memory_bytes"] > 1 << 20
    assert values(refused_snapshot())["reconcile_manifest_valid"] == 0
    halted = values(replace(busy(), state=Halted("asked to stop")))
    assert (halted["reconcile_loop_action{action=halted}"], halted["reconcile_loop_action_seconds"]) == (1, 0)


def test_what_is_unknown_is_absent_and_never_zero() -> None:
    blind = busy()
    seen = replace(blind.world.observation, memory=Memory(None, None))
    blind = replace(blind, world=replace(blind.world, observation=seen))
    found = values(blind)
    assert not [k for k in found if k.startswith(("reconcile_machine_memory", "reconcile_machine_swap_used"))]
    # The processes of `old` could not be read; it is not in the manifest either.
    assert "reconcile_model_peak_bytes{model=vision}" not in found


def test_models_that_left_the_manifest_and_names_of_clients_are_no_labels() -> None:
    seen = read(scrape())
    named = {m for key in seen for m in re.findall(r"model=([^,}]*)", key)}
    assert named == {"chat", "coder", "embed", "flaky", "vision", ".other"}
    assert seen["reconcile_gateway_errors_total{code=model_not_found,model=.other}"] == 1


def test_a_manifest_of_very_many_models_is_told_as_far_as_is_documented() -> None:
    specs = tuple(ModelSpec(f"m{number:04}", "d") for number in range(MOST_MODELS + 5))
    found = values(snapshot(*specs))
    assert sum(k.startswith("reconcile_model_priority{") for k in found) == MOST_MODELS
    assert found["reconcile_models"] == MOST_MODELS + 5


def test_labels_are_escaped() -> None:
    odd = 'a\\b"c\nd'
    family = gauge("odd", 'Of an odd\nname \\ and a quote ".', "model")
    for open_metrics in (False, True):
        made = Page([family], open_metrics=open_metrics)
        made.add(family, 1.5, labels(model=odd))
        [found] = families(made.text().decode(), open_metrics=open_metrics)
        assert found.samples[0].labels == {"model": odd}
        assert found.samples[0].value == 1.5
        assert "name \\ and" in found.documentation


def test_a_histogram_adds_up_its_ranges() -> None:
    family, values = histogram("seconds_spread_seconds", "Seconds."), Histogram((1.0, 2.0))
    for value in (0.5, 1.5, 1.7, 9.0):
        values.add(value)
    made = Page([family], open_metrics=True)
    made.spread(family, values)
    [found] = families(made.text().decode(), open_metrics=True)
    assert [(s.labels.get("le"), s.value) for s in found.samples if s.name.endswith("_bucket")] == [
        ("1.0", 1),
        ("2.0", 3),
        ("+Inf", 4),
    ]
    assert {s.name: s.value for s in found.samples if "le" not in s.labels} == {
        "reconcile_seconds_spread_seconds_count": 4,
        "reconcile_seconds_spread_seconds_sum": 12.7,
    }


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text", True),
        (
            # What Prometheus sends.
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5",
            True,
        ),
        ("application/openmetrics-text;version=0.0.1,text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.5", False),
        ("application/openmetrics-text; version=x; q=z,;;,", False),
        ("application/openmetrics-text;q=0", False),
        ('application/openmetrics-text; version="1.0.0"; charset=utf-8', True),
    ],
)
def test_the_form_is_the_one_that_is_preferred(accept: str, is_open: bool) -> None:
    assert wants_open(accept) is is_open


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_has_nothing_against_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(PROMTOOL), "check", "metrics"], input=scrape(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_metric_is_named_once_and_as_prometheus_names_them() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert re.fullmatch(r"(reconcile|process)_[a-z_]+", family.name)
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert family.help.endswith("."), family.name
        for unit, word in (("_seconds", "seconds"), ("_bytes", "bytes"), ("_ratio", "0-1")):
            if family.name.removesuffix("_total").endswith(unit):
                assert word in family.help.lower() or "memory" in family.help.lower(), family.name


@pytest.mark.anyio
async def test_it_is_served_in_both_forms_and_live() -> None:
    async with rig() as r:
        waiting = Client(r.book, "chat").start()
        await settle()
        plain = await r.client.get("/metrics")
        assert (plain.status_code, plain.headers["content-type"]) == (200, PLAIN)
        assert read(plain.text)["reconcile_model_requests_waiting{for=load,model=chat}"] == 1
        opened = await r.client.get("/metrics", headers={"accept": "application/openmetrics-text"})
        assert opened.headers["content-type"] == OPEN
        assert read(opened.text, open_metrics=True)["reconcile_models"] == 2
        assert (await r.client.post("/metrics")).status_code == 405
        await waiting.leave()


@pytest.mark.anyio
async def test_errors_are_counted_by_model_and_code() -> None:
    async with rig() as r:
        r.board.counts.keep(("chat", "other"))
        await r.post({"model": "made-up", "messages": []})
        await r.post({"messages": []})
        await r.client.get("/nowhere")
        await r.client.get("/v1/chat/completions")
        await r.client.get("/readyz", headers={"host": "evil.example"})
        await r.client.get("/upstream/chat/props")
        seen = read((await r.client.get("/metrics")).text)
        errors = {k: v for k, v in seen.items() if k.startswith("reconcile_gateway_errors_total")}
        assert errors == {
            "reconcile_gateway_errors_total{code=forbidden_host,model=.other}": 1,
            "reconcile_gateway_errors_total{code=invalid_model,model=.other}": 1,
            "reconcile_gateway_errors_total{code=method_not_allowed,model=.other}": 1,
            "reconcile_gateway_errors_total{code=model_not_found,model=.other}": 1,
            "reconcile_gateway_errors_total{code=not_found,model=.other}": 1,
            "reconcile_gateway_errors_total{code=not_loaded,model=chat}": 1,
        }


@pytest.mark.anyio
async def test_a_scrape_needs_the_scope_read_where_there_are_keys() -> None:
    async with rig() as r:
        keys = (
            ApiKey("reader", scopes=frozenset({Scope.READ}), name="prometheus"),
            ApiKey("asker", scopes=frozenset({Scope.INFER}), name="phone"),
        )
        r.settings(GatewaySettings(api_keys=keys))

        async def status(key: str) -> int:
            headers = {"authorization": f"Bearer {key}"} if key else {}
            return (await r.client.get("/metrics", headers=headers)).status_code

        assert [await status(key) for key in ("", "wrong", "asker", "reader")] == [401, 401, 403, 200]


@pytest.mark.anyio
async def test_before_the_first_look_there_is_nothing_to_tell() -> None:
    async with rig() as r:
        r.board.snapshot = None
        answer = await r.client.get("/metrics")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "starting")


def test_the_sample_has_every_metric_there_is() -> None:
    """Else the tests of dashboard and rules, which look there, would be blind."""
    told = set(re.findall(r"^(\w+?)(?:_bucket|_count|_sum)?[ {]", scrape(), re.MULTILINE))
    assert {family.name for family in FAMILIES} <= told
    assert counts().models.keys() == {"chat", "coder", "embed", "flaky", "vision"}
