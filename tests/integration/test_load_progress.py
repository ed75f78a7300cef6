"""`timeouts.load` counts from the last sign of life: a slow load that goes on is let go on, a silent hang is not."""

from manager import SOON, Manager
from support import wait_for


def test_a_load_that_goes_on_outlasts_its_patience_and_a_silent_hang_does_not(manager: Manager) -> None:
    patience = {"load": "1s"}
    manager.write(
        {
            "chatty": manager.fake("chatty", "--load", "1.8", "--chatter", "0.2", timeouts=patience),
            "silent": manager.fake("silent", "--load", "30", timeouts=patience),
        }
    )
    manager.start()
    assert manager.ask("chatty").status_code == 200
    [loaded] = wait_for(lambda: manager.log("loaded", model="chatty"), SOON, "the end of the load in the log")
    assert loaded["seconds"] >= 1.7
    answer = manager.ask("silent")
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "load_failed")
    message = answer.json()["error"]["message"]
    assert "no progress for 1 s" in message
    assert manager.processes("silent") == []


def test_the_deadline_in_the_status_moves_with_the_signs(manager: Manager) -> None:
    manager.write(
        {
            "chatty": manager.fake(
                "chatty", "--load", "1.6", "--chatter", "0.1", residency="warm", timeouts={"load": "1s"}
            )
        }
    )
    manager.start()
    manager.wait_model("chatty", state="loading")
    seen = []
    while (action := manager.status()["action"]) is not None and action["doing"] == "loading":
        seen.append(action["elapsed"] + action["deadline_in"])
    assert max(seen) > 1.5, "it was let go on past the first second"
    manager.wait_ready("chatty")
