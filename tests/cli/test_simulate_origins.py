"""`reconcile simulate` takes from the past what is of this machine and of this launch, and says what it took."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli import main
from reconciler.manifest import load_manifest
from reconciler.store import DATABASE, LoadRecord, RequestRecord, Store

MANIFEST = """\
apiVersion: reconciler/v1
models:
  chat: {engine: command, command: [python3, "${port}"], memory: {steady: 4MiB}}
"""
MACHINE = "apiVersion: reconciler/v1\nmemory: 64GiB\nspeeds: {chat: {load: 10s}}\n"
BEGAN = 1_700_000_000.0


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("desk.yaml").write_text(MANIFEST)
    Path("machine.yaml").write_text(MACHINE)
    Path("trace.csv").write_text("t,model,prompt_tokens,output_tokens\n28800,chat,0,100\n")


def remember(digest: str) -> None:
    """Have the loop have loaded chat in 31 s, and served requests with 10 tokens a second."""
    Path("state").mkdir()
    store = Store(Path("state", DATABASE))
    store.add_load(LoadRecord(0, BEGAN, "chat", digest, "Demanded", 31.0, None, "ready", 1, "load"))
    served = RequestRecord(0, BEGAN + 40, "chat", "anna", 0.0, 0.0, 2.0, 0, 20, "ok")
    store.add_requests(
        replace(served, at=served.at + 9 * n, seconds=0.1 * n, output_tokens=n) for n in range(10, 40)
    )
    store.close()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], str]:
    given = ["simulate", "trace.csv", "--manifest", "desk.yaml", "--state-dir", "state", *words]
    assert main([*given, "--json"]) == 0
    [only] = json.loads(capsys.readouterr().out)["runs"]
    assert main(given) == 0
    return only["models"][0]["speed"], capsys.readouterr().out


def digest() -> str:
    [spec] = load_manifest(Path("desk.yaml"), environ=os.environ).manifest.models
    return spec.digest


def test_what_this_launch_did_here_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    remember(digest())
    speed, text = run(capsys)
    assert speed["load"] == {"value": pytest.approx(31.005), "origin": "measured"}
    assert speed["output"] == {"value": pytest.approx(10.0, rel=1e-3), "origin": "measured"}
    assert speed["evict"] == {"value": 1.0, "origin": "assumed"}
    assert "loads and answers: measured here\nevictions: assumed by size\n" in text


def test_what_other_settings_did_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    remember("that of another launch")
    speed, text = run(capsys)
    assert {key: figure["origin"] for key, figure in speed.items()} == dict.fromkeys(speed, "assumed")
    assert speed["output"]["value"] == 200.0
    assert "loads, evictions and answers: assumed by size\n" in text


def test_what_was_measured_here_says_nothing_of_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    remember(digest())
    speed, text = run(capsys, "--machine", "machine.yaml")
    assert speed["load"] == {"value": 10.0, "origin": "stated"}
    assert speed["output"] == {"value": 200.0, "origin": "assumed"}
    assert "loads: as described\nevictions and answers: assumed by size\n" in text
