"""Install and uninstall, against tools that write down how they were called."""

import json
import os
import plistlib
import pwd
import stat
import sys
from pathlib import Path

import pytest

from golden_files import assert_golden
from reconciler import __version__
from reconciler.cli import main
from reconciler.host import StateLock
from reconciler.service.launchd import Launchd
from reconciler.service.systemd import Systemd
from service_tools import Tools

from .conftest import MANIFEST, Run, unit

#: 30 s once; 20 s of drain, 4 s to stop, 0.5 s and 10 s to kill, 5 s, of the one model.
STOP_SECONDS = 70


def agent(home: Path) -> Path:
    return home / "Library/LaunchAgents/local.reconciler.reconcile.plist"


@pytest.mark.parametrize("verb", ["install", "uninstall", "status"])
def test_help(run: Run, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert_golden(f"help-service-{verb}.txt", run(verb, "--help")[1])


def test_a_service_of_the_user_comes_and_goes(home: Path, tools: Tools, run: Run) -> None:
    path = unit(home)
    code, out, err = run("install", "desk", "--listen", "127.0.0.1:8099")
    assert (code, err) == (0, "")
    assert out == f"wrote {path}\nreconcile is running (pid {os.getpid()})\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert (
        f'"{home}/desk" "--state-dir" "{home}/.local/state/reconciler" "--listen" "127.0.0.1:8099"\n' in text
    )
    assert f"TimeoutStopSec={STOP_SECONDS}\n" in text
    assert f'Environment="PATH={os.environ["PATH"]}"\n' in text
    assert not (home / ".local").exists(), "the state directory is the service's to make"
    assert tools.calls() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable reconcile.service",
        "systemctl --user start reconcile.service",
    ]
    assert run("install", "desk", "--listen", "127.0.0.1:8099")[1].startswith(f"{path} is as it should be\n")
    assert "systemctl --user restart reconcile.service" not in tools.calls()

    code, out, err = run("install", "desk")
    assert out.startswith(f"changed {path}\n--- {path} (now)\n+++ {path} (new)\n")
    assert '-ExecStart="' in out
    assert '+ExecStart="' in out
    assert "settings: {" not in out
    assert tools.calls()[-1] == "systemctl --user restart reconcile.service"

    code, out, err = run("uninstall")
    assert (code, out, err) == (0, f"stopped reconcile and removed {path}\n", "")
    assert list(path.parent.iterdir()) == []
    assert tools.calls() == [
        "systemctl --user disable --now reconcile.service",
        "systemctl --user daemon-reload",
        "systemctl --user reset-failed reconcile.service",
    ]
    assert run("uninstall") == (0, f"reconcile is not installed: there is no {path}\n", "")
    assert tools.calls() == []


def test_an_agent_of_launchd_comes_and_goes(home: Path, tools: Tools, run: Run) -> None:
    path, uid = agent(home), os.getuid()
    target = f"gui/{uid}/local.reconciler.reconcile"
    code, out, err = run("install", "desk", on="macos")
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {path}\nreconcile is running (pid {os.getpid()})\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert (home / "Library/Logs").is_dir()
    assert tools.calls() == [f"launchctl enable {target}", f"launchctl bootstrap gui/{uid} {path}"]
    run("install", "desk", on="macos")
    assert tools.calls() == [f"launchctl enable {target}"]
    run("install", "desk", "--listen", "127.0.0.1:8099", on="macos")
    assert tools.calls() == [
        f"launchctl bootout {target}",
        f"launchctl enable {target}",
        f"launchctl bootstrap gui/{uid} {path}",
    ]
    code, out, _ = run("status", "--json", on="macos")
    shown = json.loads(out)
    assert (code, shown["manager"], shown["state"], shown["pid"]) == (0, "launchd", "running", os.getpid())
    assert (shown["current"], shown["restarts"], shown["last_exit"]) == (True, 0, None)
    tools.say(job={"state": "spawn scheduled", "runs": "3", "last exit code": "1"})
    code, out, _ = run("status", "--json", on="macos")
    shown = json.loads(out)
    assert (code, shown["state"], shown["restarts"], shown["last_exit"]) == (
        1,
        "restarting",
        2,
        "exit status 1",
    )
    tools.calls()
    assert run("uninstall", on="macos")[0] == 0
    assert tools.calls() == [f"launchctl bootout {target}"]
    assert not path.exists()


