"""What is found on machines that are well, odd or ill, and that nothing unreadable is taken for good."""

import json
import os
import resource
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import text_engines
from golden_files import assert_golden
from reconciler.cli import main
from reconciler.core.launch import LaunchSpec, LoadMode
from reconciler.core.memory import Estimate, GpuPool, HostUse, Memory, Swap
from reconciler.core.types import Manifest, ModelSpec, Preflight, Residency
from reconciler.doctor import Finding, Level, Patient, examine
from reconciler.doctor.engines import ask_version, check_engines, check_models
from reconciler.doctor.graphics import check_graphics
from reconciler.doctor.kernel import Kernel
from reconciler.doctor.limits import check_files, check_locked
from reconciler.doctor.macos import check_macos
from reconciler.doctor.memory import check_memory, check_swap
from reconciler.doctor.ports import check_ports
from reconciler.doctor.state import check_directory, check_holder, check_survivors
from reconciler.engines import registry
from reconciler.host.adopt import Survivor
from reconciler.host.identity import Process
from reconciler.leases import QueueLimits
from reconciler.manifest.applied import Applied, GatewaySettings, RequestLimits, Source
from reconciler.memory.commands import Output, no_commands
from reconciler.render import schemas
from reconciler.render.doctor_shapes import FindingDocument
from reconciler.render.doctor_text import doctor_json, doctor_text
from reconciler.store import LaunchRecord
from support import free_port

