"""Models that live and do not answer: found, told, ended and loaded again; slow ones, and whoever is woken, are not."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from faults.acts import pause
from manager import SOON, Asking, Manager, Streaming, process_state, running
from nervous import Nervous, causes
from support import wait_for

#: Seconds after which these managers suspect a model, and give up what they asked of it.
SILENCE = 1.0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """One nervous manager that is not started yet."""
    with Nervous(tmp_path / "nervous", env={"SILENCE": str(SILENCE)}) as made:
        yield made


def test_one_that_answers_no_more_is_replaced_and_who_waited_is_served(manager: Manager) -> None:
    """Its health address says yes all the time; the second request is never answered."""
    manager.write(
        {"liar": manager.fake("liar", "--hang-after", "1", concurrency=1), "fine": manager.fake("fine")}
    )
    manager.start()
    first = manager.ask("liar")
    assert first.status_code == 200
    assert manager.ask("fine").status_code == 200
    [fine] = manager.wait_ready("fine")
    asking = Asking(manager, "liar")
    manager.wait_model("liar", active=1)
    waiting = Asking(manager, "liar")
    manager.wait_model("liar", gated=1)
    manager.wait_condition("Suspect", "liar", reason="Silent")
    assert asking.status() == 503
    assert asking.answer is not None
    error = asking.answer.json()["error"]
    assert error["code"] == "model_hung"
    assert "got nothing for" in error["message"]
    assert "a small request of our own got no answer" in error["message"]
    assert asking.answer.headers["retry-after"] == "1"
    # It stood in line for the place of the first: the next process serves it.
    assert waiting.status() == 200
    assert waiting.answer is not None
    assert waiting.answer.json()["pid"] != first.json()["pid"]
    assert process_state(first.json()["pid"]) is None
    assert causes(manager, "liar") == ["Silent", "model hangs"]
    assert [x["reason"] for x in manager.log("evict", model="liar")] == ["Hung"]
    [(reason, message)] = manager.events("hung", "liar")
    assert reason == "Hung"
    assert "does nothing" in message
    assert manager.wait_ready("fine") == [fine]
    assert causes(manager, "fine") == []


def test_a_stopped_process_is_told_and_nothing_happens_if_it_goes_on_in_time(manager: Manager) -> None:
    """SIGSTOP under a request."""
    manager.write({"held": manager.fake("held", "--think", "0.5")})
    manager.start()
    assert manager.ask("held").status_code == 200
    [pid] = manager.wait_ready("held")
    asking = Asking(manager, "held")
    manager.wait_model("held", active=1)
    os.kill(pid, signal.SIGSTOP)
    found = manager.wait_condition("Suspect", "held", reason="ProcessStopped")
    assert f"`kill -CONT {pid}`" in found["message"]
    os.kill(pid, signal.SIGCONT)
    assert asking.status() == 200
    manager.wait_log("it does not hang", model="held")
    assert manager.wait_ready("held") == [pid]
    assert causes(manager, "held") == ["ProcessStopped", "it does not hang"]
    assert manager.events("cleared", "held") == [("Cleared", "it goes on")]


def test_a_stopped_process_that_does_not_go_on_is_replaced(manager: Manager) -> None:
    """Also under a stream, which is told that it ends."""
    manager.write({"held": manager.fake("held", "--stream", "2000", "--delay", "0.05", residency="pinned")})
    manager.start()
    [pid] = manager.wait_ready("held")
    stream = Streaming(manager.url, "held")
    os.kill(pid, signal.SIGSTOP)
    manager.wait_log("model hangs", model="held")
    wait_for(lambda: not running(pid), SOON, "the end of the stopped process")
    [fresh] = manager.wait_ready("held")
    assert fresh != pid
    stream.join(SOON)
    assert not stream.done
    assert "nobody let it go on within" in manager.events("hung", "held")[0][1]
    assert manager.model("held")["failures"] == 1


def test_errors_in_a_row_are_asked_about_and_a_lying_health_address_is_found_out(manager: Manager) -> None:
    manager.write({"broken": manager.fake("broken", "--fail-after", "1")})
    manager.start()
    assert manager.ask("broken").status_code == 200
    [pid] = manager.wait_ready("broken")
    for _ in range(3):
        assert manager.ask("broken").status_code == 500
    manager.wait_log("model hangs", model="broken")
    assert manager.ask("broken").status_code == 200, "the next process"
    assert not running(pid)
    [(_, message)] = manager.events("hung", "broken")
    assert "3 requests in a row failed: it answered 500" in message
    assert "a small request of our own fails" in message


def test_one_that_errs_for_some_requests_only_is_asked_and_left_alone(manager: Manager) -> None:
    """The fake engine answers what does not ask for a stream; a stream breaks."""
    manager.write({"picky": manager.fake("picky", "--cut-after", "0")})
    manager.start()
    assert manager.ask("picky", stream=False).status_code == 200
    [pid] = manager.wait_ready("picky")
    for _ in range(4):
        with pytest.raises(httpx.RemoteProtocolError):
            manager.ask("picky", stream=True)
    manager.wait_log("it does not hang", model="picky")
    assert manager.wait_ready("picky") == [pid]
    assert causes(manager, "picky") == ["RequestsFail", "it does not hang"]
    health = manager.model("picky")["health"]
    assert health["probe_error"] == ""
    assert health["probed"] >= 0
    assert "answered a request of our own" in manager.cli("explain", "picky").stdout


def test_a_model_whose_port_is_closed_is_not_ready_any_more(manager: Manager) -> None:
    """What it answers over a connection that is open goes on to its end."""
    manager.write({"deaf": manager.fake("deaf", "--deaf-after", "1", "--stream", "60", "--delay", "0.1")})
    manager.start()
    assert manager.ask("deaf").status_code == 200
    stream = Streaming(manager.url, "deaf")
    pid = stream.events[0]["pid"] if "pid" in stream.events[0] else manager.wait_ready("deaf")[0]
    hangs = manager.wait_log("model hangs", model="deaf")
    assert "does not listen on its port any more" in hangs["error"]
    late = Asking(manager, "deaf")
    assert stream.whole() == list(range(60))
    assert late.status() == 200
    assert not running(pid)


def test_one_that_computes_is_slow_and_does_not_hang(manager: Manager) -> None:
    """Several times the silence after which one that does nothing is suspected."""
    manager.write({"slow": manager.fake("slow", "--spin", "4")})
    manager.start()
    answer = manager.ask("slow")
    assert answer.status_code == 200
    [pid] = manager.wait_ready("slow")
    assert answer.json()["pid"] == pid
    assert causes(manager, "slow") == []


def test_computing_for_ever_is_found_when_a_first_byte_may_take_no_longer(manager: Manager) -> None:
    manager.write({"mad": manager.fake("mad", "--spin", "800", timeouts={"first_byte": "1500ms"})})
    manager.start()
    for _ in range(3):
        assert manager.ask("mad").status_code in (503, 504)
    wait_for(lambda: manager.events("hung", "mad"), SOON, "it to be found")


def test_with_liveness_off_it_is_told_and_left_alone(manager: Manager) -> None:
    manager.write({"held": manager.fake("held", liveness="off")})
    manager.start()
    assert manager.ask("held").status_code == 200
    [pid] = manager.wait_ready("held")
    os.kill(pid, signal.SIGSTOP)
    manager.wait_condition("Suspect", "held", reason="ProcessStopped")
    health = manager.model("held")["health"]
    assert (health["liveness"], health["hung"]) == ("off", "")
    told = manager.cli("explain", "held").stdout
    assert f"`kill -CONT {pid}` lets it go on, and is only watched (liveness: off)" in told
    # Another one that is watched is found out meanwhile, although it was stopped later.
    manager.write(
        {"held": manager.fake("held", liveness="off"), "other": manager.fake("other", residency="warm")}
    )
    manager.wait_log("loaded", model="other")
    [other] = manager.wait_ready("other")
    os.kill(other, signal.SIGSTOP)
    manager.wait_log("model hangs", model="other")
    assert process_state(pid) == "T"
    assert manager.model("held")["pid"] == pid
    os.kill(pid, signal.SIGCONT)
    assert manager.ask("held").status_code == 200


def test_a_stop_of_everything_calls_nobody_hung(manager: Manager) -> None:
    """As a suspend does: nothing runs for longer than anybody's patience, and then all goes on."""
    manager.write({"a": manager.fake("a", "--think", "0.5"), "b": manager.fake("b", residency="pinned")})
    manager.start()
    assert manager.ask("a").status_code == 200
    pids = manager.wait_ready("a", "b")
    asking = Asking(manager, "a")
    manager.wait_model("a", active=1)
    everybody = [manager.pid, *pids]
    pause(everybody)
    until = time.monotonic() + 3 * SILENCE
    wait_for(lambda: time.monotonic() > until, SOON, "a long time")
    # The worst order: the manager looks before the models go on.
    os.kill(manager.pid, signal.SIGCONT)
    manager.wait_condition("Suspect", "b", reason="ProcessStopped")
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert asking.status() == 200
    assert manager.wait_ready("a", "b") == pids
    assert "model hangs" not in causes(manager, "a") + causes(manager, "b")
