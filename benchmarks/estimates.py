"""The size that is predicted of a llama.cpp model before it is loaded, against what the process then holds.

Real servers on generated weights of many shapes, load modes, contexts and slots; each works until its context is full.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks import REPOSITORY
from benchmarks.report import Figure, progress
from llama_measured import MIB, Outcome, measure
from random_gguf import RandomModel, write_random
from reconciler.core.launch import LaunchSpec, LoadMode, Role

_WEIGHTS: Final = REPOSITORY / "weights"
_ALL: Final = (LoadMode.MMAP, LoadMode.NONE, LoadMode.MLOCK)
#: Bytes of weights x tokens that one launch is worth: some seconds on two cores.
_WORK: Final = 100_000_000_000
#: Tokens that llama.cpp computes at once.
_BATCH: Final = 512
_TWO: Final = (LoadMode.MMAP, LoadMode.NONE)
_HEADINGS: Final = (
    "model",
    "weights",
    "mode",
    "context x slots",
    "committed: predicted",
    "measured",
    "with mapped: predicted",
    "measured ",
    "peak: predicted",
    "measured  ",
    "",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One model and the launches that are tried of it: tokens of each slot, slots."""

    model: RandomModel | Path
    launches: tuple[tuple[int, int], ...]
    modes: tuple[LoadMode, ...] = _ALL
    role: Role = Role.CHAT
    args: tuple[str, ...] = ()
    #: What it holds depends on how many tokens there really are: the context is filled whatever that takes.
    whole: bool = False

    @property
    def name(self) -> str:
        """For people."""
        own = self.model.name if isinstance(self.model, RandomModel) else self.model.parts[-4]
        return " ".join((own, *self.args))


def cases() -> tuple[Case, ...]:
    """Return what is measured: fourteen generated shapes, and real models where they have been fetched."""
    tiny = RandomModel("tiny", layers=2, embd=64, kv_heads=1, head=16, ffn=256, vocab=262)
    mha = RandomModel("all heads kept", layers=8, embd=512, heads=8, kv_heads=8, ffn=1408, vocab=32000)
    gqa = RandomModel("grouped heads", layers=16, embd=1024, heads=16, ffn=2816, vocab=32000)
    deep = RandomModel("deep", layers=48, embd=512, heads=8, kv_heads=4, ffn=1408, vocab=32000)
    windowed = replace(
        gqa, name="windowed", arch="gemma3", layers=6, embd=640, heads=4, kv_heads=1, head=256, ffn=2048
    )
    windowed = replace(windowed, window=512, vocab=64000, tied=True)
    wide_window = replace(windowed, name="windowed q8_0", embd=1152, ffn=6912, window=1024, kind="q8_0")
    heads = RandomModel("wide heads", arch="qwen3", layers=8, embd=1024, heads=16, kv_heads=2, head=128)
    heads = replace(heads, ffn=3072, vocab=151936, merges=True, tied=True)
    f32 = RandomModel("f32", layers=6, embd=768, heads=12, kv_heads=12, ffn=2048, vocab=50000, merges=True)
    q8 = replace(heads, name="q8_0", layers=12, vocab=100000, kind="q8_0", tied=False)
    q4 = replace(gqa, name="q4_0, rearranged", layers=12, kind="q4_0")
    experts = RandomModel("16 experts", layers=8, embd=512, heads=8, kv_heads=2, ffn=512, vocab=32000)
    mamba = RandomModel("mamba", arch="mamba", layers=12, embd=768, vocab=50000, merges=True)
    hybrid = RandomModel("lfm2 (hybrid)", arch="lfm2", layers=12, embd=1024, heads=16, ffn=4096)
    large = RandomModel(
        "2 GB", layers=16, embd=2048, heads=32, kv_heads=8, ffn=8192, vocab=49152, merges=True
    )
    vectors = replace(mha, name="vectors", layers=4, context=8192)
    return (
        Case(tiny, ((512, 1), (4096, 1), (8192, 4))),
        Case(tiny, ((32768, 1),), (LoadMode.MMAP,)),
        Case(mha, ((512, 1), (4096, 1), (1024, 4))),
        Case(gqa, ((2048, 1), (1024, 4)), _TWO),
        Case(windowed, ((2048, 1), (1024, 4))),
        Case(wide_window, ((2048, 1),), _TWO),
        Case(heads, ((1024, 1), (512, 4)), _TWO),
        Case(replace(f32, kind="f32"), ((1024, 1), (512, 4)), _TWO),
        Case(q8, ((1024, 1), (512, 4)), _TWO),
        Case(q4, ((2048, 1), (512, 4)), _TWO),
        Case(replace(experts, experts=16), ((2048, 1), (1024, 4)), _TWO),
        Case(mamba, ((2048, 1), (1024, 4)), _TWO),
        Case(replace(hybrid, vocab=65000, merges=True, tied=True), ((1024, 1), (512, 4)), _TWO),
        Case(deep, ((2048, 1), (1024, 4)), _TWO),
        Case(large, ((8192, 1),), _TWO),
        Case(vectors, ((512, 1), (2048, 1)), _TWO, Role.EMBEDDING, ("--pooling", "mean"), True),
        Case(mha, ((2048, 1),), (LoadMode.MMAP,), args=("-fa", "off"), whole=True),
        Case(mha, ((4096, 1),), (LoadMode.MMAP,), args=("-ctk", "q8_0", "-ctv", "q4_0")),
        Case(mha, ((1024, 4),), (LoadMode.MMAP,), args=("-kvu",)),
        Case(mha, ((2048, 1),), (LoadMode.MMAP,), args=("-lm", "mmap+mlock")),
        *(Case(path, ((2048, 1), (8192, 4)), _TWO) for path in sorted(_WEIGHTS.rglob("*.gguf"))),
    )


