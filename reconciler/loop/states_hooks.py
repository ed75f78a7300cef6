"""Saving and restoring through addresses of the user's: for any server that keeps its state itself when it is asked."""

from pathlib import Path
from typing import Final

import anyio.to_thread
import httpx

from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.engines import api_key
from reconciler.engines.base import EngineError, Saved, Server, Trial
from reconciler.engines.builds import other_build
from reconciler.engines.saved_files import saved_files
from reconciler.manifest.applied import StateSettings

#: Characters of an answer that are shown.
_SHOWN: Final = 200


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
        answer = await _post(server, self._save or "", folder)
        files = await anyio.to_thread.run_sync(saved_files, folder, abandon_on_cancel=True)
        return Saved(files, _tokens(answer)) if files else None

    async def restore(self, server: Server, folder: Path, saved: Saved) -> None:
        """Ask the server to restore. Raises EngineError."""
        await _post(server, self._load or "", folder)

    async def reused(self, server: Server) -> Trial | None:
        """Return None: only the server itself could tell."""
        return None


async def _post(server: Server, address: str, folder: Path) -> httpx.Response:
    """Send the folder. No time limit of its own: whoever calls has one. Raises EngineError."""
    own = address.startswith("/")
    try:
        response = await server.client.post(
            server.base_url + address if own else address,
            json={"path": str(folder)},
            # The key is the model's own; an address elsewhere is not its server's.
            headers=api_key.headers(server.key if own else None),
            timeout=None,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise EngineError(f"{address} was not answered: {type(error).__name__}") from error
    if not response.is_success:
        raise EngineError(f"{address} answers {response.status_code}: {response.text[:_SHOWN]}")
    return response


def _tokens(answer: httpx.Response) -> int | None:
    """Return the tokens that a server says it saved: `{"tokens": 449}`; most do not count in them."""
    try:
        value = answer.json()
    except ValueError:
        return None
    count = value.get("tokens") if isinstance(value, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None
