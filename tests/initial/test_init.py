"""A first manifest: it is read as it is meant, everything in it fits, and nothing that was there is lost."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import initial_files as files
from golden_files import assert_golden
from hf_files import write_model
from reconciler.cli import main
from reconciler.core.plan import plan
from reconciler.core.types import Demand, Observation, Reason, World
from reconciler.engines import registry
from reconciler.initial import naming
from reconciler.initial.choose import CannotPinError
from reconciler.initial.make import Wanted, make
from reconciler.initial.text import scalar
from reconciler.initial.write import OccupiedError
from reconciler.manifest.applied import Applied
from reconciler.manifest.load import load_manifest
from reconciler.render.init_shapes import InitDocument
from reconciler.render.init_text import init_text
from reconciler.render.plan_document import as_json
from reconciler.render.schemas import init_schema

MIB = 1 << 20


def wanted(tmp_path: Path, **changes: Any) -> Wanted:
    """What is asked for in `tmp_path`: its `models`, on a machine of 24 GiB with llama.cpp and whisper.cpp."""
    asked = Wanted(
        folders=(tmp_path / "models",),
        out=tmp_path / "manifests",
        memory=files.memory(),
        here=files.here("llama.cpp", "whisper.cpp"),
        clock=lambda: 0.0,
        home=tmp_path / "home",
        cwd=tmp_path,
        environ={},
    )
    return replace(asked, **changes)


def init(tmp_path: Path, **changes: Any) -> InitDocument:
    return make(wanted(tmp_path, **changes), lambda names, models: None)


def load(tmp_path: Path) -> Applied:
    return load_manifest(tmp_path / "manifests", environ={})


def reasons(applied: Applied, asked: Wanted) -> dict[str, Reason]:
    """Return why each model, asked for alone on an empty machine, would be as it would be."""
    found = tuple(registry.get(s.engine).foreseen(s) for _, s in sorted(applied.launches.items()))
    said = {}
    for spec in applied.manifest.models:
        demand = Demand(spec.name, waiting=1, oldest=1.0)
        made = plan(applied.manifest, World(Observation(1, 2.0, asked.memory, (), (demand,), found)), 2.0)
        said[spec.name] = next(v.reason for v in made.verdicts if v.model == spec.name)
    return said


def a_desk(tmp_path: Path) -> None:
    """Write a few models as somebody might have them."""
    models = tmp_path / "models"
    files.chat(models / "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", size=4 << 30)
    files.chat(models / "giant-Q4_K_M.gguf", size=40 << 30, big=True)
    files.embedding(models / "bge-small-en-v1.5-f16.gguf")
    files.whisper(models / "ggml-base.bin")
    write_model(models / "vit", {"architectures": ["ViTForImageClassification"]})
    (models / "coming.gguf.part").write_bytes(b"GGUF")


def test_the_manifest_says_what_the_files_say(tmp_path: Path) -> None:
    a_desk(tmp_path)
    document = as_json(init(tmp_path))
    jsonschema.validate(document, init_schema())
    written = (tmp_path / "manifests" / "models.yaml").read_text("utf-8")
    assert_golden("init-desk.yaml", written.replace(str(tmp_path), "/desk"))
    assert_golden("init-desk.txt", init_text(document).replace(str(tmp_path), "/desk") + "\n")


def test_it_is_valid_and_everything_in_it_fits(tmp_path: Path) -> None:
    a_desk(tmp_path)
    asked = wanted(tmp_path)
    make(asked, lambda names, models: None)
    assert reasons(load(tmp_path), asked) == dict.fromkeys(
        ("base", "bge-small-en-v1.5", "meta-llama-3.1-8b-instruct"), Reason.DEMANDED
    )


def test_thousands_that_are_no_models_leave_the_manifest_readable(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for number in range(1010):
        (tmp_path / "models" / f"{number}.gguf").touch()
    document = as_json(init(tmp_path))
    written = (tmp_path / "manifests" / "models.yaml").read_text("utf-8")
    assert (written.count(": is empty\n"), len(document["left_out"])) == (1000, 1010)
    assert written.endswith("#   and 10 more: `reconcile init --json` names them\n")
    assert "and 998 more: --json names them" in init_text(document)


def test_the_same_machine_gets_the_same_text(tmp_path: Path) -> None:
    a_desk(tmp_path)
    init(tmp_path)
    first = (tmp_path / "manifests" / "models.yaml").read_bytes()
    document = init(tmp_path, force=True, memory=replace(files.memory(), available=files.GIB))
    assert (tmp_path / "manifests" / "models.yaml").read_bytes() == first
    assert document.kept == str(tmp_path / "manifests" / "models.yaml.1.bak")


@pytest.mark.parametrize(("gib", "tokens"), [(96, 32768), (16, 16384), (12, 8192), (7, 8192), (6, 4096)])
def test_a_long_context_leaves_room_for_another_model(tmp_path: Path, gib: int, tokens: int) -> None:
    files.chat(tmp_path / "models" / "chat.gguf", size=4 << 30)
    document = init(tmp_path, memory=files.memory(gib * files.GIB))
    assert [m.context for m in document.models] == [tokens]


def test_what_fits_nowhere_is_left_out_with_its_figures(tmp_path: Path) -> None:
    files.chat(tmp_path / "models" / "chat.gguf", size=4 << 30)
    document = init(tmp_path, memory=files.memory(4 * files.GIB))
    assert document.models == ()
    assert "it does not fit alone: it needs" in document.left_out[0].why
    assert "with 2048 tokens of context, models may use 3.4 GiB" in document.left_out[0].why
    assert load(tmp_path).manifest.models == ()


def test_what_no_engine_here_serves_is_left_out(tmp_path: Path) -> None:
    files.whisper(tmp_path / "models" / "ggml-base.bin")
    files.chat(tmp_path / "models" / "chat.gguf")
    document = init(tmp_path, here=())
    assert [m.name for m in document.models] == ["chat"]
    assert "no engine that serves whisper.cpp for asr is here (whisper.cpp)" in document.left_out[0].why
    assert "pip install 'reconciler[llama]'" in document.hints[0]


def test_small_helpers_come_first_only_where_everybody_has_room(tmp_path: Path) -> None:
    files.chat(tmp_path / "models" / "chat.gguf", size=4 << 30)
    files.embedding(tmp_path / "models" / "embed.gguf")
    roomy = init(tmp_path)
    assert {m.name: m.priority for m in roomy.models} == {"chat": "medium", "embed": "high"}
    # Room for the chat alone, with the shortest context, and for the embedding alone.
    tight = init(tmp_path, force=True, memory=files.memory(5 * files.GIB + 512 * MIB))
    assert {m.name: m.priority for m in tight.models} == {"chat": "medium", "embed": "medium"}


def test_a_small_model_is_pinned_when_that_is_asked(tmp_path: Path) -> None:
    files.chat(tmp_path / "models" / "chat.gguf", size=8 << 30)
    files.embedding(tmp_path / "models" / "embed.gguf")
    init(tmp_path, pin=("embed",))
    assert {m.name: m.residency for m in load(tmp_path).manifest.models} == {
        "chat": "on_demand",
        "embed": "pinned",
    }
    with pytest.raises(CannotPinError) as refused:
        init(tmp_path, pin=("chat", "nobody"), force=True)
    assert 'there is no model "nobody" to pin' in str(refused.value)
    assert "chat is not small enough to be pinned" in str(refused.value)
    assert len(list((tmp_path / "manifests").iterdir())) == 1


def test_nothing_is_pinned_that_would_keep_another_model_out(tmp_path: Path) -> None:
    files.chat(tmp_path / "models" / "chat.gguf", size=8 << 30)
    files.embedding(tmp_path / "models" / "embed.gguf")
    least = init(tmp_path, memory=files.memory(10 * files.GIB)).models[0].need
    tight = files.memory(int((least + 10 * MIB) / 0.85))
    with pytest.raises(CannotPinError, match="chat would never fit"):
        init(tmp_path, pin=("embed",), force=True, memory=tight)
    assert len(init(tmp_path, force=True, memory=tight).models) == 2


def test_nothing_that_is_there_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "mine.yaml").write_text("apiVersion: reconciler/v1\nmodels: {}\n")
    with pytest.raises(OccupiedError, match=r"mine\.yaml is there already"):
        init(tmp_path)
    for number in (1, 2):
        (folder / "models.yaml").write_text(f"apiVersion: reconciler/v1\nmodels: {{}} # {number}\n")
        (folder / "mine.yaml").unlink(missing_ok=True)
        assert init(tmp_path, force=True).kept == str(folder / f"models.yaml.{number}.bak")
    kept = [(folder / f"models.yaml.{number}.bak").read_text() for number in (1, 2)]
    assert [text[-3:] for text in kept] == ["1\n".rjust(3), "2\n".rjust(3)]


def test_a_file_may_be_named_as_the_target(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    document = init(tmp_path, out=tmp_path / "desk" / "all.yaml")
    assert document.manifest == str(tmp_path / "desk" / "all.yaml")
    assert load_manifest(tmp_path / "desk" / "all.yaml", environ={}).manifest.models == ()


def test_without_models_there_is_a_manifest_that_says_where_to_put_them(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    document = as_json(init(tmp_path))
    assert load(tmp_path).manifest.models == ()
    assert_golden("init-empty.txt", init_text(document).replace(str(tmp_path), "/desk") + "\n")
    written = (tmp_path / "manifests" / "models.yaml").read_text("utf-8")
    assert_golden("init-empty.yaml", written.replace(str(tmp_path), "/desk"))


def test_ollama_is_mentioned(tmp_path: Path) -> None:
    (tmp_path / "home/.ollama/models/manifests").mkdir(parents=True)
    assert "reconcile import ollama" in init(tmp_path, folders=(), imports=True).hints[0]


def test_the_verb_writes_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.chat(tmp_path / "models" / "chat.gguf")
    argv = ["init", str(tmp_path / "models"), "--out", str(tmp_path / "m")]
    assert main([*argv, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, init_schema())
    assert [m["name"] for m in document["models"]] == ["chat"]
    assert main(argv) == 1
    assert "models.yaml is there already" in capsys.readouterr().err
    assert main(["validate", str(tmp_path / "m")]) == 0
    assert main(["init", str(tmp_path / "nowhere"), "--out", str(tmp_path / "n")]) == 64
    assert not (tmp_path / "n").exists()


def test_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = files.chat(tmp_path / "smollm2-135m-instruct" / "Q4_1" / "model.gguf")
    fetched: list[Any] = []

    def fetch(weights: Any, cache: Path, say: Any) -> Path:
        fetched.append(weights.title)
        return model

    monkeypatch.setattr("reconciler.initial.fetch.fetch", fetch)
    argv = ["init", "--demo", "--out", str(tmp_path / "m")]
    assert main(argv) == 0
    assert fetched == ["SmolLM2-135M-Instruct Q4_1"]
    assert list(load_manifest(tmp_path / "m", environ={}).launches) == ["smollm2-135m-instruct"]
    assert main(argv) == 1
    assert len(fetched) == 1
    assert main([*argv, str(tmp_path)]) == 64
    capsys.readouterr()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/m/Qwen2.5-7B-Instruct-Q4_K_M.gguf", "qwen2.5-7b-instruct"),
        ("/w/smollm2-135m-instruct/Q4_1/0.1.2/model.gguf", "smollm2-135m-instruct"),
        ("/hub/models--mlx-community--Qwen3-4B-4bit/snapshots/" + 40 * "a", "qwen3-4b"),
        ("/hub/models--BAAI--bge-m3/snapshots/" + 40 * "0", "bge-m3"),
        ("/m/DeepSeek-R1-UD-IQ1_S-00001-of-00003.gguf", "deepseek-r1"),
        ("/m/ggml-large-v3-turbo.bin", "large-v3-turbo"),
        ("/m/Ünï code (2).gguf", "ünï-code-2"),
        ("/gguf/Q8_0/model.gguf", "model"),
    ],
)
def test_names(path: str, name: str) -> None:
    assert naming.names([Path(path)]) == [name]


def test_two_forms_of_one_model_are_told_apart() -> None:
    paths = [
        Path("/m/a-Q4_K_M.gguf"),
        Path("/m/a-Q8_0.gguf"),
        Path("/n/a-Q8_0.gguf"),
        Path("/w/a/F16/model.gguf"),
    ]
    assert naming.names(paths) == ["a-q4_k_m", "a-q8_0", "a-q8_0-2", "a-f16"]


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Zl", "Zp", "Cf", "Co"]), min_size=1))
def test_a_scalar_is_read_as_the_text_it_was(text: str) -> None:
    from ruamel.yaml import YAML

    written = f"a: {scalar(text)}\n"
    assert YAML(typ="safe").load(written)["a"].replace("$${env:", "${env:") == text.replace(
        "$${env:", "${env:"
    )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 30_000), min_size=1, max_size=4),
    embeddings=st.integers(0, 2),
    total=st.integers(2_000, 64_000),
)
def test_whatever_lies_there_everything_that_is_written_fits(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], embeddings: int, total: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("any")
    for i, size in enumerate(sizes):
        files.chat(tmp_path / "models" / f"chat{i}x.gguf", size=size * MIB)
    for i in range(embeddings):
        files.embedding(tmp_path / "models" / f"embed{i}x.gguf")
    asked = wanted(tmp_path, memory=files.memory(total * MIB))
    document = make(asked, lambda names, models: None)
    assert len(document.models) + len(document.left_out) == len(sizes) + embeddings
    said = reasons(load(tmp_path), asked)
    assert set(said.values()) <= {Reason.DEMANDED}, said
    high = [m.need for m in document.models if m.priority == "high"]
    others = [m.need for m in document.models if m.priority != "high"]
    assert not high or sum(high) + max(others, default=0) <= (document.budget or 0)


QWEN: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "num_hidden_layers": 24,
    "hidden_size": 896,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}
BGE: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "num_hidden_layers": 12,
    "hidden_size": 384,
    "num_attention_heads": 12,
    "vocab_size": 30522,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
}


def folder(path: Path, config: dict[str, Any]) -> Path:
    """Write a folder of safetensors as it comes from the Hub, with tokenizer and chat template."""
    write_model(path, config, elements=1 << 20)
    (path / "tokenizer.json").write_text("{}")
    (path / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    return path


@pytest.mark.parametrize(
    ("config", "engine", "role"),
    [
        (QWEN, "vllm", "chat"),
        (QWEN, "sglang", "chat"),
        (QWEN, "transformers", "chat"),
        (QWEN | {"quantization": {"bits": 4, "group_size": 64}}, "mlx", "chat"),
        (BGE, "infinity", "embedding"),
    ],
)
def test_folders_are_served_by_what_is_here(
    tmp_path: Path, config: dict[str, Any], engine: str, role: str
) -> None:
    folder(tmp_path / "models" / "some-model", config)
    document = init(tmp_path, here=files.here(engine), memory=files.memory(96 * files.GIB))
    assert [(m.name, m.engine, m.role) for m in document.models] == [("some-model", engine, role)], document
    launch = load(tmp_path).launches["some-model"]
    assert registry.get(engine).foreseen(launch).steady == document.models[0].steady


def test_where_no_engine_can_have_it_each_says_why(tmp_path: Path) -> None:
    folder(tmp_path / "models" / "some-model", BGE)
    document = init(tmp_path, here=files.here("tei"))
    assert document.left_out[0].why.startswith("with tei: its weights are 2 MiB")
    folder(tmp_path / "models" / "some-model", QWEN)
    document = init(tmp_path, here=files.here("vllm", "transformers"), force=True)
    assert [m.engine for m in document.models] == ["transformers"]
