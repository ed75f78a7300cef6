"""The engine `comfyui`: a ComfyUI of the user's. It works on a queue, long after it has answered the request."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight
from reconciler.engines import checkout, failures, programs, requests
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import EngineError, Server, Sleeper
from reconciler.engines.proof import Call

#: Bytes that come and go on any machine.
_NOISE: Final = 64 << 20


class ComfyUI(Adapter):
    """Serves whatever its workflows name, on paths of its own (`/upstream/NAME/prompt`). It loads nothing at start."""

    name = "comfyui"
    roles = frozenset({Role.IMAGE})
    weights = None
    torch = True
    health = "/system_stats"
    checked = ("0.3", "0.4", "0.14", "0.19")
    calls: Mapping[Role, Call] = {}
    #: None of OpenAI's.
    routes: Mapping[Role, frozenset[str]] = {Role.IMAGE: frozenset()}
    owned: Mapping[str, str] = {
        **dict.fromkeys(("--tls-certfile", "--tls-keyfile"), ""),
        "--port": "port",
        "--listen": "",
        "--cpu": "device.gpus",
        "--cuda-device": "device.gpus",
    }
    install = (
        "clone ComfyUI and name its folder as `cwd:` and its environment as `python:`, or state a `command:` "
        "that begins with what runs its main.py"
    )
    known_failures = failures.known(
        (
            r"ASSETS_STARTUP_FAILED: in_use",
            "another ComfyUI uses the same folder: give this one a --user-directory of its own, or --disable-assets",
        ),
        (
            r"can't open file '([^'\n]*)'",
            "there is no {0}: `cwd:` is not ComfyUI's folder",
            failures.BAD_ARGUMENT,
        ),
        (
            r"Torch not compiled with CUDA enabled",
            "its PyTorch knows no GPU: state `device: {{gpus: none}}`",
            failures.BAD_ARGUMENT,
        ),
    )

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return `command`, or the interpreter with the `main.py` of `cwd`."""
        if spec.command:
            return programs.server(spec, self.name)
        main, python = Path(spec.cwd, "main.py"), checkout.interpreter(spec)
        return (str(python), str(main)) if python is not None and main.is_file() else None

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the flags that all versions know."""
        flags = ["--listen", "127.0.0.1", "--port", str(port), "--disable-auto-launch"]
        return [*flags, *(["--cpu"] if spec.device.gpus == () else [])]

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return no size: it is that of the largest workflow."""
        message = "its size is that of the models its workflows name: give memory.steady"
        return Preflight(spec.model, message=message)

    def version(self, spec: LaunchSpec) -> str | None:
        """Return what its own file says. Reads it."""
        return checkout.version(spec, "comfyui_version.py")

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """Return the asking for all memory back; the next prompt loads again."""
        return FreeMemory()

    def has_jobs(self, spec: LaunchSpec) -> bool:
        """Say yes: a prompt is answered at once and worked on later."""
        return True

    async def jobs(self, server: Server) -> int | None:
        """Return the prompts that run and that wait."""
        try:
            return await _prompts(server)
        except EngineError:
            return None


class FreeMemory(Sleeper):
    """Asks for the memory, and waits until it is seen to come back: the answer is given before anything is freed."""

    wakes_later = True

    def __init__(self, patience: float = 20.0, pause: float = 0.5) -> None:
        """Wait at most `patience` seconds, and look each `pause` seconds. Its worker collects each 10 s at most."""
        self._patience, self._pause = patience, pause

    async def sleep(self, server: Server) -> None:
        """Have models and results dropped. Raises EngineError where it works, refuses, or nothing comes back."""
        if await _prompts(server):
            raise EngineError("it has prompts to work on: it gives memory back only between them")
        before = await _free(server)
        await requests.post(server, "/free", {"unload_models": True, "free_memory": True})
        last = before
        with anyio.move_on_after(self._patience):
            while True:
                await anyio.sleep(self._pause)
                now = await _free(server)
                if now - before >= _NOISE and now - last < _NOISE:
                    return
                last = now
        if last - before >= _NOISE:
            return
        raise EngineError(f"it was asked to free its memory, and in {self._patience:g} s none came back")

    async def wake(self, server: Server) -> None:
        """Do nothing: the next prompt loads what it names."""


async def _prompts(server: Server) -> int | None:
    """Return the prompts that run and that wait; None = it does not say. Raises EngineError.

    Its `/queue` lists them with all that is in them, which may be megabytes.
    """
    about = (await _object(server, "/prompt")).get("exec_info")
    left = about.get("queue_remaining") if isinstance(about, dict) else None
    return left if isinstance(left, int) and not isinstance(left, bool) and left >= 0 else None


async def _free(server: Server) -> int:
    """Return the bytes it sees free, in the machine and on its GPUs. Only a difference means something."""
    stats = await _object(server, "/system_stats")
    system, found = stats.get("system"), stats.get("devices")
    # On the CPU and on Metal a device's memory is the machine's once more.
    own = [d for d in found if isinstance(d, dict)] if isinstance(found, list) else []
    figures = [device.get("vram_free") for device in own if device.get("type") not in ("cpu", "mps")]
    figures.append(system.get("ram_free") if isinstance(system, dict) else None)
    return sum(figure for figure in figures if isinstance(figure, int))


async def _object(server: Server, path: str) -> dict[str, Any]:
    """Return the object that `path` answers, or an empty one. Raises EngineError."""
    answer = await requests.get(server, path)
    return answer if isinstance(answer, dict) else {}


ENGINE = ComfyUI()
