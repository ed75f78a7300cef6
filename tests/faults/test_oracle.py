"""The oracle sees what is wrong: each thing it looks at is made wrong once, beside a manager that is well."""

import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from faults import oracle
from faults.clients import Asked, End
from faults.conftest import Shelf
from faults.rig import Rig
from manager import SOON
from reconciler.store.paths import DATABASE
from support import FAKE, free_port, wait_for


@pytest.fixture(scope="module")
def rig(shelf: Shelf) -> Iterator[Rig]:
    with shelf.borrow() as one:
        one.begin()
        oracle.judge(one)
        yield one
        oracle.judge(one)


def test_a_process_of_ours_that_nobody_names_and_its_port(rig: Rig) -> None:
    port = rig.ports[-1]
    owner = (rig.state_dir / "owner").read_text().strip()
    env = {**os.environ, "RECONCILER_OWNER": owner}
    command = [*FAKE, "--port", str(port), "--tag", rig.tag("chat")]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: port in oracle.listening(), SOON, "a process that listens")
            status = rig.status()
            said = list(oracle.processes(rig, status))
            assert [line.split(":")[0] for line in said] == [
                f"process {process.pid} is ours, and the status does not name it",
                f"chat runs as [{process.pid}] and is said to be cold",
            ]
            assert list(oracle.ports(rig, status)) == [
                f"somebody listens on {port}, and the status names no model there"
            ]
        finally:
            process.kill()


def test_a_record_of_nobody(rig: Rig) -> None:
    with closing(sqlite3.connect(rig.state_dir / DATABASE)) as ledger:
        ledger.execute(
            "INSERT INTO launches (launch_id, model, digest, pid, port, boot_id, ready, created, admitted)"
            " VALUES ('x', 'chat', 'd', 7, 1, 'b', 0, 0, 0)"
        )
        ledger.commit()
        assert list(oracle.ledger(rig)) == ["the ledger has chat as 7, which does not run"]
        ledger.execute("DELETE FROM launches WHERE launch_id = 'x'")
        ledger.commit()


def test_a_file_that_others_may_read_and_a_lock_that_is_held(rig: Rig) -> None:
    file = rig.state_dir / "run.json"
    file.chmod(0o644)
    assert list(oracle.private(rig.state_dir)) == ["run.json may be read by others: 644"]
    file.chmod(0o600)
    assert not oracle.lock_is_free(rig), "the manager holds it"


def test_a_witness_that_is_another_process(rig: Rig) -> None:
    pid = rig.witnesses["pin"]
    rig.witnesses["pin"] = 1
    assert list(oracle.witnesses(rig)) == [f"pin was 1, and is [{pid}]"]
    rig.witnesses["pin"] = pid


def test_clients_that_were_cut_while_the_manager_was_there(rig: Rig) -> None:
    gone = Asked(f"http://127.0.0.1:{free_port()}", "pin")
    assert gone.ended().kind == "refused"
    rig.asked.append(gone)
    [said] = oracle.clients(rig)
    assert said.startswith("a request for pin was refused while the manager was there")
    rig.away = [[gone.began - 1, time.monotonic()]]
    assert list(oracle.clients(rig)) == []
    gone.end = End("odd", "half an answer")
    assert list(oracle.clients(rig)) == ["a request for pin ended oddly: half an answer"]
    rig.asked, rig.away = [], []


def test_two_actions_at_once_but_not_those_of_two_managers() -> None:
    begin, other = {"event": "load", "model": "a"}, {"event": "evict", "model": "b"}
    done = {"event": "loaded", "model": "a"}
    assert list(oracle.one_at_a_time([begin, done, other])) == []
    assert list(oracle.one_at_a_time([begin, {"event": "serving"}, other])) == []
    assert list(oracle.one_at_a_time([begin, other])) == ["evict b was begun during load a"]


def test_leases_that_were_not_given_back() -> None:
    calm = {"name": "a", "active": 0, "waiting": 0, "gated": 0, "jobs": 0}
    assert list(oracle.leases({"models": [calm]})) == []
    assert list(oracle.leases({"models": [calm | {"active": 1}]})) == [
        "a: active is 1 though no request is under way"
    ]
