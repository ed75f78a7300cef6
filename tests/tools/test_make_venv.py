"""What makes `.venv`: when it installs, what it says when it cannot, and which Python is taken."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"

#: A stand-in for the Python of an environment: notes what pip was asked, and fails if told to.
PIP = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *--version*) exit 0;; esac
exit {status}
"""


class Checkout:
    """A copy of the tools beside a project of its own, with an environment whose pip is scripted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "pip.log"
        (folder / "tools").mkdir()
        for name in ("setup", "make_venv.py"):
            (folder / "tools" / name).write_bytes((TOOLS / name).read_bytes())
        (folder / "tools/setup").chmod(0o755)
        (folder / "pyproject.toml").write_text("[project]\n")
        (folder / "constraints.txt").write_text("pip==1\n")

    def script_pip(self, status: int = 0) -> None:
        python = self.folder / ".venv/bin/python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(PIP.format(log=self.log, status=status))
        python.chmod(0o755)

    def setup(self, *extras: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "tools/setup"), *extras],
            env={**os.environ, "PYTHON": sys.executable, **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[str]:
        """What pip was asked to install since the last look."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line for line in lines if " install " in line]

    def stamp(self) -> dict[str, Any]:
        stamp: dict[str, Any] = json.loads((self.folder / ".venv/reconciler-setup.json").read_text())
        return stamp


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    made.script_pip()
    return made


def test_it_installs_pinned_versions_once(checkout: Checkout) -> None:
    assert checkout.setup("llama").returncode == 0
    pip, project = checkout.asked()
    assert pip.endswith("--upgrade -c constraints.txt pip")
    assert project.endswith("-c constraints.txt --build-constraint constraints.txt -e .[llama]")
    again = checkout.setup("llama")
    assert (again.returncode, again.stdout, checkout.asked()) == (0, "", [])


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_change_installs_again(name: str, checkout: Checkout) -> None:
    checkout.setup("llama")
    checkout.asked()
    with (checkout.folder / name).open("a") as file:
        file.write("# changed\n")
    assert checkout.setup("llama").returncode == 0
    assert len(checkout.asked()) == 2


def test_extras_add_up(checkout: Checkout) -> None:
    checkout.setup("llama")
    checkout.setup("dev")
    assert checkout.asked()[-1].endswith("-e .[dev,llama]")
    assert checkout.setup("llama").stdout == ""


def test_a_failed_installation_is_said_and_tried_again(checkout: Checkout) -> None:
    checkout.script_pip(status=1)
    failed = checkout.setup("llama")
    assert failed.returncode == 1
    assert "Does pip reach its index" in failed.stderr
    assert "Traceback" not in failed.stderr
    checkout.script_pip()
    assert checkout.setup("llama").returncode == 0
    assert checkout.stamp()["extras"] == ["llama"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"repository": "/elsewhere"}, "it was made for another folder"),
        ({"python": "3.2 /opt"}, "it was made with Python 3.2 /opt"),
        (None, "the one there is incomplete"),
    ],
)
def test_what_cannot_be_used_is_made_anew_and_a_missing_part_is_named(
    change: dict[str, str] | None, why: str, checkout: Checkout
) -> None:
    checkout.setup("llama")
    if change is None:
        (checkout.folder / ".venv/bin/python").unlink()
    else:
        (checkout.folder / ".venv/reconciler-setup.json").write_text(json.dumps(checkout.stamp() | change))
    (checkout.folder / "sitecustomize.py").write_text("import sys\nsys.modules['ensurepip'] = None\n")
    failed = checkout.setup("llama", PYTHONPATH=str(checkout.folder))
    assert why in failed.stdout
    assert failed.returncode == 1
    assert f"apt install python{sys.version_info.major}.{sys.version_info.minor}-venv" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_an_old_python_is_refused_with_what_was_tried(checkout: Checkout) -> None:
    old = checkout.folder / "old-python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.18\nexit 1\n')
    old.chmod(0o755)
    failed = checkout.setup("llama", PYTHON=str(old))
    assert failed.returncode == 1
    assert f"{old}: Python 3.9.18" in failed.stderr
    assert "make run PYTHON=" in failed.stderr
    missing = checkout.setup("llama", PYTHON="/nowhere/python")
    assert "/nowhere/python: not found" in missing.stderr
