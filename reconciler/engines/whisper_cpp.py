"""The engine `whisper.cpp`: speech to text with `whisper-server`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Said
from reconciler.core.types import Preflight, Reason
from reconciler.engines import devices, failures, ggml_threads, programs, refusals, whisper_ggml
from reconciler.engines.adapter import Adapter
from reconciler.engines.proof import Call, silence
from reconciler.memory.gguf import WeightsError

#: It has one path for all requests, and OpenAI's name for it must be given.
_PATH: Final = "/v1/audio/transcriptions"
#: Of less than a second it computes nothing, and says that all went well.
_HEARD_SECONDS: Final = 1.1
_START: Final = "whisper_model_load: loading model"
_MEGABYTE: Final = 1_000_000
_WEIGHTS: Final = re.compile(r"whisper_model_load: model size\s*=\s*([\d.]+) MB")
_CACHES: Final = re.compile(r"whisper_init_state: kv (?:self|cross|pad)\s+size\s*=\s*([\d.]+) MB")
_BUFFERS: Final = re.compile(r"whisper_init_state: compute buffer \(\w+\)\s*=\s*([\d.]+) MB")


class WhisperCpp(Adapter):
    """Serves one model in whisper.cpp's own format. It transcribes one request at a time."""

    name = "whisper.cpp"
    script = "whisper-server"
    torch = False
    roles = frozenset({Role.ASR})
    checked = ("the sources of 2026-08-22",)
    calls: Mapping[Role, Call] = {
        Role.ASR: Call(_PATH, {"response_format": "json"}, {"file": ("a.wav", silence(_HEARD_SECONDS))})
    }
    routes: Mapping[Role, frozenset[str]] = {Role.ASR: frozenset({_PATH})}
    abbreviates = False
    uses = refusals.PROGRAM
    owned: Mapping[str, str] = {
        **dict.fromkeys(("-dev", "--device", "-ng", "--no-gpu"), "device.gpus"),
        "--public": "",
        "-m": "weights",
        "--model": "weights",
        "--port": "port",
        "--host": "",
        "--inference-path": "",
        "--request-path": "",
        "-t": "device.threads",
        "--threads": "device.threads",
    }
    #: Each processor has a state of its own, each beam a cache.
    sizing = frozenset(
        {
            *("-p", "--processors", "-bs", "--beam-size", "-bo", "--best-of"),
            *("-vm", "--vad-model", "-ac", "--audio-ctx", "-oved", "--ov-e-device"),
        }
    )
    not_inherited = ("GGML_", "WHISPER_")
    install = (
        "build whisper.cpp and put its `whisper-server` on PATH (macOS: brew install whisper-cpp), or name its path "
        "as `command:`"
    )
    known_failures = failures.known(
        (
            r"invalid model data \(bad magic\)",
            "the weights are not in whisper.cpp's own format (ggml-*.bin)",
            failures.BAD_FILE,
        ),
        (r"failed to open '([^'\n]*)'", "it cannot open {0}", failures.BAD_FILE),
        (
            r"unknown language '([^'\n]*)'",
            "it does not know the language {0}: state another after `-l`",
            failures.BAD_ARGUMENT,
        ),
        (r"unknown argument: (\S+)", "it does not know the flag {0}", failures.BAD_ARGUMENT),
        (r"ffmpeg is not found", "--convert needs ffmpeg, which is not on PATH", failures.PROGRAM_MISSING),
        (r"couldn't bind to server socket", "its port is taken by another process", failures.PORT_TAKEN),
        (
            r"failed to allocate|unable to allocate|alloc\w* of size \d+ failed",
            "there was not enough memory for the model",
            failures.OUT_OF_MEMORY,
        ),
        (
            r"failed to (?:load model|initialize whisper context)",
            "it could not load the weights: the lines before say why",
        ),
    )

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return `command`, or `whisper-server` on PATH."""
        return programs.server(spec, self.script)

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the flags. It hears English alone unless it is told to find out the language."""
        flags = ["-m", spec.weights or "", "--host", "127.0.0.1", "--port", str(port)]
        flags += ["-t", str(devices.threads(spec)), "-l", "auto", "--inference-path", _PATH]
        return [*flags, *(["-ng"] if spec.device.gpus == () else [])]

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return how its threads wait: it reads no other setting from there that we would give."""
        return ggml_threads.variables(spec)

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return the size that the weights' header says. Blocks."""
        try:
            model = whisper_ggml.read(Path(spec.weights or ""))
        except WeightsError as error:
            return Preflight(spec.model, Reason.NOT_STARTABLE, str(error))
        parts = whisper_ggml.estimate(model)
        return Preflight(spec.model, steady=parts.steady, peak=parts.peak, parts=parts)

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return two: one is worked on, and one is there when it is done."""
        return 2

    def said(self, log: str) -> Said | None:
        """Return the sizes of the last load in the log."""
        last = log[log.rfind(_START) :] if _START in log else log
        weights = _sum(_WEIGHTS, last)
        if weights is None:
            return None
        return Said(weights=weights, context=_sum(_CACHES, last), compute=_sum(_BUFFERS, last))


def _sum(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.findall(text)
    return round(sum(float(size) for size in found) * _MEGABYTE) if found else None


ENGINE = WhisperCpp()
