"""The state of a Python worker's class, kept by its own `save_state` and `load_state`."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from reconciler.core.launch import LaunchSpec
from reconciler.engines import requests
from reconciler.engines.base import EngineError, Saved, Server, Trial
from reconciler.engines.builds import other_build
from reconciler.engines.saved_files import saved_files

#: `python`, its version, the class, the time of its file.
_LEAST_WORDS: Final = 4


class WorkerSaver:
    """Has the class write files and read them; what is in them only it knows."""

    def refuses(self, spec: LaunchSpec) -> str | None:
        """Return None: whether the class has the methods shows when it is asked."""
        return None

    def setup(self, spec: LaunchSpec) -> str:
        """Return a digest of what the class was made with: its environment may hold secrets."""
        made_with = {
            "args": spec.args,
            "context_tokens": spec.context_tokens,
            "entry": spec.entry,
            "env": spec.env,
            "role": spec.role.value,
        }
        return hashlib.sha256(json.dumps(made_with, sort_keys=True).encode()).hexdigest()

    def other_build(self, was: str, now: str) -> str:
        """Say whether the interpreter is another, the class, or the file that it is in."""
        before, after = was.split(), now.split()
        # As `engines/python.py` puts it together: the interpreter, the class, when its file was changed last.
        if min(len(before), len(after)) < _LEAST_WORDS:
            return other_build(was, now)
        if before[:-1] == after[:-1]:
            return f"the file of {after[-2]} was changed since"
        if before[:-2] == after[:-2]:
            return f"the class is {after[-2]} now, it was {before[-2]}"
        return f"the interpreter is {' '.join(after[:-2])} now, it was {' '.join(before[:-2])}"

    async def save(self, server: Server, folder: Path) -> Saved | None:
        """Call `save_state`; no files = there is nothing to keep. Raises EngineError."""
        answer = await _ask(server, "/save_state", folder)
        if answer.get("saved") is False:
            return None
        names = await anyio.to_thread.run_sync(saved_files, folder, abandon_on_cancel=True)
        return Saved(names) if names else None

    async def restore(self, server: Server, folder: Path, saved: Saved) -> None:
        """Call `load_state`. Raises EngineError."""
        await _ask(server, "/load_state", folder)

    async def reused(self, server: Server) -> Trial | None:
        """Return None: it does not count in tokens."""
        return None


async def _ask(server: Server, path: str, folder: Path) -> dict[str, Any]:
    """Return the object that is answered. How long it may take is the caller's to say."""
    answer = await requests.post(server, path, {"path": str(folder)}, seconds=None)
    if not isinstance(answer, dict):
        raise EngineError(f"{path} answers no JSON object")
    return answer
