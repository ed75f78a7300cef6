"""Folders of models as Ollama leaves them: manifests of JSON, and blobs that are called by their digests."""

import json
from collections.abc import Mapping
from pathlib import Path

from gguf_headers import Value, write_header
from media_specs import blob
from tiny_further import write_adapter, write_projector
from tiny_gguf import write_llama

_KIND = "application/vnd.ollama.image."
TEMPLATE = b"{{ .System }} {{ .Prompt }}"


def put(models: Path, path: str, config: Mapping[str, object] | None = None, /, **layers: bytes) -> Path:
    """Put one model into the folder `models`; `path` is HOST/OWNER/NAME/TAG. Return its manifest."""
    manifest = models / "manifests" / path
    manifest.parent.mkdir(parents=True, exist_ok=True)
    listed = [{"mediaType": _KIND + kind, "digest": blob(models, data)} for kind, data in layers.items()]
    described = {"model_format": "gguf", **(config or {})}
    content = {
        "schemaVersion": 2,
        "config": {"digest": blob(models, json.dumps(described).encode())},
        "layers": listed,
    }
    manifest.write_text(json.dumps(content))
    return manifest


def library(name: str, tag: str) -> str:
    """Return the path of a model of Ollama's own library."""
    return f"registry.ollama.ai/library/{name}/{tag}"


def settings(**values: object) -> bytes:
    """Return a layer of parameters."""
    return json.dumps(values).encode()


def desk(models: Path, scratch: Path) -> Path:
    """Fill a folder with one model of each kind, and return it."""
    scratch.mkdir(parents=True, exist_ok=True)
    chat = write_llama(scratch / "chat.gguf").read_bytes()
    plain = {"model": chat, "template": TEMPLATE}
    params = settings(
        num_ctx=1024, temperature=0.5, top_k=20, stop=["<|eot|>"], repeat_penalty=1.1, num_thread=1
    )
    told = {**plain, "system": b"You are a gardener.\nBe brief.", "license": b"MIT", "params": params}
    put(models, library("llama3", "8b"), **told)
    put(models, library("llama3", "latest"), **told)
    put(models, "hf.co/someone/tiny-GGUF/Q4_K_M", **plain)
    eye = write_projector(scratch / "eye.gguf").read_bytes()
    put(models, library("sees", "latest"), **plain, projector=eye)
    adapter = write_adapter(scratch / "adapter.gguf").read_bytes()
    put(models, "registry.ollama.ai/me/tuned/v1", **plain, adapter=adapter, messages=b"[]")
    vectors = write_header(scratch / "vectors.gguf", "nomic-bert", VECTORS, tokens=8).read_bytes()
    put(models, library("nomic-embed-text", "v1.5"), model=vectors, params=settings(num_ctx=8192))
    put(
        models,
        library("gpt-oss", "120b-cloud"),
        {"remote_host": "https://ollama.com:443", "remote_model": "gpt-oss:120b"},
    )
    put(models, library("big", "mlx"), {"model_format": "safetensors"}, tensor=b"x")
    put(models, library("cut", "1b"), model=b"GGUF but no more")
    gone = put(models, library("gone", "1b"), model=b"soon not there")
    for layer in json.loads(gone.read_text())["layers"]:
        (models / "blobs" / layer["digest"].replace(":", "-")).unlink()
    (models / "manifests" / library("odd", "1b")).parent.mkdir(parents=True)
    (models / "manifests" / library("odd", "1b")).write_text("no json")
    (models / "blobs" / f"sha256-{'a' * 64}-partial").write_bytes(b"half")
    (models / "blobs" / f"sha256-{'a' * 64}-partial-0").write_bytes(b"{}")
    return models


VECTORS: dict[str, Value] = {
    "block_count": 2,
    "context_length": 2048,
    "embedding_length": 64,
    "feed_forward_length": 128,
    "attention.head_count": 4,
    "pooling_type": 1,
}
