"""The settings that decide a llama.cpp server's memory, from the manifest's keys, `args` and `env`.

What is given twice counts as the server takes it: its command line before its environment, the last flag before others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.core.launch import LaunchSpec, LoadMode, Role
from reconciler.engines import llama_settings
from reconciler.memory.gguf.kv import ELEMENT

#: A setting -> its flags and the variable that a `llama-server` reads for it.
_VALUES: Final = {
    "context": (("-c", "--ctx-size"), "LLAMA_ARG_CTX_SIZE"),
    "slots": (("-np", "--parallel"), "LLAMA_ARG_N_PARALLEL"),
    "batch": (("-b", "--batch-size"), "LLAMA_ARG_BATCH"),
    "micro_batch": (("-ub", "--ubatch-size"), "LLAMA_ARG_UBATCH"),
    "key_type": (("-ctk", "--cache-type-k"), "LLAMA_ARG_CACHE_TYPE_K"),
    "value_type": (("-ctv", "--cache-type-v"), "LLAMA_ARG_CACHE_TYPE_V"),
    "flash": (("-fa", "--flash-attn"), "LLAMA_ARG_FLASH_ATTN"),
    "load_mode": (("-lm", "--lm", "--load-mode"), "LLAMA_ARG_LOAD_MODE"),
    "gpu_layers": (("-ngl", "--gpu-layers", "--n-gpu-layers"), "LLAMA_ARG_N_GPU_LAYERS"),
    "device": (("-dev", "--device"), "LLAMA_ARG_DEVICE"),
    "cache_ram": (("-cram", "--cache-ram"), "LLAMA_ARG_CACHE_RAM"),
    "checkpoints": (("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"), "LLAMA_ARG_CTX_CHECKPOINTS"),
    "projector": (("-mm", "--mmproj"), "LLAMA_ARG_MMPROJ"),
    "draft": (("-md", "--model-draft"), "LLAMA_ARG_MODEL_DRAFT"),
    "draft_context": (("-cd", "--ctx-size-draft"), "LLAMA_ARG_CTX_SIZE_DRAFT"),
}
#: A switch -> its flags and variable; the last one given rules.
_SWITCHES: Final = {
    "unified": (("-kvu", "--kv-unified"), "LLAMA_ARG_KV_UNIFIED"),
    "split": (("-no-kvu", "--no-kv-unified"), "LLAMA_ARG_NO_KV_UNIFIED"),
    "full_windows": (("--swa-full",), "LLAMA_ARG_SWA_FULL"),
    "no_repack": (("-nr", "--no-repack"), "LLAMA_ARG_NO_REPACK"),
    "no_mmap": (("--no-mmap",), "LLAMA_ARG_NO_MMAP"),
    "mlock": (("--mlock",), "LLAMA_ARG_MLOCK"),
    "vectors": (("--embeddings", "--embedding", "--rerank", "--reranking"), "LLAMA_ARG_EMBEDDINGS"),
}
_LORA: Final = "--lora"
_SCALED_LORA: Final = "--lora-scaled"
_BATCH, _MICRO_BATCH = 2048, 512
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """What the server will be told, as far as memory depends on it. Bytes and tokens."""

    #: Tokens of all slots together; None = the model's own length.
    tokens: int | None
    slots: int
    unified: bool
    key_type: str
    value_type: str
    batch: int
    micro_batch: int
    flash: bool
    full_windows: bool
    load_mode: str
    #: Layers that go to a GPU, as stated; None = the server decides.
    gpu_layers: int | None
    repack: bool
    #: Bytes the prompt cache may grow to; None = no bound.
    prompt_cache: int | None
    #: Copies of a slot's state that are kept for going back in a text.
    checkpoints: int
    #: It computes vectors: every token of a batch has a result.
    vectors: bool
    projector: str | None = None
    draft: str | None = None
    draft_tokens: int | None = None
    loras: tuple[str, ...] = ()


class SettingsError(ValueError):
    """A setting is nothing the size can be worked out with; the message names it."""


def read_settings(spec: LaunchSpec, args: Sequence[str], *, embedded: bool) -> Settings:
    """Return the settings of a launch. Raises `SettingsError`.

    `args` are the manifest's own, with placeholders filled; the embedded server has no variables.
    """
    ours = llama_settings.flags(spec, 0)
    if embedded:
        given = _Given(_words([*ours, *llama_settings.optional_flags(spec), *args]), {})
    else:
        given = _Given(_words([*ours, *args]), {**llama_settings.optional_env(spec), **dict(spec.env)})
    tokens = given.number("context", None)
    batch = given.number("batch", _BATCH) or _BATCH
    cache = given.number("cache_ram", 0) or 0
    return Settings(
        tokens=tokens or None,
        slots=max(1, given.number("slots", 1) or 1),
        unified=given.switch("unified") and not given.switch("split"),
        key_type=given.kind("key_type"),
        value_type=given.kind("value_type"),
        batch=batch,
        micro_batch=min(batch, given.number("micro_batch", _MICRO_BATCH) or _MICRO_BATCH),
        flash=(given.value("flash") or "auto") not in ("off", "0", "false", "disabled"),
        full_windows=given.switch("full_windows"),
        load_mode=_load_mode(given),
        gpu_layers=_gpu_layers(given),
        repack=not given.switch("no_repack"),
        prompt_cache=None if cache < 0 else cache * _MIB,
        checkpoints=max(0, given.number("checkpoints", llama_settings.CHECKPOINTS) or 0),
        vectors=spec.role in (Role.EMBEDDING, Role.RERANK) or given.switch("vectors"),
        projector=given.value("projector"),
        draft=given.value("draft"),
        draft_tokens=given.number("draft_context", None),
        loras=tuple(_adapters(given)),
    )


def _words(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return each flag with the word after it, or with what follows its `=`."""
    pairs = []
    for i, word in enumerate(words):
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            following = words[i + 1] if i + 1 < len(words) else ""
            pairs.append((name, value if equals else following))
    return tuple(pairs)


