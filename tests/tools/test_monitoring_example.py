"""examples/monitoring: dashboard and rules use what is exported, are written as Prometheus and Grafana want them, and
name verbs that exist.
"""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from metrics_samples import scrape
from reconciler.cli.run import VERBS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "monitoring"
PROMTOOL = shutil.which("promtool")
promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
#: What Prometheus knows of each scrape by itself.
OF_PROMETHEUS = {"up", "ALERTS"}
#: What Grafana puts in, and the label that Prometheus adds.
VARIABLES = {"$instance": "desk", "$model": "chat"}
METRIC = re.compile(r"\b(?:reconcile|process)_\w+|\bup\b")
#: label_values(METRIC, LABEL) is Grafana's.
LABELS_OF = re.compile(r"label_values\((.*), (\w+)\)$")


def dashboard() -> dict[str, Any]:
    made: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    return made


def rules() -> list[dict[str, Any]]:
    text = YAML(typ="safe").load((FOLDER / "rules.yml").read_text("utf-8"))
    return [rule for group in text["groups"] for rule in group["rules"]]


def shown() -> Iterator[tuple[str, str]]:
    """Return the title and each expression of every panel, and of the annotations."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for note in dashboard()["annotations"]["list"]:
        if "expr" in note:
            yield note["name"], note["expr"]


def exported() -> dict[str, set[str]]:
    """Return the metrics of a real page, with the names of their labels."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", scrape(), re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def expressions() -> list[tuple[str, str]]:
    variables = [
        (v["name"], found[1])
        for v in dashboard()["templating"]["list"]
        if (found := LABELS_OF.match(v.get("definition", "")))
    ]
    return [*shown(), *variables, *((rule["alert"], rule["expr"]) for rule in rules())]


def test_every_metric_that_is_used_is_exported() -> None:
    known = exported()
    used = {(name, metric) for name, text in expressions() for metric in METRIC.findall(text)}
    assert len(used) > 60
    assert {(n, m) for n, m in used if m not in known and m not in OF_PROMETHEUS} == set()


def test_every_label_that_is_used_is_one_of_its_metric() -> None:
    known = exported()
    for name, text in expressions():
        for metric, selector in re.findall(r"\b(reconcile_\w+)\{([^}]*)\}", text):
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
            assert labels <= known[metric] | {"instance", "job"}, (name, metric)


def test_values_that_rules_select_can_occur() -> None:
    page = scrape()
    for name, text in expressions():
        for metric, selector in re.findall(r"\b(reconcile_\w+)\{([^}]*)\}", text):
            for label, value in re.findall(r'(\w+)="([^"$]*)"', selector):
                assert re.search(rf'^{metric}\{{.*{label}="{value}"', page, re.MULTILINE), (
                    name,
                    label,
                    value,
                )


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    made = dashboard()
    assert made["schemaVersion"] >= 41
    assert made["uid"]
    assert "id" not in made, "an id belongs to one installation"
    names = {variable["name"] for variable in made["templating"]["list"]}
    assert names == {"datasource", "instance", "model"}
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("row", "stat", "timeseries", "state-timeline")
        place = panel["gridPos"]
        assert place["w"] > 0
        assert place["x"] + place["w"] <= 24
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["fieldConfig"]["defaults"]["unit" if panel["type"] != "state-timeline" else "mappings"]
        refs = [target["refId"] for target in panel["targets"]]
        assert refs
        assert len(set(refs)) == len(refs)
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
    for one, other in itertools.combinations((panel["gridPos"] for panel in panels), 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_every_alert_says_what_to_run_and_the_verb_exists() -> None:
    seen = set()
    for rule in rules():
        said = rule["annotations"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical"), rule["alert"]
        assert said["summary"]
        verbs = set(re.findall(r"`reconcile (\w+)", said["runbook"]))
        assert verbs, f"{rule['alert']} names nothing to run"
        assert verbs <= set(VERBS), rule["alert"]
        seen |= verbs
    assert {"status", "explain", "resume", "validate"} <= seen


def test_the_readme_lists_every_alert() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    names = {rule["alert"] for rule in rules()}
    assert names == set(re.findall(r"`(Reconcile\w+)`", text))
    assert f"{len(names)} alerts" in text


def run(*arguments: str, cwd: Path = FOLDER) -> None:
    done = subprocess.run([str(PROMTOOL), *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@promtool
def test_promtool_takes_the_rules_the_configuration_and_its_own_tests_of_them() -> None:
    run("check", "rules", "rules.yml")
    run("check", "config", "prometheus.yml")
    run("test", "rules", "rules_test.yml")


@promtool
def test_prometheus_understands_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    made = []
    for number, (_, text) in enumerate(shown()):
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        made.append({"record": f"panel:number{number}:expression", "expr": text})
    document = {"groups": [{"name": "dashboard", "rules": made}]}
    (tmp_path / "dashboard.yml").write_text(json.dumps(document), "utf-8")
    run("check", "rules", "dashboard.yml", cwd=tmp_path)
