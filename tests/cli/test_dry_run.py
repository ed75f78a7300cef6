"""The plan without a lock, a file or a process: from a running loop's world, or from an own look."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiny_gguf
from board_samples import NOW, mib, snapshot
from loop_stand_in import standing_in
from reconciler.cli import main
from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import Memory
from reconciler.core.types import Demand, Instance, Observation, World
from reconciler.engines import llama_cpp
from reconciler.manifest.applied import Applied
from reconciler.store import Store
from reconciler.wire import world_to_json

MANIFEST = """\
apiVersion: reconciler/v1
machine: {memory: 600MiB, reserve: 0MiB}
models:
  chat:
    engine: command
    command: [python3, -m, http.server, "${port}"]
    residency: RESIDENCY
    memory: {steady: 350MiB}
  long:
    engine: command
    command: [python3, -m, http.server, "${port}"]
    memory: {steady: 400MiB}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "desk.yaml").write_text(MANIFEST.replace("RESIDENCY", "warm"))
    return folder


def digest_of(manifest: Path, model: str = "chat") -> str:
    from reconciler.cli.manifests import read_manifest

    spec = next(m for m in read_manifest(manifest, None).manifest.models if m.name == model)
    return spec.digest


def seen(instances: tuple[Instance, ...] = (), demands: tuple[Demand, ...] = ()) -> World:
    return World(Observation(5, NOW, Memory(mib(2000), mib(1500), "test"), instances, demands))


def running_chat(manifest: Path) -> Instance:
    return Instance("chat", digest_of(manifest), 41, 977, 18100, True, mib(340), 0, NOW - 60, NOW - 50, 1)


@pytest.fixture
def observe(monkeypatch: pytest.MonkeyPatch) -> Callable[[World], None]:
    """Set what an own look at the machine sees; the files' preflight is always the real one."""

    def set_world(world: World) -> None:
        from reconciler.cli import dry_run

        def look(applied: Applied, _directory: Path) -> World:
            preflights = dry_run._preflights(applied, {})
            return replace(world, observation=replace(world.observation, preflights=preflights))

        monkeypatch.setattr(dry_run, "_observe", look)

    return set_world


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))
    }


def test_without_a_loop_it_looks_for_itself_and_touches_nothing(
    manifest: Path, tmp_path: Path, observe: Callable[[World], None], capsys: pytest.CaptureFixture[str]
) -> None:
    observe(seen())
    before = tree(tmp_path)
    assert main(["--dry-run", str(manifest), "--state-dir", str(tmp_path / "state")]) == 0
    assert tree(tmp_path) == before
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"manifest {manifest}  generation 1",
        "memory   600 MiB budget   0 held   0 reserved   600 free",
        "  1. + chat   needs 350 MiB -> 250 free   (Warm)",
        "     . long   needs 400 MiB               (NotWanted: loads when a request asks for it)",
        "Plan: 1 to load, 1 cold.",
    ]


@pytest.mark.parametrize(
    ("runs", "flags", "code"),
    [(False, [], 0), (False, ["--detailed-exitcode"], 2), (True, ["--detailed-exitcode"], 0), (True, [], 0)],
)
def test_detailed_exit_codes(
    runs: bool, flags: list[str], code: int, manifest: Path, tmp_path: Path, observe: Callable[[World], None]
) -> None:
    observe(seen((running_chat(manifest),) if runs else ()))
    assert main(["--dry-run", str(manifest), "--state-dir", str(tmp_path / "state"), *flags]) == code


def test_no_changes_is_said(
    manifest: Path, tmp_path: Path, observe: Callable[[World], None], capsys: pytest.CaptureFixture[str]
) -> None:
    observe(seen((running_chat(manifest),)))
    assert main(["--dry-run", str(manifest), "--state-dir", str(tmp_path / "state")]) == 0
    assert capsys.readouterr().out.endswith("No changes. 2 models match generation 1.\n")


def test_the_generation_is_the_one_the_loop_would_count(
    manifest: Path, tmp_path: Path, observe: Callable[[World], None], capsys: pytest.CaptureFixture[str]
) -> None:
    from reconciler.cli.manifests import read_manifest

    state = tmp_path / "state"
    state.mkdir()
    with Store(state / "ledger.db") as store:
        store.generation("an older one")
        store.generation(read_manifest(manifest, None).digest)
    observe(seen())
    before = tree(state)
    main(["--dry-run", "--json", str(manifest), "--state-dir", str(state)])
    assert json.loads(capsys.readouterr().out)["manifest"]["generation"] == 2
    (manifest / "desk.yaml").write_text(MANIFEST.replace("RESIDENCY", "pinned"))
    main(["--dry-run", "--json", str(manifest), "--state-dir", str(state)])
    assert json.loads(capsys.readouterr().out)["manifest"]["generation"] == 3
    assert tree(state) == before


