"""`reconcile events` and `reconcile history`, from a ledger and from a scripted loop."""

import csv
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from golden_files import FOLDER
from history_samples import DAY, EVENTS, NOW, REQUESTS, filled, utc
from loop_stand_in import StandIn, standing_in
from reconciler.cli import events as events_verb
from reconciler.cli import main
from reconciler.cli import since as since_module
from reconciler.cli.event_feed import follow
from reconciler.cli.output import UsageError
from reconciler.cli.since import since_time
from reconciler.host.owner import owner_of
from reconciler.render.event_query import EventQuery
from reconciler.simulate.trace_read import read_trace
from reconciler.store import Store
from reconciler.store.paths import DATABASE

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def clocks_of_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(since_module, "now", lambda: NOW)
    with utc():
        yield


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with a ledger, and no loop."""
    folder = tmp_path_factory.mktemp("state")
    filled(folder / DATABASE)
    return folder


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        name: (folder.joinpath(name).stat().st_mtime_ns, folder.joinpath(name).stat().st_size)
        for name in os.listdir(folder)
    }


def test_events_are_read_without_a_loop_and_without_a_trace(ledger: Path, capsys: Said) -> None:
    before = contents(ledger)
    assert main(["events", "--state-dir", str(ledger)]) == 0
    assert capsys.readouterr().out == (FOLDER / "events.txt").read_text("utf-8")
    assert contents(ledger) == before


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["-n", "2"], [6, 7]),
        (["--model", "chat"], [2, 3]),
        (["--kind", "loaded"], [5]),
        (["--since", "2026-11-30T08:02:15"], [5, 6, 7]),
        (["-n", "3", "--model", "coder", "--since", "2026-11-30"], [4, 5, 7]),
    ],
)
def test_which_events_are_shown(options: list[str], found: list[int], ledger: Path, capsys: Said) -> None:
    assert main(["events", "--json", *options, "--state-dir", str(ledger)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["formatVersion"] == 1
    assert [event["id"] for event in document["events"]] == found


def test_more_events_than_a_page(tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_verb, "PAGE", 3)
    filled(tmp_path / DATABASE)
    assert main(["events", "--json", "-n", "5", "--state-dir", str(tmp_path)]) == 0
    assert [event["id"] for event in json.loads(capsys.readouterr().out)["events"]] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (
            ["events", "--model", "codre"],
            1,
            'nothing is remembered of a model called "codre" (did you mean "coder"?',
        ),
        (["events", "--kind", "loadd"], 0, 'no event is of the kind "loadd"; did you mean "loaded"?'),
        (["events", "--since", "2026-11-30T08:59"], 0, "none of the 7 events that are kept is meant"),
        (["history", "embde"], 1, 'did you mean "embed"? remembered: chat, coder, embed'),
        (
            ["history", "--since", "2026-11-30T08:59"],
            0,
            "there is no history since then: ask for more, like --since 35d",
        ),
        (
            ["history", "--since", "soon"],
            64,
            '--since "soon" is no time: write how long ago, like 90m, 24h or 7d',
        ),
        (["events", "--since", "-5m"], 64, "--since"),
        (
            ["events", "--since", "9999-12-31"],
            64,
            '--since "9999-12-31" is still to come: it is 2026-11-30 09:00 now; name a time before that',
        ),
        (["history", "--since", "2026-11-30T09:00:01"], 64, "is still to come"),
        (["events", "-n", "0"], 64, "--limit must be from 1 to 20000, not 0"),
        (["events", "-f", "-n", "1001"], 64, "--limit must be from 1 to 1000 with --follow"),
        (["events", "-f"], 1, "whose events could be followed"),
        (["history", "--force"], 64, "--force works with --export only"),
        (["history", "--json", "--export", "x.csv"], 64, "leave --json out"),
        (
            ["history", "--since", "2026-11-30T08:59", "--export", "x.csv"],
            1,
            "no single request is kept of that time",
        ),
    ],
)
def test_what_is_said_when_there_is_nothing_to_show(
    argv: list[str],
    code: int,
    words: str,
    ledger: Path,
    tmp_path: Path,
    capsys: Said,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*argv, "--state-dir", str(ledger)]) == code
    said = capsys.readouterr()
    assert (said.out, words in said.err) == ("", True), said
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "verb", [["events"], ["history"], ["history", "chat"], ["history", "--export", "x.csv"]]
)
def test_without_a_ledger_it_says_what_to_do(
    verb: list[str], tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*verb, "--state-dir", str(tmp_path / "nowhere")]) == 1
    assert "no loop ever ran with it; start one with `reconcile`" in capsys.readouterr().err
    with Store(tmp_path / DATABASE):
        pass
    code = main([*verb, "--state-dir", str(tmp_path)])
    said = capsys.readouterr().err
    if verb == ["events"]:
        assert (code, "nothing has happened yet" in said) == (0, True)
    elif verb == ["history"]:
        assert (code, "it is written while a loop runs and models are asked for" in said) == (0, True)
    else:
        assert code == 1


@pytest.mark.parametrize(
    "verb",
    [
        ["events"],
        ["history"],
        ["history", "chat", "--json"],
        ["history", "--export", "x.csv"],
        ["simulate", "history"],
    ],
)
def test_a_damaged_ledger_is_no_empty_one(
    verb: list[str], ledger: Path, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("layout.yaml").write_text("apiVersion: reconciler/v1\nmodels: {}\n")
    state = tmp_path / "state"
    state.mkdir()
    damaged = (ledger / DATABASE).read_bytes().replace(b"SQLite format 3", b"SQLite format 4")
    (state / DATABASE).write_bytes(damaged)
    before = contents(state)
    assert main([*verb, "--state-dir", str(state)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith(
        f"the ledger {state / DATABASE} is damaged (file is not a database), and nothing in it can be read; at its next"
        " start `reconcile` will keep it as ledger.db.corrupt-1 and begin a new one\n"
    )
    assert contents(state) == before


def test_the_doctor_cannot_tell_what_is_left_over_by_a_damaged_ledger(tmp_path: Path, capsys: Said) -> None:
    (tmp_path / DATABASE).write_bytes(b"no database" * 1000)
    owner_of(tmp_path)  # a loop ran here
    main(["doctor", "--state-dir", str(tmp_path), "--json"])
    [found] = [f for f in json.loads(capsys.readouterr().out)["findings"] if f["topic"] == "processes"]
    assert f"the ledger {tmp_path / DATABASE} is damaged" in found["what"]


def test_history_shows_all_models_or_one(ledger: Path, capsys: Said) -> None:
    since = ["--since", "2026-11-23T09:00", "--state-dir", str(ledger)]
    assert main(["history", *since]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[1:] == (FOLDER / "history.txt").read_text("utf-8").splitlines()[1:]
    assert main(["history", "chat", *since]) == 0
    page = capsys.readouterr().out.splitlines()
    assert page[2:] == (FOLDER / "history-chat.txt").read_text("utf-8").splitlines()[2:]
    assert main(["history", "chat", "--json", *since]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [m["model"] for m in document["models"]] == ["chat"]
    assert document["since"] == NOW - 7 * DAY


def test_an_export_is_a_trace_of_every_request(ledger: Path, tmp_path: Path, capsys: Said) -> None:
    file = tmp_path / "own.csv"
    command = ["history", "--export", str(file), "--state-dir", str(ledger)]
    assert main(command) == 0
    assert capsys.readouterr().err == "6 requests of 5.0 days, of 2 models and 2 clients\n"
    rows = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    assert list(rows[0]) == ["t", "model", "prompt_tokens", "output_tokens", "client", "think", "seconds"]
    midnight = NOW - 5 * DAY - 9 * 3600
    assert [float(row["t"]) for row in rows] == pytest.approx(
        [r.at - midnight for r in sorted(REQUESTS, key=lambda r: r.at)]
    )
    assert [row["seconds"] for row in rows] == ["4.0", "61.0", "2.5", "3.0", "", "2.0"]
    assert [row["prompt_tokens"] == row["output_tokens"] == "" for row in rows] == [False] * 4 + [True, False]
    assert {row["think"] for row in rows} == {""}
    trace = read_trace(file)
    assert (trace.models, trace.clients, len(trace)) == (["chat", "coder"], ["desk", "agents"], 6)
    assert os.listdir(tmp_path) == ["own.csv"]


def test_an_export_writes_over_nothing_unasked(ledger: Path, tmp_path: Path, capsys: Said) -> None:
    file = tmp_path / "own.csv"
    file.write_text("mine")
    command = ["history", "chat", "--since", "2026-11-29", "--export", str(file), "--state-dir", str(ledger)]
    assert main(command) == 1
    assert f"{file} is there already: --force writes over it" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert len(file.read_text().splitlines()) == 4
    elsewhere = tmp_path / "none" / "own.csv"
    assert main([*command[:-3], str(elsewhere), *command[-2:]]) == 1
    assert f"{elsewhere} cannot be written: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, NOW - 5),
        ("90m", NOW - 5400),
        ("1d12h", NOW - 1.5 * DAY),
        ("0s", NOW),
        ("2026-11-29", NOW - DAY - 9 * 3600),
        ("2026-11-30T08:30", NOW - 1800),
        ("2026-11-30 08:30:30+02:00", NOW - 1770 - 7200),
        ("36500d", 0.0),
    ],
)
def test_how_a_time_is_written(text: str | None, seconds: float) -> None:
    assert since_time(text, 5.0) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "7 days", "-3h", "2026-13-01", "inf"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="how long ago, like 90m"):
        since_time(text, 5.0)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[StandIn]:
    with standing_in(tmp_path / "state") as stand_in:
        stand_in.documents("GET /healthz", {"status": "ok"})
        yield stand_in


EMPTY = {"formatVersion": 1, "events": [], "last": 0, "more": False}


def asked(loop: StandIn) -> list[tuple[str, dict[str, list[str]]]]:
    """Return what a loop was asked for, but for its health."""
    parts = [urlsplit(route.removeprefix("GET ")) for route in loop.asked]
    return [(p.path, parse_qs(p.query)) for p in parts if p.path != "/healthz"]


def test_a_running_loop_is_asked(loop: StandIn, tmp_path: Path, capsys: Said) -> None:
    page = {"requests": [], "last": 0, "more": False}
    answers = {"events": EMPTY, "requests": page, "history": {"models": []}}
    loop.routes = Whatever(answers)
    state = ["--state-dir", str(tmp_path / "state")]
    assert main(["events", "--json", "--model", "gpt-4o", "--kind", "load", "-n", "7", *state]) == 0
    assert main(["history", "gpt-4o", "--since", "2026-11-30", "--json", *state]) == 0
    assert main(["history", "gpt-4o", "--export", str(tmp_path / "x.csv"), *state]) == 1
    assert asked(loop) == [
        ("/api/v1/events", {"model": ["gpt-4o"], "kind": ["load"], "limit": ["7"], "since": ["0.0"]}),
        ("/api/v1/history", {"model": ["gpt-4o"], "since": [str(NOW - 9 * 3600)]}),
        ("/api/v1/requests", {"model": ["gpt-4o"], "since": ["0.0"], "after": ["0"], "limit": ["5000"]}),
    ]
    capsys.readouterr()


class Whatever(dict[str, Callable[[], tuple[int, object]]]):
    """Routes that answer whatever stands behind the `?`."""

    def __init__(self, answers: dict[str, object]) -> None:
        super().__init__()
        self.answers = answers

    def get(self, route: str, default: object = None) -> Callable[[], tuple[int, object]]:
        path = route.partition("?")[0].rpartition("/")[2]
        return lambda: (200, self.answers.get(path, {"status": "ok"}))


def test_a_loop_that_refuses_is_heard(loop: StandIn, tmp_path: Path, capsys: Said) -> None:
    refused = {
        "error": {"message": "no model or alias is called 'x'", "type": "t", "code": "model_not_found"}
    }
    loop.routes["GET /api/v1/history?model=x&since=1.0"] = lambda: (404, refused)
    assert (
        main(["history", "x", "--since", "1970-01-01T00:00:01", "--state-dir", str(tmp_path / "state")]) == 1
    )
    assert capsys.readouterr().err == "error: no model or alias is called 'x'\n"
    loop.routes["GET /api/v1/events?limit=5&since=0.0"] = lambda: (401, {})
    assert main(["events", "-f", "-n", "5", "--state-dir", str(tmp_path / "state")]) == 1
    assert "asks for an API key: set RECONCILE_API_KEY" in capsys.readouterr().err


def event(number: int) -> bytes:
    """Return an event as a chunk of a stream."""
    ago, kind, model, reason, message = EVENTS[number - 1]
    data = {"id": number, "at": NOW - ago, "kind": kind, "model": model, "reason": reason, "message": message}
    text = b"id: %d\ndata: %b\n\n" % (number, json.dumps(data).encode())
    return b"%x\r\n%b\r\n" % (len(text), text)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_stream_that_breaks_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    heads: list[bytes] = []
    answers = [
        STREAM + event(1) + event(2),
        b"",
        STREAM + event(3)[:-20],
        STREAM + event(3) + b"8\r\n: over\n\n\r\n0\r\n\r\n",
    ]
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            connection, _ = server.accept()
            with connection:
                heads.append(connection.recv(65536))
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    with standing_in(tmp_path) as stand_in:
        note = json.loads((tmp_path / "run.json").read_text())
        (tmp_path / "run.json").write_text(
            json.dumps(note | {"url": f"http://127.0.0.1:{server.getsockname()[1]}"})
        )
        pauses: list[int] = []
        query = EventQuery(limit=5, model="chat")
        found = [e["id"] for e in follow(tmp_path, query, lambda: pauses.append(1))]
        assert stand_in.asked == []
    thread.join(10)
    server.close()
    assert (found, len(pauses)) == ([1, 2, 3], 3)
    resumed = [[line for line in head.split(b"\r\n") if line.startswith(b"Last-Event-ID")] for head in heads]
    assert resumed == [[], *[[b"Last-Event-ID: 2"]] * 3]
    assert b"GET /api/v1/events?limit=5&model=chat&since=0.0 " in heads[0]
