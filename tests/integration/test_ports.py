"""A range of ports that models of ours fill: whoever comes next is given one, waits for one, or is told."""

from manager import Asking, Manager
from support import wait_for


def test_a_model_without_a_port_waits_until_one_comes_free(manager: Manager) -> None:
    port = manager.ports[0]
    models = {name: manager.fake(name, priority=rank) for name, rank in (("first", 900), ("second", 100))}
    manager.write(models, machine={"ports": f"{port}-{port}"})
    manager.start()
    assert manager.ask("first").status_code == 200
    asking = Asking(manager, "second")

    def blocked() -> bool:
        verdict = manager.model("second")["verdict"]
        return bool(verdict) and verdict["reason"] == "NoPort"

    wait_for(blocked, 5, "a verdict that names the port")
    said = f"no port of {port}-{port} is free (first has {port}): widen machine.ports, or evict one of them"
    verdict = manager.model("second")["verdict"]
    assert (verdict["outcome"], verdict["detail"]) == ("blocked", said)
    assert manager.cli("evict", "first").returncode == 0
    assert asking.status() == 200
    assert manager.port_of("second") == port
    assert manager.model("second")["failures"] == 0
    assert manager.events("load-failed") == []


def test_an_idle_model_makes_way_for_its_port_and_a_pinned_one_is_told_at_once(manager: Manager) -> None:
    port = manager.ports[0]
    models = {name: manager.fake(name) for name in ("first", "second")}
    manager.write(models, machine={"ports": f"{port}-{port}"})
    manager.start()
    for name in ("first", "second"):
        assert manager.ask(name).status_code == 200
        assert manager.port_of(name) == port
    manager.write(
        models | {"second": manager.fake("second", residency="pinned")}, machine={"ports": f"{port}-{port}"}
    )
    wait_for(lambda: manager.model("second")["residency"] == "pinned", 10, "the other manifest")
    answer = manager.ask("first")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_startable")
    said = f"no port of {port}-{port} is free (second has {port}): widen machine.ports, for pinned models keep theirs"
    assert said in answer.json()["error"]["message"]


def test_a_model_takes_the_port_of_the_one_that_makes_way_for_it(manager: Manager) -> None:
    port = manager.ports[0]
    models = {name: manager.fake(name) for name in ("first", "second")}
    manager.write(models, memory=70, machine={"ports": f"{port}-{port}"})
    manager.start()
    for name in ("first", "second", "first"):
        assert manager.ask(name).status_code == 200
        assert manager.port_of(name) == port
