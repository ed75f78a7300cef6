"""Engines for text: how each is started, with how little and with all it takes; what it refuses; what its logs mean."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import text_engines
from golden_files import assert_golden
from reconciler.core.launch import Batching, LoadMode, LoraAdapter, Role, Sleep
from reconciler.core.memory import Said
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter
from text_engines import ENGINES, TOKEN, bare, rich

RECORDED = Path(__file__).with_name("recorded")
NAMES = sorted(ENGINES)


@pytest.fixture(autouse=True)
def _steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every machine the same PATH and folder for temporary files."""
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr("tempfile.tempdir", "/tmp")


def adapter(name: str) -> Adapter:
    found = registry.get(name)
    assert isinstance(found, Adapter)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_command_for_little_and_for_all(name: str, tmp_path: Path) -> None:
    little, much = bare(name, tmp_path), rich(name, tmp_path)
    assert adapter(name).check(little) == ()
    assert adapter(name).check(much) == ()
    text = f"== bare\n{text_engines.shown(text_engines.command(name, little), tmp_path)}"
    text += f"== rich\n{text_engines.shown(text_engines.command(name, much), tmp_path)}"
    assert_golden(f"engine-{name}.txt", text)


@pytest.mark.parametrize("sleep", [Sleep.LIGHT, Sleep.DEEP])
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("sglang", {Sleep.LIGHT: ["--enable-memory-saver", "--enable-weights-cpu-backup"]}),
        ("vllm", {Sleep.LIGHT: ["--enable-sleep-mode"], Sleep.DEEP: ["--enable-sleep-mode"]}),
    ],
)
def test_what_sleep_needs_is_asked_for(
    name: str, flags: dict[Sleep, list[str]], sleep: Sleep, tmp_path: Path
) -> None:
    awake = text_engines.command(name, bare(name, tmp_path))
    sleeping = text_engines.command(name, bare(name, tmp_path, sleep=sleep))
    added = [word for word in sleeping.argv if word not in awake.argv]
    assert added == flags.get(sleep, ["--enable-memory-saver"])
    assert (sleeping.env.get("VLLM_SERVER_DEV_MODE") == "1") is (name == "vllm")
    assert "VLLM_SERVER_DEV_MODE" not in awake.env


@pytest.mark.parametrize("name", ["infinity", "mlx", "mlx-vlm", "sglang", "transformers", "vllm"])
def test_every_flag_is_one_the_server_has(name: str, tmp_path: Path) -> None:
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", (RECORDED / f"{name}-help.txt").read_text()))
    specs = [rich(name, tmp_path)]
    specs += [dataclasses.replace(specs[0], sleep=sleep) for sleep in Sleep]
    specs += [dataclasses.replace(specs[0], role=role) for role in sorted(adapter(name).roles)]
    for spec in specs:
        assert set(text_engines.flags(name, spec)) <= known


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_fetched_and_nobody_is_told(name: str, tmp_path: Path) -> None:
    env = text_engines.command(name, bare(name, tmp_path)).env
    assert {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1"}.items() <= env.items()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"projector": "/p"}, ("projector",)),
        ({"entry": "a:B"}, ("entry",)),
        ({"load_mode": LoadMode.MLOCK}, ("memory", "mode")),
        ({"cache_type": "iq4_nl"}, ("context", "cache_type")),
        ({"role": Role.TTS, "engine": "x"}, ("role",)),
        ({"weights": None}, ("weights",)),
        ({"saves_state": True}, ("state", "save")),
    ],
)
def test_what_no_engine_for_text_can_do(
    name: str, changes: dict[str, Any], path: tuple[str, ...], tmp_path: Path
) -> None:
    if name == "mlx-vlm" and "role" in changes:
        changes = {"role": Role.CLASSIFY}
    found = adapter(name).check(bare(name, tmp_path, **changes))
    assert [finding.path for finding in found] == [path]


