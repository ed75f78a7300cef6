"""What is recognised on a disk, and what is not taken for a model."""

import os
from pathlib import Path

import pytest

import initial_files as files
from hf_files import write_model
from reconciler.core.launch import Role
from reconciler.initial.found import Kind, Model
from reconciler.initial.places import ollama, usual
from reconciler.initial.search import Findings, search
from reconciler.initial.walk import Bounds, Walk

QWEN = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "max_position_embeddings": 32768}


def look(*places: Path, bounds: Bounds | None = None) -> Findings:
    return search(places, Walk(bounds or Bounds(), lambda: 0.0), lambda names, models: None)


def only(findings: Findings) -> Model:
    assert len(findings.models) == 1, findings
    return findings.models[0]


def left(findings: Findings) -> dict[str, str]:
    return {one.path.name: one.why for one in findings.left_out}


def test_roles_come_from_the_headers(tmp_path: Path) -> None:
    files.chat(tmp_path / "a" / "chat.gguf")
    files.embedding(tmp_path / "b" / "bge-small.gguf")
    files.whisper(tmp_path / "c" / "ggml-base.bin")
    found = {m.path.name: (m.kind, m.role, m.length) for m in look(tmp_path).models}
    assert found == {
        "chat.gguf": (Kind.GGUF, Role.CHAT, 131072),
        "bge-small.gguf": (Kind.GGUF, Role.EMBEDDING, 512),
        "ggml-base.bin": (Kind.WHISPER, Role.ASR, None),
    }


def test_a_projector_belongs_to_the_model_of_its_width(tmp_path: Path) -> None:
    model = files.chat(tmp_path / "llava-8b-Q4_K_M.gguf")
    files.odd(tmp_path / "mmproj-llava-8b-f32.gguf", "clip", projection_dim=4096)
    half = files.odd(tmp_path / "mmproj-llava-8b-f16.gguf", "clip", projection_dim=4096)
    other = files.odd(tmp_path / "mmproj-other.gguf", "clip", projection_dim=1024)
    findings = look(tmp_path)
    found = only(findings)
    assert (found.path, found.projector, found.role) == (model, half, Role.VISION)
    assert list(left(findings)) == [other.name]


def test_in_a_mixed_folder_names_decide_whose_projector_it_is(tmp_path: Path) -> None:
    seeing = files.chat(tmp_path / "Llava-v1.6-8B-Q4_K_M.gguf")
    files.chat(tmp_path / "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf")
    files.odd(tmp_path / "Llava-v1.6-8B-mmproj-f16.gguf", "clip", projection_dim=4096)
    assert [m.path for m in look(tmp_path).models if m.role is Role.VISION] == [seeing]


@pytest.mark.parametrize(
    ("name", "architecture", "kind", "why"),
    [
        ("lora.gguf", "llama", "adapter", "an adapter"),
        ("tiny-draft.gguf", "llama", "model", "guesses ahead"),
        ("flux1.gguf", "flux", "", "no language model (flux)"),
        ("dream.gguf", "dream", "", "diffusion"),
        ("im.gguf", "llama", "imatrix", "measurements"),
    ],
)
def test_what_is_no_model_is_said(tmp_path: Path, name: str, architecture: str, kind: str, why: str) -> None:
    files.odd(tmp_path / name, architecture, kind)
    findings = look(tmp_path)
    assert findings.models == ()
    assert why in left(findings)[name]


def test_a_split_set_is_one_model_and_an_incomplete_one_is_said_once(tmp_path: Path) -> None:
    whole = files.chat(tmp_path / "whole-00001-of-00001.gguf")
    for number in (1, 3):
        files.chat(tmp_path / f"big-0000{number}-of-00003.gguf")
    findings = look(tmp_path)
    assert only(findings).path == whole
    assert left(findings) == {
        "big-00001-of-00003.gguf": "has 3 parts, and big-00002-of-00003.gguf is not there"
    }


def test_downloads_that_have_not_ended_are_said(tmp_path: Path) -> None:
    for name in ("a.gguf.part", "b.gguf.downloadInProgress", "notes.txt.part"):
        (tmp_path / name).write_bytes(b"GGUF")
    blobs = tmp_path / "models--org--x" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "deadbeef.incomplete").write_bytes(b"")
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\3\0")
    (tmp_path / "page.gguf").write_bytes(b"<!DOCTYPE html><title>404</title>" + bytes(64))
    found = left(look(tmp_path))
    assert sorted(found) == [
        "a.gguf.part",
        "b.gguf.downloadInProgress",
        "cut.gguf",
        "deadbeef.incomplete",
        "page.gguf",
    ]
    assert "HTML page" in found["page.gguf"]


