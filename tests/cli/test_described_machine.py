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
HEAD = "apiVersion: reconciler/v1\n"


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
    assert out == (
        "manifest m.yaml  (on the machine as it is described)\n"
        "memory   54.4 GiB budget   40.0 held   0.0 reserved   8.4 free\n"
        "  1. + small   needs  8.0 GiB ->  0.4 free   (Pinned)\n"
        "  2. - big     frees 40.0 GiB -> 40.4 free   (MakeRoom for other: priority 250 < 500, idle 10m)\n"
        "  3. + other   needs 20.0 GiB -> 20.4 free   (Demanded: 2 requests waiting, oldest 4.0s)\n"
        "Plan: 2 to load, 1 to evict. Only step 1 runs before the world is observed again.\n"
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
    Path("desk.yaml").write_text(busy.replace("oldest: 4s", "oldest: 100s"))
    _, out, _ = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml")
    assert "  1. - big " in out
    assert "in use: its requests get to end first" in out


def test_a_dry_run_says_who_cannot_stand_together_and_what_would_help_who_waits(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("desk.yaml").write_text(MACHINE.replace("{idle: 10m}", "{idle: 9m}"))
    _, out, _ = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml")
    told = [line for line in out.splitlines() if line.startswith("advice: ")]
    assert len(told) == 1
    assert told[0].startswith("advice: big and other do not fit together: they lack 13.7 GiB; ")
    _, out, _ = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml", "--json")
    advice = json.loads(out)["advice"]
    assert [(a["about"], a["models"]) for a in advice] == [("rivals", ["big", "other"])]
    assert f"advice: {advice[0]['text']}" == told[0]


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
        ("", "it is no description of a machine: it is empty"),
        ("# nothing\n", "begin it with the two keys `apiVersion: reconciler/v1` and `memory: 128GiB`"),
        ("- 1\n", "it is no description of a machine: expected a mapping, not a list"),
        ("apiVersion: reconciler/v2\nmemory: 1GiB\n", "help: write reconciler/v1"),
        (HEAD + "memory: 128\n", "2:9: error: 128 B is no size of a machine or a model"),
        (HEAD + "memory: 128\n", "did you mean 128GiB?"),
        (HEAD + "memory: 0\n", "2:9: error: 0 B is no size"),
        (HEAD + "memory: 1KiB\n", "write it like 128GiB or 512MiB"),
        (HEAD + "memory: 64GiB\nin_use: 6\n", "did you mean 6GiB?"),
        (HEAD + "memory: 64GiB\nsizes: {other: 20}\n", "3:16: error: 20 B is no size"),
        (HEAD + "memory: 64GiB\ndisk: 3\n", "3:7: error: 3 B a second is no speed of a disk"),
        (HEAD + "memory: 64GiB\ndisk: 3\n", "did you mean 3GB?"),
        (HEAD + "memory: 64GiB\ndisk: 0\n", "write it like 3GB or 500MB"),
        (HEAD + "memory: 64GiB\ndisk: fast\n", '"fast" is not a size'),
        (HEAD + "memory: 64GiB\nspeeds: {bg: {}}\n", '3:10: error: the manifest has no model "bg"'),
        (HEAD + "memory: 64GiB\nspeeds: {big: {lod: 3s}}\n", "did you mean load?"),
        (HEAD + "memory: 64GiB\nspeeds: {big: {load: 0s}}\n", "3:22: error: no load takes 0 seconds"),
        (HEAD + "memory: 64GiB\nspeeds: {big: {load: soon}}\n", '"soon" is not a duration'),
        (HEAD + "memory: 64GiB\nspeeds: {big: {evict: -1}}\n", "3:23: error: -1 is not a duration"),
        (HEAD + "memory: 64GiB\nspeeds: {big: {prompt: 0}}\n", "3:24: error: 0 is not a rate"),
        (HEAD + "memory: 64GiB\nspeeds: {big: {output: 8/s}}\n", "write tokens a second as a number above 0"),
        (HEAD + "memory: 64GiB\nspeeds: {big: {output: 1e3}}\n", "1e3 is not a rate"),
        (HEAD + "memory: 64GiB\nspeeds: [big]\n", "expected a mapping, not a list"),
        (HEAD + "memory: 1GiB\nin_use: 2GiB\n", "3:9: error: 2.0 GiB is more than the 1.0 GiB of memory"),
        (HEAD + "memory: 1GiB\ngpu: 2GiB\n", "3:6: error: 2.0 GiB is more than the 1.0 GiB of memory"),
        (
            HEAD + "memory: 1GiB\nloaded: {big: {asleep: true}}\n",
            '3:10: error: it is not said what "big" holds asleep',
        ),
        (
            HEAD + "memory: 1GiB\nloaded: {big: {asleep: true, holds: 1MiB, requests: 1}}\n",
            '"big" cannot serve requests asleep',
        ),
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


def described(capsys: pytest.CaptureFixture[str], text: str) -> tuple[str, str]:
    Path("desk.yaml").write_text(HEAD + text)
    _, out, err = run(capsys, "m.yaml", "--dry-run", "--machine", "desk.yaml")
    return out, err


def test_memory_that_is_short_on_the_described_machine_has_been_so_for_long(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the loop would do once it had looked for a while: the least important goes."""
    out, err = described(capsys, "memory: 64GiB\nin_use: 10GiB\nloaded: {big: {idle: 1m}, small: {}}\n")
    assert "1. - big" in out
    assert "(MemoryPressure: 91 % of the memory is in use, the hard mark is 85 %, idle 60s)" in out
    assert err == ""
    Path("m.yaml").write_text(MANIFEST + "machine: {reserve: 1%, watermarks: {hard: 95%, critical: 98%}}\n")
    out, _ = described(capsys, "memory: 64GiB\nin_use: 10GiB\nloaded: {big: {idle: 1m}, small: {}}\n")
    assert "No changes." in out


def test_more_than_there_is_and_sizes_passed_over_are_said(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "memory: 64GiB\nin_use: 60GiB\nsizes: {small: 9GiB, big: 40GiB}\nloaded: {big: {}}\n"
    _, err = described(capsys, text)
    assert err == (
        "warning: desk.yaml: memory.steady of small is 8.0 GiB, and sizes.small 9.0 GiB: the manifest is believed,"
        " as the loop would\n"
        "warning: desk.yaml: what is loaded takes 40.0 GiB, and in_use 60.0 GiB: together more than the 64.0 GiB"
        " there are\n"
    )
    for verb in ("budget", "validate"):
        assert run(capsys, verb, "m.yaml", "--machine", "desk.yaml")[2].startswith(err)


def test_a_size_of_the_machine_counts_where_the_manifest_states_none_even_if_the_files_are_here(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("nor-this.bin").write_bytes(b"x")
    out, err = described(capsys, "memory: 64GiB\nsizes: {other: 20GiB}\n")
    assert ". other   needs 20.0 GiB" in out
    assert err == ""


def test_who_waits_for_a_model_that_is_there_waits_at_its_gate(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = described(capsys, "memory: 64GiB\nloaded: {small: {}}\nwaiting: {small: {requests: 2}}\n")
    assert "= small   holds  8.0 GiB   (InUse: 2 requests at the gate)" in out


def test_a_model_asleep_holds_what_is_said_and_wakes(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("m.yaml").write_text(
        HEAD + "models:\n  v: {engine: vllm, weights: org/none, memory: {steady: 20GiB}, sleep: light}\n"
    )
    asleep = "memory: 64GiB\nloaded: {v: {asleep: true, holds: 3GiB, idle: 5m}}\n"
    out, _ = described(capsys, asleep)
    assert "asleep, holds 3.0 GiB: wakes when a request asks for it" in out
    out, _ = described(capsys, asleep + "waiting: {v: {}}\n")
    assert "1. + v   needs 17.0 GiB" in out
    assert "(Demanded: wakes, 1 request waiting, oldest 0.0s)" in out


def test_no_file_at_all_is_a_fault(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "m.yaml", "--dry-run", "--machine", "")
    assert (code, out) == (1, "")
    assert "it is a directory, not a file" in err


def test_a_loaded_model_of_unknown_size_is_told(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MACHINE.replace("sizes: {other: 20GiB}\n", "").replace("{big: {idle: 10m}}", "{other: {}}")
    Path("desk.yaml").write_text(text.replace("waiting: {other: {requests: 2, oldest: 4s}}", ""))
    code, _, err = run(capsys, str(manifest), "--dry-run", "--machine", "desk.yaml")
    assert code == 0
    assert "warning: desk.yaml: loaded.other: nobody knows what it takes" in err
