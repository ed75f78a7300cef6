"""How a process is started: exactly the argv, its directory, a cleaned environment, a session and a log of its own."""

import os
import stat
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from structlog.testing import capture_logs

from reconciler.core.launch import Limits
from reconciler.engines.base import Command
from reconciler.host import Process, StartError, alive, host, identify
from reconciler.host.identity import read_environ
from reconciler.host.spawn import child_environment, spawn
from support import FAKE, get_json, healthy

from .conftest import Bench

pytestmark = pytest.mark.anyio


async def test_argv_directory_and_environment_arrive_as_given(bench: Bench, tmp_path: Path) -> None:
    where = tmp_path / "a dir with blanks and ümläuts"
    where.mkdir()
    odd = ['{"a": "b c"}', "$HOME", "~", "*", "a;b", "", "two words", "\\", "'"]
    launched = await bench.start(
        *FAKE, "--port", "{port}", *odd, model="echo", cwd=str(where), GREETING="a=b c"
    )
    await bench.answers(launched.port)
    echo = get_json(f"http://127.0.0.1:{launched.port}/echo")
    assert echo["argv"][1:] == ["--port", str(launched.port), *odd]
    assert echo["cwd"] == str(where)
    assert echo["env"] == "a=b c"
    assert echo["pid"] == launched.process.pid


async def test_what_is_meant_for_us_alone_is_not_passed_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILE_API_KEY", "CANARY")
    monkeypatch.setenv("RECONCILER_LAUNCH", "of-another-manager")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    monkeypatch.setenv("KEPT", "yes")
    launched = await bench.serve()
    environ = read_environ(launched.process.pid)
    ours = sorted(
        entry for entry in map(bytes.decode, environ) if entry.startswith(("RECONCILE", "NOTIFY_", "KEPT"))
    )
    assert ours == [
        "KEPT=yes",
        f"RECONCILER_LAUNCH={launched.launch_id}",
        f"RECONCILER_OWNER={bench.host.owner}",
    ]
    assert f"PATH={os.environ['PATH']}".encode() in environ


def test_a_command_leaves_out_variables_of_ours_but_keeps_its_own() -> None:
    ours = {"A_ONE": "1", "A_TWO": "2", "BEST": "3", "RECONCILER_X": "4", "RECONCILE_API_KEY": "5"}
    command = Command(("x",), "/", {"A_TWO": "own"}, without=("A_", "NONE"))
    assert child_environment(ours, command, {"M": "m"}) == {"BEST": "3", "A_TWO": "own", "M": "m"}
    assert child_environment(ours, Command(("x",), "/"), {}).keys() == {"A_ONE", "A_TWO", "BEST"}


async def test_a_process_leads_its_own_session_reads_nothing_and_inherits_no_descriptor(bench: Bench) -> None:
    inheritable, other = os.pipe()
    os.set_inheritable(inheritable, True)
    try:
        launched = await bench.serve()
        pid = launched.process.pid
        assert os.getsid(pid) == pid  # so Ctrl-C in our terminal does not reach it
        files = open_files(pid)
    finally:
        os.close(inheritable)
        os.close(other)
    log = str(bench.host.logs.path("m"))
    assert files[0] == "/dev/null"
    assert [files[1], files[2]] == [log, log]
    assert not [target for target in files.values() if target.startswith("pipe:")]


async def test_the_log_is_private_and_tells_where_a_launch_begins(bench: Bench) -> None:
    launched = await bench.serve(model="m")
    path = bench.host.logs.path("m")
    text = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "--- start 20" in text
    assert f"launch {launched.launch_id}\n" in text
    assert f"--- pid {launched.process.pid} port {launched.port}\n" in text


async def test_the_identity_is_the_live_process(bench: Bench) -> None:
    launched = await bench.serve()
    assert identify(launched.process.pid) == launched.process
    await bench.host.stop(launched.process, launched.launch_id, grace=5)
    assert identify(launched.process.pid) is None
    assert not alive(launched.process)


