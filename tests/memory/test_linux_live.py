"""Real processes: one file mapped by two, locked pages, a forked tree, growth; and what a calm look costs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from linux_trees import MIB
from reconciler.core.memory import Basis, MappedFile
from reconciler.memory.hierarchy import memory_filesystems
from reconciler.memory.linux import LinuxMachine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

#: Runs the lines it is given one after the other and answers each, so that tests wait for a fact, not for a time.
SERVER = "import sys\nfor line in sys.stdin:\n    exec(line)\n    print('done', flush=True)\n"
MAP = (
    "import mmap; file = open({path!r}, 'rb');"
    " weights = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ);"
    " sum(weights[i] for i in range(0, len(weights), 4096))"
)
LOCK = (
    "import ctypes, mmap, os; libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_void_p;"
    " fd = os.open({path!r}, os.O_RDONLY);"
    " at = libc.mmap(None, ctypes.c_size_t({size}), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0));"
    " open({answer!r}, 'w').write(str(libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t({size}))))"
)


class Server:
    """A child process that does what it is told."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.do("pass")

    @property
    def pid(self) -> int:
        return self.process.pid

    def do(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", line

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for server in started:
        server.end()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.gguf"
    path.write_bytes(bytes(64 * MIB))
    device = path.stat().st_dev
    if f"{os.major(device)}:{os.minor(device)}" in memory_filesystems(Path("/")):
        pytest.skip("files of this folder live in memory: their pages cannot be dropped")
    return path


def only(file: tuple[MappedFile, ...]) -> MappedFile:
    assert len(file) == 1, file
    return file[0]


def test_two_processes_that_map_one_file(servers: list[Server], weights: Path) -> None:
    machine = LinuxMachine()
    one, two = servers[:] = [Server(), Server()]
    trees = {"one": [one.pid], "two": [two.pid]}
    before = machine.held(trees, 0.0)
    assert [before[key].files for key in trees] == [(), ()]
    for server in servers:
        server.do(MAP.format(path=str(weights)))
    # More file pages than before: both are walked without being asked for.
    found = machine.held(trees, 100.0)
    for key in trees:
        assert only(found[key].files).size == found[key].warm == 64 * MIB
        assert only(found[key].files).key.endswith(f":{weights.stat().st_ino}")
        assert (found[key].warm_basis, found[key].warm_at) == (Basis.MEASURED, 100.0)
        grown = (found[key].committed or 0) - (before[key].committed or 0)
        assert 0 <= grown < 8 * MIB
    assert found["one"].files == found["two"].files

    one.end()
    after = machine.held(trees, 200.0, walk=["two"])
    assert (after["one"].committed, after["one"].warm) == (0, 0)
    assert after["two"].files == found["two"].files
    assert after["two"].committed == found["two"].committed


def test_locked_file_pages_are_committed(servers: list[Server], weights: Path, tmp_path: Path) -> None:
    machine = LinuxMachine()
    servers.append(server := Server())
    size, answer = 4 * MIB, tmp_path / "answer"
    before = machine.held({"a": [server.pid]}, 0.0)["a"]
    server.do(LOCK.format(path=str(weights), size=size, answer=str(answer)))
    if answer.read_text() != "0":
        pytest.skip("this user may not lock 4 MiB (ulimit -l)")
    held = machine.held({"a": [server.pid]}, 1.0, walk=["a"])["a"]
    assert held.files == ()
    assert 0 <= (held.committed or 0) - (before.committed or 0) - size < 2 * MIB
    server.do(MAP.format(path=str(weights)))
    both = machine.held({"a": [server.pid]}, 2.0, walk=["a"])["a"]
    assert only(both.files).size == 60 * MIB
    assert 0 <= (both.committed or 0) - (before.committed or 0) - size < 4 * MIB


FORK = (
    "import os, threading; stay, go = os.pipe(); told, tell = os.pipe(); child = os.fork();"
    " child or (os.close(go), os.write(tell, b'x'), os.read(stay, 1), os._exit(0));"
    " os.read(told, 1); open({answer!r}, 'w').write(str(child))"
)


def test_a_forked_tree_counts_once_and_its_growth_in_full(servers: list[Server], tmp_path: Path) -> None:
    machine = LinuxMachine()
    servers.append(server := Server())
    alone = machine.held({"a": [server.pid]}, 0.0)["a"].committed or 0
    server.do(f"data = b'x' * {48 * MIB}")
    answer = tmp_path / "child"
    server.do(FORK.format(answer=str(answer)))
    tree = {"a": [server.pid, int(answer.read_text())]}
    forked = machine.held(tree, 1.0)["a"].committed or 0
    assert 48 * MIB <= forked - alone < 60 * MIB
    server.do(f"more = b'x' * {16 * MIB}")
    held = machine.held(tree, 2.0)["a"]
    assert held.warm_at == 1.0  # not walked again
    assert 15 * MIB < (held.committed or 0) - forked < 20 * MIB
    server.do("import os; os.close(go); os.waitpid(child, 0)")
    assert abs((machine.held(tree, 3.0)["a"].committed or 0) - alone - 64 * MIB) < 12 * MIB


def test_this_machine() -> None:
    memory = LinuxMachine().read(0.0)
    assert memory.total is not None
    assert memory.available is not None
    assert 0 < memory.available <= memory.total
    if memory.host is not None:
        assert 0 < memory.host.programs + memory.host.kernel < memory.host.total


def test_a_calm_look_at_ten_models_costs_little(servers: list[Server]) -> None:
    machine = LinuxMachine()
    servers.extend(Server() for _ in range(10))
    trees = {f"model-{i}": [server.pid] for i, server in enumerate(servers)}
    machine.held(trees, 0.0)
    files = [f"/proc/{server.pid}/status" for server in servers]
    costs, bare = [], []
    for i in range(50):
        began = time.thread_time()
        machine.read(float(i))
        machine.held(trees, float(i))
        costs.append(time.thread_time() - began)
        began = time.thread_time()
        for file in files:
            Path(file).read_bytes()
        bare.append(time.thread_time() - began)
    # The best of many looks, since the machine that tests may be busy.
    assert min(costs) < 6 * min(bare)
