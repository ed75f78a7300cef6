"""What is known before a start, of whichever engine: placement, fingerprint, notes; nothing secret in it."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from random_gguf import RandomModel, write_random
from reconciler.core.launch import Device, LaunchSpec, LoadMode, LoraAdapter, Role
from reconciler.core.types import Preflight, Reason
from reconciler.engines import placement, registry
from reconciler.engines.command import CommandEngine
from reconciler.engines.placement import Machine
from reconciler.host import Ports
from reconciler.loop.preflights import examine, files_of
from reconciler.loop.startable import preflight


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour has passed since the test wrote its files."""
    now = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: now)


def spec(folder: Path) -> LaunchSpec:
    for name in ("model.bin", "mmproj.bin", "lora.bin", "draft.bin"):
        (folder / name).write_bytes(name.encode() * 100)
    return LaunchSpec(
        "m",
        "command",
        command=("/bin/true", "--api-key", "hunter22"),
        cwd=str(folder),
        weights=str(folder / "model.bin"),
        projector=str(folder / "mmproj.bin"),
        draft=str(folder / "draft.bin"),
        adapters=(LoraAdapter(str(folder / "lora.bin")),),
    )


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("name", ["model.bin", "mmproj.bin", "lora.bin", "draft.bin"])
def test_every_file_of_a_model_counts(name: str, tmp_path: Path) -> None:
    launch = spec(tmp_path)
    before = examine(launch).weights
    assert len(before) == 16
    assert examine(launch).weights == before
    (tmp_path / name).write_bytes(b"other")
    assert examine(launch).weights not in ("", before)
    (tmp_path / name).unlink()
    assert examine(launch).weights == ""


def test_files_just_written_are_not_known_yet(tmp_path: Path) -> None:
    assert examine(spec(tmp_path)).weights == ""


@pytest.mark.usefixtures("later")
def test_a_model_without_files_has_no_fingerprint(tmp_path: Path) -> None:
    bare = LaunchSpec("m", "command", command=("/bin/true",), cwd=str(tmp_path))
    assert files_of(bare) == ()
    assert examine(bare).weights == ""


@pytest.mark.usefixtures("later")
def test_what_cannot_be_started_replaces_nothing(tmp_path: Path) -> None:
    launch = replace(spec(tmp_path), command=("/no/such/server",))
    found = examine(launch)
    assert (found.reason, found.weights) == (Reason.NOT_STARTABLE, "")


def on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "machine_for", lambda _spec: machine)


def test_cpus_that_are_not_here_are_told_before_anybody_goes(tmp_path: Path) -> None:
    launch = replace(spec(tmp_path), device=Device(cpus=(0, 4000)))
    found = preflight(launch, {}, Ports(18100, 18199))
    if hasattr(os, "sched_setaffinity"):
        assert found.reason == Reason.NOT_STARTABLE
        assert found.message.startswith("device.cpus names CPU 4000, and what may be used here is 0")
    else:
        assert found.notes[0].startswith("device.cpus has no effect")


def test_a_reason_of_the_engine_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on(Machine(cpus=(0,)), monkeypatch)
    launch = replace(spec(tmp_path), command=("/no/such/server",), device=Device(cpus=(7,)))
    assert "/no/such/server" in examine(launch).message


def test_the_size_that_is_locked_is_the_files_where_nothing_better_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(Machine(lockable=500), monkeypatch)
    found = examine(replace(spec(tmp_path), load_mode=LoadMode.MLOCK))
    assert found.notes[0].startswith("it is to lock 900 B of weights, and 500 B may be locked")


class Noting(CommandEngine):
    """Says something twice, and something that it should not."""

    torch = False

    def preflight(self, spec: LaunchSpec) -> Preflight:
        return Preflight(
            spec.model, Reason.NOT_STARTABLE, "no hunter22", notes=("old", "old", "a key hunter22 is short")
        )


def test_notes_come_once_and_without_what_is_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get: Callable[[str], CommandEngine] = lambda _name: Noting()  # noqa: E731
    monkeypatch.setattr(registry, "get", get)
    on(Machine("Darwin"), monkeypatch)
    found = examine(replace(spec(tmp_path), allocator_limit=1))
    assert found.message == "no ***"
    assert found.notes == (
        "old",
        "a key *** is short",
        "memory.limit has no effect here: only PyTorch on the GPU of a Mac can be told a limit from outside",
    )


@pytest.mark.parametrize(
    ("system", "torch", "takes_limit", "told"),
    [
        ("Linux", True, False, True),
        ("Linux", None, True, False),
        ("Darwin", True, False, False),
        ("Darwin", None, False, False),
        ("Darwin", False, False, True),
        ("Darwin", False, True, False),
    ],
)
def test_whom_a_limit_reaches(
    system: str,
    torch: bool | None,
    takes_limit: bool,
    told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = CommandEngine()
    engine.torch, engine.takes_limit = torch, takes_limit
    monkeypatch.setattr(registry, "get", lambda _name: engine)
    on(Machine(system), monkeypatch)
    found = examine(replace(spec(tmp_path), allocator_limit=1))
    assert [note.startswith("memory.limit has no effect here") for note in found.notes] == [True] * told


@pytest.mark.parametrize(
    ("saves", "role"), [(True, Role.EMBEDDING), (True, Role.CHAT), (False, Role.EMBEDDING)]
)
def test_why_no_state_will_be_kept_is_known_before_a_start(tmp_path: Path, saves: bool, role: Role) -> None:
    weights = write_random(RandomModel("w", layers=1), tmp_path)
    notes = examine(LaunchSpec("m", "llama.cpp", weights=str(weights), role=role, saves_state=saves)).notes
    said = [
        note
        for note in notes
        if note.startswith("its state will not be kept (state.save): it computes vectors")
    ]
    assert len(said) == (saves and role is Role.EMBEDDING)
