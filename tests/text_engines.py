"""What the tests of the engines for text share: environments with programs in them, small weights, whole launches."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from hf_files import write_model, write_tensors
from reconciler.core.launch import Device, LaunchSpec, LoraAdapter, Role
from reconciler.engines import registry
from reconciler.engines.base import Command

#: A small language model of 16-bit weights: 2 layers, 2 heads of keys and values of 64 elements each.
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 8192,
}
#: Bytes of keys and values of one of its tokens: 2 layers x 2 (key, value) x 2 heads x 64 elements x 2 bytes.
TOKEN = 2 * 2 * 2 * 64 * 2
#: Engine -> the distribution and the version its adapter was checked with, and its program.
ENGINES = {
    "infinity": ("infinity_emb", "0.0.78", "infinity_emb"),
    "mlx": ("mlx_lm", "0.32.2", "mlx_lm.server"),
    "mlx-vlm": ("mlx_vlm", "0.7.10", "mlx_vlm.server"),
    "sglang": ("sglang", "0.5.23", "sglang"),
    "tei": ("", "", "text-embeddings-router"),
    "transformers": ("transformers", "5.24.0", "transformers"),
    "vllm": ("vllm", "0.32.0+cpu", "vllm"),
}
EMBEDDERS = ("infinity", "tei")
#: They serve one request at a time.
ONE = ("infinity", "tei", "transformers")


def program(folder: Path, name: str) -> Path:
    """Write a program that does nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def environment(root: Path, *packages: tuple[str, str], programs: tuple[str, ...] = ()) -> Path:
    """Write what a virtual environment looks like, with packages (name, version) and programs in it."""
    program(root / "bin", "python")
    (root / "pyvenv.cfg").write_text("home = /usr/bin\n")
    for name in programs:
        program(root / "bin", name)
    for package, version in packages:
        (root / "lib/python3.11/site-packages" / f"{package}-{version}.dist-info").mkdir(parents=True)
    return root


def bare(name: str, root: Path, **changes: Any) -> LaunchSpec:
    """Return the least that `name` can be started with: its program, weights, and two threads."""
    package, version, script = ENGINES[name]
    folder = root / "env"
    if not folder.exists():
        environment(folder, *([(package, version)] if package else []), programs=(script,))
        (write_model(root / "weights", LLAMA) / "tokenizer.json").write_text("{}")
    spec = LaunchSpec(
        "m",
        name,
        weights=str(root / "weights"),
        role=Role.EMBEDDING if name in EMBEDDERS else Role.CHAT,
        cwd=str(root),
        device=Device(threads=2),
    )
    place = {"env": (("PATH", str(folder / "bin")),)} if name == "tei" else {"python": str(folder)}
    return dataclasses.replace(spec, **{**place, **changes})


def rich(name: str, root: Path) -> LaunchSpec:
    """Return a launch with all that `name` takes."""
    spec = bare(name, root)
    changes: dict[str, Any] = {
        "context_tokens": 4096,
        "args": ("--more", "${model}"),
        "env": (*spec.env, ("EXTRA", "port ${port}")),
        "device": Device(gpus=("1",), cpus=(0, 1), nice=5, threads=3),
        "port": 9101,
    }
    if name not in ONE:
        write_model(root / "draft", LLAMA, elements=1 << 16)
        (root / "lora").mkdir()
        write_tensors(root / "lora" / "adapter_model.safetensors", {"a": ("BF16", [1 << 10])})
        changes |= {
            "slots": 1 if name == "mlx" else 4,
            "cache_type": "q8_0" if name.startswith("mlx") else "fp8_e4m3",
            "draft": str(root / "draft"),
            "adapters": (LoraAdapter(str(root / "lora")),),
        }
    return dataclasses.replace(spec, **changes)


def shown(command: Command, root: Path) -> str:
    """Return a command as text: a flag with its values a line, then the environment, with `root` called ROOT."""
    lines: list[str] = []
    for word in command.argv:
        if word.startswith("-") or not lines or word == command.argv[1]:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    lines += [f"{name}={value}" for name, value in sorted(command.env.items())]
    lines.append(f"without {' '.join(command.without)}")
    if command.cpus or command.nice:
        lines.append(f"cpus {command.cpus} nice {command.nice}")
    return "\n".join(lines).replace(str(root), "ROOT") + "\n"


def command(name: str, spec: LaunchSpec) -> Command:
    """Return what starts it on its own port, or on 9100."""
    return registry.get(name).command(spec, spec.port or 9100)


def flags(name: str, spec: LaunchSpec) -> list[str]:
    """Return the flags of that command which are the engine's own, without the manifest's `args`."""
    words = command(name, dataclasses.replace(spec, args=())).argv
    return [word for word in words if word.startswith("-") and not os.path.isabs(word)]