@pytest.mark.parametrize(
    ("name", "changes", "path"),
    [
        ("mlx", {"sleep": Sleep.LIGHT}, ("sleep",)),
        ("mlx", {"slots": 2, "cache_type": "q8_0"}, ("context", "slots")),
        ("mlx", {"slots": 2, "draft": "/d"}, ("context", "slots")),
        ("mlx", {"adapters": (LoraAdapter("/a"), LoraAdapter("/b"))}, ("adapters",)),
        ("vllm", {"adapters": (LoraAdapter("/a", 0.5),)}, ("adapters",)),
        ("vllm", {"env": (("VLLM_PORT", "1"),)}, ("env", "VLLM_PORT")),
        ("vllm", {"args": ("--gpu_memory_utilization=0.5",)}, ("args",)),
        ("sglang", {"args": ("--max-total-tokens", "5")}, ("args",)),
        ("transformers", {"slots": 2}, ("context", "slots")),
        ("transformers", {"draft": "/d"}, ("draft",)),
        ("tei", {"python": "/v"}, ("python",)),
        ("tei", {"args": ("-p", "1")}, ("args",)),
        ("tei", {"slots": 2}, ("context", "slots")),
        ("infinity", {"adapters": (LoraAdapter("/a"),)}, ("adapters",)),
        ("mlx-vlm", {"role": Role.TTS, "draft": "/d"}, ("draft",)),
        ("mlx-vlm", {"args": ("--model", "x")}, ("args",)),
    ],
)
def test_what_this_one_cannot_do(
    name: str, changes: dict[str, Any], path: tuple[str, ...], tmp_path: Path
) -> None:
    [finding] = adapter(name).check(bare(name, tmp_path, **changes))
    assert finding.path == path
    assert finding.hint


@pytest.mark.parametrize("name", NAMES)
def test_a_version_it_was_not_checked_with_is_said(name: str, tmp_path: Path) -> None:
    package, version, script = ENGINES[name]
    preflight = adapter(name).preflight(bare(name, tmp_path))
    if not package:
        assert preflight.build == name
        assert preflight.notes == ("the version of tei cannot be told; this was checked with 1.9",)
        return
    assert preflight.build == f"{name} {version}"
    assert preflight.notes == ()
    strange = text_engines.environment(tmp_path / "strange", (package, "99.1"), programs=(script,))
    [note] = adapter(name).preflight(bare(name, tmp_path, python=str(strange))).notes
    assert note.startswith(f"{name} 99.1 is not a version this was checked with")
    nameless = text_engines.environment(tmp_path / "nameless", programs=(script,))
    [note] = adapter(name).preflight(bare(name, tmp_path, python=str(nameless))).notes
    assert note.startswith(f"the version of {name} cannot be told")


@pytest.mark.parametrize(
    ("name", "log", "sentence"),
    [
        ("mlx", "mlx-bad-arch", "it does not know the architecture martian: a newer version may"),
        ("mlx", "mlx-bad-file", "a weights file cannot be read: Tensor 'lm_head.weight' invalid"),
        ("mlx", "mlx-bad-shape", "the weights and config.json are not of one model"),
        ("mlx", "mlx-flag", "it does not know the flag --nonsense"),
        ("mlx", "mlx-heads", "this model's heads cannot be quantised in groups of 64"),
        ("transformers", "transformers-bad-arch", "it does not know the kind of model martian"),
        ("transformers", "transformers-bad-file", "a weights file is damaged"),
        ("transformers", "transformers-bad-shape", "the weights and config.json are not of one model"),
        ("transformers", "transformers-flag", "it does not know the flag --nonsense"),
        ("infinity", "infinity-bad-arch", "it does not know the kind of model martian"),
        ("infinity", "infinity-tokenizer", "the weights were saved by a newer transformers than its own"),
        ("infinity", "infinity-flag", "it does not know the flag --nonsense"),
        ("vllm", "vllm-no-pool", "its pool of keys and values holds no whole request"),
        ("vllm", "vllm-bad-arch", "it does not know the kind of model martian"),
        ("vllm", "vllm-flag", "it does not know the flag --nonsense"),
    ],
)
def test_why_it_failed_by_its_own_log(name: str, log: str, sentence: str) -> None:
    text = (RECORDED / f"{log}.log").read_text()
    said = adapter(name).explain(text, 1)
    assert said is not None
    assert said.startswith(sentence)
    assert "{" not in said


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("mlx", "[METAL] Command buffer execution failed: Insufficient Memory (00000008:k)", "Metal has not"),
        (
            "vllm",
            "ValueError: The quantization method gptq is not supported for the current GPU. M",
            "(gptq)",
        ),
        ("vllm", "RuntimeError: Unsupported CPU attention configuration: head_dim=16 isa=2", "(head_dim=16)"),
        ("vllm", "ValueError: LoRA rank 32 is greater than max_lora_rank 16.", "--max-lora-rank, '32'"),
        (
            "vllm",
            "ValueError: Free memory on device (3/9 GiB) on startup is less than desired GPU",
            "less memory",
        ),
        (
            "vllm",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            "the GPU has not enough",
        ),
        (
            "sglang",
            "Not enough memory. Please try to increase --mem-fraction-static.",
            "--mem-fraction-static",
        ),
        ("tei", "Error: Could not create backend: Could not start backend: No such device", "cannot compute"),
        ("tei", "error: unexpected argument '--foo' found", "the flag --foo"),
    ],
)
def test_why_it_failed_by_the_words_of_its_source(name: str, text: str, sentence: str) -> None:
    assert sentence in (adapter(name).explain(text, 1) or "")


