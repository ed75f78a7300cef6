"""Whose logs are removed while a manager runs, and when."""

from pathlib import Path

import pytest

from reconciler.host import Logs, Process
from reconciler.host.logs import HEAD_BYTES
from reconciler.loop.launches import Launch
from reconciler.loop.log_keeper import LogKeeper

pytestmark = pytest.mark.anyio


def running(model: str) -> Launch:
    return Launch("id", model, "digest", None, Process(1, 1), 9000, 0.0)


async def test_the_logs_of_a_model_that_left_go_once_its_process_has_ended(tmp_path: Path) -> None:
    logs = Logs(tmp_path, 4 * HEAD_BYTES)
    for model in ("stays", "leaves", "gone"):
        for file in logs.files(model):
            file.write_text("its words\n")
    keeper = LogKeeper(logs)

    def left() -> set[str]:
        return {model for model in ("stays", "leaves", "gone") if any(f.exists() for f in logs.files(model))}

    await keeper.look(["stays"], [running("leaves")], calm=False)
    assert left() == {"stays", "leaves", "gone"}, "the last words may still be told"
    await keeper.look(["stays"], [running("leaves")], calm=True)
    assert left() == {"stays", "leaves"}, "what an earlier run left, and not of one that runs"
    await keeper.look(["stays"], [], calm=True)
    assert left() == {"stays"}
    assert all(file.exists() for file in logs.files("stays"))


async def test_a_folder_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs", 4 * HEAD_BYTES)
    keeper = LogKeeper(logs)
    await keeper.look(["m"], [], calm=True)  # there is none
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "other.log").mkdir()  # nothing of ours
    await keeper.look(["n"], [], calm=True)
    assert (tmp_path / "logs" / "other.log").is_dir()
