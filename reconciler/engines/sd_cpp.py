"""The engine `sd.cpp`: images with `sd-server` of stable-diffusion.cpp."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, LoadMode, Role
from reconciler.engines import devices, failures, formats, ggml_threads, programs, refusals
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Finding
from reconciler.engines.proof import Call

#: With one of these the weights are the diffusion model alone: its text encoders are files of their own.
_ENCODERS: Final = frozenset(
    {
        "--clip_l",
        "--clip_g",
        "--clip_vision",
        "--t5xxl",
        "--llm",
        "--llm_vision",
        "--qwen2vl",
        "--qwen2vl_vision",
    }
)
#: One step of the smallest picture. The number of steps is read from here by one version or another.
_STEPS: Final = (
    '<sd_cpp_extra_args>{"sample_steps": 1, "sample_params": {"sample_steps": 1}}</sd_cpp_extra_args>'
)
_PICTURE: Final = {"prompt": f"a{_STEPS}", "size": "64x64", "n": 1, "steps": 1}


class StableDiffusionCpp(Adapter):
    """Serves one diffusion model. It draws one picture at a time."""

    name = "sd.cpp"
    script = "sd-server"
    roles = frozenset({Role.IMAGE})
    torch = False
    checked = ("the sources of 2026-08-19",)
    health = "/v1/models"
    calls: Mapping[Role, Call] = {Role.IMAGE: Call("/v1/images/generations", _PICTURE)}
    routes: Mapping[Role, frozenset[str]] = {
        Role.IMAGE: frozenset({"/v1/images/generations", "/v1/images/edits"})
    }
    abbreviates = False
    uses = refusals.PROGRAM | {"memory.mode"}
    hints: Mapping[str, str] = {"adapters": "args: [--lora-model-dir, FOLDER]; a request names the adapter"}
    owned: Mapping[str, str] = {
        "-m": "weights",
        "--model": "weights",
        "--diffusion-model": "weights",
        "-l": "",
        "--listen-ip": "",
        "--listen-port": "port",
        "-t": "device.threads",
        "--threads": "device.threads",
        "--mmap": "memory.mode",
    }
    not_inherited = ("GGML_", "SD_")
    install = "build stable-diffusion.cpp and put its `sd-server` on PATH, or name its path as `command:`"
    known_failures = failures.known(
        (
            r"get sd version from file failed:? *'?([^'\n]*)",
            "it does not know what kind of model the weights are; if they are a part of one, name the others in `args`",
            failures.BAD_FILE,
        ),
        (r"(?:unknown|invalid) argument:? *(\S+)", "it does not know the flag {0}", failures.BAD_ARGUMENT),
        (
            r"failed to allocate|alloc\w* of size \d+ failed|alloc\w*_buffer\w* failed",
            "there was not enough memory for the model",
            failures.OUT_OF_MEMORY,
        ),
        (r"load tensors from (?:model loader|file) failed|load_from_file failed|init model loader from file failed",
         "it could not load the weights: the lines before say why"),
        (r"new_sd_ctx_t failed", "it could not load the model: the lines before say why"),
    )  # fmt: skip

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return `command`, or `sd-server` on PATH."""
        return programs.server(spec, self.script)

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the flags. Without --eager-load it would read its weights for the first picture only."""
        parts = any(word.partition("=")[0] in _ENCODERS for word in (*spec.command[1:], *spec.args))
        flags = ["--listen-ip", "127.0.0.1", "--listen-port", str(port)]
        flags += ["--diffusion-model" if parts else "-m", spec.weights or ""]
        flags += ["--threads", str(devices.threads(spec)), "--eager-load"]
        flags += ["--mmap"] if spec.load_mode is LoadMode.MMAP else []
        return [*flags, *(["--backend", "cpu"] if spec.device.gpus == () else [])]

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return how its threads wait: it reads no other setting from there that we would give."""
        return ggml_threads.variables(spec)

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield the load modes it has not."""
        if spec.load_mode in (LoadMode.MLOCK, LoadMode.NONE):
            message = f"{self.name} has no load mode {spec.load_mode.value}"
            yield Finding(("memory", "mode"), message, "auto, or mmap", needless=True)

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why it is no model that draws."""
        return formats.not_for_pictures(Path(spec.weights or ""))

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return two: one is drawn, and one is there when it is done."""
        return 2


ENGINE = StableDiffusionCpp()
