"""`reconcile simulate`: traces through the real entry point, on a machine that is only described."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from reconciler.cli import main
from reconciler.cli.simulate_progress import Bar
from reconciler.render.schemas import simulate_schema
from reconciler.store import DATABASE, RequestRecord, Store

MANIFEST = """\
apiVersion: reconciler/v1
machine: {reserve: 0}
x-server: &server {engine: command, command: [no-such-program, "${port}"]}
models:
  chat: {<<: *server, memory: {steady: 40GiB}, aliases: [gpt-4]}
  code: {<<: *server, memory: {steady: 30GiB}}
"""
MACHINE = """\
apiVersion: reconciler/v1
memory: 64GiB
speeds:
  chat: {load: 10s, evict: 2s, prompt: 1000, output: 50, fixed: 0s}
  code: {load: 5s, evict: 1s, prompt: 1000, output: 50, fixed: 0s}
"""
#: chat is loaded for anna; ben has it evicted for code and comes back to chat at once.
TRACE = """\
t,model,prompt_tokens,output_tokens,client
28800,chat,1000,50,anna
28815,gpt-4,1000,50,anna
28900,code,1000,50,ben
28930,chat,1000,50,ben
28930,choder,1,1,ben
"""


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("manifests").mkdir()
    Path("manifests/desk.yaml").write_text(MANIFEST)
    Path("machine.yaml").write_text(MACHINE)
    Path("trace.csv").write_text(TRACE)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["simulate", *words, "--machine", "machine.yaml", "--state-dir", "state"])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_what_waited_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "trace.csv", "--prewarm", "off", "--json")
    document = json.loads(out)
    jsonschema.validate(document, simulate_schema())
    assert code == 0
    assert err == 'note: no model is called "choder": 1 request refused (did you mean "code"?)\n'
    (only,) = document["runs"]
    waits = only["waits"]
    # 10 s for the first, 2 + 5 s for code, 1 + 10 s for chat again.
    assert (waits["cold"], waits["cold_seconds"]) == (3, pytest.approx(28.0, abs=0.1))
    assert (waits["served"], waits["refused"]) == (4, {"unknown_model": 1})
    assert (only["loads"], only["load_seconds"], only["evict_seconds"]) == (3, 25.0, 3.0)
    assert only["evictions"] == {"MakeRoom": 2}
    assert only["regrets"] == 1
    assert {m["name"]: m["waits"]["requests"] for m in only["models"]} == {"chat": 3, "code": 1}
    assert (document["trace"]["requests"], document["trace"]["clients"]) == (5, 2)
    assert not Path("state").exists()


def test_the_text_of_policies_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "trace.csv", "--policy", "lru", "--policy", "cost", "--prewarm", "off")
    lines = [line.split() for line in out.split("\n")]
    assert code == 0
    assert ["cold", "wait", "28.0", "s", "28.0", "s", "1.00"] in lines
    assert ["lru", "cost"] in lines
    assert "\x1b" not in out


def test_manifests_beside_each_other_and_what_only_one_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    both = MANIFEST.replace("40GiB", "20GiB").replace("30GiB", "20GiB")
    Path("smaller.yaml").write_text(both + "  choder: {<<: *server, memory: {steady: 1GiB}}\n")
    code, out, err = run(
        capsys,
        "trace.csv",
        "--manifest",
        "manifests",
        "--manifest",
        "smaller.yaml",
        "--prewarm",
        "off",
        "--json",
    )
    assert code == 0
    assert err == "note: manifests has no choder: requests for them are refused there\n"
    first, second = json.loads(out)["runs"]
    assert [first["name"], second["name"]] == ["manifests", "smaller.yaml"]
    assert second["evictions"] == {}
    assert second["against"]["loads"] == pytest.approx(3 / 3)
    assert second["waits"]["refused"] == {}


def test_clients_are_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    _, without, _ = run(capsys, "trace.csv")
    _, out, _ = run(capsys, "trace.csv", "--clients")
    assert "CLIENT" not in without
    anna = next(line for line in out.split("\n") if line.startswith("anna"))
    assert anna.split()[:5] == ["anna", "2", "0", "1", "10.0"]


def test_a_picture_and_the_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = run(
        capsys, "trace.csv", "--prewarm", "off", "--picture", "p.svg", "--actions", "actions.jsonl"
    )
    assert code == 0
    root = ElementTree.fromstring(Path("p.svg").read_text())
    lanes = [g for g in root.iter("{http://www.w3.org/2000/svg}g") if g.get("class") == "lane"]
    names = [next(g.iter("{http://www.w3.org/2000/svg}text")).text for g in lanes]
    assert names == ["chat", "code"]
    assert 'class="w"' in Path("p.svg").read_text()
    decided = [json.loads(line) for line in Path("actions.jsonl").read_text().splitlines()]
    assert [(d["action"], d["model"], d["why"], d["for"]) for d in decided] == [
        ("load", "chat", "Demanded", None),
        ("evict", "chat", "MakeRoom", "code"),
        ("load", "code", "Demanded", None),
        ("evict", "code", "MakeRoom", "chat"),
        ("load", "chat", "Demanded", None),
    ]
    assert decided[1]["t"] == 28900.0
    assert decided[3]["wanted_after"] is None


def test_a_part_of_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "trace.csv", "--from", "8h1m", "--to", "8h2m", "--json")
    trace = json.loads(out)["trace"]
    assert (trace["requests"], trace["began"], trace["ended"], trace["unknown"]) == (1, 28900.0, 28900.0, [])


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["none.csv"], 1, "none.csv: "),
        (
            ["trace.csv", "--from", "9h"],
            1,
            "no requests between --from and --to; it goes from day 1, 08:00 to day 1",
        ),
        (["trace.csv", "--from", "soon"], 64, "--from: not a duration; write it like"),
        (["trace.csv", "--picture", "p.png"], 64, "the file is to be called NAME.svg, not p.png"),
        (["trace.csv", "--picture", "there/p.svg"], 1, "--picture: there is no directory there"),
        (["trace.csv", "--actions", "manifests"], 1, "--actions: manifests is a directory"),
        (["trace.csv", "--policy", "fifo"], 64, "fifo"),
        (["trace.csv", "--manifest", "nowhere"], 1, "nowhere: error: "),
        (["history"], 1, "this machine has no history of requests yet"),
        (["empty.csv"], 1, "empty.csv"),
        (
            ["other.csv"],
            1,
            "manifests has none of the models of the trace (llama, mistral); it has chat, code\n",
        ),
    ],
)
def test_mistakes_are_told(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.csv").write_text("")
    Path("other.csv").write_text("t,model\n1,mistral\n2,llama\n")
    done, out, err = run(capsys, *words)
    assert (done, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert not Path("p.svg").exists()


def test_our_own_history(capsys: pytest.CaptureFixture[str]) -> None:
    Path("state").mkdir()
    store = Store(Path("state", DATABASE))
    store.add_requests(
        RequestRecord(0, 1_700_000_000.0 + n, "chat", "anna", 0.0, 0.0, 2.0, 10, 20, "ok") for n in range(3)
    )
    store.close()
    code, out, err = run(capsys, "history", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["trace"]["source"], document["trace"]["requests"]) == ("history", 3)
    assert document["runs"][0]["waits"]["cold_seconds"] == pytest.approx(10 + 9 + 8, abs=0.1)


def test_without_a_description_it_is_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    Path("manifests/desk.yaml").write_text(MANIFEST.replace("40GiB", "4MiB").replace("30GiB", "3MiB"))
    # Where the program of the models is not installed nothing can be loaded.
    assert main(["simulate", "trace.csv", "--json", "--state-dir", "state"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["machine"] is None
    assert document["runs"][0]["waits"]["refused"].get("unknown_model") == 1
    assert not Path("state").exists()


def test_a_bar_is_shown_only_on_a_terminal_and_only_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setenv("TERM", "xterm")
    with Bar(lambda: now[0]) as bar:
        now[0] = 9.0
        bar.about("lru")(0.5)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Bar(lambda: now[0]) as bar:
        tell = bar.about("[lru]")
        now[0] += 1.9
        tell(0.2)
        assert capsys.readouterr().err == ""
        now[0] += 0.2
        tell(0.5)
    assert "[lru]" in capsys.readouterr().err


def test_ctrl_c_ends_it_with_nothing_written() -> None:
    rows = "".join(f"{28800 + n * 0.5:.1f},{('chat', 'code')[n // 40 % 2]},anna,9,9\n" for n in range(60_000))
    Path("long.csv").write_text("t,model,client,prompt_tokens,output_tokens\n" + rows)
    words = [
        "simulate",
        "long.csv",
        "--machine",
        "machine.yaml",
        "--picture",
        "p.svg",
        "--state-dir",
        "state",
    ]
    # The signal comes while requests are replayed, not while modules are imported.
    code = (
        "import os, signal, sys; from reconciler.simulate import engine; from reconciler.cli import main\n"
        "real = engine.run\n"
        "def run(*given, **named):\n"
        "    named['progress'] = lambda done: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(*given, **named)\n"
        "engine.run = run\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 128 + signal.SIGINT
    assert (done.stdout, done.stderr) == ("", "")
    assert not os.path.exists("p.svg")