def test_the_same_files_are_one_model_however_many_links_lead_there(tmp_path: Path) -> None:
    blob = files.chat(tmp_path / "blobs" / "abc")
    for snapshot in ("1", "2"):
        folder = tmp_path / "snapshots" / snapshot
        folder.mkdir(parents=True)
        (folder / "m.gguf").symlink_to(blob)
    (tmp_path / "snapshots" / "again").symlink_to(tmp_path / "snapshots")
    findings = look(tmp_path)
    assert only(findings).path == tmp_path / "snapshots" / "1" / "m.gguf"
    assert findings.again == 1


def test_folders_of_safetensors(tmp_path: Path) -> None:
    mlx = write_model(tmp_path / "mlx", QWEN | {"quantization": {"bits": 4, "group_size": 64}})
    (mlx / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    write_model(tmp_path / "base", QWEN)
    write_model(tmp_path / "bge", {"architectures": ["BertModel"], "model_type": "bert"}, elements=4096)
    (tmp_path / "bge" / "modules.json").write_text("[]")
    ranker = {"architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    write_model(tmp_path / "ranker", ranker)
    write_model(
        tmp_path / "seeing", {"architectures": ["QwenVLForConditionalGeneration"], "vision_config": {}}
    )
    write_model(tmp_path / "t5", {"architectures": ["T5ForConditionalGeneration"]})
    findings = look(tmp_path)
    found = {m.path.name: (m.kind, m.role) for m in findings.models}
    assert found == {
        "mlx": (Kind.MLX, Role.CHAT),
        "base": (Kind.SAFETENSORS, Role.COMPLETION),
        "bge": (Kind.SAFETENSORS, Role.EMBEDDING),
        "ranker": (Kind.SAFETENSORS, Role.RERANK),
        "seeing": (Kind.SAFETENSORS, Role.VISION),
    }
    assert "T5ForConditionalGeneration" in left(findings)["t5"]


def test_the_search_ends_at_its_bounds(tmp_path: Path) -> None:
    deep = tmp_path / "/".join("abcdefgh")
    files.chat(deep / "m.gguf")
    assert f"such as those in {tmp_path}/a/b/c:" in look(tmp_path, bounds=Bounds(depth=3)).unfinished
    assert "ended after" in look(tmp_path, bounds=Bounds(entries=2)).unfinished
    ticks = iter(range(1000))
    walk = Walk(Bounds(seconds=2), lambda: float(next(ticks)))
    assert "ended after 2 s" in search([tmp_path], walk, lambda names, models: None).unfinished
    assert only(look(tmp_path, bounds=Bounds(depth=8))).path == deep / "m.gguf"


def test_a_file_may_be_named_itself(tmp_path: Path) -> None:
    files.chat(tmp_path / "other.gguf")
    model = files.chat(tmp_path / "this.gguf")
    assert only(look(model)).path == model


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert "cannot be looked into" in left(look(tmp_path))["closed"]


def test_names_that_cannot_be_written_down_are_said(tmp_path: Path) -> None:
    files.chat(tmp_path / "a\nb.gguf")
    assert "cannot be printed" in left(look(tmp_path))["a\nb.gguf"]


def test_the_usual_places(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    wanted = [here / "models", tmp_path / "hub", home / ".cache/huggingface/hub", home / ".lmstudio/models"]
    for folder in (*wanted, home / ".ollama/models/manifests"):
        folder.mkdir(parents=True)
    assert usual(home, here, {"HF_HUB_CACHE": str(tmp_path / "hub")}) == tuple(wanted)
    assert ollama(home, {}) == home / ".ollama/models"
    assert ollama(home, {"OLLAMA_MODELS": str(tmp_path)}) is None


def test_a_link_that_leads_to_itself_hides_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a-loop").symlink_to("a-loop")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    model = files.chat(tmp_path / "z" / "chat.gguf")
    (tmp_path / "z-loop").symlink_to("z-loop")
    findings = look(tmp_path)
    assert only(findings).path == model
    assert list(left(findings)) == ["loop.gguf"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_a_link_does_not_lead_into_what_the_kernel_shows_of_itself(tmp_path: Path) -> None:
    model = files.chat(tmp_path / "chat.gguf")
    (tmp_path / "everything").symlink_to("/proc/self")
    walk = Walk(Bounds(), lambda: 0.0)
    findings = search([tmp_path], walk, lambda names, models: None)
    assert (only(findings).path, walk.entries, findings.left_out) == (model, 2, ())


def test_what_waits_for_a_writer_is_not_opened(tmp_path: Path) -> None:
    write_model(tmp_path / "talks", QWEN)
    os.mkfifo(tmp_path / "talks" / "tokenizer_config.json")
    os.mkfifo(tmp_path / "ggml-base.bin")
    findings = look(tmp_path)
    assert only(findings).role is Role.COMPLETION
    assert left(findings) == {"ggml-base.bin": "cannot be read: it is a FIFO, not a file"}
