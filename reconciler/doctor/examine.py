"""The whole examination: every check in the order in which people read about it."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.core.memory import Memory
from reconciler.core.types import Preflight
from reconciler.doctor import engines, graphics, limits, macos, memory, ports, state
from reconciler.doctor.finding import Finding, cannot_tell, error, note, ok
from reconciler.doctor.kernel import Kernel
from reconciler.host.adopt import Survivor
from reconciler.host.identity import Process
from reconciler.manifest.applied import Applied
from reconciler.memory.commands import Run, no_commands


@dataclass(frozen=True, slots=True)
class Patient:
    """Everything the checks look at; whatever is not given is read below `root`."""

    memory: Memory
    state_dir: Path
    #: Where the manifest is looked for; `applied` is what was read of it, `refused` why it was not (one line each).
    path: str
    applied: Applied | None = None
    refused: tuple[str, ...] = ()
    preflights: Mapping[str, Preflight] = field(default_factory=dict)
    #: Who holds the lock of the state directory, and where that loop serves: its address and port.
    holder: Process | None = None
    url: str | None = None
    serving: int | None = None
    survivors: tuple[Survivor, ...] = ()
    #: Launch ids of processes that carry our mark and are in no record.
    unrecorded: tuple[str, ...] = ()
    #: Why the next loop would load only pinned models, or does so now; "" = it would load all.
    safe_mode: str = ""
    #: Why survivors could not be looked for, or nothing.
    blind: str = ""
    root: Path = Path("/")
    system: str = field(default_factory=platform.system)
    run: Run = no_commands
    limit: limits.ReadLimit = limits.soft_limit
    ask_version: engines.AskVersion = engines.ask_version
    privileged: bool = field(default_factory=lambda: os.geteuid() == 0)


Check = Callable[[Patient], Iterator[Finding]]


def examine(patient: Patient) -> tuple[Finding, ...]:
    """Return all findings. Raises nothing for what cannot be read. Blocks: files, ports, a program's `--version`."""
    findings: list[Finding] = []
    for topic, check in _CHECKS:
        try:
            findings += check(patient)
        except (OSError, ValueError) as problem:
            findings.append(cannot_tell(topic, str(problem) or type(problem).__name__))
    return tuple(findings)


def _manifest(patient: Patient) -> Iterator[Finding]:
    if patient.refused:
        more = f" (and {len(patient.refused) - 1} more)" if len(patient.refused) > 1 else ""
        yield error("manifest", patient.refused[0] + more, f"see: reconcile validate {patient.path}")
    elif patient.applied is None:
        yield note("manifest", f"there is none at {patient.path}", "name one: reconcile doctor PATH")
    else:
        count = len(patient.applied.manifest.models)
        yield ok("manifest", f"{patient.path} is valid: {count} model{'' if count == 1 else 's'}")
        for text in patient.applied.warnings:
            yield note("manifest", text)


def _memory(patient: Patient) -> Iterator[Finding]:
    yield from memory.check_memory(patient.memory, patient.applied.manifest if patient.applied else None)


def _swap(patient: Patient) -> Iterator[Finding]:
    manifest = patient.applied.manifest if patient.applied else None
    yield from memory.check_swap(
        patient.memory, manifest, Kernel(patient.root), linux=patient.system == "Linux"
    )


def _kernel(patient: Patient) -> Iterator[Finding]:
    if patient.system == "Linux":
        yield from Kernel(patient.root).check()


def _limits(patient: Patient) -> Iterator[Finding]:
    yield from limits.check_locked(
        patient.applied, patient.preflights, patient.limit, privileged=patient.privileged
    )
    yield from limits.check_files(patient.applied, patient.limit)


def _gpu(patient: Patient) -> Iterator[Finding]:
    if patient.system == "Darwin":
        yield from macos.check_macos(patient.memory, patient.run)
    else:
        yield from graphics.check_graphics(patient.memory, patient.root)


def _engines(patient: Patient) -> Iterator[Finding]:
    yield from engines.check_engines(patient.applied, patient.ask_version)
    if patient.applied is not None:
        yield from engines.check_models(patient.applied, patient.preflights)


def _ports(patient: Patient) -> Iterator[Finding]:
    if patient.applied is not None:
        ours = {found.record.port: found.record.model for found in patient.survivors}
        yield from ports.check_ports(patient.applied, ours, patient.serving)


def _state(patient: Patient) -> Iterator[Finding]:
    yield from state.check_directory(patient.state_dir)
    yield from state.check_holder(patient.state_dir, patient.holder, patient.url)
    yield from state.check_safe_mode(patient.safe_mode)
    if patient.blind:
        yield cannot_tell("processes", patient.blind)
    else:
        yield from state.check_survivors(patient.survivors, patient.unrecorded, patient.holder)


_CHECKS: tuple[tuple[str, Check], ...] = (
    ("manifest", _manifest),
    ("memory", _memory),
    ("swap", _swap),
    ("kernel", _kernel),
    ("limits", _limits),
    ("gpu", _gpu),
    ("engines", _engines),
    ("ports", _ports),
    ("state", _state),
)
