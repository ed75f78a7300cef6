"""A model that has limits of its own: what it takes beyond them is its own end, and nobody else's."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager import SOON, Manager, running
from reconciler.host.limits import Groups, Place, place
from support import wait_for

pytestmark = pytest.mark.skipif(
    isinstance(place(), str), reason="no control group that limits memory can be made here"
)


@pytest.fixture(autouse=True)
def nothing_left(manager: Manager) -> Iterator[None]:
    """After each test no group of this manager is there any more."""
    yield
    owner = (manager.state_dir / "owner").read_text().strip()
    wait_for(lambda: not manager.ours(), SOON, "the end of all models")
    assert Groups(owner)._all() == []


def groups(manager: Manager) -> list[Path]:
    """Return the control groups in which processes of this manager are, or were."""
    where = place()
    assert isinstance(where, Place)
    mine = {str(pid) for pid in manager.ours()}
    return [
        folder
        for folder in sorted(where.folder.glob("reconciler-*"))
        if mine & set((folder / "cgroup.procs").read_text().split())
    ]


def test_one_that_takes_more_than_its_limit_dies_of_that_and_nobody_else_does(manager: Manager) -> None:
    manager.write(
        {
            "greedy": manager.fake("greedy", limits={"memory": "80MiB"}),
            "calm": manager.fake("calm", residency="warm", limits={"memory": "200MiB"}),
        }
    )
    manager.start()
    [calm] = manager.wait_ready("calm")
    assert manager.ask("greedy").status_code == 200
    [folder] = [f for f in groups(manager) if str(calm) not in (f / "cgroup.procs").read_text().split()]
    assert manager.ask("greedy", grow_mib=300).status_code >= 500
    died = manager.wait_log("model died", model="greedy")
    assert died["kind"] == "OverLimit"
    said = "killed by its own limits.memory of 80 MiB: raise it or lower the context"
    assert said in died["error"]
    [(reason, message)] = wait_for(lambda: manager.events("crashed", "greedy"), SOON, "an event that says so")
    assert (reason, said in message) == ("OverLimit", True)
    wait_for(lambda: not folder.exists(), SOON, "the end of its control group")
    assert manager.ask("calm").json()["pid"] == calm
    assert manager.stop() == 0


def test_a_load_that_takes_more_than_its_limit_fails_of_that(manager: Manager) -> None:
    manager.write({"greedy": manager.fake("greedy", "--rss-mib", "300", limits={"memory": "80MiB"})})
    manager.start()
    answer = manager.ask("greedy")
    assert answer.status_code == 502
    assert "killed by its own limits.memory of 80 MiB" in answer.json()["error"]["message"]
    assert [reason for reason, _ in manager.events("load-failed", "greedy")][:1] == ["OverLimit"]
    assert manager.stop() == 0


def test_limits_hold_over_the_death_of_the_manager_and_go_with_the_model(manager: Manager) -> None:
    limits = {"memory": "200MiB", "oom_score_adj": 444, "rlimits": {"nofile": 200, "core": 0}}
    manager.write({"alpha": manager.fake("alpha", residency="warm", limits=limits)})
    manager.start()
    [pid] = manager.wait_ready("alpha")
    assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (200, 200)
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "444"
    [folder] = groups(manager)
    manager.kill()
    manager.start()
    assert manager.wait_ready("alpha") == [pid]
    assert groups(manager) == [folder]
    manager.write({"alpha": manager.fake("alpha", residency="warm", limits={"memory": "210MiB"})})
    wait_for(lambda: not running(pid), SOON, "the end of the process with the old limit")
    [fresh] = manager.wait_ready("alpha")
    assert fresh != pid
    wait_for(lambda: not folder.exists(), SOON, "the end of the old group")
    manager.kill()
    wait_for(lambda: manager.cli("stop").returncode == 0, SOON, "the end of what was left")
    assert not running(fresh)
    assert groups(manager) == []
