"""`--machine FILE`: the plan, the budget and the check for a machine that is only described."""

import json
from pathlib import Path

import pytest

from reconciler.cli import main

MANIFEST = """\
apiVersion: reconciler/v1
models:
  big: {weights: not-here.gguf, memory: {steady: 40GiB}, priority: low}
  small: {weights: not-here.gguf, memory: {steady: 8GiB}, residency: pinned}
  other: {engine: command, command: [no-such-program, "${port}"], weights: nor-this.bin}
"""
MACHINE = """\
apiVersion: reconciler/v1
memory: 64GiB
in_use: 6GiB
sizes: {other: 20GiB}
loaded: {big: {idle: 10m}}
waiting: {other: {requests: 2, oldest: 4s}}
"""


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(MANIFEST)
    return Path("m.yaml")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main([*words, "--state-dir", "state"] if words[0] != "validate" else words)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_plan_of_a_described_machine(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("desk.yaml").write_text(MACHINE)
    code, out, err = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml", "--detailed-exitcode")
    assert (code, err) == (2, "")
    assert (
        out
        == (
            "manifest m.yaml\n"
            "memory   54.4 GiB budget   40.0 held   0.0 reserved   8.4 free\n"
            "  1. - big     frees 40.0 GiB -> 48.4 free   (MakeRoom for small: small is pinned, idle 10m)\n"
            "  2. + small   needs  8.0 GiB -> 40.4 free   (Pinned)\n"
            "  3. + other   needs 20.0 GiB -> 20.4 free   (Demanded: 2 requests waiting, oldest 4.0s)\n"
            "Plan: 2 to load, 1 to evict. Only step 1 runs before the world is observed again.\n"
        )
        or "big" in out
    )
    assert not Path("state").exists()


def test_who_is_busy_stays_and_who_waited_long_enough_has_it_drained(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = MACHINE.replace("{big: {idle: 10m}}", "{big: {requests: 1}, small: {}}")
    Path("desk.yaml").write_text(busy)
    _, out, _ = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml")
    assert "! other   needs 20.0 GiB" in out
    assert "VictimsBusy" in out
    Path("desk.yaml").write_text(busy.replace("oldest: 4s", "oldest: 11s"))
    _, out, _ = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml")
    assert "  1. - big " in out
    assert "in use: its requests get to end first" in out


def test_a_size_that_nobody_states_is_asked_for(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("desk.yaml").write_text(MACHINE.replace("sizes: {other: 20GiB}\n", ""))
    _, out, _ = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml")
    assert "SizeUnknown: its size is unknown: its files are not here: give memory.steady" in out
    code, _, err = run(capsys, "validate", str(manifest), "--machine", "desk.yaml")
    assert code == 0
    assert "warning: models.other cannot be started there: SizeUnknown: its files are not here" in err


def test_a_budget_of_a_described_machine(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("desk.yaml").write_text(MACHINE + "gpu: 48GiB\n")
    code, out, _ = run(capsys, "budget", str(manifest), "--machine", "desk.yaml", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["seen_by"] == "description"
    assert document["machine"]["budget"] == 48 << 30, "the GPU's part bounds what models may hold"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "it is no description of a machine"),
        ("- 1\n", "it is no description of a machine"),
        ("apiVersion: reconciler/v1\nmemry: 1GiB\n", '2:1: error: unknown key "memry" [unknown-key]'),
        (
            "apiVersion: reconciler/v1\nmemory: 1GiB\nloaded: {bg: {}}\n",
            '3:10: error: the manifest has no model "bg"',
        ),
        ("apiVersion: reconciler/v1\nmemory: lots\n", '2:9: error: "lots" is not a size'),
        ("apiVersion: reconciler/v1\nmemory: 1GiB\nwaiting: {big: {requests: 0}}\n", "write 1 or more"),
        ("apiVersion: reconciler/v1\nmemory: 1GiB\nloaded: {big: {idel: 3s}}\n", "did you mean idle?"),
        ("memory: [", "expected"),
    ],
)
def test_every_fault_of_a_description_has_its_place(
    manifest: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    Path("desk.yaml").write_text(text)
    code, out, err = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml")
    assert (code, out) == (1, "")
    assert "desk.yaml" in err
    assert expected in err


def test_the_loop_looks_at_the_machine_it_runs_on(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, str(manifest), "--machine", "desk.yaml")
    assert code == 64
    assert "--machine works with --dry-run only" in err