def test_no_start_leaves_it_stopped(home: Path, tools: Tools, run: Run) -> None:
    tools.say(
        unit={"ActiveState": "inactive", "SubState": "dead", "UnitFileState": "disabled", "MainPID": "0"}
    )
    assert "reconcile is stopped\n" in run("install", "desk", "--no-start")[1]
    assert tools.calls() == ["systemctl --user daemon-reload", "systemctl --user enable reconcile.service"]
    run("install", "desk", "--no-start", on="macos")
    assert tools.calls() == []
    assert agent(home).exists()


@pytest.mark.parametrize("on", ["linux", "macos"])
def test_print_touches_nothing(home: Path, tools: Tools, run: Run, on: str) -> None:
    code, out, err = run("install", "desk", "--print", "--platform", on)
    assert (code, err) == (0, "")
    assert ("[Service]" in out) is (on == "linux")
    assert ("<plist" in out) is (on == "macos")
    code, system, err = run("install", "desk", "--print", "--platform", on, "--system", "--run-as", "daemon")
    assert (code, err) == (0, "")
    assert ("User=daemon\n" if on == "linux" else "<string>daemon</string>") in system
    folder = {"linux": ".local/state/reconciler", "macos": "Library/Application Support/reconciler"}[on]
    assert f"{pwd.getpwnam('daemon').pw_dir}/{folder}" in system
    assert tools.calls(asking=True) == []
    assert sorted(p.name for p in home.rglob("*")) == ["desk", "models.yaml"]


def test_a_file_of_somebody_else_stays(home: Path, tools: Tools, run: Run) -> None:
    path = unit(home)
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/bin/true\n")
    for words in (["install", "desk"], ["uninstall"]):
        code, out, err = run(*words)
        assert (code, out) == (1, "")
        assert f"{path} was not written by reconcile: it stays as it is" in err
    code, out, _ = run("status")
    assert code == 1
    assert "somebody else's" in out
    assert path.read_text() == "[Service]\nExecStart=/bin/true\n"
    assert tools.calls() == []
    assert run("install", "desk", "--name", "desk-2")[0] == 0
    assert path.with_name("desk-2.service").exists()


def test_a_broken_manifest_is_refused_as_validate_does(home: Path, tools: Tools, run: Run) -> None:
    (home / "desk/models.yaml").write_text(MANIFEST.replace("engine:", "engin:"))
    assert main(["validate", "desk"]) == 1
    code, out, err = run("install", "desk")
    assert (code, out) == (1, "")
    assert "desk/models.yaml:4:10: error: unknown key" in err
    assert not unit(home).exists()
    assert tools.calls(asking=True) == []


