"""What is kept of a model's state while it is not in memory: saved before it is stopped, restored before it serves."""

from collections.abc import Mapping
from pathlib import Path

from reconciler.core.launch import LaunchSpec
from reconciler.loop.launches import Launch
from reconciler.manifest.applied import StateSettings


class States:
    """The saved states under one folder of the state directory. Belongs to the loop's task."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings: Mapping[str, StateSettings] = {}
        self._most = 0

    def use(self, settings: Mapping[str, StateSettings], most: int) -> None:
        """Keep the states of these models from now on, in at most so many bytes together."""
        self._settings, self._most = settings, most

    def folder(self, spec: LaunchSpec) -> str | None:
        """Return the folder a server of this model is told to save into, or None if it saves nothing. Blocks."""
        return None

    async def save(self, launch: Launch) -> None:
        """Save the state of a model that serves nobody any more and is about to be stopped. Never raises; bounded."""

    async def restore(self, launch: Launch) -> None:
        """Restore the state of a model that is ready and serves nobody yet. Never raises; bounded."""
