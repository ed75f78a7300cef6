"""Folders of safetensors (Hugging Face, MLX) and of CTranslate2, and whisper.cpp's own files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from reconciler.core.launch import Role
from reconciler.engines import whisper_ggml
from reconciler.initial.found import Kind, LeftOut, Model, about
from reconciler.memory.gguf import WeightsError, mapped_key
from reconciler.memory.hf import check_folder, find_model, read_shape
from reconciler.memory.hf.instead import without_safetensors
from reconciler.memory.regular import read_regular

#: Words in the names of classes (`architectures`) -> what such models are for; the first that is found counts.
_CLASSES: Final = (
    ("ForSpeechSeq2Seq", Role.ASR),
    ("Whisper", Role.ASR),
    ("ForSequenceClassification", Role.RERANK),
    ("ForCausalLM", Role.CHAT),
    ("LMHeadModel", Role.CHAT),
    ("ForConditionalGeneration", Role.VISION),
    ("ForMaskedLM", Role.EMBEDDING),
    ("Model", Role.EMBEDDING),
)
#: Folders of sentence-transformers, which say that vectors are made, whatever the class is called.
_SENTENCES: Final = ("modules.json", "config_sentence_transformers.json")
_TEMPLATES: Final = ("chat_template.jinja", "chat_template.json")


def look(folder: Path, names: Sequence[str]) -> Iterator[Model | LeftOut]:
    """Yield what the files of a folder are together. Blocks: it reads their headers."""
    if "model_index.json" in names:
        yield LeftOut(
            folder, "a model that draws, in parts: serve it by hand (`engine: comfyui` or `sd.cpp`)"
        )
    elif "model.bin" in names and "config.json" in names and any(n.startswith("vocabulary.") for n in names):
        yield _ctranslate2(folder)
    elif any(name.endswith(".safetensors") for name in names):
        yield _safetensors(folder, names)
    elif "config.json" in names and any(name.endswith((".bin", ".pt", ".pth", ".npz")) for name in names):
        yield LeftOut(folder, about(folder, _instead(folder)))
    for name in names:
        if name.startswith("ggml-") and name.endswith(".bin"):
            yield _whisper(folder / name)


def _safetensors(folder: Path, names: Sequence[str]) -> Model | LeftOut:
    try:
        if "config.json" not in names and "adapter_config.json" not in names:
            # A single file without its configuration, as programs that draw have them.
            return LeftOut(folder, "safetensors without a config.json: no language model, or not all of it")
        check_folder(folder)
        weights = find_model(folder)
    except WeightsError as error:
        return LeftOut(folder, about(folder, str(error)))
    if any("ForImageClassification" in name for name in _classes(weights.config)):
        return LeftOut(folder, "classifies pictures: serve it with a class of yours (`engine: python`)")
    role = _role(weights.config, names, folder)
    if role is None:
        stated = ", ".join(_classes(weights.config)) or "nothing"
        return LeftOut(folder, f"what it is for cannot be told: its config.json says {stated}")
    shape = read_shape(weights.config)
    mlx = shape.quantization is not None and shape.quantization.method == "mlx"
    return Model(
        folder,
        Kind.MLX if mlx else Kind.SAFETENSORS,
        role,
        weights.size,
        shape.max_tokens,
        files=tuple(file.key for file in weights.mapped),
    )


def _role(config: Mapping[str, object], names: Sequence[str], folder: Path) -> Role | None:
    classes = _classes(config)
    if any(name in names for name in _SENTENCES) and not any("Classification" in c for c in classes):
        return Role.EMBEDDING
    role = next((role for word, role in _CLASSES if any(word in c for c in classes)), None)
    if role is Role.CHAT and isinstance(config.get("vision_config"), dict):
        return Role.VISION
    if role is Role.VISION and not isinstance(config.get("vision_config"), dict):
        return None  # translates, or makes one text of another
    if role is Role.RERANK and _labels(config) > 1:
        return Role.CLASSIFY
    if role is Role.CHAT and not _talks(names, folder):
        return Role.COMPLETION
    return role


def _classes(config: Mapping[str, object]) -> list[str]:
    found = config.get("architectures")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _labels(config: Mapping[str, object]) -> int:
    labels = config.get("id2label")
    # transformers takes two where nothing is stated.
    return len(labels) if isinstance(labels, dict) else 2


def _talks(names: Sequence[str], folder: Path) -> bool:
    """Return whether a chat template lies beside the weights, in a file of its own or in the tokenizer's settings."""
    if any(name in names for name in _TEMPLATES):
        return True
    if "tokenizer_config.json" not in names:
        return False
    try:
        return b'"chat_template"' in read_regular(folder / "tokenizer_config.json", 4 << 20)
    except OSError:
        return False


def _ctranslate2(folder: Path) -> Model | LeftOut:
    try:
        status = (folder / "model.bin").stat()
    except OSError as error:
        return LeftOut(folder, f"its model.bin cannot be read: {error.strerror}")
    key = mapped_key(status.st_dev, status.st_ino)
    return Model(folder, Kind.CTRANSLATE2, Role.ASR, status.st_size, files=(key,))


def _whisper(path: Path) -> Model | LeftOut:
    try:
        found = whisper_ggml.read(path)
        status = path.stat()
    except WeightsError as error:
        return LeftOut(path, about(path, str(error)))
    except OSError as error:
        return LeftOut(path, f"cannot be read: {error.strerror}")
    return Model(path, Kind.WHISPER, Role.ASR, found.size, files=(mapped_key(status.st_dev, status.st_ino),))


def _instead(folder: Path) -> str:
    try:
        return without_safetensors(folder)
    except OSError as error:
        return f"cannot be looked into: {error.strerror}"
