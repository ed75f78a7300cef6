"""`speeds` and `disk` of a machine file: what is read from them. Their faults: tests/cli/test_described_machine.py."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.manifest.machine_file import DescribedMachine, load_machine
from reconciler.manifest.speed_part import SpeedPart

HEAD = "apiVersion: reconciler/v1\nmemory: 64GiB\n"


def read(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> DescribedMachine:
    file = tmp_path / "machine.yaml"
    file.write_text(HEAD + text)
    return load_machine(file, {"big": None, "small": None}, environ or {})


def test_speeds_are_durations_and_tokens_a_second(tmp_path: Path) -> None:
    machine = read(
        tmp_path,
        "speeds:\n  big: {load: 1m17.5s, evict: 2.5, prompt: 350, output: 8.5, fixed: 50ms}\n  small: {load: 12}\n",
    )
    assert machine.speeds == {
        "big": SpeedPart(load=77.5, evict=2.5, prompt=350, output=8.5, fixed=0.05),
        "small": SpeedPart(load=12.0),
    }
    assert machine.speeds["small"].prompt is None, "what is not said is not made up here"


@pytest.mark.parametrize(
    ("text", "rate"), [("", 3 * 10**9), ("disk: 500MB\n", 5 * 10**8), ("disk: 1GiB\n", 1 << 30)]
)
def test_the_disk_reads_three_gigabytes_a_second_unless_it_is_said(
    tmp_path: Path, text: str, rate: int
) -> None:
    assert read(tmp_path, text).disk == rate


def test_rates_may_come_from_the_environment(tmp_path: Path) -> None:
    text = 'speeds: {big: {output: "${env:RATE}", load: "${env:TIME}"}}\n'
    speed = read(tmp_path, text, {"RATE": "12.5", "TIME": "3s"}).speeds["big"]
    assert (speed.output, speed.load) == (12.5, 3.0)
