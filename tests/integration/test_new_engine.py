"""A new engine is one file: the manifest, the plan, the start, the probe and the gateway take it as it is."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manager import CHAT, SOON, Manager
from support import FAKE

#: The whole of it. The folder it lies in is made a part of the package, as if it had been written there.
ENGINE = f'''
"""The engine `novel`."""

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight
from reconciler.engines import failures
from reconciler.engines.adapter import Adapter


class Novel(Adapter):
    """Serves whatever it is given."""

    name = "novel"
    roles = frozenset({{Role.CHAT}})
    weights = None
    owned = {{"--port": "port"}}
    known_failures = failures.known((r"out of (ink)", "it has no more {{0}}"))

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        return {tuple(FAKE)!r}

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        return ["--port", str(port), "--tag", spec.model]

    def sized(self, spec: LaunchSpec) -> Preflight:
        return Preflight(spec.model, steady=40 << 20, peak=50 << 20, build="novel 1")


ENGINE = Novel()
'''
RUN = (
    "import sys, reconciler.engines as package; package.__path__.append(sys.argv.pop(1)); "
    "from reconciler.cli import main; sys.exit(main())"
)


class WithOneFile(Manager):
    """A `reconcile` that finds one more engine beside its own."""

    def command(self, *options: str) -> list[str]:
        """Return the command line that runs the loop."""
        folder = self.root / "one-file"
        folder.mkdir(exist_ok=True)
        (folder / "novel_for_test.py").write_text(ENGINE)
        program = [sys.executable, "-P", "-c", RUN, str(folder)]
        return [*program, *super().command(*options)[1:]]


@pytest.fixture
def novel(tmp_path: Path) -> Iterator[WithOneFile]:
    with WithOneFile(tmp_path) as manager:
        yield manager


def test_it_runs_from_the_manifest_to_the_answer(novel: WithOneFile) -> None:
    model: dict[str, Any] = {"engine": "novel", "residency": "warm"}
    novel.write({"m": model})
    novel.start()
    [pid] = novel.wait_ready("m")
    assert pid in novel.ours()
    answer = novel.client.post(CHAT, json={"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    assert answer.status_code == 200
    assert answer.json()["choices"]
    refused = novel.client.post("/v1/embeddings", json={"model": "m", "input": "hi"})
    assert refused.json()["error"]["code"] == "wrong_role"
    # Its last words are read by the same file.
    novel.write({"m": {**model, "args": ["--exit", "3", "--last-words", "out of ink"]}})
    failed = novel.wait_condition("Degraded", "m", timeout=SOON)
    assert "it has no more ink" in failed["message"]


def test_its_settings_are_checked_where_they_stand(novel: WithOneFile) -> None:
    novel.write({"m": {"engine": "novel", "args": ["--port=1"], "weights": "w"}})
    done = novel.launch("--dry-run")
    assert done.wait(SOON) != 0
    said = novel.output.read_text()
    assert "novel takes no weights" in said
    assert "--port cannot be given here" in said
    novel.write({"m": {"engine": "novel", "residency": "warm"}})
    assert novel.launch("--dry-run").wait(SOON) == 0
    assert "+ m   needs 50 MiB -> 960 free   (Warm)" in novel.output.read_text()
