"""A process that ends is known to before its port is closed and its parent is told."""

import os
import socket

import pytest

from reconciler.host import ending
from reconciler.host.identity import LINUX
from slow_ending import slow_ending

pytestmark = pytest.mark.skipif(not LINUX, reason="only Linux tells that a process is ending")


@pytest.mark.parametrize("threads", [0, 1, 20])
def test_a_process_that_closes_what_it_had_open_is_ending(threads: int) -> None:
    with slow_ending(threads) as server:
        pid = server.process.pid
        assert not ending(pid)
        server.kill()
        assert ending(pid)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as late:
            assert ending(pid), "the system takes connections for it all the same"
            late.sendall(b"x")
            with pytest.raises(ConnectionResetError):
                late.recv(1)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert not ending(pid), "a zombie has nothing open any more"
        server.process.wait()
        assert not ending(pid), "there is no such process"


def test_one_that_lives_is_not() -> None:
    assert not ending(os.getpid())
    assert not ending(1)
    assert not ending(2), "a thread of the kernel has no memory of its own, and is not ending"