def _script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "no-such-program-xyz",
            r"'no-such-program-xyz' is not on PATH \(.*\): install it or give its full path",
        ),
        ("/no/such/binary", r"program /no/such/binary does not exist: install it or correct the path"),
        ("./relative", r"program /.*/relative does not exist"),
        ("PLAIN", r"permission denied; make it executable: chmod \+x /.*/plain"),
        ("DIRECTORY", r"it is a directory, name the program in it"),
        ("LOST", r"the interpreter or loader it names does not exist"),
        ("TEXT", r"not a program for this machine; a script needs a first line like #!/bin/sh"),
        ("nul\0byte", r"a NUL character in its arguments"),
        ("", r"the command is empty: name the program to start"),
    ],
)
async def test_a_program_that_cannot_start_is_named_with_the_remedy(
    bench: Bench, tmp_path: Path, program: str, message: str
) -> None:
    made = {
        "PLAIN": _script(tmp_path / "plain", "#!/bin/sh\n", 0o644),
        "DIRECTORY": str(tmp_path),
        "LOST": _script(tmp_path / "lost", "#!/no/such/interpreter\n"),
        "TEXT": _script(tmp_path / "text", "\x01\x02 no program"),
    }
    command = Command((made.get(program, program), "--key=SECRET"), str(tmp_path))
    with pytest.raises(StartError, match=message) as caught:
        await bench.host.start(command, model="m", launch_id="none", port=1)
    assert "SECRET" not in str(caught.value)
    # The same sentence is what `logs` and error replies quote, so it is in the log, too.
    assert str(caught.value).replace("\0", "") in bench.host.logs.path("m").read_text().replace("\0", "")


async def test_a_missing_directory_is_not_taken_for_a_missing_program(bench: Bench) -> None:
    with pytest.raises(StartError, match="its working directory /no/such/dir does not exist"):
        await bench.host.start(Command(("sh",), "/no/such/dir"), model="m", launch_id="none", port=1)


async def test_a_slow_start_does_not_hold_up_the_event_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_went_on = threading.Event()

    def slow_spawn(command: Command, env: Mapping[str, str], output: int, group: Path | None) -> Process:
        assert loop_went_on.wait(5), "the event loop stood still during the start"
        return spawn(command, env, output, group)

    monkeypatch.setattr(host, "spawn", slow_spawn)
    async with anyio.create_task_group() as group:
        group.start_soon(bench.start, "sh", "-c", "exit 0")
        await anyio.lowlevel.checkpoint()
        loop_went_on.set()
    assert len(bench.launched) == 1


@pytest.mark.skipif(
    not Path("/proc/self/oom_score_adj").exists(), reason="the system knows no such preference"
)
async def test_the_kernel_would_end_a_model_that_loads_before_one_that_serves_and_both_before_us(
    bench: Bench,
) -> None:
    launched = await bench.shell("FAKE & sleep 30")
    assert scores([launched.process.pid]) == {800}
    await anyio.to_thread.run_sync(bench.host.serving, launched.process, launched.launch_id, Limits())
    pids = bench.host.tree(launched.process, launched.launch_id)
    assert len(pids) > 1
    assert scores(pids) == {300}
    assert max(scores([os.getpid()])) < 300


def scores(pids: Iterable[int]) -> set[int]:
    """What is added to the badness of these processes when the kernel has to end one."""
    return {int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in pids}


def open_files(pid: int) -> dict[int, str]:
    """What each descriptor of a process leads to; it may close one while it is looked at."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


async def test_a_model_is_started_without_a_log_where_none_can_be_written(bench: Bench) -> None:
    """No model goes for want of a log: many programs end when they cannot write theirs."""
    bench.state_dir.mkdir(exist_ok=True)
    (bench.state_dir / "logs").write_text("no directory")
    with capture_logs() as logs:
        launched = await bench.serve()
    assert [line["event"] for line in logs] == ["its log cannot be written: it is started without one"]
    assert await anyio.to_thread.run_sync(lambda: healthy(launched.port))
