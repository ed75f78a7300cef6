"""A class whose state is saved and restored in a real worker: what it does wrong costs its state, never the model."""

import os
from pathlib import Path
from typing import Final

import pytest

from manager import SOON, Manager, running
from support import wait_for

CLASS: Final = '''
import os
import time

DO = os.environ["DO"]


class Counter:
    """Counts the calls; its state is their number."""

    def __init__(self):
        self.count, self.folder = 0, None

    def probe(self):
        return True

    def embed(self, texts):
        self.count += 1
        return [[float(self.count)] for _ in texts]

    def save_state(self, folder):
        with open(os.path.join(folder, "count"), "w") as out:
            out.write(str(self.count))
        if DO == "floods":
            with open(os.path.join(folder, "flood"), "wb", buffering=0) as out:
                while True:
                    out.write(bytes(1 << 16))
                    time.sleep(0.001)
        if DO == "replaces":
            os.rename(folder, folder + ".old")
            os.symlink(os.environ["MINE"], folder)
        self.folder = folder

    def load_state(self, folder):
        if DO == "dies":
            os._exit(7)
        with open(os.path.join(folder, "count")) as found:
            self.count = int(found.read())

    def close(self):
        if DO == "writes late" and self.folder:
            with open(os.path.join(self.folder, "count"), "a") as out:
                out.write("0")
'''


class Worker:
    """One model of the class above, which does as its name says."""

    def __init__(self, manager: Manager, does: str) -> None:
        self.manager, self.does, self.name = manager, does, does.replace(" ", "-")

    def entry(self, folder: Path, mine: Path) -> dict[str, object]:
        """Return its entry in the manifest."""
        return {
            "engine": "python",
            "entry": "counter:Counter",
            "role": "embedding",
            "cwd": str(folder),
            "env": {"DO": self.does, "MINE": str(mine)},
            "memory": {"steady": "50MiB"},
            "state": {"save": True, "timeout": "20s", "max": "8MiB"},
        }

    def ask(self) -> float | None:
        """Return which call it says this is, or None if it cannot be had now."""
        body = {"model": self.name, "input": "x"}
        answer = self.manager.client.post("/v1/embeddings", json=body)
        return float(answer.json()["data"][0]["embedding"][0]) if answer.status_code == 200 else None

    def evict(self) -> str:
        """Have it unloaded; return what became of its state."""
        assert self.manager.client.post(f"/api/v1/models/{self.name}/evict").status_code == 202
        note: str = self.manager.wait_model(self.name, state="cold")["saved"]["note"]
        return note

    def reasons(self, kind: str) -> list[str]:
        """Return what was told of it."""
        return [text for _, text in self.manager.events(kind, self.name)]

    @property
    def files(self) -> Path:
        """Where its state lies."""
        return self.manager.state_dir / "states" / self.name / "files"


@pytest.fixture
def workers(manager: Manager, tmp_path: Path) -> dict[str, Worker]:
    """One model for each thing that a class may do, none of them loaded."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "count").write_text("mine")
    (mine / "count").chmod(0o644)
    (tmp_path / "counter.py").write_text(CLASS)
    does = ("nothing wrong", "dies", "floods", "replaces", "writes late")
    made = {each: Worker(manager, each) for each in does}
    manager.write({w.name: w.entry(tmp_path, mine) for w in made.values()})
    manager.start()
    return made


def test_what_a_class_does_wrong_costs_its_state_and_not_the_model(
    workers: dict[str, Worker], tmp_path: Path
) -> None:
    good = workers["nothing wrong"]
    assert [good.ask(), good.ask()] == [1.0, 2.0]
    assert good.evict().startswith("state saved: ")
    assert good.ask() == 3.0

    flood = workers["floods"]
    assert flood.ask() == 1.0
    [pid] = flood.manager.wait_ready(flood.name)
    assert "more than state.max or machine.state_disk allows" in flood.evict()
    assert not running(pid)
    assert os.listdir(flood.files) == []
    assert flood.ask() == 1.0

    replaces = workers["replaces"]
    assert replaces.ask() == 1.0
    assert "the folder it was given is none any more" in replaces.evict()
    assert replaces.ask() == 1.0
    mine = tmp_path / "mine" / "count"
    assert (mine.read_text(), mine.stat().st_mode & 0o777) == ("mine", 0o644)
    assert (os.listdir(replaces.files.parent), replaces.files.is_symlink()) == (["files"], False)

    late = workers["writes late"]
    assert late.ask() == 1.0
    assert late.evict() == "state not saved: count was written to after its save had ended"
    assert os.listdir(late.files) == []
    assert late.ask() == 1.0

    # It does not survive its restore: the load fails, and comes up cold the next time.
    dies = workers["dies"]
    assert [dies.ask(), dies.ask()] == [1.0, 2.0]
    assert dies.evict().startswith("state saved: ")
    assert wait_for(dies.ask, 2 * SOON, "an answer") == 1.0
    assert len(dies.reasons("cold-start")) == 1
    assert dies.reasons("state-restored") == []
    assert os.listdir(dies.files) == []
