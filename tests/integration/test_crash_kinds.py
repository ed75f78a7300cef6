"""Failures of each kind, from outside: what is told of them, and when they are tried again."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from manager import SOON, Manager
from reconciler.core import crashes
from reconciler.store.paths import DATABASE
from small_machine import small_machine
from support import wait_for


def failing(manager: Manager, words: str, **keys: object) -> dict[str, object]:
    """A model that says something and ends with 1."""
    return manager.fake("bad", "--exit", "1", "--last-words", words, **keys)  # type: ignore[arg-type]


def test_what_no_repetition_mends_is_given_up_at_once_and_kept_so(manager: Manager) -> None:
    """A request hears why, and the next one without a start; so it stays over a restart of the manager."""
    manager.write({"bad": failing(manager, "error: unrecognized arguments: --nonsense")})
    manager.start()
    first = manager.ask("bad")
    assert (first.status_code, first.json()["error"]["code"]) == (502, "load_failed")
    assert "could not be loaded (BadArgument): " in first.json()["error"]["message"]
    assert "what helps: correct its settings, or update the engine" in first.json()["error"]["message"]
    assert "retry-after" not in first.headers
    assert first.headers["x-should-retry"] == "false"

    def refused() -> None:
        second = manager.ask("bad")
        error = second.json()["error"]
        assert (second.status_code, error["code"]) == (503, "given_up")
        assert (
            "failed once (BadArgument), not tried again before its weights, its program" in error["message"]
        )
        assert "retry-after" not in second.headers
        found = manager.model("bad")
        assert (found["failure"], found["failures"]) == ("BadArgument", 1)
        assert crashes.MENDING_FIRST - 60 < found["retry_in"] <= crashes.MENDING_FIRST

    refused()
    assert [reason for reason, _ in manager.events("load-failed", "bad")] == ["BadArgument"]
    assert "(BadArgument)" in manager.cli("explain", "bad").stdout
    history = manager.cli("history", "bad")
    assert "failed after" in history.stdout
    assert "(BadArgument)" in history.stdout
    assert len(manager.log("load", model="bad")) == 1
    manager.kill()
    manager.start()
    refused()
    assert len(manager.log("load", model="bad")) == 1, "a restart of the manager is no reason to try again"

    # A person asks, and somebody mends it.
    manager.client.post("/api/v1/models/bad/load")
    wait_for(lambda: len(manager.log("load failed", model="bad")) == 2, SOON, "a try for whoever asked")
    manager.write({"bad": manager.fake("bad")})
    wait_for(lambda: manager.status()["manifest"]["generation"] == 2, SOON, "the edit")
    assert manager.ask("bad").status_code == 200


def test_a_model_that_goes_on_failing_is_given_up_for_an_hour(manager: Manager) -> None:
    manager.write({"bad": failing(manager, "no idea", residency="warm"), "fine": manager.fake("fine")})
    manager.start()
    wait_for(lambda: manager.log("load failed", model="bad"), SOON, "the first failure")
    assert manager.model("bad")["failure"] == "Crashed"
    manager.stop()
    with closing(sqlite3.connect(manager.state_dir / DATABASE)) as ledger, ledger:
        ledger.execute("UPDATE ledger SET failures = ?, retry_at = NULL", (crashes.GIVE_UP_AFTER - 1,))
    manager.start()
    found = manager.wait_model("bad", failures=crashes.GIVE_UP_AFTER)
    assert found["verdict"]["reason"] == "GivenUp"
    assert crashes.GIVEN_UP_SECONDS - 60 < found["retry_in"] <= crashes.GIVEN_UP_SECONDS
    answer = manager.ask("bad")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "given_up")
    assert "given up after 10 times in a row" in answer.json()["error"]["message"]
    assert manager.ask("fine").status_code == 200


def test_a_taken_port_is_exchanged_before_anybody_hears_of_it(manager: Manager, tmp_path: Path) -> None:
    """The first start finds its port taken, as in a race that somebody else has won."""
    entry = manager.fake("unlucky")
    mark = tmp_path / "was-here"
    script = (
        f'test -e {mark} || {{ touch {mark}; echo "bind: Address already in use" >&2; exit 1; }}; exec "$@"'
    )
    command = entry["command"]
    assert isinstance(command, list)
    manager.write({"unlucky": entry | {"command": ["/bin/sh", "-c", script, "sh", *command]}})
    manager.start()
    assert manager.ask("unlucky").status_code == 200
    [failed] = manager.log("load failed", model="unlucky")
    assert (failed["kind"], failed["next_try_in"]) == ("PortTaken", 0)
    log = (manager.state_dir / "logs" / "unlucky.log").read_text()
    ports = [line.split()[-1] for line in log.splitlines() if " port " in line]
    assert len(set(ports)) == 2, "the same port would be taken again"


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Manager]:
    with small_machine(900) as small, Manager(tmp_path, inside=small) as manager:
        yield manager
        print(manager.output.read_text())  # shown with a failure


def test_what_the_kernel_ended_is_not_tried_again_with_the_same_memory(narrow: Manager) -> None:
    """It takes in one go all there is, long before anybody could end it in order."""
    narrow.write(
        {"greedy": narrow.fake("greedy", "--rss-mib", "1500", size=100, residency="warm")},
        machine={"memory": "auto", "reserve": "1MiB", "watermarks": {"hard": "99%", "critical": "100%"}},
    )
    narrow.start()
    failed = narrow.wait_log("load failed", model="greedy")
    assert failed["kind"] == "KilledByKernel"
    assert "killed by SIGKILL (9); the kernel ended it, for memory had run out" in failed["error"]
    found = narrow.model("greedy")
    assert found["failure"] == "KilledByKernel"
    assert found["size"] is not None
    assert found["size"] >= 164 << 20, "a step more than it had"
    wait_for(
        lambda: (
            narrow.model("greedy")["verdict"]["reason"] in ("NeverFits", "NoRoom")
            or len(narrow.log("load", model="greedy")) > 1
        ),
        SOON,
        "a refusal, or a try with more",
    )
    needs = [line["needs"] for line in narrow.log("load", model="greedy")]
    assert len(set(needs)) == len(needs), "never twice with the same"
