"""The shape of what is said of a service; `schemas/service.v1.json` is generated from it."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.shapes import Document

Kind = Literal["systemd", "launchd"]
Phase = Literal["running", "starting", "stopping", "restarting", "stopped", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class ServiceDocument(Document):
    """What `reconcile service status --json` prints. Times are seconds since 1970."""

    name: str
    manager: Kind
    scope: Literal["user", "system"]
    path: str
    """Of the unit, whether it is there or not."""
    installed: bool
    """Whether a unit of ours is there."""
    foreign: bool
    """Whether somebody else's file is there instead."""
    current: bool | None
    """Whether it is what this version would write for the manifest as it is now; null = nothing of ours is there."""
    state: Phase
    enabled: bool | None
    """Whether it starts by itself; null = not known."""
    pid: int | None
    since: float | None
    """When its process was started."""
    restarts: int | None
    """Starts that nobody asked for, since it was last started by somebody; null = not known."""
    last_exit: str | None
    """How the run before ended, in words; null = not known."""
    last_exit_at: float | None
    says: str
    """What the program says of itself, on one line; empty = nothing."""
    manifest: str | None
    state_dir: str | None
    listen: str | None
    """The address it was given in place of the manifest's."""
    problem: str
    """Why the service manager could not be asked; empty = it could."""
