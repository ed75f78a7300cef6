"""`reconcile simulate` names the models that could never be loaded, says why, and exits as the other verbs do."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler.cli import main
from reconciler.render.schemas import simulate_schema

MANIFEST = """\
apiVersion: reconciler/v1
machine: {reserve: 0}
x-server: &server {engine: command, command: [no-such-program, "${port}"]}
models:
  chat: {<<: *server, memory: {steady: 40MiB}}
  code: {<<: *server, memory: {steady: 30MiB}}
"""
MACHINE = "apiVersion: reconciler/v1\nmemory: 100MiB\nin_use: %s\n"
TRACE = "t,model,client,seconds\n28800,chat,anna,1\n28801,code,ben,1\n28900,chat,anna,1\n"


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("desk.yaml").write_text(MANIFEST)
    Path("machine.yaml").write_text(MACHINE % "0")
    Path("trace.csv").write_text(TRACE)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]], str]:
    given = ["simulate", "trace.csv", "--state-dir", "state", *words]
    if "--manifest" not in words:
        given += ["--manifest", "desk.yaml"]
    code = main([*given, "--json"])
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, simulate_schema())
    assert main(given) == code
    return code, document["runs"], " ".join(capsys.readouterr().out.split())


def test_models_that_cannot_be_started_here(capsys: pytest.CaptureFixture[str]) -> None:
    code, [only], text = run(capsys)
    assert code == 1
    assert [(n["model"], n["requests"], n["reason"]) for n in only["not_loaded"]] == [
        ("chat", 2, "NotStartable"),
        ("code", 1, "NotStartable"),
    ]
    assert only["waits"]["refused"] == {"not_startable": 3}
    assert (only["waits"]["cold"], only["waits"]["cold_seconds"], only["waits"]["cold_share"]) == (0, 0, 0)
    assert (
        "chat was never loaded (2 requests in vain): NotStartable: the program 'no-such-program' is not on PATH;"
        " mend that, or describe the machine that it is meant for (--machine FILE)"
    ) in text
    assert "code was never loaded (1 request in vain)" in text


def test_a_described_machine_needs_no_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code, [only], text = run(capsys, "--machine", "machine.yaml")
    assert (code, only["not_loaded"], only["waits"]["served"]) == (0, [], 3)
    assert "never loaded" not in text


def test_one_that_is_too_large_and_what_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    Path("desk.yaml").write_text(MANIFEST.replace("reserve: 0", "reserve: 0, memory: 38MiB"))
    code, [only], _ = run(capsys, "--machine", "machine.yaml")
    [large] = only["not_loaded"]
    assert code == 1
    assert (large["model"], large["reason"]) == ("chat", "NeverFits")
    assert large["fix"] == "chat would be loaded with 2 MiB more in machine.memory"
    assert only["waits"]["refused"] == {"never_fits": 2}
    assert only["waits"]["cold"] == 1, "code alone waited for its load"


def test_what_is_in_use_of_a_described_machine_is_not_for_models(capsys: pytest.CaptureFixture[str]) -> None:
    Path("machine.yaml").write_text(MACHINE % "50MiB")
    code, [only], text = run(capsys, "--machine", "machine.yaml")
    assert code == 1
    # 85 of 100 MiB is the hard mark.
    assert only["budget"] == 35 << 20
    assert [(n["model"], n["reason"]) for n in only["not_loaded"]] == [("chat", "InsufficientMemory")]
    assert only["waits"]["refused"] == {"queue_timeout": 2}
    assert only["waits"]["cold"] == 3, "they waited for a load that never came"
    assert "memory for models 35 MiB" in text
    Path("machine.yaml").write_text(MACHINE % "0")
    assert run(capsys, "--machine", "machine.yaml")[1][0]["budget"] == 85 << 20


def test_a_pinned_model_that_nobody_asked_for_is_named_and_another_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = (
        "  big: {<<: *server, memory: {steady: 99MiB}}\n"
        "  mine: {<<: *server, memory: {steady: 99MiB}, residency: pinned}\n"
    )
    Path("desk.yaml").write_text(MANIFEST + more)
    code, [only], text = run(capsys, "--machine", "machine.yaml")
    assert (code, [n["model"] for n in only["not_loaded"]]) == (1, ["mine"])
    assert "mine was never loaded (it is pinned): NeverFits: " in text


def test_runs_that_differ_in_it_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    Path("large.yaml").write_text(MANIFEST.replace("40MiB", "140MiB"))
    words = ["--machine", "machine.yaml", "--manifest", "large.yaml", "--manifest", "desk.yaml"]
    code, runs, text = run(capsys, *words)
    assert (code, [len(r["not_loaded"]) for r in runs]) == (1, [1, 0])
    assert "with large.yaml: chat was never loaded (2 requests in vain): NeverFits: " in text
