"""A service under systemd: the user's own service manager, or the system's."""

import getpass
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reconciler.render.service_shapes import Kind, Phase
from reconciler.service.managers import ASK_SECONDS, SLACK_SECONDS, State, ask, tell
from reconciler.service.settings import Settings, UnreachableError
from reconciler.service.systemd_text import START_SECONDS, unit_text

_STATES: Final[dict[str, Phase]] = {
    "active": "running",
    "activating": "starting",
    "deactivating": "stopping",
    "reloading": "running",
    "inactive": "stopped",
    "failed": "failed",
}
_ASKED: Final = ("ActiveState", "SubState", "UnitFileState", "MainPID", "NRestarts", "StatusText")


class Systemd:
    """One unit. `root` is where the file system begins, for a unit of the system."""

    kind: Kind = "systemd"

    def __init__(self, name: str, *, system: bool, home: Path, root: Path = Path("/")) -> None:
        self.name, self.system = name, system
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        folder = root / "etc/systemd/system" if system else config / "systemd/user"
        self.path = folder / f"{name}.service"
        # The system's service manager warns of units that not everybody can read.
        self.mode = 0o644 if system else 0o600
        self._argv = ("systemctl",) if system else ("systemctl", "--user")

    def text(self, settings: Settings) -> str:
        """Return the unit. Raises ServiceError for what systemd cannot be told."""
        return unit_text(settings, self.name, system=self.system)

    def by_hand(self) -> Sequence[str]:
        """Return the commands that put a unit into force once it is saved."""
        said = " ".join(self._argv)
        return (f"{said} daemon-reload", f"{said} enable --now {self.path.name}")

    def anew(self) -> str:
        """Return the command that restarts the service."""
        return f"{' '.join(self._argv)} restart {self.name}"

    def reach(self) -> None:
        """Raise UnreachableError unless systemd answers."""
        if shutil.which("systemctl") is None:
            raise UnreachableError("there is no systemctl here, so no systemd to start anything")
        said = ask([*self._argv, "show", "--property=Version"])
        if said.status == 0 and "Version=" in said.out:
            return
        raise UnreachableError(f"systemd does not answer here ({said.complaint}){self._advice()}")

    def load(self, settings: Settings, *, changed: bool, start: bool) -> None:
        """Have systemd read the unit and enable it; with `start` run it, anew if it changed."""
        unit = self.path.name
        tell([*self._argv, "daemon-reload"], failed="systemd did not read the unit")
        tell([*self._argv, "enable", unit], failed=f"{unit} could not be enabled")
        if start:
            verb = "restart" if changed else "start"
            seconds = START_SECONDS + settings.stop_seconds + SLACK_SECONDS
            tell([*self._argv, verb, unit], seconds, failed=f"{unit} did not start{self._look()}")

    def unload(self, seconds: float) -> None:
        """Stop and disable the unit."""
        unit = self.path.name
        # What runs after the end has as long again.
        tell(
            [*self._argv, "disable", "--now", unit],
            2 * seconds + SLACK_SECONDS,
            failed=f"{unit} could not be stopped and disabled",
        )

    def forget(self) -> None:
        """Have systemd notice that the file is gone, and that nothing of it has failed."""
        tell([*self._argv, "daemon-reload"], failed="systemd did not notice that the unit is gone")
        ask([*self._argv, "reset-failed", self.path.name])

    def state(self) -> State:
        """Return how the unit is. Raises ServiceError when systemd says nothing."""
        said = tell(
            [*self._argv, "show", self.path.name, f"--property={','.join(_ASKED)}"],
            failed=f"systemd says nothing of {self.path.name}",
        )
        known = dict(line.split("=", 1) for line in said.out.splitlines() if "=" in line)
        state = _STATES.get(known.get("ActiveState", ""), "unknown")
        if known.get("SubState") == "auto-restart":
            state = "restarting"
        pid, restarts = known.get("MainPID", ""), known.get("NRestarts", "")
        return State(
            state,
            enabled=known["UnitFileState"] in ("enabled", "enabled-runtime")
            if known.get("UnitFileState")
            else None,
            pid=int(pid) if pid.isdecimal() and int(pid) else None,
            restarts=int(restarts) if restarts.isdecimal() else None,
            says=known.get("StatusText", "") if state == "running" else "",
        )

    def hints(self) -> Sequence[str]:
        """Return that it ends with the session, where it does."""
        if self.system or shutil.which("loginctl") is None:
            return ()
        said = ask(["loginctl", "show-user", getpass.getuser(), "--property=Linger"], ASK_SECONDS)
        if "Linger=yes" in said.out:
            return ()
        return (
            "it ends when you log out; to have it run from the start of the machine on: loginctl enable-linger",
        )

    def _look(self) -> str:
        who = "" if self.system else "--user "
        return f" (see: journalctl {who}-u {self.name} -n 20)"

    def _advice(self) -> str:
        if self.system:
            return ""
        if os.geteuid() == 0:
            return "; as root you may mean --system"
        if not os.environ.get("XDG_RUNTIME_DIR"):
            return (
                f"; XDG_RUNTIME_DIR is not set, as after su or sudo: log in as this user, or set it to"
                f" /run/user/{os.getuid()}"
            )
        return ""