def test_what_vllm_says_it_took() -> None:
    text = (RECORDED / "vllm-start.log").read_text()
    said = adapter("vllm").said(text)
    # Two slots of 1024: the pool it was given holds them exactly. In GiB of two decimals its size is nothing.
    assert said == Said(context_tokens=2048)
    gpus = "Model loading took 4.50 GiB memory and 1.0 seconds\n" * 2
    gpus += "Available KV cache memory: 2.25 GiB\n" * 2 + "GPU KV cache size: 131,072 tokens, Maximum"
    assert adapter("vllm").said(gpus) == Said(weights=9 << 30, context=9 << 29, context_tokens=131072)
    again = f"non-default args: {{}}\n{gpus}\nnon-default args: {{}}\nModel loading took 1.00 GiB memory"
    assert adapter("vllm").said(again) == Said(weights=1 << 30)
    assert adapter("vllm").said("nothing of that") is None


def test_the_pool_of_vllm_is_what_all_slots_need(tmp_path: Path) -> None:
    def pool(**changes: Any) -> int | None:
        argv = text_engines.command("vllm", bare("vllm", tmp_path, context_tokens=4096, **changes)).argv
        at = argv.index("--kv-cache-memory-bytes")
        return int(argv[at + 1])

    assert pool() == 4096 * TOKEN
    assert pool(slots=4) == 4 * 4096 * TOKEN
    assert pool(cache_type="fp8") == 4096 * TOKEN // 2
    assert pool(context_bytes_per_token=10_000) == 40 << 20  # whole MiB
    spec = bare("vllm", tmp_path, context_tokens=4096, args=("--kv-cache-memory-bytes", "2G"))
    parts = adapter("vllm").preflight(spec).parts
    assert parts is not None
    assert parts.context == 2 << 30


def test_vllm_never_chooses_its_pool_itself(tmp_path: Path) -> None:
    spec = bare("vllm", tmp_path)
    (tmp_path / "weights" / "config.json").write_text('{"model_type": "unheard-of"}')
    preflight = adapter("vllm").preflight(dataclasses.replace(spec, context_tokens=4096))
    assert preflight.reason == "NotStartable"
    assert "context.bytes_per_token" in preflight.message
    stated = dataclasses.replace(spec, context_tokens=4096, context_bytes_per_token=1024)
    assert adapter("vllm").preflight(stated).reason is None


def test_batching_is_left_to_servers_of_vectors(tmp_path: Path) -> None:
    for name in ("vllm", "sglang"):
        spec = bare(name, tmp_path, role=Role.EMBEDDING, slots=3, batch=Batching())
        assert adapter(name).parallel(spec) is None
        assert adapter(name).parallel(dataclasses.replace(spec, role=Role.CHAT)) == 4