@dataclass(frozen=True, slots=True)
class _Given:
    words: tuple[tuple[str, str], ...]
    env: Mapping[str, str]

    def value(self, setting: str) -> str | None:
        names, variable = _VALUES[setting]
        values = [value for name, value in self.words if name in names]
        return values[-1] if values else self.env.get(variable)

    def number(self, setting: str, default: int | None) -> int | None:
        value = self.value(setting)
        if value is None:
            return default
        try:
            return int(value)
        except ValueError:
            raise SettingsError(f"{_VALUES[setting][0][-1]} {value} is not a number") from None

    def kind(self, setting: str) -> str:
        value = self.value(setting) or "f16"
        if value not in ELEMENT:
            raise SettingsError(f"{_VALUES[setting][0][-1]} {value} is not a cache type")
        return value

    def switch(self, setting: str) -> bool:
        names, variable = _SWITCHES[setting]
        if any(name in names for name, _ in self.words):
            return True
        return self.env.get(variable, "0").lower() in ("1", "true", "on", "enabled")


def _adapters(given: _Given) -> Iterator[str]:
    """Yield the adapters' files: `--lora FILE,FILE` and `--lora-scaled FILE:SCALE,FILE:SCALE`."""
    for name, value in given.words:
        if name == _LORA:
            yield from filter(None, value.split(","))
        elif name == _SCALED_LORA:
            yield from (file.rpartition(":")[0] or file for file in filter(None, value.split(",")))


def _gpu_layers(given: _Given) -> int | None:
    if given.value("device") == "none":
        return 0
    value = given.value("gpu_layers")
    return int(value) if value is not None and value.isdecimal() else None


def _load_mode(given: _Given) -> str:
    mode = given.value("load_mode")
    if mode is not None:
        return mode
    if given.switch("no_mmap"):
        return "mlock" if given.switch("mlock") else "none"
    if given.switch("mlock"):
        return "mmap+mlock"
    return LoadMode.AUTO.value
