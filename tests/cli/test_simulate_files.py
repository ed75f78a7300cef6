"""What `reconcile simulate` writes, where it cannot, and its tables of several runs."""

import os
from pathlib import Path

import pytest

from reconciler.cli import main

MANIFEST = """\
apiVersion: reconciler/v1
machine: {reserve: 0}
x-server: &server {engine: command, command: [no-such-program, "${port}"]}
models:
  chat: {<<: *server, memory: {steady: 40MiB}, queue: {max: 1}}
"""
MACHINE = "apiVersion: reconciler/v1\nmemory: 100MiB\n"
TRACE = "t,model,client,seconds\n28800,chat,anna,1\n28800,chat,ben,1\n"


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("desk.yaml").write_text(MANIFEST)
    Path("machine.yaml").write_text(MACHINE)
    Path("trace.csv").write_text(TRACE)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(
        [
            "simulate",
            "trace.csv",
            "--manifest",
            "desk.yaml",
            "--machine",
            "machine.yaml",
            "--state-dir",
            "state",
            *words,
        ]
    )
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_what_cannot_be_written_is_said_and_the_figures_are_not_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "--picture", "p.svg", "--actions", "/dev/full")
    assert code == 1
    assert err.endswith(
        "error: --actions: /dev/full could not be written: No space left on device;"
        " name a file in a directory that takes one\n"
    )
    assert "cold wait" in out
    assert Path("p.svg").exists()
    assert os.path.exists("/dev/full")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_a_directory_that_takes_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--picture", "/proc/x.svg")
    assert code == 1
    assert "error: --picture: /proc/x.svg could not be written: " in err
    assert "Errno" not in err
    assert "cold wait" in out


def test_the_picture_counts_one_request_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.csv").write_text(TRACE[: TRACE.rindex("28800")])
    run(capsys, "--picture", "p.svg")
    told = Path("p.svg").read_text()
    assert "1 request, 1 waited for a load" in told
    assert "1 load in" in told
    assert "0 regrets" in told


def test_clients_of_several_runs_stand_below_the_name_of_their_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "--policy", "lru", "--policy", "cost", "--clients")
    lines = out.split("\n")
    heads = [(lines[n - 1], line.split()[0]) for n, line in enumerate(lines) if line.startswith("CLIENT")]
    assert heads == [("clients with lru", "CLIENT"), ("clients with cost", "CLIENT")]


def test_many_runs_show_whom_they_refused(capsys: pytest.CaptureFixture[str]) -> None:
    every = [w for kind in ("off", "free", "full") for w in ("--prewarm", kind)]
    _, out, _ = run(capsys, "--policy", "lru", "--policy", "cost", *every)
    lines = out.split("\n")
    head = next(n for n, line in enumerate(lines) if line.startswith("RUN"))
    column = lines[head].index("REFUSED")
    figures = [line[column : column + len("REFUSED")].strip() for line in lines[head:]]
    assert [figure for figure in figures if figure] == ["REFUSED", *["1"] * 6]
    Path("trace.csv").write_text(TRACE[: TRACE.rindex("28800")])
    _, without, _ = run(capsys, "--policy", "lru", "--policy", "cost", *every)
    assert "REFUSED" not in without


def test_a_folder_without_manifests_says_how_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["simulate", "trace.csv", "--machine", "machine.yaml", "--state-dir", "state"])
    assert code == 1
    assert capsys.readouterr().err == (
        "error: there is no directory manifests here: say which manifest to simulate, with --manifest PATH\n"
    )


def test_all_manifests_that_know_none_of_the_names_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.csv").write_text("t,model\n1,llama\n")
    Path("other.yaml").write_text(MANIFEST)
    code, out, err = run(capsys, "--manifest", "other.yaml")
    assert (code, out) == (1, "")
    assert err.endswith(
        "error: desk.yaml has none of the models of the trace (llama); it has chat\n"
        "       other.yaml has none of the models of the trace (llama); it has chat\n"
    )
