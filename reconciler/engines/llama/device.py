"""Where a llama.cpp server computes: GPUs, or none of them, and threads."""

from collections.abc import Iterator
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines.base import Finding
from reconciler.engines.llama import words as llama_words

_LAYERS: Final = frozenset({"-ngl", "--gpu-layers", "--n-gpu-layers", "LLAMA_ARG_N_GPU_LAYERS"})
_DEVICE: Final = frozenset({"-dev", "--device", "LLAMA_ARG_DEVICE"})
_THREADS: Final = frozenset({"-t", "--threads", "LLAMA_ARG_THREADS"})


def on_cpu(spec: LaunchSpec) -> bool:
    """Return whether the manifest keeps the model off all GPUs."""
    return spec.device.gpus == ()


def flags(spec: LaunchSpec) -> list[str]:
    """Return the flags every build has."""
    return ["-ngl", "0"] if on_cpu(spec) else []


def optional_flags(spec: LaunchSpec) -> list[str]:
    """Return what else keeps the embedded server off a GPU. It has no flag that leaves the device out.

    Without layers there, large products, the projector and the draft model would still go to it. CUDA, HIP and Vulkan
    see no GPU anyway (`devices.gpu_variables`); Metal has no such variable.
    """
    if not on_cpu(spec):
        return []
    result = ["--no-op-offload", "--no-mmproj-offload"]
    return [*result, "-ngld", "0"] if spec.draft else result


def optional_env(spec: LaunchSpec) -> dict[str, str]:
    """Return the same for a `llama-server` of any age: projector and draft model follow the device."""
    if not on_cpu(spec):
        return {}
    return {"LLAMA_ARG_DEVICE": "none", "LLAMA_ARG_NO_MMPROJ_OFFLOAD": "1"}


def check(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield what says the same twice."""
    names = dict.fromkeys(_THREADS, "device.threads") if spec.device.threads is not None else {}
    if spec.device.gpus is not None:
        names |= dict.fromkeys(_DEVICE, "device.gpus")
    if on_cpu(spec):
        names |= dict.fromkeys(_LAYERS, "device.gpus")
    for path, name in _given(spec):
        if name in names:
            hint = f"it is stated as `{names[name]}`; leave one of them out"
            yield Finding(path, f"{name} cannot be given here", hint)


def _given(spec: LaunchSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the names of all flags and variables the server is told besides ours."""
    for place, words in (("command", llama_words.server_words(spec.command)), ("args", spec.args)):
        yield from (((place,), name) for name, _ in llama_words.pairs(words))
    yield from ((("command",), name) for name in llama_words.assignments(spec.command))
    yield from ((("env", name), name) for name, _ in spec.env)
