"""The desks of `examples/`: three manifests with their true sizes, and what happens on their machines, as text."""

import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from golden_files import assert_golden
from reconciler.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
STAND_INS: Final[Callable[[list[str]], int]] = runpy.run_path(str(EXAMPLES / "stand_ins.py"))["main"]
MACHINES = sorted(
    (desk.name, machine.stem)
    for desk in EXAMPLES.glob("desk-?")
    for machine in (desk / "machines").glob("*.yaml")
)


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All desks with stand-ins for their weights: no commit of this repository appears in what is printed."""
    folder = tmp_path_factory.mktemp("desks")
    for desk in sorted(EXAMPLES.glob("desk-?")):
        shutil.copytree(desk, folder / desk.name, ignore=shutil.ignore_patterns("weights", ".venv"))
        assert STAND_INS([str(folder / desk.name)]) == 0
    return folder


def test_there_are_three_desks_with_several_machines_each() -> None:
    assert {desk for desk, _ in MACHINES} == {"desk-a", "desk-b", "desk-c"}
    assert len(MACHINES) >= 9


def test_the_page_of_the_desks_names_every_machine_and_links_to_its_plan() -> None:
    page = (EXAMPLES / "desks.md").read_text()
    for desk, machine in MACHINES:
        assert f"[{desk}/{machine}]({desk}/machines/{machine}.yaml)" in page
        assert f"(../tests/golden/{desk}-{machine}.txt)" in page


@pytest.mark.parametrize(("desk", "machine"), MACHINES)
def test_the_plan(
    desks: Path, desk: str, machine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desks)
    words = [desk, "--dry-run", "--machine", f"{desk}/machines/{machine}.yaml", "--state-dir", "state"]
    assert main(words) == 0
    out = capsys.readouterr()
    assert_golden(f"{desk}-{machine}.txt", out.out + out.err)


@pytest.mark.parametrize("desk", ["desk-a", "desk-b", "desk-c"])
def test_the_budget_and_the_check(
    desks: Path, desk: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desks)
    there = ["--machine", f"{desk}/machines/morning.yaml"]
    assert main(["validate", desk, *there]) == 0
    out = capsys.readouterr()
    assert "cannot be started" not in out.err
    assert main(["budget", desk, *there, "--state-dir", "state"]) == 0
    assert_golden(f"{desk}-budget.txt", out.out + out.err + "\n" + capsys.readouterr().out)


def test_stand_ins_take_no_room_and_are_written_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLES / "desk-a" / "stand-ins.json", tmp_path)
    assert STAND_INS([str(tmp_path)]) == 0
    (model,) = tmp_path.glob("weights/**/*.gguf")
    assert model.stat().st_size > 8e9
    assert model.stat().st_blocks * 512 < 64e6
    assert STAND_INS([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("there")
