"""Saving and restoring through addresses of the user's: for any server that keeps its state itself when it is asked."""

from pathlib import Path
from typing import Any

import anyio.to_thread

from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.engines import requests
from reconciler.engines.base import Saved, Server, Trial
from reconciler.engines.builds import other_build
from reconciler.engines.saved_files import saved_files
from reconciler.manifest.applied import StateSettings


class HookSaver:
    """Sends the folder to `state.save` and `state.load`; what lies in it afterwards is what was saved."""

    def __init__(self, settings: StateSettings) -> None:
        self._save, self._load = settings.save, settings.load

    def refuses(self, spec: LaunchSpec) -> str | None:
        """Return why nothing is saved, or None."""
        return None if self._load else "it is not said where it could be restored: give state.load"

    def setup(self, spec: LaunchSpec) -> str:
        """Return the digest of all settings: nothing is known of what such a state depends on."""
        return launch_digest(spec)

    def other_build(self, was: str, now: str) -> str:
        """Say that the engine is another build."""
        return other_build(was, now)

    async def save(self, server: Server, folder: Path) -> Saved | None:
        """Ask the server to save; None = it wrote no file. Raises EngineError."""
        answer = await requests.post(server, self._save or "", {"path": str(folder)}, seconds=None)
        files = await anyio.to_thread.run_sync(saved_files, folder, abandon_on_cancel=True)
        return Saved(files, _tokens(answer)) if files else None

    async def restore(self, server: Server, folder: Path, saved: Saved) -> None:
        """Ask the server to restore. Raises EngineError."""
        await requests.post(server, self._load or "", {"path": str(folder)}, seconds=None)

    async def reused(self, server: Server) -> Trial | None:
        """Return None: only the server itself could tell."""
        return None


def _tokens(answer: Any) -> int | None:
    """Return the tokens that a server says it saved: `{"tokens": 449}`; most do not count in them."""
    count = answer.get("tokens") if isinstance(answer, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None
