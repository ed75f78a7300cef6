"""Pressure stall information: the worst of machine and own group, and files that say nothing."""

from pathlib import Path

import pytest

from linux_trees import write_files
from reconciler.memory.psi import Pressure, read_pressure

CALM = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
BUSY = "some avg10=12.50 avg60=3.00 avg300=0.10 total=1085389\nfull avg10=4.25 avg60=1.00 avg300=0.00 total=613427\n"
STUCK = "some avg10=100.00 avg60=1.00 avg300=0.00 total=9\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=8\n"


@pytest.mark.parametrize(
    ("machine", "group", "expected"),
    [
        (CALM, None, Pressure(0.0, 0.0)),
        (BUSY, None, Pressure(12.5, 4.25)),
        (CALM, BUSY, Pressure(12.5, 4.25)),
        (STUCK, BUSY, Pressure(100.0, 4.25)),
        (None, BUSY, Pressure(12.5, 4.25)),
        (None, None, Pressure(None, None)),
    ],
)
def test_the_worst_counts(tmp_path: Path, machine: str | None, group: str | None, expected: Pressure) -> None:
    texts = {"machine": machine, "group": group}
    write_files(tmp_path, {name: text for name, text in texts.items() if text is not None})
    assert read_pressure([tmp_path / "machine", tmp_path / "group"]) == expected


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "banana\n",
        CALM.replace("some avg10=0.00", "some avg10=-1.00"),
        CALM.replace("some avg10=0.00", "some avg10=100.01"),
        CALM.replace("some avg10=0.00", "some avg10=nan"),
        CALM.partition("\n")[0] + "\n",
    ],
)
def test_garbage_is_unknown_and_said(tmp_path: Path, garbage: str) -> None:
    write_files(tmp_path, {"machine": garbage, "group": BUSY})
    alone = read_pressure([tmp_path / "machine"])
    assert (alone.some, alone.full) == (None, None)
    assert len(alone.problems) == 1
    assert "machine cannot be understood" in alone.problems[0]
    assert read_pressure([tmp_path / "machine", tmp_path / "group"]).some == 12.5


def test_a_file_that_the_kernel_refuses_says_nothing(tmp_path: Path) -> None:
    assert (
        read_pressure([tmp_path]) == Pressure()
    )  # reading a folder fails as a pressure file does with psi=0
