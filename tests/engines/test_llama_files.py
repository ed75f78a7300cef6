"""Projector, adapters, draft model and device of a llama.cpp launch: as keys, in its size, and as files."""

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import raw_gguf
from golden_files import assert_golden
from reconciler.core.launch import Batching, Device, LaunchSpec, LoadMode, LoraAdapter, Role, Sleep
from reconciler.core.types import Preflight, Reason
from reconciler.engines import registry
from reconciler.engines.llama.server import weights_of
from tiny_further import write_adapter, write_projector
from tiny_gguf import write_llama

ENGINE = registry.get("llama.cpp")
BARE = LaunchSpec("m", "llama.cpp", weights="/w/m.gguf", device=Device(threads=4))
RICH = replace(
    BARE,
    role=Role.VISION,
    context_tokens=4096,
    slots=2,
    cache_type="q8_0",
    load_mode=LoadMode.MLOCK,
    projector="/w/see.gguf",
    adapters=(LoraAdapter("/w/a.gguf"), LoraAdapter("/w/b.gguf", 0.5)),
    draft="/w/small.gguf",
    device=Device(gpus=(), cpus=(0, 1), nice=5, threads=3),
    args=("--jinja",),
)


@pytest.fixture(autouse=True)
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("PATH", "/nowhere")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    for name, seed in (("model", 1), ("draft", 2)):
        write_llama(folder / f"{name}.gguf", seed=seed)
    write_projector(folder / "see.gguf")
    write_adapter(folder / "adapter.gguf")
    server = folder / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    return folder


@pytest.mark.parametrize("launch", ["bare", "rich"])
@pytest.mark.parametrize("server", ["embedded", "own"])
def test_the_command_line(folder: Path, launch: str, server: str) -> None:
    spec = {"bare": BARE, "rich": RICH}[launch]
    if server == "own":
        spec = replace(spec, command=(str(folder / "llama-server"),))
    command = ENGINE.command(spec, 18100)
    # Which variables hide a GPU is the matter of `devices`.
    env = {name: value for name, value in command.env.items() if name.startswith(("LLAMA", "OMP", "GOMP"))}
    words = command.argv[1:] if server == "own" else command.argv[4:]
    lines = [f"{name}={value}" for name, value in sorted(env.items())]
    lines += [shlex.join(words), f"cpus={command.cpus} nice={command.nice} locks={command.locks}"]
    assert_golden(f"llama-argv-{server}-{launch}.txt", "\n".join(lines) + "\n")


def test_a_model_off_all_gpus_sees_none() -> None:
    assert ENGINE.command(BARE, 1).env.keys().isdisjoint({"CUDA_VISIBLE_DEVICES"})
    hidden = ENGINE.command(replace(BARE, device=Device(gpus=())), 1)
    assert "CUDA_VISIBLE_DEVICES" in hidden.env
    chosen = ENGINE.command(replace(BARE, device=Device(gpus=("1",))), 1)
    assert chosen.env["CUDA_VISIBLE_DEVICES"] == "1"
    assert "-ngl" not in chosen.argv


@pytest.mark.parametrize(
    ("settings", "locks"),
    [
        ({}, False),
        ({"load_mode": LoadMode.MLOCK}, True),
        ({"load_mode": LoadMode.MLOCK, "args": ("-lm", "none")}, False),
        ({"args": ("-lm", "mmap+mlock")}, True),
        ({"args": ("-lm", "mmap+mlock", "-fa", "x"), "load_mode": LoadMode.MLOCK}, True),
    ],
)
def test_a_server_that_locks_its_weights_may(settings: dict[str, Any], locks: bool) -> None:
    assert ENGINE.command(replace(BARE, **settings), 1).locks is locks


#: Settings that are said twice, or that llama.cpp has no place for -> where it is said, and the hint.
WRONG: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
    ({"projector": "/p", "args": ("--mmproj", "/q")}, ("args",), "projector"),
    ({"projector": "/p", "env": (("LLAMA_ARG_MMPROJ", "/q"),)}, ("env", "LLAMA_ARG_MMPROJ"), "projector"),
    ({"projector": "/p", "command": ("llama-server", "-mm", "/q")}, ("command",), "projector"),
    ({"adapters": (LoraAdapter("/a"),), "args": ("--lora_scaled", "/b:2")}, ("args",), "adapters"),
    ({"adapters": (LoraAdapter("/a"),), "args": ("--lora=/b",)}, ("args",), "adapters"),
    ({"adapters": (LoraAdapter("/a,b"),)}, ("adapters",), "rename"),
    ({"adapters": (LoraAdapter("/a:b", 2.0),)}, ("adapters",), "rename"),
    ({"draft": "/d", "args": ("--spec-draft-model", "/e")}, ("args",), "draft"),
    (
        {"draft": "/d", "command": ("env", "LLAMA_ARG_MODEL_DRAFT=/e", "llama-server")},
        ("command",),
        "draft",
    ),
    ({"device": Device(threads=2), "args": ("-t", "3")}, ("args",), "device.threads"),
    ({"device": Device(gpus=()), "args": ("-ngl", "9")}, ("args",), "device.gpus"),
    ({"device": Device(gpus=("0",)), "args": ("--device", "CUDA1")}, ("args",), "device.gpus"),
    ({"role": Role.VISION}, ("projector",), "mmproj.gguf"),
    ({"role": Role.VISION, "command": ("/x/llama-server",)}, ("projector",), "mmproj.gguf"),
    ({"allocator_limit": 1}, ("memory", "limit"), "at its start"),
    ({"entry": "a:B"}, ("entry",), "engine: python"),
    ({"python": "/venv"}, ("python",), "command"),
    ({"batch": Batching(4)}, ("batch",), "context.slots"),
    ({"sleep": Sleep.LIGHT}, ("sleep",), "state"),
]


