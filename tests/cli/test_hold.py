"""`hold` and `release`, against a scripted stand-in for the loop."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from board_samples import NOW, snapshot
from loop_stand_in import StandIn, standing_in
from reconciler.cli import holding, main
from reconciler.render.status_document import status_json

ID = "0123456789abcdef"
POST, ONE = "POST /api/v1/leases", f"/api/v1/leases/{ID}"
PYTHON = sys.executable


def lease(state: str = "waiting", **more: object) -> dict[str, Any]:
    return {"id": ID, "model": "coder", "owner": "me", "state": state, "ends_in": 1800.0, **more}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def loop(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr(holding, "POLL", 0.01)
    with standing_in(state) as stand_in:
        stand_in.documents("GET /api/v1/status", json.loads(json.dumps(status_json(snapshot(), NOW))))
        stand_in.documents(POST, lease())
        stand_in.documents(f"PUT {ONE}", lease("held"))
        stand_in.routes[f"DELETE {ONE}"] = lambda: (204, None)
        yield stand_in


def run(state: Path, *words: str) -> int:
    command = words.index("--") if "--" in words else len(words)
    return main(["hold", *words[:command], "--state-dir", str(state), *words[command:]])


def test_it_prints_the_id_and_returns(loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(state, "coder", "--for", "2h", "--owner", "batch 7") == 0
    assert capsys.readouterr().out == f"{ID}\n"
    assert loop.bodies == [(POST, {"model": "coder", "owner": "batch 7", "for": "2h"})]


def test_aliases_a_default_time_and_owner_and_json(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(state, "gpt-4o", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"formatVersion": 1, **lease()}
    [(_, body)] = loop.bodies
    assert (body["model"], body["for"]) == ("gpt-4o", "30m"), "the loop knows the aliases"
    assert loop.asked == [POST]
    assert str(os.getpid()) in body["owner"]


def test_wait_returns_when_it_is_held(loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop.documents(f"PUT {ONE}", lease(), lease(), lease("held"))
    assert run(state, "coder", "--wait") == 0
    said = capsys.readouterr()
    assert said.out == f"{ID}\n"
    assert said.err == f"lease {ID}\nloading coder, about 18 s\n"
    assert loop.asked[-1] == f"PUT {ONE}", "its time counts from when it is held"
    assert loop.asked.count(f"PUT {ONE}") == 3


def test_waiting_takes_no_scope_but_admin(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"error": {"message": "it needs the scope read", "type": "t", "code": "insufficient_scope"}}
    loop.routes["GET /api/v1/status"] = lambda: (403, error)
    loop.documents(f"PUT {ONE}", lease(), lease(), lease("held"))
    assert run(state, "coder", "--wait") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{ID}\n", f"lease {ID}\nwaiting for coder\n")
    assert loop.asked.count("GET /api/v1/status") == 1, "what is forbidden is tried once"


def test_one_that_will_not_come_about_is_a_failure(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = f"lease '{ID}' of model 'coder' has ended: 400 MiB short"
    loop.error(f"PUT {ONE}", 404, ended)
    loop.error(f"DELETE {ONE}", 404, "there is no such lease")
    assert run(state, "coder", "--wait") == 1
    assert capsys.readouterr().err == f"lease {ID}\nerror: coder cannot be held: {ended}\n"


def test_a_wait_that_takes_too_long_gives_the_lease_back(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.documents(f"PUT {ONE}", lease())
    assert run(state, "coder", "--wait", "--timeout", "0.05") == 1
    assert "was not ready within 0.05 s" in capsys.readouterr().err
    assert loop.asked[-1] == f"DELETE {ONE}"


@pytest.fixture
def heard() -> Iterator[None]:
    """Have signals end what does not listen to them: in the background some are ignored, and that is respected."""
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, ctrl_c)
    signal.signal(signal.SIGHUP, hang_up)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("during", [POST, f"PUT {ONE}", "GET /api/v1/status"])
@pytest.mark.parametrize("words", [("--wait",), ("--", "true")])
def test_a_wait_that_a_signal_ends_gives_the_lease_back(
    number: int, during: str, words: tuple[str, ...], loop: StandIn, state: Path
) -> None:
    """Also if it comes before the id is known, and if another one comes while the lease is given back."""
    loop.documents(f"PUT {ONE}", lease())
    before = signal.getsignal(number)
    for route in (during, f"DELETE {ONE}"):
        loop.routes[route] = told_meanwhile(number, loop.routes[route])
    if number == signal.SIGINT:
        assert run(state, "coder", *words) == 130
    else:
        with pytest.raises(SystemExit) as ended:
            run(state, "coder", *words)
        assert ended.value.code == 128 + number
    assert loop.asked[-1] == f"DELETE {ONE}"
    assert signal.getsignal(number) is before


def told_meanwhile(number: int, answer: Callable[[], tuple[int, object]]) -> Callable[[], tuple[int, object]]:
    """Return an answer that comes after a signal to this process."""

    def tell() -> tuple[int, object]:
        os.kill(os.getpid(), number)
        return answer()

    return tell


def test_a_signal_before_the_id_is_printed_leaves_no_lease(loop: StandIn, state: Path) -> None:
    loop.routes[POST] = told_meanwhile(signal.SIGTERM, loop.routes[POST])
    with pytest.raises(SystemExit):
        run(state, "coder")
    assert loop.asked == [POST, f"DELETE {ONE}"]


def test_an_ignored_signal_stays_ignored(loop: StandIn, state: Path) -> None:
    loop.routes[POST] = told_meanwhile(signal.SIGHUP, loop.routes[POST])
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(state, "coder", "--wait") == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert f"DELETE {ONE}" not in loop.asked


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_a_command_is_run_under_the_lease_and_its_code_is_ours(
    code: str, expected: int, loop: StandIn, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    loop.documents(POST, lease("held"))
    assert run(state, "coder", "--", PYTHON, "-c", f"print('ran', flush=True); {code}") == expected
    assert capfd.readouterr().out == "ran\n"
    assert loop.asked[-2:] == [POST, f"DELETE {ONE}"]


def test_the_lease_is_renewed_while_the_command_runs_and_trouble_is_told_once(
    loop: StandIn, state: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command ends when the fourth renewal has been asked for."""
    done = tmp_path / "done"
    renewals = [0]

    def renew() -> tuple[int, object]:
        renewals[0] += 1
        if renewals[0] == 4:
            done.touch()
        if renewals[0] in (2, 3):
            return 404, {"error": {"message": "lease has ended", "type": "t", "code": "lease_not_found"}}
        return 200, lease("held")

    loop.documents(POST, lease("held", ends_in=0.03))
    loop.routes[f"PUT {ONE}"] = renew
    wait = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    assert run(state, "coder", "--", PYTHON, "-c", wait, str(done)) == 0
    assert renewals[0] >= 4
    assert capfd.readouterr().err.count("warning: lease has ended; the command goes on") == 1


