"""A model that grows over its estimate is charged what it holds, then and ever after."""

from manager import SOON, Manager
from support import wait_for

MIB = 1 << 20


def test_a_model_that_grows_is_charged_what_it_holds_also_after_a_restart(manager: Manager) -> None:
    models = {
        "grows": manager.fake("grows", size=100),
        "other": manager.fake("other", size=200, priority="low"),
        "wide": manager.fake("wide", size=250),
    }
    manager.write(models, memory=600, prewarm="off")
    manager.start()
    for name in ("grows", "other", "wide"):
        assert manager.ask(name).status_code == 200
    [wide] = manager.wait_ready("wide")
    manager.wait_calm()
    assert manager.condition("Degraded", "grows") is None

    # 100 + 200 + 250 MiB were within the budget; now it is passed by about 160, and `other` gives way for that.
    assert manager.ask("grows", grow_mib=300).status_code == 200
    over = manager.wait_condition("Degraded", "grows", reason="OverEstimate")
    assert "more than memory.steady says" in over["message"]
    manager.wait_log("evicted", model="other")
    status = manager.wait_calm()
    grown = manager.model("grows")
    assert 300 * MIB < grown["held"] < 330 * MIB
    assert grown["size"] >= grown["held"] - MIB
    assert status["memory"]["held"] <= 600 * MIB
    assert [(e["model"], e["reason"]) for e in manager.log("evict")] == [("other", "OverBudget")]
    assert manager.wait_ready("wide") == [wide]

    # It does not come back as 100 MiB, also when another manager begins with the same ledger.
    assert manager.cli("evict", "grows").returncode == 0
    wait_for(lambda: not manager.processes("grows"), SOON, "its end")
    manager.wait_calm()
    cold = manager.model("grows")
    assert cold["state"] == "cold"
    assert cold["size"] > 300 * MIB
    assert cold["memory"]["peak"] > 300 * MIB
    assert manager.stop() == 0

    manager.start()
    assert manager.model("grows")["size"] > 300 * MIB
    assert manager.ask("wide").status_code == 200
    assert manager.ask("other").status_code == 200
    assert manager.ask("grows").status_code == 200
    [*_, load] = manager.log("load", model="grows")
    assert float(load["needs"].split()[0]) > 300
    assert load["needs"].endswith("MiB")
    assert [e["model"] for e in manager.log("evict", for_model="grows")] == ["other"]
    # No loop: it holds little again, and is charged what it once held.
    manager.wait_calm()
    again = manager.model("grows")
    assert again["held"] < 100 * MIB
    assert again["size"] > 300 * MIB
    assert manager.condition("Degraded", "grows") is None
    assert len(manager.log("load", model="grows")) == 2

    # Until a person says that it does not hold any more.
    assert manager.cli("forget", "grows").stdout == "what was measured of grows is forgotten\n"
    wait_for(lambda: manager.model("grows")["size"] == 100 * MIB, SOON, "its old size")
    assert manager.model("grows")["memory"]["peak"] < 100 * MIB
