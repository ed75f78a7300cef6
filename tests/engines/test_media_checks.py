"""Speech, images, Ollama: keys without a place, what is missing, versions, and what logs mean."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from media_specs import ENGINES, bare
from reconciler.core.launch import Device, LaunchSpec, LoadMode, LoraAdapter, Role, Sleep
from reconciler.core.types import Reason
from reconciler.engines import ctranslate2_file, registry, whisper_ggml
from reconciler.memory.gguf import WeightsError

RECORDED = Path(__file__).with_name("recorded")
ROLES = {
    "comfyui": Role.IMAGE,
    "faster-whisper": Role.ASR,
    "kokoro": Role.TTS,
    "ollama": Role.CHAT,
    "sd.cpp": Role.IMAGE,
    "whisper.cpp": Role.ASR,
}
MANIFEST = "/m/manifests/registry.ollama.ai/library/tiny/1b"


def plain(name: str) -> LaunchSpec:
    weights = None if name in ("comfyui", "kokoro") else MANIFEST
    return LaunchSpec("m", name, role=ROLES[name], weights=weights)


CHANGES: dict[str, Callable[[LaunchSpec], LaunchSpec]] = {
    "adapters": lambda spec: replace(spec, adapters=(LoraAdapter("/a.gguf"),)),
    "context.bytes_per_token": lambda spec: replace(spec, context_bytes_per_token=7),
    "context.cache_type": lambda spec: replace(spec, cache_type="q5_1"),
    "context.max_tokens": lambda spec: replace(spec, context_tokens=4096),
    "context.slots": lambda spec: replace(spec, slots=2),
    "device.threads": lambda spec: replace(spec, device=Device(threads=2)),
    "draft": lambda spec: replace(spec, draft="/d.gguf"),
    "entry": lambda spec: replace(spec, entry="a:B"),
    "memory.mode": lambda spec: replace(spec, load_mode=LoadMode.MLOCK),
    "projector": lambda spec: replace(spec, projector="/p.gguf"),
    "sleep": lambda spec: replace(spec, sleep=Sleep.DEEP),
    "weights": lambda spec: replace(spec, weights=MANIFEST),
    "role": lambda spec: replace(spec, role=Role.RERANK),
}
#: What of these an engine does have a place for.
PLACES = {
    "comfyui": {"device.threads", "sleep"},
    "faster-whisper": {"device.threads", "weights"},
    "kokoro": {"device.threads", "sleep", "weights"},
    "ollama": {"context.max_tokens", "context.slots", "sleep", "weights"},
    "sd.cpp": {"device.threads", "weights"},
    "whisper.cpp": {"device.threads", "weights"},
}


@pytest.mark.parametrize("name", ENGINES)
def test_a_key_without_a_place_is_refused_and_no_other(name: str) -> None:
    engine = registry.get(name)
    assert engine.check(plain(name)) == ()
    refused = {key for key, change in CHANGES.items() if engine.check(change(plain(name)))}
    assert refused == CHANGES.keys() - PLACES[name]
    for key in refused:
        (finding,) = engine.check(CHANGES[key](plain(name)))
        assert ".".join(finding.path) == key
        assert finding.hint


ARGS = {
    ("comfyui", "--port=1"): "port",
    ("comfyui", "--listen"): "reconcile",
    ("comfyui", "--cpu"): "device.gpus",
    ("faster-whisper", "--workers"): "reconcile",
    ("faster-whisper", "--host"): "reconcile",
    ("kokoro", "--reload"): "reconcile",
    ("ollama", "serve"): "env",
    ("sd.cpp", "-m"): "weights",
    ("sd.cpp", "-l"): "reconcile",
    ("whisper.cpp", "--threads"): "device.threads",
    ("whisper.cpp", "--inference-path"): "reconcile",
}


@pytest.mark.parametrize(("name", "word"), ARGS)
def test_a_flag_that_is_ours_is_refused_with_its_key(name: str, word: str) -> None:
    (finding,) = registry.get(name).check(replace(plain(name), args=(word,)))
    assert finding.path == ("args",)
    assert ARGS[name, word] in finding.hint


def test_ollamas_address_and_folder_are_not_for_the_environment() -> None:
    env = (("OLLAMA_DEBUG", "1"), ("OLLAMA_HOST", "0.0.0.0"), ("OLLAMA_MODELS", "/m"))
    findings = registry.get("ollama").check(replace(plain("ollama"), env=env))
    assert [finding.path for finding in findings] == [("env", "OLLAMA_HOST"), ("env", "OLLAMA_MODELS")]


@pytest.mark.parametrize("name", ENGINES)
def test_a_missing_program_is_said_with_the_way_to_get_it(name: str, tmp_path: Path) -> None:
    engine = registry.get(name)
    spec = bare(name, tmp_path)
    shutil.rmtree(tmp_path / "bin")
    (tmp_path / "bin").mkdir()
    if name in ("comfyui", "kokoro"):
        spec = replace(spec, cwd=str(tmp_path))
    found = engine.preflight(spec)
    assert found.reason == Reason.NOT_STARTABLE
    assert found.message.startswith("its server is not installed: ")
    assert {"clone", "build", "pip", "install"} & set(found.message.split())
    named = replace(spec, command=("no-such-server",))
    assert engine.preflight(named).message.startswith("the program 'no-such-server' is not on PATH")


VERSIONS = {"comfyui": ("comfyui_version.py", '__version__ = "{}"\n'), "kokoro": ("VERSION", "v{}\n")}


@pytest.mark.parametrize("name", VERSIONS)
def test_a_clone_says_its_version(name: str, tmp_path: Path) -> None:
    engine = registry.get(name)
    spec = bare(name, tmp_path)
    file, text = VERSIONS[name]
    (note,) = engine.preflight(spec).notes
    assert "cannot be told" in note
    Path(spec.cwd, file).write_text(text.format("9.9.1"))
    (note,) = engine.preflight(spec).notes
    assert f"{name} 9.9.1 is not a version this was checked with" in note
    assert engine.preflight(spec).build == f"{name} 9.9.1"
    Path(spec.cwd, file).write_text(text.format("0.8.7" if name == "kokoro" else "0.19.2"))
    assert engine.preflight(spec).notes == ()


def test_the_package_of_faster_whisper_says_its_version(tmp_path: Path) -> None:
    engine = registry.get("faster-whisper")
    spec = bare("faster-whisper", tmp_path)
    site = tmp_path / "lib/python3.11/site-packages"
    for version, notes in (("0.0.3", 0), ("0.1.0", 1)):
        (site / f"faster_whisper_server-{version}.dist-info").mkdir(parents=True)
        found = engine.preflight(spec)
        assert (found.build, len(found.notes)) == (f"faster-whisper {version}", notes)
        shutil.rmtree(site)


SAID = {
    ("comfyui", "ASSETS_STARTUP_FAILED: in_use"): "--user-directory",
    (
        "comfyui",
        "RuntimeError: MPS backend out of memory (MPS allocated: 17.9 GB)",
    ): "Metal has not enough memory",
    (
        "comfyui",
        "/usr/bin/python: can't open file '/x/main.py': [Errno 2] No such file",
    ): "there is no /x/main.py",
    ("comfyui", "main.py: error: unrecognized arguments: --offline"): "does not know the flag --offline",
    ("comfyui", "ModuleNotFoundError: No module named 'torch'"): "package torch is not installed",
    (
        "faster-whisper",
        "ValueError: Requested int8_float16 compute type, but the target device",
    ): "int8_float16",
    ("faster-whisper", "faster-whisper-server: error: unrecognized arguments: --nope"): "the flag --nope",
    ("kokoro", "ModuleNotFoundError: No module named 'misaki'"): "package misaki is not installed",
    ("kokoro", "OSError: [E050] Can't find model 'en_core_web_sm'."): "spaCy model en_core_web_sm",
    ("ollama", "Error: listen tcp 127.0.0.1:18001: bind: address already in use"): "its port is taken",
    ("ollama", "model requires more system memory (9.1 GiB) than is available (4.0 GiB)"): "needs 9.1 GiB",
    ("ollama", "error loading model: unknown model architecture: 'zeta'"): "the architecture zeta",
    (
        "sd.cpp",
        "[ERROR] get sd version from file failed: 'x.gguf'\n[ERROR] new_sd_ctx_t failed",
    ): "what kind of model",
    ("sd.cpp", "error: unknown argument: --eager-load"): "does not know the flag --eager-load",
    ("sd.cpp", "[ERROR] new_sd_ctx_t failed"): "could not load the model",
    (
        "whisper.cpp",
        "whisper_model_load: invalid model data (bad magic)\nerror: failed to initialize whisper context",
    ): "own format",
    (
        "whisper.cpp",
        "failed to open 'x.bin'\nerror: failed to initialize whisper context",
    ): "cannot open x.bin",
    ("whisper.cpp", "error: failed to initialize whisper context"): "the lines before",
    ("whisper.cpp", "couldn't bind to server socket: hostname=127.0.0.1 port=18001"): "its port is taken",
    ("whisper.cpp", "error: unknown argument: --vadd\n\nusage: whisper-server"): "the flag --vadd",
    ("whisper.cpp", "error: unknown language 'xx'"): "the language xx",
}


@pytest.mark.parametrize(("name", "log"), SAID)
def test_last_words_are_understood(name: str, log: str) -> None:
    assert SAID[name, log] in (registry.get(name).explain(f"before\n{log}\nafter\n", 1) or "")


@pytest.mark.parametrize(
    ("file", "meaning"),
    [
        ("faster-whisper-damaged.log", "the weights are damaged: repeat the download"),
        ("faster-whisper-port.log", "its port is taken by another process"),
        ("faster-whisper.log", None),
    ],
)
def test_recorded_logs_of_faster_whisper(file: str, meaning: str | None) -> None:
    log = (RECORDED / file).read_text()
    assert registry.get("faster-whisper").explain(log, None) == meaning


@pytest.mark.parametrize("name", ENGINES)
def test_a_log_that_says_nothing_known_leaves_it_to_the_exit_status(name: str) -> None:
    engine = registry.get(name)
    assert engine.explain("all is well\n", 1) is None
    assert engine.explain("all is well\n", -9) == engine.explain("", 137)
    assert "killed" in (engine.explain("", -9) or "")


def test_the_flags_are_those_of_the_recorded_help() -> None:
    engine = registry.get("faster-whisper")
    argv = engine.command(plain("faster-whisper"), 1).argv
    known = (RECORDED / "faster-whisper-help.txt").read_text()
    assert [word for word in argv if word.startswith("--") and word not in known] == []
    owned = {"--port", "--host", "--workers", "--reload"}
    assert all(flag in known for flag in owned)


@pytest.mark.parametrize("read", [whisper_ggml.read, ctranslate2_file.read])
def test_weights_that_wait_for_a_writer_are_not_opened(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "model.bin")
    with pytest.raises(WeightsError, match="it is a FIFO, not a file"):
        read(tmp_path / "model.bin")
