"""Launches of the engines for speech, images and Ollama, and the programs and weights they want, under one folder."""

import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path

from reconciler.core.launch import Device, LaunchSpec, LoadMode, Role, Sleep
from tiny_gguf import write_llama

ENGINES = ("comfyui", "faster-whisper", "kokoro", "ollama", "sd.cpp", "whisper.cpp")
#: n_vocab, n_audio_ctx, n_audio_state, n_audio_head, n_audio_layer, n_text_ctx, n_text_state, n_text_head, n_text_layer
BASE = (51865, 1500, 512, 8, 6, 448, 512, 8, 6)


def program(path: Path) -> Path:
    """Write something that can be executed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def ggml(path: Path, shape: tuple[int, ...] = BASE, size: int = 4096, magic: bytes = b"lmgg") -> Path:
    """Write weights of whisper.cpp: a header, and a hole up to `size` bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(magic + struct.pack("<11i", *shape, 80, 1))
        file.truncate(size)
    return path


#: Name, shape, type, and bytes; a number stands for so many that are zero.
Variable = tuple[str, tuple[int, ...], int, bytes | int]


def ct2(folder: Path, variables: list[Variable], kind: str = "WhisperSpec", version: int = 6) -> Path:
    """Write a folder as CTranslate2 converts it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "model.bin").open("wb") as file:
        file.write(struct.pack("<IH", version, len(kind) + 1) + kind.encode() + b"\0")
        file.write(struct.pack("<II", 3, len(variables)))
        for name, shape, number, content in variables:
            size = content if isinstance(content, int) else len(content)
            file.write(struct.pack("<H", len(name) + 1) + name.encode() + b"\0")
            file.write(struct.pack(f"<B{len(shape)}I", len(shape), *shape))
            file.write(struct.pack("<BI", number, size))
            file.write(b"" if isinstance(content, int) else content)
            file.truncate(file.seek(size if isinstance(content, int) else 0, 1))
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    return folder


def whisper_variables(heads: int = 6, places: int = 1500) -> list[Variable]:
    """Return variables of an encoder in 16 bits: two bytes for each of `places` x 4 numbers."""
    return [
        ("encoder/num_heads", (), 2, struct.pack("<h", heads)),
        ("encoder/position_encodings/encodings", (places, 4), 4, bytes(places * 8)),
    ]


def blob(models: Path, content: bytes) -> str:
    """Put a file among Ollama's and return its digest."""
    digest = hashlib.sha256(content).hexdigest()
    path = models / "blobs" / f"sha256-{digest}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f"sha256:{digest}"


def stored(models: Path, **layers: bytes) -> Path:
    """Put tiny:1b into Ollama's folder and return its manifest; `layers` are kinds of files and what is in them."""
    path = models / "manifests/registry.ollama.ai/library/tiny/1b"
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = [
        {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": blob(models, content)}
        for kind, content in layers.items()
    ]
    path.write_text(json.dumps({"schemaVersion": 2, "layers": listed}))
    return path


def gguf(folder: Path) -> bytes:
    """Return a small model in GGUF."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_llama(folder / "model.gguf").read_bytes()


def bare(name: str, root: Path) -> LaunchSpec:
    """Return the least that the engine starts with, all of it there under `root`."""
    programs = root / "bin"
    for each in ("faster-whisper-server", "ollama", "sd-server", "whisper-server"):
        program(programs / each)
    spec = LaunchSpec("m", name, cwd=str(root), env=(("PATH", str(programs)),))
    match name:
        case "comfyui":
            return replace(spec, role=Role.IMAGE, cwd=str(_clone(root / "ComfyUI", "main.py")))
        case "faster-whisper":
            return replace(spec, role=Role.ASR, weights=str(ct2(root / "tiny.en", whisper_variables())))
        case "kokoro":
            clone = _clone(root / "Kokoro-FastAPI", "api/src/main.py")
            model = clone / "api/src/models/v1_0/kokoro-v1_0.pth"
            model.parent.mkdir(parents=True)
            model.write_bytes(bytes(1000))
            return replace(spec, role=Role.TTS, cwd=str(clone))
        case "ollama":
            return replace(spec, weights=str(stored(root / "models", model=gguf(root))))
        case "sd.cpp":
            (root / "sd.ckpt").write_bytes(bytes(100))
            return replace(spec, role=Role.IMAGE, weights=str(root / "sd.ckpt"))
        case _:
            return replace(spec, role=Role.ASR, weights=str(ggml(root / "ggml-base.bin")))


def rich(name: str, root: Path) -> LaunchSpec:
    """Return a launch that states all that the engine has a place for."""
    spec = bare(name, root)
    python = program(root / "venv/bin/python").parent.parent
    threads = None if name == "ollama" else 3
    device = Device(gpus=(), cpus=(0, 1), nice=5, threads=threads)
    spec = replace(spec, device=device, port=18001)
    match name:
        case "comfyui":
            args = ("--base-directory", "/models", "--reserve-vram", "2")
            return replace(spec, python=str(python), args=args, sleep=Sleep.DEEP)
        case "faster-whisper":
            program(python / "bin/faster-whisper-server")
            return replace(spec, python=str(python), args=("--config", "settings.yaml"))
        case "kokoro":
            env = (*spec.env, ("DEFAULT_VOICE", "bf_emma"))
            return replace(spec, python=str(python), sleep=Sleep.LIGHT, weights="/weights/kokoro", env=env)
        case "ollama":
            command = (str(root / "bin/ollama"),)
            return replace(
                spec, command=command, context_tokens=8192, slots=2, cache_type="q8_0", sleep=Sleep.DEEP
            )
        case "sd.cpp":
            args = ("--llm", "/weights/qwen.gguf", "--vae", "/weights/ae.safetensors")
            return replace(spec, args=args, load_mode=LoadMode.MMAP)
        case _:
            more = ("-l", "de", "--vad", "-vm", "/weights/vad-${port}.bin")
            return replace(spec, command=(str(root / "bin/whisper-server"), "-bs", "5"), args=more)


def _clone(folder: Path, main: str) -> Path:
    program(folder / ".venv/bin/python")
    (folder / main).parent.mkdir(parents=True, exist_ok=True)
    (folder / main).touch()
    return folder
