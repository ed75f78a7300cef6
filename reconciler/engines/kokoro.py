"""The engine `kokoro`: speech with a clone of Kokoro-FastAPI."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role, Sleep
from reconciler.core.memory import Estimate
from reconciler.core.types import Preflight, Reason
from reconciler.core.words import size as size_text
from reconciler.engines import checkout, failures, programs, requests
from reconciler.engines.adapter import OFFLINE, Adapter
from reconciler.engines.base import Server, Sleeper
from reconciler.engines.proof import Call

#: The name of the model that is not one of OpenAI's.
_MODEL: Final = "kokoro"
_SPEECH: Final = "/v1/audio/speech"


class Kokoro(Adapter):
    """Serves Kokoro. `cwd` is the clone; `weights` its folder of models, where that is elsewhere."""

    name = "kokoro"
    roles = frozenset({Role.TTS})
    weights = False
    torch = True
    checked = ("0.8",)
    calls: Mapping[Role, Call] = {
        Role.TTS: Call(
            _SPEECH,
            {"model": _MODEL, "input": "a", "voice": "af_heart", "response_format": "wav", "stream": False},
        )
    }
    abbreviates = False
    #: Each further process would load the model for itself.
    owned: Mapping[str, str] = {
        "--port": "port",
        **dict.fromkeys(("--env-file", "--factory", "--fd", "--host", "--reload", "--root-path"), ""),
        **dict.fromkeys(("--ssl-certfile", "--ssl-keyfile", "--uds", "--workers"), ""),
    }
    owned_variables: Mapping[str, str] = {
        "DEVICE_TYPE": "device.gpus",
        "MODEL_DIR": "weights",
        "USE_GPU": "device.gpus",
        "WEB_CONCURRENCY": "",
    }
    not_inherited = (
        *("ALLOW_DEV_UNLOAD", "DEVICE_TYPE", "MODEL_", "USE_GPU", "UVICORN_"),
        *("VOICES_DIR", "WEB_CONCURRENCY"),
    )
    install = (
        "clone Kokoro-FastAPI, install it into an environment (`uv pip install -e '.[cpu]'`), and name the clone as "
        "`cwd:` and the environment as `python:`"
    )
    known_failures = failures.known(
        (
            r"Voice ['\"]?([\w/.-]+)['\"]? not found",
            "the voice {0} is not in its folder of voices",
            failures.BAD_FILE,
        ),
        (
            r"espeak(?:-ng)?\S* (?:not found|not installed)|Failed to load eSpeak",
            "espeak-ng is not installed",
            failures.PROGRAM_MISSING,
        ),
        (
            r"(?:Model file not found|File not found)[^\n]*",
            "its model is not in its folder: run docker/scripts/download_model.py in the clone",
            failures.BAD_FILE,
        ),
        (
            r"Can't find model '(\w+)'",
            "the spaCy model {0} is not installed in its environment",
            failures.PROGRAM_MISSING,
        ),
    )

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return `command`, or the interpreter that runs uvicorn, if `cwd` is a clone."""
        if spec.command:
            return programs.server(spec, self.name)
        python = checkout.interpreter(spec)
        clone = Path(spec.cwd, "api", "src", "main.py").is_file()
        return (str(python), "-m", "uvicorn") if python is not None and clone else None

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the application and its address."""
        return ["api.src.main:app", "--host", "127.0.0.1", "--port", str(port)]

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the variables: by default its paths are those of its container."""
        api = Path(spec.cwd, "api")
        env = {
            **OFFLINE,
            "ENABLE_WEB_PLAYER": "false",
            "MODEL_DIR": str(_models(spec)),
            "PYTHONPATH": os.pathsep.join((spec.cwd, str(api))),
            "PYTORCH_ENABLE_MPS_FALLBACK": "1",
            "VOICES_DIR": str(api / "src" / "voices" / "v1_0"),
        }
        if spec.device.gpus == ():
            env |= {"DEVICE_TYPE": "cpu", "USE_GPU": "false"}
        if spec.sleep is not Sleep.OFF:
            env["ALLOW_DEV_UNLOAD"] = "true"
        return env

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return whether its model is there. It grows with every sentence, so no file tells its size. Blocks."""
        folder = _models(spec)
        try:
            found = sorted(folder.rglob("kokoro-*.pth"))
            size = max((path.stat().st_size for path in found), default=0)
        except OSError as error:
            message = f"the weights folder {folder} cannot be read: {error.strerror}"
            return Preflight(spec.model, Reason.NOT_STARTABLE, message)
        if not size:
            message = (
                f"there is no kokoro-*.pth in {folder}: run docker/scripts/download_model.py in the clone"
            )
            return Preflight(spec.model, Reason.NOT_STARTABLE, message)
        message = f"its weights are {size_text(size)}, and it grows as it speaks: give memory.steady"
        return Preflight(spec.model, message=f"{message} and restart.growth", parts=Estimate(weights=size))

    def version(self, spec: LaunchSpec) -> str | None:
        """Return what the clone's own file says. Reads it."""
        return checkout.version(spec, "VERSION")

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the name it knows: it refuses others."""
        return _MODEL

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return two: it speaks one sentence at a time."""
        return 2

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """Return the unloading of its model; the probe after waking loads it again."""
        return Unload()


class Unload(Sleeper):
    """Has the model dropped and leaves the process, which keeps PyTorch and its libraries."""

    wakes_later = True

    async def sleep(self, server: Server) -> None:
        """Have the model dropped. Raises EngineError."""
        await requests.post(server, "/dev/unload")

    async def wake(self, server: Server) -> None:
        """Do nothing: the next sentence loads it."""


def _models(spec: LaunchSpec) -> Path:
    return Path(spec.weights) if spec.weights is not None else Path(spec.cwd, "api", "src", "models")


ENGINE = Kokoro()
