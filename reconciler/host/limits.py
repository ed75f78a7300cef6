"""What one model may take at most: memory by a control group of its own, open files, core dumps, address space.

The process is in its group before its program begins, and the group goes when nothing is left in it, also at the next
start after a crash of ours. Where a limit cannot be set the model is not started: none is passed over in silence.
"""

import hashlib
import os
import resource
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.launch import Limits
from reconciler.core.words import size as size_text
from reconciler.host.errors import StartError
from reconciler.memory import oom_kills
from reconciler.memory.hierarchy import V1, V2, Group, find_groups
from reconciler.memory.oom_kills import Kills
from reconciler.memory.procfs import read_text, whole

#: The right to raise hard limits, and to be spared by the kernel more than before, as a bit of a set of capabilities.
_SYS_RESOURCE: Final = 1 << 24
#: Hex digits that stand for the owner in the name of a group.
_OWNER: Final = 12
#: A shell that goes into the group and becomes the program: the same process, and no instant outside.
_ENTER: Final = 'echo $$ > "$0" || exit 125; exec "$@"'
_HOW: Final = (
    "what would make it possible: run reconcile as root, as a service of systemd (`reconcile service install`), or by"
    " `systemd-run --user --scope -p Delegate=yes reconcile`"
)
_RLIMITS: Final = {
    "nofile": resource.RLIMIT_NOFILE,
    "core": resource.RLIMIT_CORE,
    "as": resource.RLIMIT_AS,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups of models can be made; `version` is that of the control groups."""

    folder: Path
    version: int


def place(root: Path = Path("/")) -> Place | str:
    """Return where groups that limit memory can be made, or why nowhere. Blocks for a few small reads."""
    if sys.platform != "linux":
        return "this system has no control groups; memory.limit bounds what PyTorch takes on the GPU of a Mac"
    groups = find_groups(root).groups
    first = [group for group in groups if group.files is V1][:1]
    if first and V1.limits[0] in first[0].limits:
        return _writable(first[0], 1)
    # In version 2 a group with processes in it, like our own, has no groups below it that could be limited.
    second = [group for group in groups if group.files is V2][1:]
    for group in second:
        if "memory" in (read_text(group.folder / "cgroup.subtree_control") or "").split():
            return _writable(group, 2)
    if groups:
        return f"no control group above {groups[0].path} hands the memory controller down; {_HOW}"
    return f"no control group that limits memory is mounted here; {_HOW}"


def _writable(group: Group, version: int) -> Place | str:
    if os.access(group.folder, os.W_OK) and os.access(group.folder / "cgroup.procs", os.W_OK):
        return Place(group.folder, version)
    return f"the control group {group.path} may not be changed by this user; {_HOW}"


def why_not(limits: Limits, root: Path = Path("/")) -> str | None:
    """Return why these limits cannot be set here, in a sentence, or None. Blocks briefly."""
    if limits.memory is not None and isinstance(where := place(root), str):
        return f"limits.memory cannot be set here: {where}"
    if limits.oom_score_adj is not None:
        own = (read_text(root / "proc/self/oom_score_adj") or "").strip()
        if whole(own.removeprefix("-")) is None:
            return "limits.oom_score_adj cannot be set here: this system has no such thing"
        ours = int(own)
        if limits.oom_score_adj < ours and not _may_raise(root):
            return (
                f"limits.oom_score_adj: {limits.oom_score_adj} is below our own {ours}, which takes a right that this"
                " user does not have (CAP_SYS_RESOURCE): write that or more, or lower that of reconcile"
                " (OOMScoreAdjust= in its unit)"
            )
    return _why_no_rlimits(limits, root)


def _why_no_rlimits(limits: Limits, root: Path) -> str | None:
    stated = rlimits(limits)
    if stated and not hasattr(resource, "prlimit"):
        return (
            "limits.rlimits cannot be set here: this system lets no program set them for another; have the command do"
            " it: sh -c 'ulimit -n 4096; exec server'"
        )
    for name, value in stated.items():
        hard = resource.getrlimit(_RLIMITS[name])[1]
        above = hard != resource.RLIM_INFINITY and (value == resource.RLIM_INFINITY or value > hard)
        if above and not _may_raise(root):
            most = f"{hard}" if name == "nofile" else size_text(hard)
            return (
                f"limits.rlimits.{name} is above the hard limit of this user, {most}: raise that (Limit"
                f"{name.upper()}= in the unit, or /etc/security/limits.conf), or write less"
            )
    return None


def _may_raise(root: Path) -> bool:
    """Return whether we may raise hard limits: the root of a user namespace has all rights there, and not this one."""
    status = dict(
        line.split(":", 1)
        for line in (read_text(root / "proc/self/status") or "").splitlines()
        if ":" in line
    )
    outermost = (read_text(root / "proc/self/uid_map") or "").split() == ["0", "0", "4294967295"]
    return outermost and bool(int(status.get("CapEff", "0").strip() or "0", 16) & _SYS_RESOURCE)


def rlimits(limits: Limits) -> dict[str, int]:
    """Return the limits of a process that are stated, by name; -1 = none at all."""
    named = {"nofile": limits.nofile, "core": limits.core, "as": limits.address_space}
    return {name: value for name, value in named.items() if value is not None}


def after_start(pid: int, limits: Limits) -> None:
    """Set the limits of a process just started; what it starts takes them over. Raises StartError."""
    for name, value in rlimits(limits).items():
        try:
            resource.prlimit(pid, _RLIMITS[name], (value, value))
        except ProcessLookupError:
            return  # it has ended already
        except (OSError, ValueError) as error:
            raise StartError(f"limits.rlimits.{name} could not be set: {error}") from error


def entering(argv: tuple[str, ...], group: Path) -> tuple[str, ...]:
    """Return the command line that goes into a group and then is `argv`."""
    return ("/bin/sh", "-c", _ENTER, str(group / "cgroup.procs"), *argv)


class Groups:
    """The control groups of the models of one owner. All methods block briefly, and may be called from any thread."""

    def __init__(self, owner: str, root: Path = Path("/")) -> None:
        # A digest, for a name of any letters is no folder's.
        self._prefix = f"reconciler-{hashlib.sha256(owner.encode()).hexdigest()[:_OWNER]}-"
        self._root = root
        #: Held while a group is made and not entered yet: an empty one would be swept.
        self.making = threading.RLock()

    def make(self, launch_id: str, memory: int) -> Path:
        """Make the group of a launch, limited to so many bytes, and return its folder. Raises StartError."""
        where = place(self._root)
        if isinstance(where, str):
            raise StartError(f"limits.memory cannot be set here: {where}")
        folder = where.folder / f"{self._prefix}{launch_id}"
        try:
            folder.mkdir(exist_ok=True)
            if where.version == 1:
                (folder / "memory.limit_in_bytes").write_text(str(memory))
            else:
                (folder / "memory.max").write_text(str(memory))
        except OSError as error:
            with suppress(OSError):
                folder.rmdir()
            raise StartError(f"limits.memory could not be set ({folder}): {error.strerror}") from error
        # Swapped out it would go on, and slow the machine down. Kernels that do not count swap have no such file. One
        # worker that is ended takes the others with it, where the kernel can do that.
        extra = {"memory.memsw.limit_in_bytes": str(memory)} if where.version == 1 else {}
        extra = extra or {"memory.swap.max": "0", "memory.oom.group": "1"}
        for name, value in extra.items():
            with suppress(OSError):
                if (folder / name).exists():
                    (folder / name).write_text(value)
        return folder

    def kills(self, launch_id: str) -> Kills | None:
        """Return what the kernel did, for want of memory, to the processes of a launch; None = it has no group."""
        folder = self._folder(launch_id)
        return None if folder is None else oom_kills.of_group(folder)

    def sweep(self) -> None:
        """Remove the groups of ours that nothing is in any more; those of models that run stay."""
        with self.making:
            for folder in self._all():
                with suppress(OSError):  # something is in it, or it is another's by now
                    folder.rmdir()

    def _folder(self, launch_id: str) -> Path | None:
        return next((f for f in self._all() if f.name == f"{self._prefix}{launch_id}"), None)

    def _all(self) -> list[Path]:
        """Return the groups of ours, wherever above us they were made."""
        found: set[Path] = set()
        for group in find_groups(self._root).groups:
            with suppress(OSError):
                found |= {f for f in group.folder.glob(f"{self._prefix}*") if f.is_dir()}
        return sorted(found)
