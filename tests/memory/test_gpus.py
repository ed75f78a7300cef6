"""How many GPUs there are, told without a driver: enough to say that a number is nobody's."""

from pathlib import Path

import pytest

from linux_trees import write_files
from reconciler.memory.gpus import count_gpus

CARD = "sys/class/drm/card{}/device/vendor"
NVIDIA = "proc/driver/nvidia/gpus/0000:0{}:00.0/information"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 0),
        ({CARD.format(0): "0x1002\n"}, 1),
        ({CARD.format(0): "0x8086\n", CARD.format(1): "0x1002\n"}, 2),
        # An output of a card, and the display of a management board.
        ({CARD.format("0-HDMI-A-1"): "0x1002\n", CARD.format(1): "0x1a03\n"}, 0),
        # NVIDIA's driver may or may not show its GPUs as cards, too.
        ({NVIDIA.format(1): "Model: A\n", NVIDIA.format(2): "Model: B\n"}, 2),
        ({NVIDIA.format(1): "Model: A\n", CARD.format(0): "0x10de\n"}, 1),
        ({NVIDIA.format(1): "Model: A\n", CARD.format(0): "0x10de\n", CARD.format(1): "0x8086\n"}, 2),
        # nouveau
        ({CARD.format(0): "0x10de\n", CARD.format(1): "0x10de\n"}, 2),
        ({CARD.format(0): ""}, 0),
        # Windows, and boards whose GPU is no card, show nothing.
        ({"dev/dxg": ""}, None),
        ({"proc/meminfo": "MemTotal: 4 kB\nNvMapMemUsed:  0 kB\n"}, None),
    ],
)
def test_count(files: dict[str, str], count: int | None, tmp_path: Path) -> None:
    assert count_gpus(write_files(tmp_path, files)) == count
