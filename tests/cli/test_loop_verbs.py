"""The verbs that talk to a running loop, against a scripted stand-in for it."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from board_samples import NOW, snapshot
from loop_stand_in import StandIn, standing_in
from reconciler.cli import main
from reconciler.host import StateLock, StateLocked, StopError
from reconciler.render.advice_document import advice_json
from reconciler.render.explain_text import explain_text
from reconciler.render.status_document import status_json
from reconciler.render.status_text import status_text


def status_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(status_json(snapshot(), NOW)))
    return document


def with_model(name: str, observation: int, **changes: Any) -> dict[str, Any]:
    """The sample status with some facts of one model replaced."""
    document = status_document()
    document["observation"] = observation
    model = next(m for m in document["models"] if m["name"] == name)
    assert changes.keys() <= model.keys()
    model.update(changes)
    return document


def verdict(outcome: str, reason: str, detail: str = "") -> dict[str, Any]:
    return {"model": "m", "outcome": outcome, "reason": reason, "detail": detail, "size": 1, "retry_in": None}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def loop(state: Path) -> Iterator[StandIn]:
    with standing_in(state) as stand_in:
        stand_in.documents("GET /api/v1/status", status_document())
        yield stand_in


def test_status_shows_what_the_loop_says(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--state-dir", str(state)]) == 0
    assert capsys.readouterr().out == status_text(status_document()) + "\n"
    assert main(["status", "--json", "--state-dir", str(state)]) == 0
    assert json.loads(capsys.readouterr().out) == status_document()


def test_the_state_dir_need_not_be_said_at_each_verb(
    loop: StandIn, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILE_STATE_DIR", str(state))
    assert main(["status"]) == 0
    assert loop.asked == ["GET /api/v1/status"]


@pytest.mark.parametrize("name", ["chat", "gpt-4o"])
def test_explain_takes_names_and_aliases(
    name: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", name, "--state-dir", str(state)]) == 0
    assert capsys.readouterr().out == explain_text(status_document(), "chat") + "\n"
    assert main(["explain", name, "--json", "--state-dir", str(state)]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "chat"


def test_explain_says_what_would_help(loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(json.dumps(advice_json(snapshot(), NOW, "vision")))
    loop.documents("GET /api/v1/models/vision/advice", document)
    assert main(["explain", "vision", "--state-dir", str(state)]) == 0
    text = capsys.readouterr().out
    assert text == explain_text(status_document(), "vision", document) + "\n"
    assert "  value  " in text
    assert main(["explain", "vision", "--json", "--state-dir", str(state)]) == 0
    assert json.loads(capsys.readouterr().out)["advice"] == document


@pytest.mark.parametrize(("status", "code"), [(404, 0), (403, 1)])
def test_explain_goes_without_advice_where_an_older_loop_has_none(
    status: int, code: int, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.error("GET /api/v1/models/chat/advice", status, "no")
    assert main(["explain", "chat", "--state-dir", str(state)]) == code
    assert ("chat  ready" in capsys.readouterr().out) is (code == 0)


@pytest.mark.parametrize("verb", ["explain", "logs"])
def test_a_misspelled_model_gets_the_near_name(
    verb: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "codre", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == (
        'error: no model or alias is called "codre"; did you mean "coder"? '
        "(models: chat, coder, embed, flaky, old, vision; aliases: claude, gpt-4o)\n"
    )
    assert loop.asked == ["GET /api/v1/status"]


@pytest.mark.parametrize(
    ("words", "route"),
    [
        (["load", "codre"], "POST /api/v1/models/codre/load"),
        (["load", "codre", "--no-wait"], "POST /api/v1/models/codre/load"),
        (["evict", "codre"], "POST /api/v1/models/codre/evict"),
        (["forget", "codre"], "POST /api/v1/models/codre/forget"),
        (["hold", "codre"], "POST /api/v1/leases"),
    ],
)
def test_where_something_is_done_the_loop_knows_the_names(
    words: list[str], route: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.error(route, 404, "no model or alias is called 'codre'; did you mean 'coder'?")
    assert main([*words, "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == ("error: no model or alias is called 'codre'; did you mean 'coder'?\n")
    assert loop.asked[-1] == route


def forbid_reading(loop: StandIn) -> None:
    """Be a loop whose key may not read."""
    text = "the API key 'cron' does not allow this: it needs the scope read, it has admin"
    error = {"error": {"message": text, "type": "permission_error", "code": "insufficient_scope"}}
    loop.routes["GET /api/v1/status"] = lambda: (403, error)


@pytest.mark.parametrize("words", [["load", "gpt-4o", "--no-wait"], ["forget", "gpt-4o"], ["hold", "gpt-4o"]])
def test_what_acts_takes_no_scope_but_admin(words: list[str], loop: StandIn, state: Path) -> None:
    forbid_reading(loop)
    verb = words[0]
    route = "POST /api/v1/leases" if verb == "hold" else f"POST /api/v1/models/gpt-4o/{verb}"
    loop.documents(route, {"model": "chat", "id": "0123", "state": "held"})
    assert main([*words, "--state-dir", str(state)]) == 0
    assert loop.asked == [route]


@pytest.mark.parametrize("verb", ["load", "evict"])
def test_what_cannot_be_watched_is_asked_for_and_the_scope_named(
    verb: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid_reading(loop)
    loop.documents(f"POST /api/v1/models/gpt-4o/{verb}", {"model": "chat"})
    assert main([verb, "gpt-4o", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == (
        f"error: chat: the {verb} is asked for, but this API key may not watch it: that takes the scope read besides"
        " admin; with --no-wait it is only asked for\n"
    )
    assert loop.asked[-1] == f"POST /api/v1/models/gpt-4o/{verb}"


def test_a_status_that_may_not_be_read_is_an_error_that_names_the_scope(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid_reading(loop)
    assert main(["status", "--state-dir", str(state)]) == 1
    assert "it needs the scope read, it has admin" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["explain", "logs"])
def test_a_virtual_model_is_said_to_be_one(
    verb: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    virtual = [{"name": "auto", "models": ["coder", "chat"]}]
    loop.documents("GET /api/v1/status", {**status_document(), "virtual": virtual})
    assert main([verb, "auto", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == ('error: "auto" is a virtual model (coder, chat): name one of them\n')


def test_a_name_like_no_other_gets_all_names(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "xyzzy", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == (
        'error: no model or alias is called "xyzzy"; '
        "models: chat, coder, embed, flaky, old, vision; aliases: claude, gpt-4o\n"
    )


@pytest.mark.parametrize(
    "verb", [["status"], ["explain", "chat"], ["load", "chat"], ["evict", "chat"], ["stop"]]
)
def test_without_a_loop_it_is_said(verb: list[str], state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with standing_in(state):
        pass
    assert main([*verb, "--state-dir", str(state)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "no loop answers at http://127.0.0.1:" in said.err


@pytest.mark.parametrize("other", [{"pid": 2**22 + 1}, {"started": 1}])
def test_a_note_of_a_dead_loop_is_not_followed(
    other: dict[str, int], loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has the pid any more, or somebody else has it."""
    note = json.loads((state / "run.json").read_text())
    (state / "run.json").write_text(json.dumps({**note, **other}))
    assert main(["status", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == (
        f"error: no loop runs with the state directory {state}; "
        "start one with `reconcile PATH`, or name another with --state-dir or RECONCILE_STATE_DIR\n"
    )
    assert loop.asked == []


@pytest.mark.parametrize("verb", [["status"], ["explain", "chat"], ["load", "chat"], ["evict", "chat"]])
@pytest.mark.parametrize("exists", [True, False])
def test_without_a_note_of_a_loop_nobody_is_asked(
    verb: list[str],
    exists: bool,
    state: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever listens on the usual port may be a stranger."""

    def connect(*_: object, **__: object) -> None:
        raise AssertionError("somebody was asked")

    monkeypatch.setattr("socket.create_connection", connect)
    if exists:
        state.mkdir()
    assert main([*verb, "--state-dir", str(state)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert f"no loop runs with the state directory {state}; start one with `reconcile PATH`" in said.err
    assert state.exists() is exists


@pytest.mark.parametrize(
    ("ended", "said"),
    [(("chat", "long"), "ended: chat, long\n"), ((), "no loop runs and no model was left running\n")],
)
def test_stop_without_a_loop_ends_what_was_left_running(
    ended: tuple[str, ...],
    said: str,
    state: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def end_leftovers(directory: Path) -> tuple[str, ...]:
        asked.append(directory)
        return ended

    monkeypatch.setattr("reconciler.leftovers.end_leftovers", end_leftovers)
    state.mkdir()
    assert main(["stop", "--state-dir", str(state)]) == 0
    assert capsys.readouterr().out == said
    assert asked == [state]


def test_stop_where_nothing_ever_ran_makes_no_directory(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stop", "--state-dir", str(state)]) == 0
    assert capsys.readouterr().out == "no loop runs and no model was left running\n"
    assert not state.exists()


@pytest.mark.parametrize(
    "error",
    [StateLocked("reconcile already runs (pid 41)", 41), StopError("process 41 does not end", (41,))],
)
def test_models_that_cannot_be_ended_are_an_error(
    error: Exception, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--once` holds the lock while it acts, and leaves no note of an address."""

    def end_leftovers(_: Path) -> tuple[str, ...]:
        raise error

    monkeypatch.setattr("reconciler.leftovers.end_leftovers", end_leftovers)
    state.mkdir()
    assert main(["stop", "--state-dir", str(state)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"error: {error}\n"


def test_the_api_key_comes_from_the_environment(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.error("GET /api/v1/status", 401, "no key")
    monkeypatch.delenv("RECONCILE_API_KEY", raising=False)
    assert main(["status", "--state-dir", str(state)]) == 1
    assert "asks for an API key: set RECONCILE_API_KEY" in capsys.readouterr().err
    monkeypatch.setenv("RECONCILE_API_KEY", "CANARY-wrong")
    assert main(["status", "--state-dir", str(state)]) == 1
    said = capsys.readouterr().err
    assert "does not know the API key in RECONCILE_API_KEY" in said
    assert "set RECONCILE_API_KEY" not in said
    assert "CANARY" not in said
    loop.documents("GET /api/v1/status", status_document())
    monkeypatch.setenv("RECONCILE_API_KEY", "k1\n")
    assert main(["status", "--state-dir", str(state)]) == 0
    assert loop.keys == [None, "Bearer CANARY-wrong", "Bearer k1"]


@pytest.mark.parametrize("key", ["CANARY one", "CANARY-schlüssel", "CANARY\nX-Header: 1"])
def test_what_can_be_no_key_is_not_sent(
    key: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILE_API_KEY", key)
    assert main(["status", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == (
        "error: RECONCILE_API_KEY is no API key: it has blanks or characters that are not ASCII\n"
    )
    assert loop.asked == []


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (200, b"<html>", "not a reconcile loop"),
        (200, [1], "not a reconcile loop"),
        (500, b"oops", "HTTP status 500"),
        (403, {"error": {"message": "wrong\x1b[2J host"}}, "wrong\\x1b[2J host"),
        (200, {"formatVersion": 9}, "speaks status format 9"),
    ],
)
def test_odd_answers_are_said(
    status: int, answer: object, message: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.routes["GET /api/v1/status"] = lambda: (status, answer)
    assert main(["status", "--state-dir", str(state)]) == 1
    assert message in capsys.readouterr().err


def test_proxies_are_not_asked(loop: StandIn, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert main(["status", "--state-dir", str(state)]) == 0


def test_load_waits_and_tells_each_change_once(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = with_model("vision", 42, state="cold", verdict=verdict("cold", "NotWanted"))
    ready = with_model("vision", 44, state="ready", pid=7)
    loop.documents("GET /api/v1/status", status_document(), waiting, waiting, ready)
    loop.documents("POST /api/v1/models/vision/load", {"requested": "load"})
    assert main(["load", "vision", "--state-dir", str(state)]) == 0
    said = capsys.readouterr()
    assert said.out == "vision is ready\n"
    assert said.err == "vision is cold (NotWanted); loading coder\n"
    assert loop.asked[:2] == ["GET /api/v1/status", "POST /api/v1/models/vision/load"]


def test_load_of_an_alias_watches_its_model(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    already = with_model("chat", 42, state="ready")
    loop.documents("GET /api/v1/status", status_document(), already)
    loop.documents("POST /api/v1/models/gpt-4o/load", {"model": "chat"})
    assert main(["load", "gpt-4o", "--state-dir", str(state)]) == 0
    assert "chat is ready" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (
            with_model("vision", 42, wanted=True, verdict=verdict("blocked", "NeverFits", "7.0 GiB short")),
            "error: vision was not loaded: NeverFits: 7.0 GiB short\n",
        ),
        (
            with_model(
                "vision", 43, wanted=False, verdict=verdict("cold", "SizeUnknown", "give memory.steady")
            ),
            "error: vision was not loaded: SizeUnknown: give memory.steady\n",
        ),
        (
            with_model("vision", 42, failures=1, last_error="exit 3: no such file", state="failing"),
            "error: vision was not loaded: exit 3: no such file\n",
        ),
    ],
)
def test_load_ends_when_it_is_refused_or_fails(
    after: dict[str, Any], message: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.documents("GET /api/v1/status", status_document(), after)
    loop.documents("POST /api/v1/models/vision/load", {})
    assert main(["load", "vision", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == message


def test_a_verdict_from_before_the_question_refuses_nothing(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = with_model("vision", 41, wanted=False)
    passing = [
        with_model("vision", 43 + n, wanted=True, verdict=verdict("blocked", reason))
        for n, reason in enumerate(("VictimsBusy", "Outranked", "InsufficientMemory"))
    ]
    ready = with_model("vision", 46, state="ready")
    loop.documents("GET /api/v1/status", status_document(), stale, *passing, ready)
    loop.documents("POST /api/v1/models/vision/load", {})
    assert main(["load", "vision", "--state-dir", str(state)]) == 0
    assert capsys.readouterr().out == "vision is ready\n"


def test_load_refused_by_the_gateway_is_one_line(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.error("POST /api/v1/models/vision/load", 409, "vision can never fit")
    assert main(["load", "vision", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == "error: vision can never fit\n"


def test_waiting_has_an_end(loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop.documents(
        "GET /api/v1/status", with_model("vision", 41, state="cold", verdict=verdict("cold", "NotWanted"))
    )
    loop.documents("POST /api/v1/models/vision/load", {})
    assert main(["load", "vision", "--timeout", "0.05", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err.endswith(
        "error: vision is still cold after 0.05 s; it stays asked for; `reconcile evict vision` takes that back\n"
    )


def test_waiting_for_an_evict_has_an_end(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.documents("POST /api/v1/models/embed/evict", {})
    assert main(["evict", "embed", "--timeout", "0.05", "--state-dir", str(state)]) == 1
    assert "embed is still ready after 0.05 s; it goes as soon as it may" in capsys.readouterr().err


def test_evict_waits_until_the_process_is_gone(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draining = with_model("embed", 43, dismissed=True)
    gone = with_model("embed", 44, state="cold", pid=None)
    loop.documents("GET /api/v1/status", status_document(), draining, gone)
    loop.documents("POST /api/v1/models/embed/evict", {})
    assert main(["evict", "embed", "--state-dir", str(state)]) == 0
    said = capsys.readouterr()
    assert said.out == "embed was unloaded\n"
    assert said.err == "embed is ready (InUse); loading coder\n"


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({"state": "loading", "pid": None, "waiting": 2}, ", and is loaded again for 2 waiting requests"),
        ({"state": "loading", "pid": 99, "waiting": 1}, ", and is loaded again for 1 waiting request"),
        ({"state": "cold", "pid": None, "waiting": 3}, ", and is loaded again for 3 waiting requests"),
        ({"state": "ready", "pid": 99}, ", and is loaded again"),
    ],
)
def test_evict_has_succeeded_though_others_have_the_model_loaded_again(
    after: dict[str, Any], told: str, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan that keeps it then means the new process."""
    kept = verdict("keep", "Loading", "being loaded")
    stopping = with_model("embed", 44, state="evicting", pid=None, waiting=2, active=0, verdict=kept)
    back = with_model("embed", 45, active=0, verdict=kept, **after)
    draining = with_model("embed", 43, dismissed=True)
    loop.documents("GET /api/v1/status", status_document(), draining, stopping, back)
    loop.documents("POST /api/v1/models/embed/evict", {})
    assert main(["evict", "embed", "--state-dir", str(state)]) == 0
    assert capsys.readouterr().out == f"embed was unloaded{told}\n"


def test_evict_of_a_model_that_is_not_loaded_says_so(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.documents("POST /api/v1/models/vision/evict", {})
    assert main(["evict", "vision", "--state-dir", str(state)]) == 0
    assert capsys.readouterr().out == "vision was not loaded\n"
    assert "POST /api/v1/models/vision/evict" in loop.asked


def test_forget_says_the_models_own_name(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.documents("POST /api/v1/models/gpt-4o/forget", {"model": "chat"})
    assert main(["forget", "gpt-4o", "--state-dir", str(state)]) == 0
    assert capsys.readouterr().out == "what was measured of chat is forgotten\n"
    assert main(["forget", "nobody", "--state-dir", str(state)]) == 1
    assert "nobody" in capsys.readouterr().err


def test_evict_of_a_model_that_stays_is_a_failure(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.documents("GET /api/v1/status", status_document(), with_model("chat", 43))
    loop.documents("POST /api/v1/models/chat/evict", {})
    assert main(["evict", "chat", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == "error: chat stays loaded: Pinned: idle 14m\n"


def test_evict_says_that_others_took_it_back(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while they are served: it will not come about by itself any more."""
    draining = with_model("embed", 44, state="evicting", dismissed=True, active=1)
    served = with_model("embed", 45, dismissed=False, active=2)
    loop.documents("GET /api/v1/status", status_document(), draining, served)
    loop.documents("POST /api/v1/models/embed/evict", {})
    assert main(["evict", "embed", "--state-dir", str(state)]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "error: embed stays loaded: a request, a lease or a load asked for it again"


def test_odd_names_reach_the_loop_whole(loop: StandIn, state: Path) -> None:
    document = status_document()
    document["models"][0]["name"] = "org/a b?ü"
    loop.documents("GET /api/v1/status", document)
    loop.documents("POST /api/v1/models/org%2Fa%20b%3F%C3%BC/load", {})
    assert main(["load", "org/a b?ü", "--no-wait", "--state-dir", str(state)]) == 0


@pytest.mark.parametrize("last_words", [200, 500, 503])
def test_stop_waits_until_nobody_answers(
    last_words: int, loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a gateway that is closing says is no failure of the stop."""
    import threading

    enders = []

    def stopping() -> tuple[int, object]:
        ender = threading.Thread(target=loop.close)
        enders.append(ender)
        return 202, {"requested": "stop"}

    def dying() -> tuple[int, object]:
        if not enders[0].ident:
            enders[0].start()
        return (200, status_document()) if last_words == 200 else (last_words, b"Internal Server Error")

    loop.routes["GET /healthz"] = dying
    loop.routes["POST /api/v1/stop"] = stopping
    assert main(["stop", "--state-dir", str(state)]) == 0
    enders[0].join()
    assert capsys.readouterr().out == "stopped\n"


@pytest.mark.parametrize(
    ("requests", "leases", "said"),
    [
        ([], [], "stopping\n"),
        (
            [{"model": "quick", "active": 1}, {"model": "big", "active": 2}],
            [],
            "stopping; waiting up to 30 s for 1 request on quick, 2 requests on big\n",
        ),
        (
            [],
            [{"model": "quick", "owner": "batch\x1b 7"}],
            "stopping\n1 lease from outside ended at once: quick (batch\\x1b 7)\n",
        ),
        (
            [],
            [{"model": f"m{n}", "owner": "o"} for n in range(12)],
            "stopping\n12 leases from outside ended at once: "
            + ", ".join(f"m{n} (o)" for n in range(10))
            + " and 2 more\n",
        ),
    ],
)
def test_stop_says_whom_it_waits_for(
    requests: list[Any],
    leases: list[Any],
    said: str,
    loop: StandIn,
    state: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = {"requested": "stop", "within": 30.0, "requests": requests, "leases": leases}
    loop.documents("POST /api/v1/stop", answer)
    loop.documents("GET /healthz", {"status": "ok"})
    assert main(["stop", "--timeout", "0.01", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == said + "error: the loop still answers after 0.01 s\n"


def test_a_loop_that_has_just_been_started_is_asked_to_stop_until_it_can_hear_it(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"error": {"message": "ask again in a moment", "type": "server_error", "code": "starting"}}
    answers: list[tuple[int, object]] = [(503, error), (503, error), (202, {"requested": "stop"})]
    loop.routes["POST /api/v1/stop"] = lambda: answers.pop(0)
    assert main(["stop", "--no-wait", "--state-dir", str(state)]) == 0
    assert answers == []
    monkeypatch.setattr("reconciler.cli.client.STARTING", 0.05)
    loop.routes["POST /api/v1/stop"] = lambda: (503, error)
    assert main(["stop", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == "error: ask again in a moment\n"


def test_stop_has_a_deadline(loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop.documents("POST /api/v1/stop", {})
    loop.documents("GET /healthz", {"status": "ok"})
    assert main(["stop", "--timeout", "0.05", "--state-dir", str(state)]) == 1
    assert "still answers after 0.05 s" in capsys.readouterr().err


def test_a_status_without_models_has_no_near_name(
    loop: StandIn, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop.documents("GET /api/v1/status", {**status_document(), "models": []})
    assert main(["explain", "chat", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err == 'error: no model or alias is called "chat"; models: none\n'


def test_the_sample_is_a_snapshot() -> None:
    """Guard the stand-in: what it serves is what render makes of a snapshot at another time too."""
    later = status_json(replace(snapshot(), at=NOW + 5), NOW + 5)
    assert later["models"][1]["oldest_wait"] == 17.5


def test_explain_says_what_a_word_means_whether_or_not_a_loop_runs(
    loop: StandIn, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (state, tmp_path / "nothing runs here"):
        assert main(["explain", "MakeRoom", "--state-dir", str(folder)]) == 0
        assert capsys.readouterr().out == (
            "MakeRoom: why a model is loaded, kept, unloaded or stays out\n"
            "  It gives its room to the model that is named with it.\n"
            "  more: docs/scheduling.md#why-a-model-leaves\n"
        )
    assert main(["explain", "models.chat.queue.max", "--json", "--state-dir", str(state)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["word"], found["helps"]) == (
        "models.NAME.queue.max",
        "write whole number from 1; default: 64",
    )
    assert main(["explain", "VictimBusy", "--state-dir", str(state)]) == 1
    assert 'of the words, "VictimsBusy" is near' in capsys.readouterr().err


@pytest.fixture
def starting(state: Path) -> Iterator[Path]:
    """A manager that holds the lock, and does not listen."""
    with StateLock(state, serves=True):
        yield state


WAITS = f"the loop (pid {os.getpid()}) does not listen: waiting while it starts, or ends\n"


@pytest.mark.parametrize("verb", ["status", "stop"])
def test_a_loop_that_was_started_a_moment_ago_is_waited_for(
    verb: str, starting: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing_in(starting) as loop:
        loop.documents("GET /api/v1/status", status_document())
        loop.documents("POST /api/v1/stop", {"models": "stop", "within": 0, "requests": [], "leases": []})
        (starting / "run.json").rename(starting / "later")
        looks: list[float] = []

        def pause(seconds: float) -> None:
            looks.append(seconds)
            if len(looks) == 3:
                (starting / "later").rename(starting / "run.json")

        monkeypatch.setattr("reconciler.cli.client.time.sleep", pause)
        assert main([verb, "--state-dir", str(starting), *(["--no-wait"] if verb == "stop" else [])]) == 0
        assert len(looks) == 3
        assert capsys.readouterr().err == WAITS


def test_one_that_never_listens_is_not_waited_for_for_ever(
    starting: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.cli.client.STARTING", 0.1)
    assert main(["stop", "--state-dir", str(starting)]) == 1
    assert capsys.readouterr().err == (
        f"{WAITS}error: pid {os.getpid()} holds {starting} as its loop, and has not begun to listen within 0.1 s: see"
        f" what it says; `kill {os.getpid()}` ends it\n"
    )


def test_who_holds_the_lock_and_never_listens_is_not_waited_for(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StateLock(state):  # `reconcile --once`, or `measure`
        assert main(["status", "--state-dir", str(state)]) == 1
    assert capsys.readouterr().err.startswith("error: no loop runs with the state directory")
