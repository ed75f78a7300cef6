"""What a real loop does is seen as it happens, and afterwards: events that are followed, history, an export."""

import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

from manager import RECONCILE, SOON, Manager
from reconciler.simulate.trace_read import read_trace
from support import wait_for


class Following:
    """`reconcile events --follow --json`, and what it has said so far."""

    def __init__(self, manager: Manager, *options: str) -> None:
        command = [str(RECONCILE), "events", "-f", "--json", *options, "--state-dir", str(manager.state_dir)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        manager.others.append(self.process)
        self.kinds: list[tuple[str, str | None]] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.kinds.append((event["kind"], event["model"]))

    def end(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it said on stderr."""
        code = self.process.wait(SOON)
        self._thread.join(SOON)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with self.process.stdout, self.process.stderr as said:
            return code, said.read().decode()


def history(manager: Manager, model: str) -> dict[str, Any]:
    """Return the history of one model, as the command line tells it."""
    done = manager.cli("history", model, "--json")
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["models"]
    made: dict[str, Any] = found
    return made


def test_what_happens_is_seen_at_once_and_afterwards(manager: Manager, tmp_path: Path) -> None:
    manager.write(
        {"alpha": manager.fake("alpha", "--load", "0.3", aliases=["first"]), "beta": manager.fake("beta")}
    )
    manager.start()
    following = Following(manager)
    wait_for(lambda: ("manifest", None) in following.kinds, SOON, "the event of the manifest")
    assert manager.ask("alpha").status_code == 200
    wait_for(lambda: ("loaded", "alpha") in following.kinds, SOON, "the load of alpha, while it is followed")
    assert manager.cli("evict", "alpha").returncode == 0
    wait_for(lambda: ("evicted", "alpha") in following.kinds, SOON, "the end of alpha")
    assert manager.ask("first").status_code == 200

    def reloaded() -> bool:
        return bool(history(manager, "first")["loads"]["starts"]["count"] == 2)

    wait_for(reloaded, SOON, "both loads in the history")
    assert history(manager, "first")["evictions"]["count"] == 1
    assert "alpha" in manager.cli("history").stdout
    unknown = manager.cli("history", "alhpa")
    assert (unknown.returncode, "did you mean 'alpha'" in unknown.stderr) == (1, True)

    assert manager.stop() == 0
    assert following.end() == (0, "the loop has ended\n")
    assert following.kinds[-1] == ("evicted", "alpha")
    model = history(manager, "alpha")
    assert (model["arrivals"]["requests"], model["arrivals"]["cold"]) == (2, 2)
    assert model["loads"]["starts"]["last"] >= 0.3
    assert model["arrivals"]["longest"] >= 0.3
    export = tmp_path / "own.csv"
    assert manager.cli("history", "--export", str(export)).returncode == 0
    trace = read_trace(export)
    assert (len(trace), trace.models) == (2, ["alpha"])
    assert trace.at[0] < trace.at[1]
    shown = manager.cli("events", "--kind", "loaded").stdout.splitlines()
    assert len(shown) == 2


def test_a_request_is_in_the_history_as_soon_as_it_is_answered(manager: Manager, tmp_path: Path) -> None:
    manager.write({"alpha": manager.fake("alpha")})
    manager.start()
    export = tmp_path / "own.csv"
    for count in range(1, 6):  # far more often than batches are written
        assert manager.ask("alpha").status_code == 200
        assert history(manager, "alpha")["arrivals"]["requests"] == count
        assert manager.cli("history", "--export", str(export), "--force").returncode == 0
        assert len(read_trace(export)) == count
    row = export.read_text("utf-8").splitlines()[1].split(",")
    assert row[2:4] == ["1", "3"], "the tokens that the engine told"


def test_following_ends_with_ctrl_c_and_a_killed_loop_is_missed(manager: Manager) -> None:
    manager.write({"alpha": manager.fake("alpha")})
    manager.start()
    left, missed = Following(manager), Following(manager, "--kind", "manifest")
    for one in (left, missed):
        wait_for(lambda one=one: one.kinds, SOON, "the first event")  # type: ignore[misc]
    left.process.send_signal(signal.SIGINT)
    assert left.end() == (130, "")
    manager.kill()
    code, said = missed.end()
    assert (code, "whose events could be followed" in said) == (1, True)
