"""Limits of one model: set for real on this machine, and where they cannot be set, refused with what would help."""

import os
import resource
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio.to_thread
import pytest

from linux_trees import write_files
from reconciler.core.launch import Limits
from reconciler.engines.base import Command
from reconciler.host import Host, StartError
from reconciler.host import limits as module
from reconciler.host.limits import Groups, Place, place, why_not
from reconciler.memory.oom_kills import Kills
from support import FAKE, free_port, get_json, wait_for

from .conftest import Bench, Launched

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel of macOS has no such thing"),
]
MIB = 1 << 20

no_groups = pytest.mark.skipif(
    isinstance(place(), str), reason="no control group that limits memory can be made here"
)


async def limited(bench: Bench, limits: Limits, *options: str, answers: bool = True) -> Launched:
    """Start a fake engine under limits and wait until it answers, if it comes to that."""
    port, launch_id = free_port(), f"limited-{next(iter(bench.numbers))}"
    command = Command((*FAKE, "--port", str(port), *options), "/", limits=limits)
    process = await bench.host.start(command, model="m", launch_id=launch_id, port=port)
    bench.launched.append(Launched(process, launch_id, port))
    if answers:
        await bench.answers(port)
    return bench.launched[-1]


def group_of(pid: int) -> str:
    """Return the control group that limits a process's memory."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    return next((path for _, names, path in lines if "memory" in names.split(",")), lines[-1][2])


def ours(name: str) -> list[Path]:
    """Return the groups of a launch that there are."""
    where = place()
    assert isinstance(where, Place)
    return list(where.folder.glob(f"reconciler-*{name}"))


@no_groups
async def test_a_process_begins_in_a_group_of_its_own_which_goes_with_it(bench: Bench) -> None:
    launched = await limited(bench, Limits(memory=200 * MIB), "--worker")
    pids = bench.host.tree(launched.process, launched.launch_id)
    assert len(pids) == 2
    assert {Path(group_of(pid)).name.rpartition("-limited")[2] for pid in pids} == {
        launched.launch_id.removeprefix("limited")
    }
    [folder] = ours(launched.launch_id)
    limit = next(f for f in ("memory.limit_in_bytes", "memory.max") if (folder / f).exists())
    assert (folder / limit).read_text().strip() == str(200 * MIB)
    echo = await anyio.to_thread.run_sync(get_json, f"http://127.0.0.1:{launched.port}/echo")
    assert echo["pid"] == launched.process.pid
    assert echo["argv"][1:] == ["--port", str(launched.port), "--worker"]
    assert group_of(os.getpid()) != group_of(pids[0])
    await bench.host.stop(launched.process, launched.launch_id, grace=5)
    assert ours(launched.launch_id) == []


@no_groups
async def test_who_takes_more_is_ended_and_that_is_told_with_the_limit(bench: Bench) -> None:
    launched = await limited(bench, Limits(memory=60 * MIB), "--grow-mib", "300", answers=False)
    beside = await limited(bench, Limits(memory=200 * MIB))
    ended = await bench.host.wait_exit(launched.process)
    assert ended.signal == 9
    assert bench.host.kills(launched.launch_id) == Kills(1, 60 * MIB)
    assert bench.host.kills(beside.launch_id) == Kills(0)

    def swept() -> bool:  # the kernel may be busy with the group for a moment
        bench.host.over()
        return not ours(launched.launch_id)

    await anyio.to_thread.run_sync(wait_for, swept, 5.0, "the end of its group")
    assert len(ours(beside.launch_id)) == 1


@no_groups
async def test_groups_of_processes_that_ended_while_nobody_ruled_are_swept(bench: Bench) -> None:
    gone, lives = [await limited(bench, Limits(memory=200 * MIB)) for _ in range(2)]
    os.kill(gone.process.pid, 9)
    await bench.host.wait_exit(gone.process)
    assert len(ours(gone.launch_id)) == 1
    later = Host(bench.state_dir, bench.host.owner)
    stranger = Host(bench.state_dir, "somebody else")
    stranger.survivors([])
    assert len(ours(gone.launch_id)) == 1, "another owner's group"
    later.survivors([])
    assert (ours(gone.launch_id), len(ours(lives.launch_id))) == ([], 1)
    for host in (later, stranger):
        host.close()


@no_groups
async def test_a_program_that_is_missing_is_named_and_leaves_no_group(bench: Bench) -> None:
    with pytest.raises(StartError, match="program 'no-such-server' is not on PATH"):
        await bench.host.start(
            Command(("no-such-server",), "/", limits=Limits(memory=MIB)),
            model="m",
            launch_id="limited-missing",
            port=1,
        )
    bench.host.over()
    assert ours("limited-missing") == []


async def test_the_limits_of_each_process_and_the_kernels_preference_are_as_stated(bench: Bench) -> None:
    limits = Limits(oom_score_adj=555, nofile=123, core=0, address_space=-1)
    launched = await limited(bench, limits, "--worker")
    await anyio.to_thread.run_sync(bench.host.serving, launched.process, launched.launch_id, limits)
    # What it starts itself takes them over.
    pids = bench.host.tree(launched.process, launched.launch_id)
    assert len(pids) == 2
    for pid in pids:
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (123, 123)
        assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)
    assert scores(pids) == {555}
    assert resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE)[0] > 123


def scores(pids: Iterable[int]) -> set[int]:
    """Return what the kernel adds to the badness of these processes."""
    return {int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in pids}


ROOT_STATUS = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"
USER_STATUS = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"
V2 = "24 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
APP = "user.slice/user-1000.slice/user@1000.service/app.slice"


def tree(root: Path, status: str = USER_STATUS, **more: str) -> Path:
    """Write a machine with version 2, whose user's service manager has handed the memory controller down."""
    files: dict[str, str] = {
        "proc/self/cgroup": f"0::/{APP}/reconcile.service\n",
        "proc/self/mountinfo": V2,
        "proc/self/status": status,
        "proc/self/uid_map": "0 0 4294967295",
        "proc/self/oom_score_adj": "200\n",
        f"sys/fs/cgroup/{APP}/reconcile.service/cgroup.procs": "42\n",
        f"sys/fs/cgroup/{APP}/cgroup.procs": "",
        f"sys/fs/cgroup/{APP}/cgroup.subtree_control": "cpu memory pids\n",
        f"sys/fs/cgroup/{APP}/memory.max": "max\n",
    }
    return write_files(root, {**files, **more})


