"""Which build of llama.cpp a launch gets, and where it will compute: told without starting it."""

import hashlib
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines import programs
from reconciler.engines.elsewhere import is_elsewhere
from reconciler.engines.llama import server as llama_server
from reconciler.engines.llama.args import Settings
from reconciler.engines.llama.estimate import Place

_GPUS: Final = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/kfd", "/dev/dri/renderD128")


def build(spec: LaunchSpec, argv: Sequence[str], *, embedded: bool) -> str:
    """Return a name that changes when another build would be started. Reads the file system.

    A server of the user's is known by the programs on its command line: name, size and time of change.
    """
    if embedded:
        return f"xllamacpp {llama_server.embedded_version()}"
    marks = []
    for word in argv:
        path = programs.resolve(spec, word)
        if path is None:
            continue
        real = Path(path).resolve()
        found = real.stat()
        marks.append(f"{real}:{found.st_size}:{found.st_mtime_ns}")
    return "llama-server " + hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16] if marks else ""


def place(spec: LaunchSpec, settings: Settings, *, new: bool) -> Place:
    """Return where a launch computes: on the CPU if it is told so, or if this machine has nothing else.

    On a machine that is only described there are the GPUs that the manifest names; here they may be missing, and then
    it computes on the CPU.
    """
    if settings.gpu_layers == 0:
        return Place(cpu=True, new=new)
    if platform.system() == "Darwin":
        return Place(cpu=False, metal=True, new=new)
    if spec.device.gpus and is_elsewhere():
        return Place(cpu=False, new=new)
    return Place(cpu=not any(Path(device).exists() for device in _GPUS), new=new)