GIB = 1 << 30
MIB = 1 << 20
WELL = Memory(64 * GIB, 40 * GIB, "/proc/meminfo", swap=Swap(8 * GIB, 100 * MIB))
#: A Linux machine on which all is as it should be.
TREE = {
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/swaps": "Filename Type Size Used Priority\n/swapfile file 8388604 0 -2\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 total=0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


def plant(root: Path, changes: Mapping[str, str | None]) -> Path:
    for name, text in {**TREE, **changes}.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return root


def applied(*specs: ModelSpec, launches: Mapping[str, LaunchSpec] | None = None, **fields: Any) -> Applied:
    manifest = Manifest(tuple(sorted(specs, key=lambda s: s.name)), **fields.pop("manifest", {}))
    names = [s.name for s in manifest.models]
    return replace(
        Applied(
            manifest=manifest,
            launches=launches or {n: LaunchSpec(n, "command", command=("x",)) for n in names},
            routes={n: n for n in names},
            limits={n: RequestLimits(QueueLimits(max=10)) for n in names},
            gateway=GatewaySettings(port=0),
            ports=(18100, 18199),
            digest="d",
            source=Source("manifests"),
        ),
        **fields,
    )


def said(findings: Any) -> list[tuple[str, str]]:
    return [(f.level.value, f"{f.topic}: {f.what}") for f in findings]


def worst(findings: Any) -> str:
    levels = [f.level for f in findings]
    return next(level.value for level in reversed(Level) if level in levels)


# -- the kernel and the memory -------------------------------------------------------------------------------------

KERNEL = [
    ({}, "ok", "overcommit: heuristic (0)"),
    ({"proc/sys/vm/overcommit_memory": "2\n"}, "warning", "overcommit: strict (2)"),
    ({"proc/sys/vm/overcommit_memory": "1\n"}, "ok", "overcommit: always (1)"),
    ({"proc/sys/vm/overcommit_memory": None}, "note", "overcommit: cannot tell"),
    ({"proc/sys/vm/overcommit_memory": "\x00²x"}, "note", "overcommit: cannot tell"),
    ({"proc/pressure/memory": None}, "note", "pressure: cannot tell"),
    ({"proc/pressure/memory": ""}, "note", "pressure: cannot tell"),
    (
        {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"},
        "note",
        "huge pages: always",
    ),
    ({"sys/kernel/mm/transparent_hugepage/enabled": "always"}, "note", "huge pages: cannot tell"),
]


@pytest.mark.parametrize(("changes", "level", "text"), KERNEL)
def test_settings_of_the_kernel(
    changes: dict[str, str | None], level: str, text: str, tmp_path: Path
) -> None:
    found = said(Kernel(plant(tmp_path, changes)).check())
    assert any(lv == level and what.startswith(text) for lv, what in found), found


SWAP = [
    (Swap(8 * GIB, 100 * MIB), None, {}, ["ok swap: 100 MiB of 8.0 GiB in use", "ok swappiness: 60"]),
    (Swap(0, 0), None, {}, ["note swap: none"]),
    (Swap(), None, {}, ["note swap: cannot tell"]),
    (Swap(8 * GIB, 2 * GIB), None, {}, ["warning swap: 2.0 GiB of swap is in use", "ok swappiness"]),
    (Swap(8 * GIB, 2 * GIB), 4 * GIB, {}, ["ok swap: 2.0 GiB of 8.0 GiB", "ok swappiness"]),
    (
        Swap(8 * GIB, 0),
        None,
        {"proc/swaps": "Filename\n/dev/zram0 partition 1 0 100\n", "proc/sys/vm/swappiness": "180"},
        ["ok swap", "note swap: swap lies in compressed memory", "note swappiness: 180"],
    ),
    (Swap(8 * GIB, 0), None, {"proc/sys/vm/swappiness": "high"}, ["ok swap", "note swappiness: cannot tell"]),
]


@pytest.mark.parametrize(("swap", "limit", "changes", "expected"), SWAP)
def test_swap(
    swap: Swap, limit: int | None, changes: dict[str, str | None], expected: list[str], tmp_path: Path
) -> None:
    kernel = Kernel(plant(tmp_path, changes))
    found = said(check_swap(replace(WELL, swap=swap), Manifest((), max_swap=limit), kernel, linux=True))
    assert len(found) == len(expected)
    for (level, what), text in zip(found, expected, strict=True):
        assert f"{level} {what}".startswith(text)


def test_swap_elsewhere_asks_nothing_of_a_linux_kernel(tmp_path: Path) -> None:
    found = said(check_swap(replace(WELL, swap=Swap(0, 0)), None, Kernel(tmp_path), linux=False))
    assert found == [("ok", "swap: 0 B of 0 B in use")]


MEMORY = [
    (
        WELL,
        {},
        ["ok memory: 64.0 GiB, 40.0 GiB available (/proc/meminfo)", "ok budget: models may hold 57.6 GiB"],
    ),
    (Memory(None, None, "/proc/meminfo cannot be read"), {}, ["error memory: cannot tell how much"]),
    (
        replace(WELL, host=HostUse(128 * GIB, 80 * GIB, 0, 0)),
        {},
        ["ok memory", "note control group: a limit leaves 64.0 GiB of the machine's 128.0 GiB", "ok budget"],
    ),
    (WELL, {"memory": 100 * GIB}, ["ok memory", "warning budget: machine.memory is 100.0 GiB", "ok budget"]),
    (WELL, {"reserve": 64 * GIB}, ["ok memory", "error budget: the reserve and the marks leave nothing"]),
    (
        replace(WELL, problems=("the ARC cannot be read",)),
        {},
        ["ok", "note memory: cannot tell: the ARC", "ok"],
    ),
]


@pytest.mark.parametrize(("memory", "manifest", "expected"), MEMORY)
def test_memory(memory: Memory, manifest: dict[str, Any], expected: list[str]) -> None:
    found = said(check_memory(memory, Manifest((), **manifest)))
    assert len(found) == len(expected), found
    for (level, what), text in zip(found, expected, strict=True):
        assert f"{level} {what}".startswith(text)


# -- limits and GPUs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "privileged", "weights", "level"),
    [
        (8 * MIB, False, GIB, "warning"),
        (8 * MIB, False, None, "warning"),
        (2 * GIB, False, GIB, "ok"),
        (None, False, GIB, "ok"),
        (8 * MIB, True, GIB, "ok"),
    ],
)
def test_models_that_lock_their_weights(
    allowed: int | None, privileged: bool, weights: int | None, level: str
) -> None:
    locking = applied(
        ModelSpec("a", "d"), launches={"a": LaunchSpec("a", "llama.cpp", load_mode=LoadMode.MLOCK)}
    )
    preflights = {"a": Preflight("a", parts=Estimate(weights=weights))}
    found = list(check_locked(locking, preflights, lambda _: allowed, privileged=privileged))
    assert [f.level.value for f in found] == [level]
    assert worst(check_locked(applied(ModelSpec("a", "d")), {}, lambda _: allowed, privileged=False)) == "ok"


@pytest.mark.parametrize(("allowed", "level"), [(85, "note"), (86, "ok"), (None, "ok")])
def test_open_files(allowed: int | None, level: str) -> None:
    """64 of our own, and two for each of 10 waiting requests and one being served."""

    def limit(kind: int) -> int | None:
        assert kind == resource.RLIMIT_NOFILE
        return allowed

    assert [f.level.value for f in check_files(applied(ModelSpec("a", "d")), limit)] == [level]


def test_graphics(tmp_path: Path) -> None:
    assert said(check_graphics(WELL, tmp_path)) == [("note", "gpu: none found: models run on the CPU")]
    (tmp_path / "dev/dri").mkdir(parents=True)
    (tmp_path / "dev/dri/renderD128").touch()
    assert said(check_graphics(WELL, tmp_path))[0][1].startswith("gpu: cannot tell: there is a GPU")
    known = replace(WELL, gpu=GpuPool(96 * GIB, 2 * GIB, "amdgpu"))
    assert said(check_graphics(known, tmp_path)) == [
        ("ok", "gpu: may use 96.0 GiB of the memory, 2.0 GiB in use (amdgpu)")
    ]


def test_a_gpu_that_may_not_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = list(check_graphics(WELL, tmp_path))
    assert (found[0].level, found[0].what) == (Level.WARNING, "may not be used by this user: /dev/nvidia0")
    assert "group" in found[0].advice


@pytest.mark.parametrize(
    ("output", "level", "text"),
    [
        (Output("iogpu.wired_limit_mb: 0\n"), "note", "iogpu.wired_limit_mb is 0"),
        (Output("iogpu.wired_limit_mb: 57344\n"), "ok", "iogpu.wired_limit_mb is 57344 MiB"),
        (Output(""), "note", "cannot tell: sysctl does not state"),
        (Output("", 1), "note", "cannot tell: sysctl failed"),
        (OSError(2, "No such file"), "note", "cannot tell: sysctl cannot be run"),
    ],
)
def test_the_ceiling_of_macos(output: Output | OSError, level: str, text: str) -> None:
    def run(argv: Any, timeout: float) -> Output:
        assert argv[-1] == "iogpu.wired_limit_mb"
        if isinstance(output, OSError):
            raise output
        return output

    found = list(check_macos(WELL, run))
    assert (found[0].level.value, found[0].what.startswith(text)) == (level, True)


# -- engines and models --------------------------------------------------------------------------------------------


def program(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "llama-server"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_llama_server_on_the_path_is_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path / "bin", "echo ggml_init: found 0 devices >&2; echo 'version: 6700 (abc123)' >&2")
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    assert ("ok", f"llama.cpp: {path}: version: 6700 (abc123)") in said(check_engines(None))


def test_a_program_that_hangs_or_breaks_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reconciler.doctor import engines

    path = program(tmp_path / "bin", "exec sleep 30")
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(engines, "VERSION_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        ask_version(str(path))
    found = said(check_engines(None))
    assert any(level == "note" and "does not say its version" in what for level, what in found)
    assert ask_version(str(program(tmp_path / "bin", "exit 3"))) == "it says nothing"


@pytest.mark.parametrize(("used", "level"), [(True, "warning"), (False, "note")])
def test_an_engine_that_is_missing(
    used: bool, level: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import importlib.metadata

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    launches = {"a": LaunchSpec("a", "llama.cpp")} if used else {"a": LaunchSpec("a", "command")}
    found = [
        f for f in check_engines(applied(ModelSpec("a", "d"), launches=launches)) if f.topic == "llama.cpp"
    ]
    assert [f.level.value for f in found] == [level]
    assert "pip install" in found[0].advice


def test_each_models_own_program_is_asked(tmp_path: Path) -> None:
    here = text_engines.bare("vllm", tmp_path)
    launches = {
        "a": here,
        "b": replace(here, model="b", python=str(tmp_path / "gone")),
        "c": replace(here, model="c", python=str(tmp_path / "gone")),
    }
    found = [one for one in check_engines(applied(launches=launches)) if one.topic == "vllm"]
    assert [(one.level.value, one.what) for one in found] == [
        ("warning", "its server is not here for b, c"),
        ("ok", f"{here.python}/bin/vllm: version 0.32.0+cpu"),
    ]
    assert "pip install vllm" in found[0].advice


def test_of_engines_that_no_model_uses_it_is_said_whether_they_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(text_engines.program(tmp_path, "whisper-server").parent))
    lines = said(check_engines(applied(launches={"x": LaunchSpec("x", "command")})))
    assert ("note", "tei: its server is not here; no model uses it") in lines
    assert (
        "ok",
        f"whisper.cpp: {tmp_path}/whisper-server: it does not say its version; no model uses it",
    ) in lines
    assert ("ok", "command: starts what the manifest names") in lines
    assert {what.partition(":")[0] for _, what in lines} == set(registry.names())


def test_models_that_could_not_be_started() -> None:
    models = applied(
        ModelSpec("main", "d", residency=Residency.PINNED, steady=1),
        ModelSpec("odd", "d"),
        ModelSpec("well", "d", steady=1),
    )
    preflights = {
        "main": Preflight("main", "NotStartable", "the weights /w do not exist"),
        "odd": Preflight("odd", message="give memory.steady"),
        "well": Preflight("well"),
    }
    found = list(check_models(models, preflights))
    assert said(found) == [
        ("error", "models: main cannot be started: the weights /w do not exist"),
        ("warning", "models: the size of odd is unknown"),
        ("ok", "models: 1 of 3 could be started"),
    ]
    assert found[1].advice == "give memory.steady"


# -- ports and the state directory ---------------------------------------------------------------------------------


def test_ports() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        mine = applied(ModelSpec("a", "d"), ports=(port, port), gateway=GatewaySettings(port=port))
        found = list(check_ports(mine, {}, None))
        assert [(f.level.value, f.topic) for f in found] == [("error", "gateway"), ("error", "ports")]
        assert f"port {port} is in use by pid {os.getpid()}" in found[0].what
        assert {f.level for f in check_ports(mine, {port: "a"}, port)} == {Level.OK}
        fixed = {"a": LaunchSpec("a", "command", port=port)}
        found = list(check_ports(replace(mine, gateway=GatewaySettings(port=0), launches=fixed), {}, None))
        assert [f.level for f in found if "port" in f.what and "of a is in use" in f.what] == [Level.ERROR]
    free = free_port()
    assert {f.level for f in check_ports(replace(mine, ports=(free, free)), {}, port)} == {Level.OK}
    two = applied(ModelSpec("a", "d"), ModelSpec("b", "d"), ports=(free, free))
    assert "1 of" in next(f.what for f in check_ports(two, {}, None) if f.level is Level.WARNING)


def test_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "state"
    assert said(check_directory(folder))[0][0] == "note"
    folder.mkdir(mode=0o700)
    assert worst(check_directory(folder)) == "ok"
    folder.chmod(0o755)
    found = list(check_directory(folder))
    assert (found[0].level, found[0].advice) == (Level.WARNING, f"chmod 700 {folder}")
    (tmp_path / "file").touch()
    assert worst(check_directory(tmp_path / "file")) == "error"
    assert worst(check_directory(tmp_path / "file" / "below")) == "error"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert worst(check_directory(folder)) == "error"
    assert worst(check_directory(tmp_path / "new")) == "error"


@pytest.mark.parametrize(("free", "level"), [(10 * GIB, "ok"), (GIB - 1, "warning"), (MIB, "error")])
def test_room_on_the_disk(free: int, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    from types import SimpleNamespace

    tmp_path.chmod(0o700)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert [f.level.value for f in check_directory(tmp_path) if f.topic == "disk"] == [level]


def test_who_runs_and_what_is_left_over(tmp_path: Path) -> None:
    loop = Process(41, 1)
    assert worst(check_holder(tmp_path, None, None)) == "ok"
    assert worst(check_holder(tmp_path, loop, "http://127.0.0.1:8080")) == "ok"
    assert worst(check_holder(tmp_path, loop, None)) == "note"
    record = LaunchRecord("l1", "chat", "d", 42, 1, 18100, "boot")
    left = (Survivor(record, Process(42, 1), (42,)),)
    found = list(check_survivors(left, (), None))
    assert (found[0].level, found[0].what) == (Level.WARNING, "running without a loop: chat")
    assert "reconcile stop" in found[0].advice
    assert worst(check_survivors(left, (), loop)) == "ok"
    *_, lost = check_survivors((), ("l2",), None)
    assert (lost.level, lost.what) == ("warning", "1 model that runs is in no record")
    assert "makes the record again from what the process tells" in lost.advice
    *_, running = check_survivors((), ("l2",), loop)
    assert (running.level, running.what) == (
        "note",
        f"1 model that runs is in no record: pid {loop.pid} has just started that, or cannot write its ledger",
    )


# -- the whole -----------------------------------------------------------------------------------------------------


def patient(root: Path, **fields: Any) -> Patient:
    values: dict[str, Any] = {
        "memory": WELL,
        "state_dir": root / "state",
        "path": "manifests",
        "root": root,
        "system": "Linux",
        "run": no_commands,
        "limit": lambda _: None,
        "privileged": False,
        "ask_version": lambda path: "version: 1",
    }
    return Patient(**(values | fields))


@given(st.dictionaries(st.sampled_from(sorted(TREE)), st.one_of(st.none(), st.text(max_size=30)), max_size=5))
def test_garbage_anywhere_is_a_finding_and_never_a_crash(changes: dict[str, str | None]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        root = plant(
            Path(folder), {k: v and v.encode("utf-8", "replace").decode() for k, v in changes.items()}
        )
        found = [*Kernel(root).check(), *check_swap(WELL, None, Kernel(root), linux=True)]
    assert {f.topic for f in found} == {"overcommit", "pressure", "huge pages", "swap", "swappiness"}
    assert all(f.level is not Level.ERROR for f in found)


def test_a_check_that_cannot_read_is_a_finding(tmp_path: Path) -> None:
    def refused(_: int) -> int | None:
        raise OSError(1, "Operation not permitted")

    found = examine(patient(plant(tmp_path, {}), limit=refused))
    assert Finding(Level.NOTE, "limits", "cannot tell: [Errno 1] Operation not permitted") in found
    assert {"memory", "swap", "llama.cpp", "state"} <= {f.topic for f in found}
    blind = examine(patient(tmp_path, blind="the ledger cannot be read: x"))
    assert Finding(Level.NOTE, "processes", "cannot tell: the ledger cannot be read: x") in blind


def test_an_empty_machine_tells_nothing_and_is_no_crash(tmp_path: Path) -> None:
    found = examine(patient(tmp_path, memory=Memory(None, None, "no /proc here")))
    unknown = {f.topic for f in found if "cannot tell" in f.what}
    assert {"memory", "swap", "overcommit", "pressure", "huge pages"} <= unknown


def test_on_macos_no_linux_file_is_asked_for(tmp_path: Path) -> None:
    found = examine(
        patient(tmp_path, system="Darwin", run=lambda argv, timeout: Output("iogpu.wired_limit_mb: 0"))
    )
    assert not {"overcommit", "pressure", "huge pages"} & {f.topic for f in found}
    assert any("iogpu.wired_limit_mb" in f.what for f in found)


FINDINGS = (
    FindingDocument("ok", "memory", "64.0 GiB, 40.0 GiB available (/proc/meminfo)", ""),
    FindingDocument(
        "note",
        "control group",
        "a limit leaves 64.0 GiB of the machine's 128.0 GiB",
        "raise the limit of the container, unit or slice if models should have more",
    ),
    FindingDocument(
        "warning",
        "overcommit",
        "strict (2): a model may fail to load while much memory is free, and this goes on for longer than a line",
        "sysctl vm.overcommit_memory=0",
    ),
    FindingDocument("error", "gateway", "port 8080 is in use by pid 12\x1b[31m", "stop it"),
)


def test_as_people_read_it() -> None:
    document = doctor_json(FINDINGS, "0.1.0", "Linux 6.18")
    jsonschema.Draft202012Validator(schemas.doctor_schema()).validate(json.loads(json.dumps(document)))
    assert document["counts"] == {"ok": 1, "note": 1, "warning": 1, "error": 1}
    text = doctor_text(document)
    assert "\x1b" not in text
    assert_golden("doctor.txt", text + "\n")


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    def run(*words: str) -> tuple[int, dict[str, Any]]:
        code = main(["doctor", "--json", *words, "--state-dir", str(tmp_path / "state")])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, document

    return run


def test_the_verb_examines_this_machine_and_writes_nothing(
    ask: Callable[..., tuple[int, dict[str, Any]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "desk.yaml"
    entry = "{engine: command, command: [python3, '${port}'], memory: {steady: 1MiB}, residency: RES}"
    text = (
        f"apiVersion: reconciler/v1\ngateway: {{listen: '127.0.0.1:{free_port()}'}}\nmodels:\n  a: {entry}\n"
    )
    file.write_text(text.replace("RES", "pinned"))
    code, document = ask(str(file))
    jsonschema.Draft202012Validator(schemas.doctor_schema()).validate(document)
    assert (code, document["counts"]["error"]) == (0, 0)
    assert {"memory", "swap", "llama.cpp", "ports", "gateway", "state", "loop"} <= {
        f["topic"] for f in document["findings"]
    }
    assert not (tmp_path / "state").exists()
    file.write_text(text.replace("RES", "sometimes"))
    code, document = ask(str(file))
    assert code == 1
    first = document["findings"][0]
    assert (first["level"], first["topic"]) == ("error", "manifest")
    assert "desk.yaml:4:" in first["what"]
    assert main(["doctor", str(file), "--state-dir", str(tmp_path / "state")]) == 1
    assert capsys.readouterr().out.splitlines()[1].startswith("error    manifest")


def test_a_damaged_ledger_is_told(ask: Callable[..., tuple[int, dict[str, Any]]], tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "owner").write_text("me")
    (tmp_path / "state" / "ledger.db").mkdir()
    (tmp_path / "desk.yaml").write_text("apiVersion: reconciler/v1\nmodels: {}\n")
    _, document = ask(str(tmp_path / "desk.yaml"))
    assert any(f["topic"] in ("processes", "left over") for f in document["findings"])
