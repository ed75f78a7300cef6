"""What is recognised after a crash of ours, and what is left alone."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.boot import boot_id
from reconciler.host import Host, Process, identify
from reconciler.store.records import LaunchRecord

from .conftest import Bench, Launched

pytestmark = pytest.mark.anyio


def record_of(launched: Launched, **changes: object) -> LaunchRecord:
    process = launched.process
    record = LaunchRecord(
        launched.launch_id, "m", "digest", process.pid, process.started, launched.port, boot_id(), ready=True
    )
    return replace(record, **changes)  # type: ignore[arg-type]


async def test_a_recorded_process_that_lives_is_a_survivor(bench: Bench) -> None:
    launched = await bench.serve("--worker")
    (found,) = bench.host.survivors([record_of(launched)])
    assert found.process == launched.process
    assert len(found.pids) == 2
    assert found.root_is_recorded


async def test_a_later_run_of_the_same_owner_stops_what_an_earlier_one_started(bench: Bench) -> None:
    launched = await bench.serve()
    later = Host(bench.state_dir, bench.host.owner)
    (found,) = later.survivors([record_of(launched)])
    report = await later.stop(found.process, launched.launch_id, grace=5)
    assert report.pids == (launched.process.pid,)
    later.close()


async def test_a_start_whose_pid_was_not_written_down_in_time_is_found_by_its_mark(bench: Bench) -> None:
    launched = await bench.serve()
    (found,) = bench.host.survivors([record_of(launched, pid=None, started=None, ready=False)])
    assert found.process == launched.process
    assert not found.root_is_recorded


async def test_a_daemon_whose_recorded_parent_has_gone_is_found_by_its_mark(bench: Bench) -> None:
    launched = await bench.shell("setsid FAKE >/dev/null 2>&1 & exit 0")
    await bench.host.wait_exit(launched.process)
    (found,) = bench.host.survivors([record_of(launched)])
    assert found.process != launched.process
    assert found.pids == (found.process.pid,)
    assert not found.root_is_recorded


@pytest.mark.parametrize(
    ("boot", "ticks"),
    [(None, -1), (None, 1), ("an earlier boot", 0), ("", 0)],
    ids=["older", "younger", "other-boot", "unknown-boot"],
)
def test_a_strangers_process_under_a_recorded_pid_is_no_survivor(
    boot: str | None, ticks: int, tmp_path: Path
) -> None:
    sleeper = subprocess.Popen(["sleep", "999"])
    try:
        me = identify(sleeper.pid)
        assert me is not None
        written = boot_id() if boot is None else boot
        record = LaunchRecord("l", "sleep", "d", me.pid, me.started + ticks, 9101, written)
        assert Host(tmp_path, "owner").survivors([record]) == ()
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


async def test_the_same_launch_id_of_another_owner_is_no_survivor(bench: Bench) -> None:
    launched = await bench.serve()
    other = Host(bench.state_dir, "another-owner")
    assert other.survivors([record_of(launched, pid=None, started=None)]) == ()
    other.close()


async def test_what_has_ended_is_no_survivor_and_order_does_not_matter(bench: Bench) -> None:
    one, two, gone = [await bench.serve(model=name) for name in ("one", "two", "gone")]
    await bench.host.stop(gone.process, gone.launch_id, grace=5)
    records = [record_of(gone, model="gone"), record_of(two, model="two"), record_of(one, model="one")]
    found = bench.host.survivors(records)
    assert [survivor.record.model for survivor in found] == ["one", "two"]
    assert found == bench.host.survivors(reversed(records))


def test_an_identity_does_not_depend_on_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import time

    before = identify(os.getpid())
    real = time.time()
    monkeypatch.setattr(time, "time", lambda: real + 86400)
    after = identify(os.getpid())
    assert before == after
    assert isinstance(after, Process)
    with open("/proc/self/stat") as file:
        assert after.started == int(file.read().rpartition(")")[2].split()[19])  # field 22: ticks since boot
