"""A home with a manifest, the tools of both platforms, and `reconcile service` run in this process."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from reconciler.cli import main
from reconciler.host.ask import Said, run_program
from service_tools import Tools

MANIFEST = """apiVersion: reconciler/v1
machine: {memory: 1000MiB}
models:
  chat: {engine: command, command: ["true", "${port}"], memory: {steady: 50MiB}, timeouts: {drain: 20s, stop: 4s}}
"""
Run = Callable[..., tuple[int, str, str]]


def unit(home: Path) -> Path:
    """Where the unit of a user lies."""
    return home / ".config/systemd/user/reconcile.service"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home with a manifest, where we stand."""
    home = tmp_path / "home"
    (home / "desk").mkdir(parents=True)
    (home / "desk/models.yaml").write_text(MANIFEST)
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/usr/bin:/bin")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "RECONCILE_STATE_DIR", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    """The tools of both platforms."""
    return Tools(tmp_path / "tools").install("systemctl", "loginctl", "launchctl")


@pytest.fixture(scope="session")
def proofs() -> dict[tuple[str, ...], Said]:
    """What the program that is recorded said when it was really run: once for all, as it starts a Python each time."""
    return {}


@pytest.fixture(autouse=True)
def proved_once(proofs: dict[tuple[str, ...], Said], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every installation after the first remember what the program said."""

    def remembered(argv: Sequence[str], timeout: float, *, env: Mapping[str, str], cwd: str) -> Said:
        key = (*argv, cwd)
        if key not in proofs:
            proofs[key] = run_program(argv, timeout, env=env, cwd=cwd)
        return proofs[key]

    monkeypatch.setattr("reconciler.service.plan.run_program", remembered)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `reconcile service ...` on the platform that is named; return exit code, stdout and stderr."""

    def service(*words: str, on: str = "linux") -> tuple[int, str, str]:
        monkeypatch.setattr("reconciler.cli.service._HERE", on)
        code = main(["service", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return service