def test_a_command_that_cannot_be_run_gives_the_lease_back(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.documents(POST, lease("held"))
    assert run(state, "coder", "--", "/no/such/program") == 1
    assert "cannot run /no/such/program: No such file or directory" in capsys.readouterr().err
    assert loop.asked[-1] == f"DELETE {ONE}"


def test_what_is_sent_to_us_goes_to_the_command(loop: StandIn, state: Path) -> None:
    """It tells us to end; we outlive that, and are ended by its end."""
    loop.documents(POST, lease("held"))
    before = signal.getsignal(signal.SIGTERM)
    tell = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(30)"
    assert run(state, "coder", "--", PYTHON, "-c", tell) == 128 + signal.SIGTERM
    assert loop.asked[-1] == f"DELETE {ONE}"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (("coder", "--timeout", "0"), 64, "--timeout must be above zero"),
        (("coder", "--json", "--", "true"), 64, "--json does not go with a command"),
    ],
)
def test_refused(
    words: tuple[str, ...],
    code: int,
    expected: str,
    loop: StandIn,
    state: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(state, *words) == code
    assert expected in capsys.readouterr().err
    assert POST not in loop.asked


def test_the_loops_refusal_is_told(loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop.error(POST, 409, "coder can never fit")
    assert run(state, "coder") == 1
    assert capsys.readouterr().err == "error: coder can never fit\n"


def test_a_time_that_is_none_is_told_by_the_name_of_the_option(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"message": '`for`: "soon" is not a duration: write 30m', "type": "t", "code": "invalid_lease"}
    loop.routes[POST] = lambda: (400, {"error": error})
    assert run(state, "coder", "--for", "soon") == 64
    assert capsys.readouterr().err == (
        'error: --for: "soon" is not a duration: write 30m\nsee: reconcile hold --help\n'
    )


@pytest.mark.parametrize(
    ("user", "known", "owner"),
    [("ann", True, "ann"), ("", True, "login"), (None, True, "login"), (None, False, "uid 4321")],
)
def test_the_owner_is_called_as_people_know_them(
    user: str | None, known: bool, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getpwuid(uid: int) -> SimpleNamespace:
        if not known:
            raise KeyError(uid)
        return SimpleNamespace(pw_name="login")

    monkeypatch.setattr("os.getuid", lambda: 4321)
    monkeypatch.setattr("pwd.getpwuid", getpwuid)
    if user is None:
        monkeypatch.delenv("USER", raising=False)
    else:
        monkeypatch.setenv("USER", user)
    assert holding.default_owner() == f"{owner}, pid {os.getpid()}"


def test_release(loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", ID, "--state-dir", str(state)]) == 0
    assert main(["release", ID, "--json", "--state-dir", str(state)]) == 0
    assert json.loads(capsys.readouterr().out) == {"formatVersion": 1, "id": ID, "state": "released"}
    assert loop.asked == [f"DELETE {ONE}"] * 2
    loop.error(f"DELETE {ONE}", 404, "there is no such lease")
    assert main(["release", ID, "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == "error: there is no such lease\n"


def test_an_id_is_no_path(loop: StandIn, state: Path) -> None:
    assert main(["release", "../stop", "--state-dir", str(state)]) == 1
    assert loop.asked == ["DELETE /api/v1/leases/..%2Fstop"]
