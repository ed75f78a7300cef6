"""A service under launchd: an agent of the user's session, or a daemon of the system."""

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reconciler.render.service_shapes import Kind
from reconciler.service.launchd_text import label_of, plist_text
from reconciler.service.managers import SLACK_SECONDS, State, ask, tell
from reconciler.service.settings import ServiceError, Settings, UnreachableError

_POLL: Final = 0.1
#: What `launchctl print` says: `state = running`, `last exit code = 1`.
_FIELD: Final = re.compile(
    r"^\t?(state|pid|runs|last exit code|last terminating signal) = (.*)$", re.MULTILINE
)


class Launchd:
    """One job. `root` is where the file system begins, for a job of the system."""

    kind: Kind = "launchd"
    mode = 0o644

    def __init__(self, name: str, *, system: bool, home: Path, root: Path = Path("/")) -> None:
        self.name, self.system = name, system
        folder = root / "Library/LaunchDaemons" if system else home / "Library/LaunchAgents"
        self.path = folder / f"{label_of(name)}.plist"
        self._domain = "system" if system else f"gui/{os.getuid()}"
        self._target = f"{self._domain}/{label_of(name)}"

    def text(self, settings: Settings) -> str:
        """Return the property list. Raises ServiceError for what launchd cannot be told."""
        return plist_text(settings, self.name)

    def by_hand(self) -> Sequence[str]:
        """Return the commands that put a property list into force once it is saved."""
        return (f"launchctl bootstrap {self._domain} {self.path}",)

    def anew(self) -> str:
        """Return the command that restarts the service."""
        return f"launchctl kickstart -k {self._target}"

    def reach(self) -> None:
        """Raise UnreachableError unless launchd has a place for the job: an agent needs somebody logged in."""
        if shutil.which("launchctl") is None:
            raise UnreachableError("there is no launchctl here, so no launchd to start anything")
        said = ask(["launchctl", "print", self._domain])
        if said.status != 0:
            raise UnreachableError(
                f"launchd has no {self._domain} here ({said.complaint}): log in at the screen of this Mac, or install"
                " a service of the system with --system"
            )

    def load(self, settings: Settings, *, changed: bool, start: bool) -> None:
        """Have launchd take the job, which starts it; a job that changed is ended first."""
        if not start:
            return  # a job that is taken is started: it will be when the user logs in, or the machine starts
        if settings.logs:
            try:
                Path(settings.logs).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ServiceError(f"the folder for the log cannot be made: {error}") from error
        if changed:
            self.unload(settings.stop_seconds)
        tell(["launchctl", "enable", self._target], failed=f"{self._target} could not be enabled")
        if not self._loaded():
            tell(
                ["launchctl", "bootstrap", self._domain, str(self.path)],
                failed=f"launchd did not take {self.path}",
            )
        elif self.state().pid is None:
            tell(["launchctl", "kickstart", self._target], failed=f"{self._target} did not start")

    def unload(self, seconds: float) -> None:
        """End the job and wait until launchd has let go of it."""
        if not self._loaded():
            return
        seconds += SLACK_SECONDS
        said = ask(["launchctl", "bootout", self._target], seconds)
        deadline = time.monotonic() + seconds
        while self._loaded():
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"launchd has not ended {self._target} within {seconds:g} s: {said.complaint}"
                )
            time.sleep(_POLL)

    def forget(self) -> None:
        """Do nothing: launchd reads its folders when somebody logs in."""

    def state(self) -> State:
        """Return how the job is."""
        said = ask(["launchctl", "print", self._target])
        if said.status != 0:
            return State("stopped", enabled=self.path.exists())
        known = dict(_FIELD.findall(said.out))
        pid, runs = known.get("pid", ""), known.get("runs", "")
        running = pid.isdecimal()
        return State(
            "running" if running else "stopped" if _ended_well(known) else "restarting",
            enabled=self.path.exists(),
            pid=int(pid) if running else None,
            restarts=max(0, int(runs) - 1) if runs.isdecimal() else None,
            last_exit=_last_exit(known),
        )

    def hints(self) -> Sequence[str]:
        """Return when it runs."""
        if self.system:
            return ()
        return ("it runs while you are logged in; for one that starts with the Mac use --system",)

    def _loaded(self) -> bool:
        return ask(["launchctl", "print", self._target]).status == 0


def _ended_well(known: dict[str, str]) -> bool:
    return known.get("last exit code", "").split(":")[0] in ("0", "(never exited)")


def _last_exit(known: dict[str, str]) -> str | None:
    signal = known.get("last terminating signal")
    if signal is not None:
        return f"killed by {signal}"
    code = known.get("last exit code", "(never exited)")
    return (
        None if code == "(never exited)" else "it was asked to stop" if code == "0" else f"exit status {code}"
    )