def test_in_version_2_a_group_is_made_beside_ours_where_the_controller_is_handed_down(tmp_path: Path) -> None:
    root = tree(tmp_path)
    app = tmp_path / "sys/fs/cgroup" / APP
    assert place(root) == Place(app, 2)
    groups = Groups("owner", root)
    folder = groups.make("l1", 64 * MIB)
    assert (folder.parent, folder.name.endswith("-l1")) == (app, True)
    assert (folder / "memory.max").read_text() == str(64 * MIB)
    assert (groups.kills("l1"), groups.kills("l2")) == (None, None)
    (folder / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 1\n")
    assert groups.kills("l1") == Kills(1, 64 * MIB)
    for file in folder.iterdir():  # in a real one they are no files that would keep it
        file.unlink()
    Groups("another", root).sweep()
    assert folder.is_dir()
    groups.sweep()
    assert not folder.exists()


def test_swap_and_the_end_of_all_workers_are_set_where_the_kernel_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.mkdir

    def mkdir(self: Path, *rest: object, **more: object) -> None:
        real(self, exist_ok=True)
        for name in ("memory.swap.max", "memory.oom.group"):
            (self / name).write_text("as it was")

    groups = Groups("owner", tree(tmp_path))
    monkeypatch.setattr(Path, "mkdir", mkdir)
    folder = groups.make("l1", MIB)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "memory.oom.group").read_text() == "1"


NOT_DOWN = {f"sys/fs/cgroup/{APP}/cgroup.subtree_control": "pids\n"}
NONE = {"proc/self/mountinfo": "1 2 0:3 / /tmp rw - tmpfs tmpfs rw\n"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (NOT_DOWN, "hands the memory controller down"),
        (NONE, "no control group that limits memory is mounted"),
    ],
)
def test_where_no_group_can_be_made_it_is_said_what_would_help(
    tmp_path: Path, files: Mapping[str, str], said: str
) -> None:
    why = why_not(Limits(memory=MIB), tree(tmp_path, **files)) or ""
    assert why.startswith("limits.memory cannot be set here: no control group ")
    assert said in why
    assert "reconcile service install" in why
    assert "Delegate=yes" in why
    with pytest.raises(StartError, match=said):
        Groups("owner", tmp_path).make("l1", MIB)


def test_a_group_that_is_anothers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert f"the control group /{APP} may not be changed by this user" in (
        why_not(Limits(memory=MIB), root) or ""
    )


def test_what_takes_a_right_is_refused_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hard = {resource.RLIMIT_NOFILE: 4096, resource.RLIMIT_CORE: 1 << 30, resource.RLIMIT_AS: -1}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, hard[kind]))
    user, root = tree(tmp_path / "user"), tree(tmp_path / "root", ROOT_STATUS)
    wanted = {
        "oom_score_adj: 100 is below our own 200": Limits(oom_score_adj=100),
        "rlimits.nofile is above the hard limit of this user, 4096": Limits(nofile=4097),
        "rlimits.core is above the hard limit of this user, 1.0 GiB": Limits(core=-1),
    }
    for said, limits in wanted.items():
        assert said in (why_not(limits, user) or ""), limits
        assert why_not(limits, root) is None
    fine = Limits(oom_score_adj=200, nofile=4096, core=0, address_space=1 << 40)
    assert why_not(fine, user) is None
    assert why_not(Limits(), user) is None


def test_the_root_of_a_user_namespace_has_not_that_right(tmp_path: Path) -> None:
    root = tree(tmp_path, ROOT_STATUS, **{"proc/self/uid_map": "0 1000 1\n"})
    assert "below our own 200" in (why_not(Limits(oom_score_adj=100), root) or "")


def test_version_1_makes_it_below_our_own_group(tmp_path: Path) -> None:
    root = write_files(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/init.scope\n0::/init.scope\n",
            "proc/self/mountinfo": V1 + V2,
            "sys/fs/cgroup/memory/init.scope/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/init.scope/cgroup.procs": "1\n",
        },
    )
    assert place(root) == Place(tmp_path / "sys/fs/cgroup/memory/init.scope", 1)
    folder = Groups("owner", root).make("l1", MIB)
    assert (folder / "memory.limit_in_bytes").read_text() == str(MIB)


async def test_a_shell_that_cannot_enter_its_group_starts_nothing(tmp_path: Path) -> None:
    argv = module.entering(("touch", str(tmp_path / "started")), tmp_path / "nowhere")
    done = await anyio.run_process(argv, check=False)
    assert done.returncode == 125
    assert not await anyio.Path(tmp_path / "started").exists()
