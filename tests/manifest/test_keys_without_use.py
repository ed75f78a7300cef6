"""Keys that an engine has no use for: refused where a model states them, passed over where `defaults` do."""

import dataclasses
from pathlib import Path

import pytest

from manifest_texts import HEAD
from reconciler.core.launch import LaunchSpec, Sleep
from reconciler.engines import refusals, registry
from reconciler.engines.adapter import Adapter
from reconciler.manifest.diagnostics import ManifestError
from reconciler.manifest.load import load_manifest
from reconciler.manifest.sections import model_only

#: Key -> a value that every engine would have to do something for.
VALUES = {
    "adapters": "[{path: lora}]",
    "batch": "{max: 8}",
    "command": "[server, '${port}']",
    "context.bytes_per_token": "100",
    "context.cache_type": "q8_0",
    "context.max_tokens": "512",
    "context.slots": "2",
    "device.threads": "3",
    "draft": "d",
    "entry": "a.b:C",
    "memory.mode": "mlock",
    "projector": "p",
    "python": "env",
    "sleep": "deep",
}
WEIGHTS = {"ollama": "m/manifests/registry.ollama.ai/library/g/1"}
ENGINES = [name for name in registry.names() if name != "command"]


def written(key: str, value: str) -> str:
    above, _, below = key.partition(".")
    return f"{above}: {{{below}: {value}}}" if below else f"{above}: {value}"


def launch(tmp_path: Path, engine: str, own: str = "", defaults: str = "") -> LaunchSpec:
    """Return what is started of a model that states `own`; raises ManifestError."""
    found = registry.get(engine)
    role = min(found.roles).value if engine != "python" else "embedding"
    parts = [f"engine: {engine}", f"role: {role}"]
    if isinstance(found, Adapter) and found.weights:
        parts.append(f"weights: {WEIGHTS.get(engine, 'w')}")
    if engine == "python" and not own.startswith("entry"):
        parts.append("entry: a.b:C")
    if engine == "command" and not own.startswith("command"):
        parts.append("command: [x, '${port}']")
    text = (
        f"{HEAD}defaults: {{{defaults}}}\nmodels:\n  m: {{{', '.join([*parts, *([own] if own else [])])}}}\n"
    )
    path = tmp_path / "m.yaml"
    path.write_text(text)
    return load_manifest(path, environ={}).launches["m"]


def complaints(tmp_path: Path, engine: str, own: str, defaults: str = "") -> list[str]:
    try:
        launch(tmp_path, engine, own, defaults)
    except ManifestError as error:
        return [found.message for found in error.diagnostics]
    return []


def test_every_key_that_is_chosen_has_a_value_here() -> None:
    assert set(VALUES) - {"sleep"} == refusals.CHOSEN


@pytest.mark.parametrize("engine", [*ENGINES, "command"])
def test_silence_is_impossible(engine: str, tmp_path: Path) -> None:
    found = registry.get(engine)
    assert isinstance(found, Adapter)
    for key, value in sorted(VALUES.items()):
        said = complaints(tmp_path, engine, written(key, value))
        used = key in found.uses or (
            key == "sleep" and found.sleeper(LaunchSpec("m", engine, sleep=Sleep.DEEP))
        )
        # What it uses may still be wrong for its role, or beside what else is stated.
        assert used or len(said) == 1, (key, said)


@pytest.mark.parametrize("engine", [*ENGINES, "command"])
def test_a_default_makes_no_model_of_another_engine_invalid(engine: str, tmp_path: Path) -> None:
    plain = launch(tmp_path, engine)
    found = registry.get(engine)
    assert isinstance(found, Adapter)
    for key, value in sorted(VALUES.items()):
        if model_only(key.partition(".")[0]):
            continue
        passed = launch(tmp_path, engine, defaults=written(key, value))
        if key not in found.uses | {"sleep"}:
            assert passed == plain, key


def test_a_value_that_the_engine_has_not_is_passed_over_like_a_key(tmp_path: Path) -> None:
    assert launch(tmp_path, "vllm", defaults="context: {cache_type: q8_0, slots: 3}").cache_type == "f16"
    assert launch(tmp_path, "vllm", defaults="context: {cache_type: q8_0, slots: 3}").slots == 3
    assert launch(tmp_path, "mlx", defaults="context: {cache_type: q8_0, slots: 3}").slots == 1
    assert launch(tmp_path, "transformers", defaults="context: {slots: 2}").slots == 1
    assert (
        launch(tmp_path, "llama.cpp", defaults="context: {cache_type: fp8}, batch: {max: 4}").cache_type
        == "f16"
    )
    # The digest is that of the launch without: the default restarts nothing.
    plain, passed = launch(tmp_path, "mlx"), launch(tmp_path, "mlx", defaults="context: {cache_type: fp8}")
    assert dataclasses.asdict(passed) == dataclasses.asdict(plain)


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "ollama"])
def test_a_slip_in_a_default_is_no_value_of_another_engine(engine: str, tmp_path: Path) -> None:
    [said] = complaints(tmp_path, engine, "", "context: {cache_type: q8-0}")
    assert "'q8-0' is not a cache type" in said


@pytest.mark.parametrize(
    ("engine", "own", "message"),
    [
        ("vllm", "context: {cache_type: q8_0}", "'q8_0' is not a cache type of vllm"),
        ("transformers", "context: {slots: 2}", "transformers has nothing that `context.slots` could set"),
        ("whisper.cpp", "python: env", "whisper.cpp has nothing that `python` could set"),
        ("vllm", "batch: {max: 8}", "vllm has nothing that `batch` could set"),
        ("command", "draft: d", "command has nothing that `draft` could set"),
        ("command", "memory: {mode: mmap}", "how its program loads is for its command line"),
        ("command", "sleep: light", "command gives memory back only by ending"),
        ("llama.cpp", "sleep: light", "llama.cpp has no `sleep`"),
        ("mlx", "sleep: light", "mlx gives memory back only by ending"),
    ],
)
def test_one_mistake_is_said_once(engine: str, own: str, message: str, tmp_path: Path) -> None:
    assert complaints(tmp_path, engine, own) == [message]


def test_command_keeps_what_means_something_for_it(tmp_path: Path) -> None:
    own = "context: {max_tokens: 512, slots: 2, bytes_per_token: 9}, memory: {mode: mlock}, device: {threads: 2}"
    assert not complaints(tmp_path, "command", own)


def test_batches_are_for_roles_whose_requests_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    text = f"{HEAD}models:\n  m: {{engine: python, entry: a.b:C, role: ROLE, batch: {{max: 4}}}}\n"
    path.write_text(text.replace("ROLE", "rerank"))
    assert load_manifest(path, environ={}).launches["m"].batch.most == 4
    path.write_text(text.replace("ROLE", "chat"))
    with pytest.raises(ManifestError, match="python as chat server has nothing that `batch` could set"):
        load_manifest(path, environ={})
