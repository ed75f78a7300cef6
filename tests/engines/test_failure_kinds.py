"""What kind of failure the last lines of real servers tell of, recorded from them."""

from pathlib import Path

import pytest

from reconciler.core.crashes import FailureKind
from reconciler.engines import registry

RECORDED = Path(__file__).with_name("recorded")
KINDS = {
    "faster-whisper-damaged": ("faster-whisper", FailureKind.BAD_FILE),
    "faster-whisper-port": ("faster-whisper", FailureKind.PORT_TAKEN),
    "infinity-bad-arch": ("infinity", FailureKind.BAD_FILE),
    "infinity-flag": ("infinity", FailureKind.BAD_ARGUMENT),
    "infinity-tokenizer": ("infinity", FailureKind.BAD_FILE),
    "llama-cut": ("llama.cpp", FailureKind.BAD_FILE),
    "llama-flag": ("llama.cpp", FailureKind.BAD_ARGUMENT),
    # A context of two million tokens, in an address space of 1.5 GiB.
    "llama-kv": ("llama.cpp", FailureKind.OUT_OF_MEMORY),
    "llama-no-gguf": ("llama.cpp", FailureKind.BAD_FILE),
    "llama-port": ("llama.cpp", FailureKind.PORT_TAKEN),
    "mlx-bad-arch": ("mlx", FailureKind.BAD_FILE),
    "mlx-bad-file": ("mlx", FailureKind.BAD_FILE),
    "mlx-bad-shape": ("mlx", FailureKind.BAD_FILE),
    "mlx-flag": ("mlx", FailureKind.BAD_ARGUMENT),
    "mlx-heads": ("mlx", FailureKind.BAD_ARGUMENT),
    "transformers-bad-arch": ("transformers", FailureKind.BAD_FILE),
    "transformers-bad-file": ("transformers", FailureKind.BAD_FILE),
    "transformers-bad-shape": ("transformers", FailureKind.BAD_FILE),
    "transformers-flag": ("transformers", FailureKind.BAD_ARGUMENT),
    "vllm-bad-arch": ("vllm", FailureKind.BAD_FILE),
    "vllm-flag": ("vllm", FailureKind.BAD_ARGUMENT),
    "vllm-no-pool": ("vllm", FailureKind.OUT_OF_MEMORY),
    # Those that came up tell of nothing.
    "vllm-start": ("vllm", None),
    "faster-whisper": ("faster-whisper", None),
    "whisper-base-cpu": ("whisper.cpp", None),
}


@pytest.mark.parametrize("name", KINDS)
def test_recorded_ends(name: str) -> None:
    engine, kind = KINDS[name]
    assert registry.get(engine).failure_kind((RECORDED / f"{name}.log").read_text()) is kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("terminate called after throwing an instance of 'std::bad_alloc'", FailureKind.OUT_OF_MEMORY),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", FailureKind.OUT_OF_MEMORY),
        ("OSError: [Errno 98] Address already in use", FailureKind.PORT_TAKEN),
        ("ModuleNotFoundError: No module named 'torch'", FailureKind.PROGRAM_MISSING),
        ("OSError: [Errno 28] No space left on device", None),
        ("KeyError: 'x'", None),
    ],
)
@pytest.mark.parametrize("engine", ["command", "python", "vllm"])
def test_what_many_say(engine: str, line: str, kind: FailureKind | None) -> None:
    assert registry.get(engine).failure_kind(f"starting\n{line}\n") is kind


def test_what_a_class_of_the_users_begins_with_may_be_anything() -> None:
    log = "worker: entry: there is no module named bag\nModuleNotFoundError: No module named 'bag'"
    assert registry.get("python").failure_kind(log) is None


def test_what_a_call_failed_of_did_not_end_the_worker() -> None:
    log = "MemoryError\nworker: that call failed, the worker goes on\nKilled"
    assert registry.get("python").failure_kind(log) is None
