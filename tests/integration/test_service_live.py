"""A service under a real systemd: the user's service manager, started for the test with a home of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager import SOON, Manager, Streaming
from support import wait_for

PROGRAMS = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
#: What means something to systemd, in a path.
ODD = "Käse 100% \"q\" 'q' $HOME \\x41 ; #"
BOOTED = Path("/run/systemd/system")
#: systemd starts no service manager of a user on a machine that was not started by it, which it tells by a folder. Root
#: can give it one that nobody else sees.
PRETEND = 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec "$0" "$@"'
#: Seconds a service may take to begin or end on a machine that is busy.
SLOW = 60.0


class Session:
    """A service manager of the user, and the environment in which it is spoken to."""

    def __init__(self, folder: Path) -> None:
        self.home, runtime = folder / "home", folder / "run"
        self.home.mkdir()
        runtime.mkdir(mode=0o700)
        self.env = {"HOME": str(self.home), "XDG_RUNTIME_DIR": str(runtime)}
        self.log = folder / "systemd.log"

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it; skip the test where it does not run."""
        program = next((p for p in PROGRAMS if Path(p).exists()), None)
        if program is None or shutil.which("systemctl") is None:
            pytest.skip("systemd is not installed (Debian: apt-get install systemd)")
        if not BOOTED.is_dir() and (os.geteuid() != 0 or shutil.which("unshare") is None):
            pytest.skip("this machine was not started by systemd, and pretending that it was needs root")
        pretend = [] if BOOTED.is_dir() else ["unshare", "--mount", "sh", "-c", PRETEND]
        with self.log.open("wb") as out:
            process = subprocess.Popen(
                [*pretend, program, "--user"],
                env={**os.environ, **self.env, "SYSTEMD_LOG_TARGET": "console"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline and process.poll() is None:
            if "Version=" in self.systemctl("show", "--property=Version").stdout:
                return process
            time.sleep(0.1)
        process.kill()
        process.wait()
        pytest.skip(
            f"no service manager of the user runs here: {self.log.read_text(errors='replace')[-300:]}"
        )

    def systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Ask or tell it something."""
        argv = ["systemctl", "--user", *words]
        return subprocess.run(
            argv, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=SLOW, check=False
        )

    def drop_in(self, lines: str) -> None:
        """Change the unit as its user would; it is read with the next `daemon-reload`."""
        folder = self.home / ".config/systemd/user/reconcile.service.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test.conf").write_text(f"[Service]\n{lines}")

    def property(self, name: str, unit: str = "reconcile") -> str:
        """Return what it says of the unit."""
        return self.systemctl("show", unit, f"--property={name}", "--value").stdout.strip()


@pytest.fixture(scope="module")
def alive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = Session(tmp_path_factory.mktemp("session"))
    process = made.start()
    yield made
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(SOON)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(SOON)


@pytest.fixture
def session(alive: Session) -> Iterator[Session]:
    yield alive
    alive.systemctl("stop", "reconcile")
    shutil.rmtree(alive.home / ".config", ignore_errors=True)  # what a test that failed has left
    alive.systemctl("daemon-reload")
    alive.systemctl("reset-failed", "reconcile")


def service(manager: Manager, *words: str, code: int = 0) -> str:
    argv = [sys.executable, "-m", "reconciler", "service", *words]
    done = subprocess.run(
        argv,
        cwd="/",
        env={**os.environ, **manager.env},
        capture_output=True,
        text=True,
        timeout=SLOW,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(240)
def test_a_service_lives_through_crashes_and_ends_in_order(session: Session, tmp_path: Path) -> None:
    with Manager(tmp_path / ODD, env=session.env) as manager:
        manager.write({"chat": manager.fake("chat", residency="warm")})
        listen = ("--listen", f"127.0.0.1:{manager.gateway_port}")
        install = ("install", str(manager.manifests), "--state-dir", str(manager.state_dir), *listen)
        said = service(manager, *install)
        main = int(session.property("MainPID"))
        assert f"reconcile is running (pid {main})\n" in said
        [model] = manager.wait_ready("chat")
        assert session.property("ExecMainPID") == str(main)
        assert int(Path(f"/proc/{main}/oom_score_adj").read_text()) <= 200, "models have 300 and more"

        began = time.monotonic()
        os.kill(main, signal.SIGKILL)
        wait_for(lambda: session.property("NRestarts") == "1", SLOW, "a start that nobody asked for")
        wait_for(lambda: session.property("ActiveState") == "active", SLOW, "a service that runs again")
        print(f"back after {time.monotonic() - began:.1f} s")
        assert manager.wait_ready("chat") == [model], "the model has served on, and is adopted"
        shown = json.loads(service(manager, "status", "--json"))
        assert (shown["restarts"], shown["last_exit"]) == (1, "killed by SIGKILL")
        assert (shown["current"], shown["enabled"]) == (True, True)
        wait_for(
            lambda: session.property("StatusText") == "1 of 1 model ready, 50 MiB of 1000 MiB",
            SLOW,
            "its status",
        )

        # It crashes and is stopped before it is started again: systemd alone would leave its models.
        os.kill(int(session.property("MainPID")), signal.SIGKILL)
        session.systemctl("stop", "reconcile")
        assert manager.ours() == [model]
        assert service(manager, "uninstall").endswith("ended the models that were left running: chat\n")
        assert manager.ours() == []
        assert session.property("LoadState") == "not-found"

        service(manager, *install)
        assert session.property("NRestarts") == "0"
        manager.wait_ready("chat")
        assert manager.cli("stop", timeout=SLOW).returncode == 0
        wait_for(lambda: session.property("ActiveState") == "inactive", SLOW, "an end that was asked for")
        assert manager.ours() == []
        service(manager, "status", code=1)
        assert session.systemctl("start", "reconcile").returncode == 0
        manager.wait_ready("chat")
        service(manager, "uninstall")
        assert manager.ours() == []
        assert session.property("LoadState") == "not-found"


@pytest.mark.timeout(240)
def test_a_hang_is_noticed_and_an_end_gets_the_time_that_it_says(session: Session, tmp_path: Path) -> None:
    with Manager(tmp_path / "desk", env=session.env) as manager:
        manager.write({"chat": manager.fake("chat", "--stream", "30", "--delay", "0.1", residency="warm")})
        listen = ("--listen", f"127.0.0.1:{manager.gateway_port}")
        session.drop_in("WatchdogSec=3\nTimeoutStopSec=1\n")
        service(manager, "install", str(manager.manifests), "--state-dir", str(manager.state_dir), *listen)
        [model] = manager.wait_ready("chat")
        main = int(session.property("MainPID"))
        # A calm loop turns every ten seconds by itself: twice the watchdog's time passes, and nothing happens.
        stream = Streaming(manager.url, "chat")
        assert stream.whole() == list(range(30))
        heard: set[str] = set()

        def beats() -> bool:
            heard.add(session.property("WatchdogTimestampMonotonic"))
            return len(heard) > 5

        wait_for(beats, SLOW, "a watchdog that is told five times")
        assert session.property("NRestarts") == "0"

        os.kill(main, signal.SIGSTOP)
        wait_for(lambda: session.property("NRestarts") == "1", SLOW, "a start after a hang")
        wait_for(lambda: session.property("ActiveState") == "active", SLOW, "a service that runs again")
        assert manager.wait_ready("chat") == [model]
        shown = json.loads(service(manager, "status", "--json"))
        assert shown["last_exit"] == "its loop hung and was ended by the watchdog"

        stream = Streaming(manager.url, "chat")
        began = time.monotonic()
        session.systemctl("stop", "reconcile")
        assert time.monotonic() - began > 2, "longer than TimeoutStopSec"
        assert stream.whole() == list(range(30)), "nothing is cut"
        shown = json.loads(service(manager, "status", "--json", code=1))
        assert shown["last_exit"] == "it was asked to stop"

        # It hangs when it is to end, and hears no signal but the last: the models go with it.
        session.drop_in("TimeoutStopSec=1\nKillSignal=SIGCONT\n")
        session.systemctl("daemon-reload")
        assert session.systemctl("start", "reconcile").returncode == 0
        manager.wait_ready("chat")
        session.systemctl("stop", "reconcile")
        assert manager.ours() == []
        shown = json.loads(service(manager, "status", "--json", code=1))
        assert shown["last_exit"] == "it took too long to start or to stop and was killed"