def _fill(model: RandomModel | Path, tokens: int, slots: int, size: int) -> int:
    """Return how many tokens each slot is asked: its whole context, or as much as can be waited for.

    Keys and values are in memory from the start, so what a longer text adds is the last part of the masks; but one
    batch must be full, of whichever slot, and the copies of windows are as large as the window.
    """
    window = model.window if isinstance(model, RandomModel) else 512
    return min(tokens - 8, max(_WORK // size // slots, window + _BATCH + 8))


def run() -> Iterator[Figure]:
    """Measure all cases and print their table; hand over how many were right, and by how much the rest was off."""
    rows: list[tuple[str, ...]] = []
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        for case in cases():
            progress(f"estimates: {case.name}")
            for cells, outcome in _measured(case, Path(name)):
                rows.append(cells)
                outcomes.append(outcome)
    print("\n" + _table(rows) + "\n")
    yield _figure(
        "committed within 5 % or 32 MiB",
        [o.committed_is_right for o in outcomes],
        "largest error, in bounds",
        max(_error(o.committed, o.filled.committed) for o in outcomes),
    )
    yield _figure(
        "committed and mapped within 5 % or 32 MiB",
        [o.sum_is_right for o in outcomes],
        "largest error, in bounds",
        max(_error(o.committed + o.mapped, o.filled.committed + o.filled.warm) for o in outcomes),
    )
    yield _figure(
        "peak never above the predicted one",
        [o.peak_is_covered for o in outcomes],
        "largest measured / predicted",
        max(o.filled.peak / (o.parts.peak or 1) for o in outcomes),
    )


def _measured(case: Case, folder: Path) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    path = write_random(case.model, folder) if isinstance(case.model, RandomModel) else case.model
    for mode in case.modes:
        for tokens, slots in case.launches:
            spec = LaunchSpec(
                "m",
                "llama.cpp",
                weights=str(path),
                role=case.role,
                context_tokens=tokens,
                slots=slots,
                load_mode=mode,
                cwd="/",
                args=case.args,
            )
            fill = tokens - 8 if case.whole else _fill(case.model, tokens, slots, path.stat().st_size)
            outcome = measure(spec, fill, folder / "log")
            cells = _cells(case, path, spec, outcome)
            progress(" | ".join(cells))
            yield cells, outcome
    if isinstance(case.model, RandomModel):
        path.unlink()


def _cells(case: Case, path: Path, spec: LaunchSpec, outcome: Outcome) -> tuple[str, ...]:
    right = outcome.committed_is_right and outcome.sum_is_right and outcome.peak_is_covered
    filled, both = outcome.filled, outcome.committed + outcome.mapped
    figures = (
        outcome.committed,
        filled.committed,
        both,
        filled.committed + filled.warm,
        outcome.parts.peak or 0,
        filled.peak,
    )
    return (
        case.name,
        _mib(path.stat().st_size),
        spec.load_mode.value,
        f"{spec.context_tokens} x {spec.slots}",
        *(_mib(figure) for figure in figures),
        "ok" if right else "NO",
    )


def _mib(size: int) -> str:
    return f"{size / MIB:.0f}"


def _error(predicted: int, measured: int) -> float:
    return abs(predicted - measured) / max(0.05 * measured, 32 * MIB)


def _figure(what: str, right: Sequence[bool], reference: str, ratio: float) -> Figure:
    return Figure(
        what=what,
        measured=f"{sum(right)} of {len(right)} launches",
        goal="all",
        met=all(right),
        reference=reference,
        ratio=ratio,
    )


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["Sizes in MiB.", "", "| " + " | ".join(heading.strip() for heading in _HEADINGS) + " |"]
    lines.append("|" + " --- |" * len(_HEADINGS))
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
