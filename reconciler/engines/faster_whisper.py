"""The engine `faster-whisper`: speech to text with the PyPI package faster-whisper-server."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Estimate
from reconciler.core.types import Preflight, Reason
from reconciler.core.words import size as size_text
from reconciler.engines import arguments, ctranslate2_file, failures
from reconciler.engines.adapter import OFFLINE, Adapter
from reconciler.memory.gguf import WeightsError

#: The server reads another form field than OpenAI's `model`; this is what that field is by default.
_MODEL: Final = "whisper-1"
_CONFIG: Final = ("-f", "--config")
_CUDA: Final = ("/dev/nvidiactl", "/dev/nvhost-gpu")
_FLOAT: Final = 4
#: Measured with 0.0.3 on the CPU: of its own memory the server alone holds 47 MiB, with tiny.en 345 and with base
#: 558 MiB after real speech, of which the weights are 144 and 277. Two and a half times the encoder's attention scores
#: and a quarter of the weights cover the rest of both; in all they are 7 and 4 % too much.
_SERVER: Final = 60 << 20
_SCORES, _WEIGHTS_SHARE = 2.5, 4


class FasterWhisper(Adapter):
    """Serves one Whisper model as CTranslate2 converts it: a folder. It transcribes one request at a time."""

    name = "faster-whisper"
    script = "faster-whisper-server"
    torch = False
    roles = frozenset({Role.ASR})
    distribution = "faster-whisper-server"
    checked = ("0.0.3",)
    #: Each further process would load the model for itself.
    owned: Mapping[str, str] = {"--port": "port", "--host": "", "--workers": "", "--reload": ""}
    owned_variables: Mapping[str, str] = {"WEB_CONCURRENCY": ""}
    sizing = frozenset({"--batch-size"})
    not_inherited = ("FWS_", "CT2_", "UVICORN_", "WEB_CONCURRENCY")
    install = (
        "pip install faster-whisper-server (its environment is named by `python:`, if it is not on PATH)"
    )
    known_failures = failures.known(
        (r"Invalid compute type: (\w+)", "there is no compute type {0}", failures.BAD_ARGUMENT),
        (
            r"has an invalid payload size|File model\.bin is incomplete",
            "the weights are damaged: repeat the download",
            failures.BAD_FILE,
        ),
        (
            r"Requested (\w+) compute type, but the target device",
            "this machine cannot compute with {0}: state another compute_type in its file of settings",
            failures.BAD_ARGUMENT,
        ),
        (
            r"Unsupported model binary version[^\n]*",
            "the weights are of a newer CTranslate2 than is installed",
            failures.BAD_FILE,
        ),
        (
            r"Unable to open file 'model\.bin' in model",
            "there is no model.bin in the weights' folder",
            failures.BAD_FILE,
        ),
        (
            r"CUDA driver version is insufficient|libcu(?:dnn|blas)\S* is not found|Library libcublas",
            "the GPU's libraries are not usable: install CUDA 12's cuBLAS and cuDNN, or state `device: {{gpus: none}}`",
        ),
        (
            r"Config must define|Each model entry must",
            "its file of settings is not one it can use",
            failures.BAD_FILE,
        ),
        (
            r"Do not pass a model when --config",
            "the weights are named by its file of settings",
            failures.BAD_ARGUMENT,
        ),
    )

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the flags. With a file of settings of the user's, the weights are named there."""
        model = [] if _config(spec) else [spec.weights or ""]
        return [*model, "--host", "127.0.0.1", "--port", str(port), "--log-level", "info"]

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the variables: it looks nothing up on the network. Threads are OMP_NUM_THREADS."""
        return dict(OFFLINE)

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return whether the folder is complete, and the size of the model where it is computed on the CPU. Blocks."""
        folder = Path(spec.weights or "")
        if problem := _no_settings(spec):
            return Preflight(spec.model, Reason.NOT_STARTABLE, problem)
        if problem := _incomplete(folder):
            return Preflight(spec.model, Reason.NOT_STARTABLE, problem)
        try:
            model = ctranslate2_file.read(folder / "model.bin")
        except (WeightsError, OSError) as error:
            return Preflight(spec.model, Reason.NOT_STARTABLE, str(error))
        if not model.kind.startswith("Whisper"):
            message = f"{folder} holds a {model.kind or 'model'} of CTranslate2, which is not Whisper"
            return Preflight(spec.model, Reason.NOT_STARTABLE, message)
        if _config(spec) or not _on_cpu(spec) or model.heads is None or model.places is None:
            message = (
                f"its weights are {size_text(model.size)}, its compute type is not known: give memory.steady"
            )
            return Preflight(spec.model, message=message, parts=Estimate(weights=model.size))
        scores = model.heads * model.places**2 * _FLOAT
        compute = round(_SCORES * scores) + model.on_cpu // _WEIGHTS_SHARE
        # While it loads, what was read of the file is there beside what is made of it.
        parts = Estimate(model.on_cpu, context=0, compute=compute, overhead=_SERVER, loading=model.size)
        return Preflight(spec.model, steady=parts.steady, peak=parts.peak, parts=parts)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the one name that reaches the model."""
        return _MODEL

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return two: one is worked on, and one is there when it is done. It answers nothing else meanwhile."""
        return 2


def _config(spec: LaunchSpec) -> bool:
    return arguments.given((*spec.command[1:], *spec.args), *_CONFIG)


def _no_settings(spec: LaunchSpec) -> str | None:
    """Return what is wrong with the file of settings that `args` name, in a sentence, or None."""
    if not _config(spec):
        return None
    named = arguments.value((*spec.command[1:], *spec.args), *_CONFIG)
    if named is None:
        return "`-f` names no file of settings"
    path = Path(spec.cwd, named)
    if not path.exists():
        return f"its file of settings {path} does not exist"
    if not path.is_file() or not os.access(path, os.R_OK):
        return f"its file of settings {path} cannot be read"
    return None if path.stat().st_size else f"its file of settings {path} is empty"


def _on_cpu(spec: LaunchSpec) -> bool:
    """Return whether it computes on the CPU: CTranslate2 knows no other GPUs than those of CUDA."""
    return spec.device.gpus == () or not any(Path(device).exists() for device in _CUDA)


def _incomplete(folder: Path) -> str | None:
    """Return what is missing in a folder of weights, in a sentence, or None."""
    if not folder.exists():
        return f"the weights {folder} do not exist"
    if not folder.is_dir():
        return f"{folder} is a file: name the folder with model.bin, config.json and tokenizer.json"
    for name in ("model.bin", "config.json"):
        if not (folder / name).is_file():
            return f"the weights folder {folder} has no {name}: faster-whisper wants Whisper as CTranslate2 converts it"
    if not (folder / "tokenizer.json").is_file():
        return f"the weights folder {folder} has no tokenizer.json, which would be looked up on the network"
    return None


ENGINE = FasterWhisper()