@pytest.mark.parametrize(("settings", "path", "hint"), WRONG)
def test_what_cannot_be_meant_is_said(settings: dict[str, Any], path: tuple[str, ...], hint: str) -> None:
    found = ENGINE.check(replace(LaunchSpec("m", "llama.cpp", weights="/w"), **settings))
    assert [finding.path for finding in found] == [path]
    assert hint in found[0].hint


FINE: list[dict[str, Any]] = [
    {"projector": "/p", "adapters": (LoraAdapter("/a"), LoraAdapter("/a:b")), "draft": "/d"},
    {"args": ("--mmproj", "/p", "--lora", "/a", "-md", "/d", "-t", "2", "-ngl", "3")},
    {"role": Role.VISION, "args": ("--mmproj", "/p")},
    {"role": Role.VISION, "env": (("LLAMA_ARG_MMPROJ", "/p"),)},
    {"role": Role.VISION, "command": ("./serve.sh",)},
    {"device": Device(gpus=("0",)), "args": ("-ngl", "20")},
    {"device": Device(gpus=(), threads=2), "args": ("-tb", "4")},
]


@pytest.mark.parametrize("settings", FINE)
def test_what_can_be_meant_passes(settings: dict[str, Any]) -> None:
    assert ENGINE.check(replace(LaunchSpec("m", "llama.cpp", weights="/w"), **settings)) == ()


def preflight(folder: Path, **settings: Any) -> Preflight:
    spec = LaunchSpec(
        "m", "llama.cpp", weights=str(folder / "model.gguf"), context_tokens=512, cwd=str(folder)
    )
    return ENGINE.preflight(replace(spec, **settings))


#: A key -> the same in `args`.
KEYS: dict[str, Any] = {
    "projector": ("see.gguf", ("--mmproj", "see.gguf")),
    "adapters": ("adapter.gguf", ("--lora-scaled", "adapter.gguf:0.5")),
    "draft": ("draft.gguf", ("-md", "draft.gguf")),
}


@pytest.mark.parametrize("server", ["embedded", "own"])
@pytest.mark.parametrize("key", KEYS)
def test_a_file_counts_the_same_as_key_and_as_flag(folder: Path, key: str, server: str) -> None:
    name, args = KEYS[key]
    path = str(folder / name)
    own = {"command": (str(folder / "llama-server"),)} if server == "own" else {}
    without = preflight(folder, **own)
    by_key = preflight(folder, **{key: (LoraAdapter(path, 0.5),) if key == "adapters" else path}, **own)
    by_flag = preflight(folder, args=args, **own)
    assert (by_key.reason, by_key.message) == (None, "")
    assert without.steady is not None
    assert by_key.steady is not None
    assert by_key.steady == by_flag.steady
    assert by_key.steady - without.steady >= os.path.getsize(path) * 0.8


REFUSED: dict[str, tuple[str, str]] = {
    "projector": ("model.gguf", "projector: .*model.gguf is no projector but of architecture llama"),
    "adapters": ("see.gguf", "adapters: .*see.gguf is no adapter but a mmproj"),
    "draft": ("adapter.gguf", "adapter.gguf is an adapter, not a model"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_the_wrong_file_is_refused_before_the_start(folder: Path, key: str) -> None:
    name, words = REFUSED[key]
    for path, expected in (
        (str(folder / name), words),
        (str(folder / "none.gguf"), "none.gguf does not exist"),
    ):
        found = preflight(folder, **{key: (LoraAdapter(path),) if key == "adapters" else path})
        assert found.reason == Reason.NOT_STARTABLE
        assert re.search(expected, found.message), found.message


def test_a_model_on_the_cpu_needs_no_driver(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.engines.llama.build._GPUS", ("/dev/null",))
    anywhere, cpu = preflight(folder), preflight(folder, device=Device(gpus=()))
    assert anywhere.steady is not None
    assert cpu.steady is not None
    assert cpu.steady < anywhere.steady - (600 << 20)


def test_all_files_of_a_launch(folder: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        raw_gguf.write_part(tmp_path, number, 2, names=[f"t{number}"], total=2)
    spec = LaunchSpec(
        "m",
        "llama.cpp",
        weights=str(tmp_path / "big-00001-of-00002.gguf"),
        projector=str(folder / "see.gguf"),
        adapters=(LoraAdapter(str(folder / "adapter.gguf"), 2.0),),
        args=("-md", "draft.gguf", "--chat-template-file", "none.jinja"),
        cwd=str(folder),
    )
    names = {"see.gguf", "adapter.gguf", "draft.gguf", "none.jinja"}
    parts = {tmp_path / f"big-0000{number}-of-00002.gguf" for number in (1, 2)}
    assert weights_of(spec) == tuple(sorted(parts | {folder / name for name in names}))
    # What cannot be read still has its name, and a bad setting hides no key.
    bad = replace(spec, weights="/none.gguf", args=("-fa", "x"))
    assert weights_of(bad) == (Path("/none.gguf"), folder / "adapter.gguf", folder / "see.gguf")
    assert weights_of(LaunchSpec("m", "llama.cpp")) == ()
