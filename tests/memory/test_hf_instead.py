"""What a server of Hugging Face folders would end at, said as a sentence before anybody makes room for it."""

from pathlib import Path

import pytest

from hf_files import write_model, write_tensors
from linux_trees import write_files
from reconciler.core.launch import LaunchSpec
from reconciler.engines.weights import hugging_face
from reconciler.memory.gguf import find_weights
from reconciler.memory.hf import WeightsError, check_folder, find_model

PICKLED = (
    "holds pickled weights ({}), and loading such runs whatever code is in them: convert them to safetensors"
)
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "holds no .safetensors file"),
        ({"config.json": "{}"}, "holds no .safetensors file"),
        (
            {"config.json": "{}", "pytorch_model.bin": "x"},
            PICKLED.format("pytorch_model.bin"),
        ),
        (
            {"a.ckpt": "x"},
            PICKLED.format("a.ckpt"),
        ),
        (
            {"m-Q4_K_M.gguf": "x", "pytorch_model.bin": "x"},
            "holds GGUF (m-Q4_K_M.gguf): name that file, for `engine: llama.cpp`; or get the model as safetensors",
        ),
        (
            {"model.bin": "x", "vocabulary.json": "[]", "config.json": "{}"},
            "holds a model of CTranslate2 (model.bin): that is for `engine: faster-whisper`",
        ),
        (
            {"model.onnx": "x"},
            "holds ONNX (model.onnx): they are for a server of its own (`engine: python` or `command`)",
        ),
        (
            {"weights.npz": "x"},
            "holds an older form of MLX (weights.npz): convert them to safetensors (mlx_lm.convert)",
        ),
    ],
)
def test_a_folder_without_safetensors(files: dict[str, str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError) as refused:
        find_model(write_files(tmp_path, files))
    assert str(refused.value) == f"{tmp_path} {sentence}"


def test_the_folder_of_a_cache(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "snapshots/3f2c1ab", {}).parent.parent
    (tmp_path / "blobs").mkdir()
    with pytest.raises(
        WeightsError, match=r"is a folder of the Hub's cache: name the model in it, .*snapshots/3f2c1ab$"
    ):
        find_model(folder)


@pytest.mark.parametrize(
    ("files", "odd"),
    [
        ({"config.json": "{}", "tokenizer.json": "{}"}, ()),
        ({"config.json": "{}", "spiece.model": "x"}, ()),
        ({"params.json": "{}", "tekken.json": "{}"}, ()),
        ({"config.json": "{}"}, ("has no file of a tokenizer: text cannot be read without",)),
    ],
)
def test_a_whole_folder(files: dict[str, str], odd: tuple[str, ...], tmp_path: Path) -> None:
    write_tensors(write_files(tmp_path, files) / "model.safetensors", {"a": ("BF16", [8])})
    assert check_folder(tmp_path) == tuple(f"{tmp_path} {sentence}" for sentence in odd)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"tokenizer.json": "{}"},
            "{} has no config.json: the download is not complete, or it is no model of this kind",
        ),
        (
            {"adapter_config.json": "{}"},
            "{} is an adapter, not a model: name it under `adapters`, beside the model's weights",
        ),
        (
            {"config.json": "{}", "tokenizer.json": LFS},
            "{}/tokenizer.json is a Git LFS pointer, not this file: run `git lfs pull`",
        ),
        (
            {"config.json": "{}", "tokenizer.model": LFS},
            "{}/tokenizer.model is a Git LFS pointer, not this file: run `git lfs pull`",
        ),
    ],
)
def test_a_folder_that_lacks_something(files: dict[str, str], sentence: str, tmp_path: Path) -> None:
    write_tensors(write_files(tmp_path, files) / "model.safetensors", {"a": ("BF16", [8])})
    with pytest.raises(WeightsError) as refused:
        check_folder(tmp_path)
    assert str(refused.value) == sentence.format(tmp_path)


def test_many_parts_hide_nothing(tmp_path: Path) -> None:
    write_files(tmp_path, {f"model-{n:05d}-of-00300.safetensors": "" for n in range(300)})
    write_files(tmp_path, {"config.json": "{}", "tokenizer.json": "{}"})
    assert check_folder(tmp_path) == ()


def test_such_a_folder_where_gguf_is_loaded(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", {})
    with pytest.raises(WeightsError, match=r"m is a folder of safetensors, not GGUF: convert it"):
        find_weights(folder)
    (folder / "m.gguf").touch()
    with pytest.raises(WeightsError, match=r"m is a folder; name the \.gguf file in it"):
        find_weights(folder)


def test_one_file_where_a_folder_is_loaded(tmp_path: Path) -> None:
    file = write_tensors(tmp_path / "model.safetensors", {"a": ("BF16", [8])})
    with pytest.raises(WeightsError, match=f"this engine loads the whole folder: name {tmp_path}$"):
        check_folder(file)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("part", "is not there"),
        ("truncated", "is truncated"),
        ("pointer", "is a Git LFS pointer"),
        ("gguf", "is GGUF, not safetensors"),
        ("config", "has no config.json"),
        ("html", "is an HTML page"),
    ],
)
def test_nobody_goes_for_weights_that_cannot_be_loaded(damage: str, words: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", {"model_type": "llama"}, shards=2, elements=1 << 10)
    second = folder / "model-00002-of-00002.safetensors"
    match damage:
        case "part":
            second.unlink()
        case "truncated":
            second.write_bytes(second.read_bytes()[:-1])
        case "pointer":
            second.write_text(LFS)
        case "gguf":
            second.write_bytes(b"GGUF" + bytes(100))
        case "config":
            (folder / "config.json").unlink()
        case "html":
            second.write_text("<!DOCTYPE html><html></html>")
    found = hugging_face(LaunchSpec("m", "vllm", weights=str(folder)), "vllm")
    assert found.reason == "NotStartable"
    assert words in found.message
