"""The limit of open files: raised for us, and not for what we start."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.host import files

#: Starts with a soft limit of 300, raises it, starts a program as the host does, and says all three limits.
PROGRAM = """
import os, resource, sys
from pathlib import Path
from reconciler.engines.base import Command
from reconciler.host import files
from reconciler.host.spawn import spawn

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
print(files.attainable(), files.take_more(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
assert files.take_more() == files.attainable(), "a second call changes nothing"
read, write = os.pipe()
script = "until [ -e $0 ]; do :; done; ulimit -Sn"
process = spawn(Command(("/bin/sh", "-c", script, sys.argv[1]), "/"), dict(os.environ), write)
Path(sys.argv[1]).touch()
os.waitpid(process.pid, 0)
print(os.read(read, 100).decode().strip())
"""


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="nobody can set the limits of another process")
def test_we_take_what_we_may_and_give_back_what_we_got(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = files.ENOUGH if hard == resource.RLIM_INFINITY else min(files.ENOUGH, hard)
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "go")],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert said.stdout.split() == [str(most)] * 3 + ["300"]


def limits(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, *, refuses: bool = False) -> list[int]:
    """Play a process with these limits; return what it is set to."""
    now = [soft]

    def set_limit(_kind: int, wanted: tuple[int, int]) -> None:
        if refuses:
            raise ValueError("not allowed to raise maximum limit")
        now[0] = wanted[0]

    monkeypatch.setattr(files, "_given", None)
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (now[0], hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    return now


INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("platform", "soft", "hard", "expected"),
    [
        ("linux", 1024, 4096, 4096),
        ("linux", 1024, 1 << 20, 65536),
        ("linux", 1024, INFINITE, 65536),
        ("linux", 100_000, 1 << 20, 100_000),
        ("linux", 4096, 4096, 4096),
        ("darwin", 256, INFINITE, 10240),
        ("darwin", 20_000, INFINITE, 20_000),
    ],
)
def test_how_far_it_is_raised(
    platform: str, soft: int, hard: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = limits(monkeypatch, soft, hard)
    monkeypatch.setattr(sys, "platform", platform)
    assert files.take_more() == expected
    assert now == [expected]


def test_a_system_that_refuses_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    now = limits(monkeypatch, 256, INFINITE, refuses=True)
    assert files.take_more() == 256
    assert now == [256]