def test_the_manifest_is_read_with_the_variables_of_the_service(
    home: Path, tools: Tools, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "desk/models.yaml").write_text(MANIFEST.replace("1000MiB", '"${env:DESK_MEMORY}"'))
    monkeypatch.setenv("DESK_MEMORY", "900MiB")
    assert main(["validate", "desk"]) == 0
    code, _, err = run("install", "desk")
    assert code == 1
    assert "the environment variable DESK_MEMORY is not set" in err
    assert "keep those that are no secrets with --env NAME" in err
    assert run("install", "desk", "--env", "DESK_MEMORY")[0] == 0
    assert 'Environment="DESK_MEMORY=900MiB"\n' in unit(home).read_text()
    monkeypatch.delenv("DESK_MEMORY")
    assert json.loads(run("status", "--json")[1])["current"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--env", "HF_TOKEN"], "by its name it is a secret"),
        (["--env", "NOT_SET"], "there is no such variable here"),
        (["--listen", "0.0.0.0:80"], "write a loopback address"),
        (["--name", "../x"], "is no name for a service"),
        (["--system", "--run-as", "nobody-there", "--print"], "there is no user nobody-there here"),
    ],
)
def test_what_cannot_be_is_refused(
    home: Path, tools: Tools, run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_CANARY")
    code, out, err = run("install", "desk", *words)
    assert (code, out) == (1, "")
    assert said in err
    assert "CANARY" not in err
    assert not unit(home).exists()


@pytest.mark.parametrize("words", [["--run-as", "ann"], ["--platform", "linux"]])
def test_options_that_need_another(home: Path, run: Run, words: list[str]) -> None:
    assert run("install", "desk", *words)[0] == 64


def test_a_service_of_the_system_needs_root(
    home: Path, tools: Tools, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = pwd.getpwuid(os.getuid())
    monkeypatch.setattr("pwd.getpwuid", lambda _uid: me)
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    for words in (["install", "desk", "--system"], ["uninstall", "--system"]):
        code, out, err = run(*words)
        assert (code, out) == (1, "")
        assert (
            err == "error: --system needs root: run it with sudo, or leave it out for a service of your own\n"
        )
    assert tools.calls(asking=True) == []


def test_where_things_of_the_system_lie(tmp_path: Path, tools: Tools, home: Path) -> None:
    unit = Systemd("desk", system=True, home=home, root=tmp_path)
    assert (unit.path, unit.mode) == (tmp_path / "etc/systemd/system/desk.service", 0o644)
    unit.reach()
    assert unit.hints() == ()
    assert tools.calls(asking=True) == ["systemctl show --property=Version"]
    daemon = Launchd("desk", system=True, home=home, root=tmp_path)
    assert daemon.path == tmp_path / "Library/LaunchDaemons/local.reconciler.desk.plist"
    daemon.reach()
    assert tools.calls(asking=True) == ["launchctl print system"]


def test_lingering_is_hinted_at_while_it_is_off(home: Path, tools: Tools, run: Run) -> None:
    tools.say(linger="no")
    assert run("install", "desk")[1].endswith("on: loginctl enable-linger\n")


def test_a_loop_that_runs_already_keeps_its_state_directory(home: Path, tools: Tools, run: Run) -> None:
    state = home / "state"
    tools.say(pid=1)
    with StateLock(state):
        code, out, err = run("install", "desk", "--state-dir", "state")
        assert (code, out) == (1, "")
        assert (
            f"a loop runs already (pid {os.getpid()}) with the state directory {state}: end it first" in err
        )
        assert run("install", "desk", "--state-dir", "state", "--no-start")[0] == 0
    assert run("install", "desk", "--state-dir", "state")[0] == 0


def test_an_older_version_that_still_runs_is_said(home: Path, tools: Tools, run: Run) -> None:
    run("install", "desk", "--state-dir", "state")
    (home / "state").mkdir()
    (home / "state/run.json").write_text(json.dumps({"version": __version__}))
    assert "it still runs" not in run("install", "desk", "--state-dir", "state")[1]
    (home / "state/run.json").write_text(json.dumps({"version": "0.0.9"}))
    said = run("install", "desk", "--state-dir", "state")[1]
    assert said.endswith(
        f"it still runs version 0.0.9, this is {__version__}: systemctl --user restart reconcile\n"
    )


def test_a_daemon_of_a_mac_is_told_its_home(home: Path, tools: Tools, run: Run) -> None:
    words = ("install", "desk", "--print", "--system", "--run-as", "daemon", "--platform")
    read = plistlib.loads(run(*words, "macos")[1].encode())
    assert read["EnvironmentVariables"]["HOME"] == pwd.getpwnam("daemon").pw_dir
    assert "HOME=" not in run(*words, "linux")[1], "systemd tells it"


def test_a_program_that_does_not_run_from_elsewhere_is_not_installed(
    home: Path, tools: Tools, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = home / "python"
    program.write_text("#!/bin/sh\necho No module named reconciler >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    code, out, err = run("install", "desk")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {program} does not run reconcile from another folder (No module named")
    assert not unit(home).exists()
    assert tools.calls() == []
