"""What weights of whisper.cpp, CTranslate2 and Ollama say: their size in memory, or what is wrong with them."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter
from hypothesis import given
from hypothesis import strategies as st

from media_specs import BASE, bare, ct2, ggml, gguf, stored, whisper_variables
from reconciler.core.launch import Device, LaunchSpec, Role
from reconciler.core.memory import Said
from reconciler.core.types import Preflight, Reason
from reconciler.engines import ctranslate2_file, faster_whisper, registry, whisper_ggml
from reconciler.memory.gguf import WeightsError

RECORDED = Path(__file__).with_name("recorded")
MB, MIB = 1_000_000, 1 << 20
MEDIUM = (51865, 1500, 1024, 16, 24, 448, 1024, 16, 24)


def looked_at(spec: LaunchSpec) -> Preflight:
    return registry.get(spec.engine).preflight(spec)


# -- whisper.cpp -----------------------------------------------------------------------------------------------------

LOGS = {
    "whisper-base-cpu.log": (BASE, 147_951_465, Said(147_370_000, 28_310_000, 203_120_000)),
    "whisper-medium-cuda.log": (MEDIUM, 1_533_763_059, Said(1_533_140_000, 207_610_000, 306_490_000)),
}


@pytest.mark.parametrize("name", LOGS)
def test_whisper_cpps_log_is_read_and_its_header_foretells_it(name: str, tmp_path: Path) -> None:
    shape, size, said = LOGS[name]
    log = (RECORDED / name).read_text()
    engine = registry.get("whisper.cpp")
    assert engine.said(log) == said
    assert (
        engine.said("whisper_model_load: loading model\nwhisper_model_load: model size = 9 MB\n" + log)
        == said
    )
    spec = replace(bare("whisper.cpp", tmp_path), weights=str(ggml(tmp_path / "w.bin", shape, size)))
    parts = looked_at(spec).parts
    assert parts is not None
    assert parts.weights == size
    assert parts.context == pytest.approx(said.context, rel=0.001)
    assert said.compute is not None
    assert said.compute <= (parts.compute or 0) <= said.compute * 1.06
    assert looked_at(spec).steady == parts.steady == looked_at(spec).peak


def test_a_log_without_sizes_says_none() -> None:
    engine = registry.get("whisper.cpp")
    assert engine.said("") is None
    assert engine.said("whisper_model_load: loading model\n") is None
    only = "whisper_model_load: loading model\nwhisper_model_load: model size    =  147.37 MB\n"
    assert engine.said(only) == Said(weights=147_370_000)


NO_WEIGHTS = {
    b"GGUF" + bytes(60): "is a GGUF file",
    b"PK\x03\x04" + bytes(60): "is a PyTorch checkpoint",
    b"version https://git-lfs": "Git LFS pointer",
    b"<!DOCTYPE html>": "a web page",
    b"": "is empty",
    b"lmgg" + bytes(20): "cut off within its header",
    b"lmgg" + struct.pack("<11i", *BASE[:4], -6, *BASE[5:], 80, 1): "makes no sense",
    b"RIFF" + bytes(60): "no weights file of whisper.cpp",
}


@pytest.mark.parametrize("content", NO_WEIGHTS)
def test_what_is_no_model_of_whisper_cpp_is_called_what_it_is(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.bin"
    path.write_bytes(content)
    found = looked_at(replace(bare("whisper.cpp", tmp_path), weights=str(path)))
    assert found.reason == Reason.NOT_STARTABLE
    assert NO_WEIGHTS[content] in found.message
    assert str(path) in found.message


def test_a_folder_and_nothing_are_no_model_of_whisper_cpp(tmp_path: Path) -> None:
    spec = bare("whisper.cpp", tmp_path)
    assert "is a folder" in looked_at(replace(spec, weights=str(tmp_path))).message
    assert "do not exist" in looked_at(replace(spec, weights=str(tmp_path / "no"))).message


@given(st.binary(max_size=80))
def test_any_file_is_a_whisper_model_or_says_why_not(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.bin"
    path.write_bytes(b"lmgg" + data)
    try:
        steady = whisper_ggml.estimate(whisper_ggml.read(path)).steady
    except WeightsError as error:
        said, steady = str(error), None
    assert str(path) in said if steady is None else steady > 0


# -- faster-whisper --------------------------------------------------------------------------------------------------


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faster_whisper, "_CUDA", ())


@pytest.mark.usefixtures("cpu")
def test_weights_in_16_bits_are_twice_as_large_on_the_cpu(tmp_path: Path) -> None:
    spec = bare("faster-whisper", tmp_path)
    found = looked_at(spec)
    assert found.parts is not None
    # 12,000 bytes in 16 bits, and two of a whole number.
    assert found.parts.weights == 2 * 12_000 * 4 // 4 + 2
    scores = 6 * 1500**2 * 4
    assert found.parts.compute == scores * 5 // 2 + found.parts.weights // 4
    size = Path(spec.weights or "", "model.bin").stat().st_size
    assert found.peak == (found.steady or 0) + size


@pytest.mark.usefixtures("cpu")
def test_the_estimate_is_what_two_models_were_measured_to_take(tmp_path: Path) -> None:
    measured = {"tiny.en": (6, 75_529_728, 343, 414), "base": (8, 145_206_272, 559, 705)}
    for name, (heads, size, steady, peak) in measured.items():
        weights = [
            *whisper_variables(heads)[:1],
            ("encoder/position_encodings/encodings", (1500, 1), 4, size),
        ]
        found = looked_at(
            replace(bare("faster-whisper", tmp_path), weights=str(ct2(tmp_path / name, weights)))
        )
        assert steady * MIB <= (found.steady or 0) <= 1.08 * steady * MIB
        assert peak * MIB <= (found.peak or 0) <= 1.08 * peak * MIB


@pytest.mark.parametrize(
    "change",
    [
        {"args": ("-f", "settings.yaml")},
        {"args": ("--config=settings.yaml",)},
        {"device": Device(gpus=("0",))},
    ],
)
def test_a_compute_type_that_is_not_known_leaves_the_size_unknown(
    change: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faster_whisper, "_CUDA", ("/dev/null",))
    spec = bare("faster-whisper", tmp_path)
    Path(spec.cwd, "settings.yaml").write_text("models: {}\n")
    found = looked_at(replace(spec, **change))  # type: ignore[arg-type]
    assert found.steady is None
    assert found.reason is None
    assert "give memory.steady" in found.message
    assert looked_at(replace(spec, device=Device(gpus=()))).steady is not None


@pytest.mark.parametrize(
    ("file", "words"), [("model.bin", "no model.bin"), ("tokenizer.json", "on the network")]
)
def test_a_folder_that_is_not_whole_is_said(file: str, words: str, tmp_path: Path) -> None:
    spec = bare("faster-whisper", tmp_path)
    Path(spec.weights or "", file).unlink()
    found = looked_at(spec)
    assert found.reason == Reason.NOT_STARTABLE
    assert words in found.message


def test_other_weights_than_a_folder_of_whisper_are_called_what_they_are(tmp_path: Path) -> None:
    spec = bare("faster-whisper", tmp_path)
    model = Path(spec.weights or "", "model.bin")
    cases = {
        f"the weights {tmp_path}/none do not exist": f"{tmp_path}/none",
        f"{model} is a file: name the folder": str(model),
        "a TransformerSpec of CTranslate2, which is not Whisper": str(
            ct2(tmp_path / "t", [], "TransformerSpec")
        ),
        "of a later format than 6": str(ct2(tmp_path / "new", [], version=7)),
    }
    for words, weights in cases.items():
        found = looked_at(replace(spec, weights=weights))
        assert found.reason == Reason.NOT_STARTABLE
        assert words in found.message


@given(st.integers(0, 12_000))
def test_a_model_that_is_cut_off_anywhere_is_said(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "whole"
    whole = folder / "model.bin"
    if not whole.exists():
        ct2(folder, whisper_variables())
    cut = folder.with_name("cut.bin")
    cut.write_bytes(whole.read_bytes()[:length])
    with pytest.raises(WeightsError, match="cut off"):
        ctranslate2_file.read(cut)


# -- Ollama ----------------------------------------------------------------------------------------------------------


def ollama(tmp_path: Path, **layers: bytes) -> LaunchSpec:
    spec = bare("ollama", tmp_path)
    return replace(
        spec, weights=str(stored(tmp_path / "models", model=gguf(tmp_path), **layers)), context_tokens=512
    )


def test_a_model_of_ollamas_is_as_large_as_llama_cpp_says(tmp_path: Path) -> None:
    spec = ollama(tmp_path)
    found = looked_at(spec)
    assert found.steady is not None
    assert found.context_tokens == 512
    more = looked_at(replace(spec, context_tokens=1024, slots=2))
    assert found.parts is not None
    assert more.parts is not None
    assert more.parts.weights == found.parts.weights
    assert more.parts.context == 4 * (found.parts.context or 0) > 0
    half = looked_at(replace(spec, cache_type="q8_0"))
    assert half.parts is not None
    assert 0 < (half.parts.context or 0) < (found.parts.context or 0)


def test_the_context_of_a_modelfile_rules(tmp_path: Path) -> None:
    found = looked_at(ollama(tmp_path, params=json.dumps({"num_ctx": 256, "temperature": 1}).encode()))
    assert found.context_tokens == 256
    assert any("sets num_ctx 256, which rules" in note for note in found.notes)


def test_without_a_context_the_size_is_not_guessed(tmp_path: Path) -> None:
    found = looked_at(replace(ollama(tmp_path), context_tokens=None))
    assert (found.steady, found.reason) == (None, None)
    assert "give context.max_tokens" in found.message


def test_weights_in_another_format_leave_the_size_unknown(tmp_path: Path) -> None:
    spec = bare("ollama", tmp_path)
    found = looked_at(replace(spec, weights=str(stored(tmp_path / "models", tensor=b"x")), context_tokens=9))
    assert (found.steady, found.message) == (None, "its weights are in no GGUF file: give memory.steady")


def test_what_is_missing_in_ollamas_folder_is_said_with_the_command_that_fetches_it(tmp_path: Path) -> None:
    spec = ollama(tmp_path)
    manifest = Path(spec.weights or "")
    gone = looked_at(replace(spec, weights=str(manifest.with_name("7b"))))
    assert (
        gone.message
        == f"there is no tiny:7b in {tmp_path}/models: OLLAMA_MODELS={tmp_path}/models ollama pull tiny:7b"
    )
    for blob in (tmp_path / "models/blobs").iterdir():
        blob.unlink()
    broken = looked_at(spec)
    assert broken.reason == gone.reason == Reason.NOT_STARTABLE
    assert broken.message.endswith("is missing: ollama pull tiny:1b")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is no JSON"),
        (b"[]", "is no manifest"),
        (
            b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}]}',
            "no digest",
        ),
        (b'{"layers": [' + b" " * (1 << 20) + b"]}", "too long"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_said(content: bytes, words: str, tmp_path: Path) -> None:
    spec = ollama(tmp_path)
    Path(spec.weights or "").write_bytes(content)
    found = looked_at(spec)
    assert found.reason == Reason.NOT_STARTABLE
    assert words in found.message


def test_weights_that_are_no_gguf_at_all_cannot_be_started(tmp_path: Path) -> None:
    spec = bare("ollama", tmp_path)
    found = looked_at(
        replace(spec, weights=str(stored(tmp_path / "models", model=b"nothing")), context_tokens=9)
    )
    assert found.reason == Reason.NOT_STARTABLE


# -- the others ------------------------------------------------------------------------------------------------------


def test_kokoro_wants_its_model_and_a_stated_size(tmp_path: Path) -> None:
    spec = bare("kokoro", tmp_path)
    found = looked_at(spec)
    assert (found.reason, found.steady) == (None, None)
    assert "give memory.steady and restart.growth" in found.message
    empty = looked_at(replace(spec, weights=str(tmp_path / "elsewhere")))
    assert empty.reason == Reason.NOT_STARTABLE
    assert "download_model.py" in empty.message


def test_sd_cpp_says_the_size_of_gguf_weights(tmp_path: Path) -> None:
    gguf(tmp_path)
    spec = replace(bare("sd.cpp", tmp_path), role=Role.IMAGE, weights=str(tmp_path / "model.gguf"))
    assert "is a language model (llama), not one that draws" in looked_at(spec).message
    draws = tmp_path / "flux.gguf"
    writer = GGUFWriter(str(draws), "flux")
    writer.add_tensor("double_blocks.0.img_attn.qkv.weight", np.zeros((64, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    spec = replace(spec, weights=str(draws))
    found = looked_at(spec)
    assert (found.reason, found.steady) == (None, None)
    assert found.message.endswith("give memory.steady")
    gone = looked_at(replace(spec, weights=str(tmp_path / "no.safetensors")))
    assert gone.reason == Reason.NOT_STARTABLE
