"""Real llama.cpp servers hold what was predicted of them, and never more. The benchmark `estimates` tries far more."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from llama_measured import MIB, Outcome, measure
from random_gguf import RandomModel, write_random
from reconciler.core.launch import LaunchSpec, LoadMode, Role
from reconciler.core.types import Reason
from reconciler.engines import registry
from reconciler.engines.llama import build as llama_build
from reconciler.engines.llama.estimate import Place
from support import free_port

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.engine

TINY = RandomModel("tiny", layers=2, embd=64, kv_heads=1, head=16, ffn=256, vocab=262)
GROUPED = RandomModel("grouped", layers=3, embd=512, heads=8, kv_heads=2, ffn=1024, vocab=64000, merges=True)
WINDOWED = RandomModel(
    "windowed", arch="gemma3", layers=6, kv_heads=1, head=128, vocab=8000, window=512, tied=True
)
REARRANGED = replace(GROUPED, name="rearranged", vocab=16000, merges=False, kind="q4_0")
MAMBA = RandomModel("mamba", arch="mamba", layers=4, embd=256, vocab=8000)

CASES = {
    "tiny, mapped": (TINY, LoadMode.MMAP, 8192, 1, ()),
    "grouped, mapped, four slots": (GROUPED, LoadMode.MMAP, 256, 4, ()),
    "grouped, read": (GROUPED, LoadMode.NONE, 768, 1, ()),
    "quantised cache": (WINDOWED, LoadMode.MMAP, 1024, 1, ("-ctk", "q8_0", "-ctv", "q4_0")),
    "without flash attention": (TINY, LoadMode.MMAP, 2048, 1, ("-fa", "off")),
    "windows, four slots": (WINDOWED, LoadMode.MMAP, 1024, 4, ()),
    "windows, one pool": (WINDOWED, LoadMode.MMAP, 1024, 2, ("-kvu",)),
    "rearranged weights": (REARRANGED, LoadMode.MMAP, 768, 1, ()),
    "a micro-batch as large as the batch": (TINY, LoadMode.MMAP, 2048, 1, ("-ub", "0")),
    "a batch as large as the context": (TINY, LoadMode.MMAP, 2048, 1, ("-b", "-1")),
    "states": (MAMBA, LoadMode.MMAP, 1024, 2, ()),
}


@pytest.fixture(autouse=True)
def embedded_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(llama_build, "place", lambda spec, settings, new: Place(cpu=True, new=new))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights")


def check(outcome: Outcome) -> None:
    figures = f"predicted {outcome.committed / MIB:.1f} + {outcome.mapped / MIB:.1f}, held {outcome.filled}"
    assert outcome.committed_is_right, figures
    assert outcome.sum_is_right, figures
    assert outcome.peak_is_covered, figures


@pytest.mark.parametrize("name", CASES)
def test_a_launch_holds_what_was_predicted(folder: Path, tmp_path: Path, name: str) -> None:
    model, mode, tokens, slots, args = CASES[name]
    path = folder / f"{model.name}.gguf"
    if not path.exists():
        write_random(model, folder)
    spec = LaunchSpec(
        "m",
        "llama.cpp",
        weights=str(path),
        context_tokens=tokens,
        slots=slots,
        load_mode=mode,
        cwd="/",
        args=args,
    )
    outcome = measure(spec, tokens - 8, tmp_path / "log")
    check(outcome)
    # What its own log says is what was worked out: to the byte but for the rounding of its figures.
    assert outcome.said is not None
    assert outcome.said.context_tokens == tokens * slots
    assert outcome.said.context is not None
    assert abs(outcome.said.context - (outcome.parts.context or 0)) < 0.02 * MIB
    assert outcome.said.weights is not None
    assert abs(outcome.said.weights - (outcome.parts.weights or 0)) < 0.1 * MIB
    assert outcome.said.compute is not None
    assert 0 <= (outcome.parts.compute or 0) - outcome.said.compute + 0.02 * MIB < 16 * MIB


def test_vectors_hold_the_results_of_a_whole_batch(folder: Path, tmp_path: Path) -> None:
    path = write_random(replace(GROUPED, name="vectors", layers=2, vocab=16000), folder)
    spec = LaunchSpec(
        "m",
        "llama.cpp",
        weights=str(path),
        role=Role.EMBEDDING,
        context_tokens=1024,
        cwd="/",
        args=("--pooling", "mean"),
    )
    outcome = measure(spec, 1016, tmp_path / "log")
    check(outcome)
    # Twice 16000 results for each of 1024 tokens: where they are computed, and where they are handed out.
    assert outcome.filled.committed > 2 * 16000 * 1024 * 4


REFUSED: dict[str, tuple[tuple[str, ...], int]] = {
    "quantised values without flash attention": (("-fa", "off", "-ctv", "q8_0"), 1),
    "heads that fill no block": (("-ctk", "q8_0"), 1),
    "a batch of one": (("-b", "1"), 1),
    "a batch smaller than the slots": (("-b", "8"), 16),
    "a model as projector": (("--mmproj", "tiny.gguf"), 1),
    "a model as adapter": (("--lora", "tiny.gguf"), 1),
    "a name that is none": (("-fa", "banana"), 1),
    "more slots than there are": ((), 257),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_would_really_end(folder: Path, tmp_path: Path, name: str) -> None:
    args, slots = REFUSED[name]
    weights = folder / "tiny.gguf"
    if not weights.exists():
        write_random(TINY, folder)
    spec = LaunchSpec(
        "m", "llama.cpp", weights=str(weights), context_tokens=256, slots=slots, cwd=str(folder), args=args
    )
    engine = registry.get("llama.cpp")
    assert engine.check(spec) or engine.preflight(spec).reason == Reason.NOT_STARTABLE
    command = engine.command(spec, free_port())
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(
            command.argv,
            cwd=command.cwd,
            env={**os.environ, **command.env},
            stdout=log,
            stderr=log,
            timeout=60,
        )
    assert done.returncode != 0