def loop_world(manifest: Path, world: World) -> dict[str, Any]:
    from reconciler.cli.manifests import read_manifest

    running = replace(snapshot(), at=NOW, applied=read_manifest(manifest, None), world=world)
    document: dict[str, Any] = json.loads(json.dumps(world_to_json(running)))
    return document


def test_a_running_loop_is_asked_for_its_world(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = seen((running_chat(manifest),), (Demand("long", waiting=2, oldest=NOW - 3.1),))
    with standing_in(tmp_path / "state") as loop:
        loop.documents("GET /api/v1/world", loop_world(manifest, world))
        before = tree(tmp_path)
        assert main(["--dry-run", str(manifest), "--state-dir", str(tmp_path / "state")]) == 0
        assert tree(tmp_path) == before
        assert loop.asked == ["GET /api/v1/world"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"manifest {manifest}  generation 7"
    assert lines[2].startswith("  1. - chat   frees 350 MiB -> 600 free   (MakeRoom for long: ")
    assert lines[3] == "  2. + long   needs 400 MiB -> 200 free   (Demanded: 2 requests waiting, oldest 3.1s)"


def test_an_edit_is_planned_against_the_running_world(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = loop_world(manifest, seen((running_chat(manifest),)))
    edited = MANIFEST.replace("RESIDENCY", "warm").replace("  long:", "  new:")
    (manifest / "desk.yaml").write_text(edited.replace("http.server, ", "http.server, -b, 127.0.0.1, ", 1))
    with standing_in(tmp_path / "state") as loop:
        loop.documents("GET /api/v1/world", document)
        code = main(
            [
                "--dry-run",
                "--detailed-exitcode",
                "--json",
                str(manifest),
                "--state-dir",
                str(tmp_path / "state"),
            ]
        )
    assert code == 2
    plan = json.loads(capsys.readouterr().out)
    assert plan["manifest"]["generation"] == 8
    assert {v["model"]: v["outcome"] for v in plan["verdicts"]} == {"chat": "reload", "new": "cold"}
    assert (plan["steps"][0]["action"], plan["steps"][0]["reason"]) == ("evict", "Drifted")


def test_a_loop_of_another_version_is_an_error(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with standing_in(tmp_path / "state") as loop:
        loop.documents("GET /api/v1/world", {**loop_world(manifest, seen()), "formatVersion": 2})
        assert main(["--dry-run", str(manifest), "--state-dir", str(tmp_path / "state")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "restart the loop with the same version" in said.err


def test_a_loop_that_has_just_ended_is_no_error(
    manifest: Path, tmp_path: Path, observe: Callable[[World], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with standing_in(tmp_path / "state"):
        pass
    observe(seen())
    assert main(["--dry-run", str(manifest), "--state-dir", str(tmp_path / "state")]) == 0
    assert "+ chat" in capsys.readouterr().out


def test_every_error_of_a_broken_manifest_is_on_stderr(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = MANIFEST.replace("RESIDENCY", "sometimes").replace("memory: {steady: 400MiB}", "memroy: 1")
    (manifest / "desk.yaml").write_text(broken)
    for argv in (
        ["--dry-run", str(manifest), "--state-dir", str(tmp_path / "s")],
        ["validate", str(manifest)],
    ):
        assert main(argv) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "desk.yaml:7:" in said.err
        assert "desk.yaml:12:" in said.err


def test_validate_prints_the_bytes_it_understood(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (manifest / "desk.yaml").write_text(
        MANIFEST.replace("RESIDENCY", "warm").replace("{steady: 400MiB}", "{steady: 8GB, peak: 8GiB}")
    )
    assert main(["validate", str(manifest)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{manifest} is valid: 2 models"
    assert lines[1] == "memory   600 MiB (629145600 bytes), reserve 0 B (0 bytes)"
    gates = "heavy limit 1 (ROLES from 27.9 GiB (30000000000 bytes))   llm limit 2 (ROLES)"
    assert lines[2] == f"gates    {gates}".replace("ROLES", "chat, completion, vision")
    assert lines[3] == "keys     no API key is asked for"
    assert lines[5].split() == [
        "chat",
        "command",
        "chat",
        "warm",
        "500",
        "350",
        "MiB",
        "(367001600",
        "bytes)",
        "as",
        "steady",
    ]
    assert lines[6].endswith("7.5 GiB (8000000000 bytes)  8.0 GiB (8589934592 bytes)")
    assert main(["validate", "--json", str(manifest)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["memory"], document["reserve"]) == (629145600, 0)
    assert [(m["name"], m["steady"], m["peak"]) for m in document["models"]] == [
        ("chat", 367001600, None),
        ("long", 8000000000, 8589934592),
    ]


def test_validate_shows_keys_gates_and_virtual_models(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MANIFEST.replace("RESIDENCY", "warm") + (
        "gateway: {api_keys: [CANARY-1, CANARY-2], gates: {heavy: ~, llm: ~, disk: {limit: 3}}}\n"
        "virtual: {auto: {use: [long, chat]}}\n"
    )
    (manifest / "desk.yaml").write_text(text)
    assert main(["validate", str(manifest)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[2:5] == [
        "gates    disk limit 3 (models that name it)",
        "keys     2 API keys",
        "virtual  auto (long, chat)",
    ]
    assert main(["validate", "--json", str(manifest)]) == 0
    text = capsys.readouterr().out
    document = json.loads(text)
    assert document["virtual"] == [{"name": "auto", "models": ["long", "chat"]}]
    assert document["gates"] == [{"name": "disk", "limit": 3, "above": None, "roles": []}]
    assert document["keys"] == 2
    assert "CANARY" not in said + text


@pytest.mark.parametrize(
    ("reserve", "kept", "warning"),
    [
        ("99.9%", "reserve 99.9% of it", ""),
        ("10%", "reserve 10% of it", ""),
        ("900TiB", "reserve 900.0 TiB", "it keeps 900.0 TiB, and there are "),
    ],
)
def test_validate_says_what_the_reserve_leaves(
    reserve: str, kept: str, warning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MANIFEST.replace("RESIDENCY", "warm").replace("reserve: 0MiB", f"reserve: {reserve}")
    (tmp_path / "desk.yaml").write_text(text.replace("memory: 600MiB", "memory: auto"))
    assert main(["validate", str(tmp_path / "desk.yaml")]) == 0
    said = capsys.readouterr()
    assert kept in said.out.splitlines()[1]
    assert ("machine.reserve leaves nothing for models here" in said.err) is bool(warning)
    assert warning in said.err


UNSTARTABLE = """\
apiVersion: reconciler/v1
models:
  absent:
    engine: llama.cpp
    weights: absent.gguf
    memory: {steady: 1GiB}
  guessed:
    engine: llama.cpp
    weights: tiny.gguf
    context: {max_tokens: 1024, bytes_per_token: 1024}
  nameless:
    engine: command
    command: [no-such-server, "${port}"]
    memory: {steady: 1GiB}
  sizeless:
    engine: command
    command: [python3, -m, http.server, "${port}"]
"""


def test_validate_warns_of_models_that_could_not_be_started_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "desk.yaml").write_text(UNSTARTABLE)
    tiny_gguf.write_llama(tmp_path / "tiny.gguf")
    assert main(["validate", str(tmp_path / "desk.yaml")]) == 0
    said = capsys.readouterr()
    assert "desk.yaml is valid: 4 models" in said.out
    warned = dict(
        re.findall(r"^warning: models\.(\w+) cannot be started here now: (.+)$", said.err, re.MULTILINE)
    )
    assert warned["absent"].startswith("NotStartable: ")
    assert "absent.gguf" in warned["absent"]
    assert warned["nameless"].startswith("NotStartable: ")
    assert "no-such-server" in warned["nameless"]
    command = f"reconcile measure sizeless {tmp_path / 'desk.yaml'} --write"
    measured = f"or, while no loop runs, `{command}`"
    assert warned["sizeless"] == f"SizeUnknown: give memory.steady, {measured}"
    assert "guessed" not in warned
    guessed = LaunchSpec("guessed", "llama.cpp", weights=str(tmp_path / "tiny.gguf"), context_tokens=1024)
    estimate = llama_cpp.ENGINE.preflight(replace(guessed, context_bytes_per_token=1024)).steady
    assert estimate is not None
    row = next(line for line in said.out.splitlines() if line.startswith("guessed "))
    assert f"({estimate} bytes) (estimated)" in row

    assert main(["validate", "--json", str(tmp_path / "desk.yaml")]) == 0
    models = {m["name"]: m for m in json.loads(capsys.readouterr().out)["models"]}
    assert (models["guessed"]["steady"], models["guessed"]["estimate"]) == (None, estimate)
    assert {name: m["problem"] for name, m in models.items()} == {"guessed": None, **warned}


def test_a_damaged_ledger_does_not_stop_a_dry_run(
    manifest: Path, tmp_path: Path, observe: Callable[[World], None], capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "ledger.db").write_bytes(b"no database" * 1000)
    observe(seen())
    before = tree(state)
    assert main(["--dry-run", str(manifest), "--state-dir", str(state)]) == 0
    assert tree(state) == before
    said = capsys.readouterr()
    assert "generation 1" in said.out
    assert f"warning: {state / 'ledger.db'} is damaged: `reconcile` will keep it beside a new" in said.err
