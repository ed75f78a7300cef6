"""The settings that decide a llama.cpp server's memory, from the manifest's keys, `command`, `args` and `env`.

What is given twice counts as the server takes it: its command line before its environment, the last flag before others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.core.launch import LaunchSpec, LoadMode, Role
from reconciler.engines.llama import files as llama_files
from reconciler.engines.llama import settings as llama_settings
from reconciler.engines.llama import values as llama_values
from reconciler.engines.llama import words as llama_words
from reconciler.engines.llama.switches import FALSE, TRUE, load_mode, switched
from reconciler.memory.gguf.kv import ELEMENT

#: A setting -> its flags and the variables that a `llama-server` reads for it, of any age.
_VALUES: Final = {
    "context": (("-c", "--ctx-size"), ("LLAMA_ARG_CTX_SIZE",)),
    "slots": (("-np", "--parallel"), ("LLAMA_ARG_N_PARALLEL",)),
    "batch": (("-b", "--batch-size"), ("LLAMA_ARG_BATCH",)),
    "micro_batch": (("-ub", "--ubatch-size"), ("LLAMA_ARG_UBATCH",)),
    "key_type": (("-ctk", "--cache-type-k"), ("LLAMA_ARG_CACHE_TYPE_K",)),
    "value_type": (("-ctv", "--cache-type-v"), ("LLAMA_ARG_CACHE_TYPE_V",)),
    "flash": (("-fa", "--flash-attn"), ("LLAMA_ARG_FLASH_ATTN",)),
    "gpu_layers": (("-ngl", "--gpu-layers", "--n-gpu-layers"), ("LLAMA_ARG_N_GPU_LAYERS",)),
    "device": (("-dev", "--device"), ("LLAMA_ARG_DEVICE",)),
    "cache_ram": (("-cram", "--cache-ram"), ("LLAMA_ARG_CACHE_RAM",)),
    "checkpoints": (("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"), ("LLAMA_ARG_CTX_CHECKPOINTS",)),
    "projector": (llama_files.PROJECTOR.flags, llama_files.PROJECTOR.variables),
    "draft": (llama_files.DRAFT.flags, llama_files.DRAFT.variables),
    "draft_context": (("-cd", "--ctx-size-draft"), ("LLAMA_ARG_CTX_SIZE_DRAFT",)),
    "template": (("--chat-template-file",), ("LLAMA_ARG_CHAT_TEMPLATE_FILE",)),
}
#: Words for `--flash-attn auto`.
_AUTO: Final = frozenset({"auto", "-1"})
_BATCH, _MICRO_BATCH = 2048, 512
_MIB: Final = 1024 * 1024
_WRAP: Final = 2**32


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
    #: A file with a chat template.
    template: str | None = None


class SettingsError(ValueError):
    """A setting is nothing the size can be worked out with; the message names it."""


class RefusedError(SettingsError):
    """A setting no llama.cpp server starts with; the message says what would be right."""


def read_settings(spec: LaunchSpec, args: Sequence[str], *, embedded: bool) -> Settings:
    """Return the settings of a launch. Raises `SettingsError`.

    `args` are the manifest's own, with placeholders filled; the embedded server has no variables. The words of
    `command` come before ours, `args` after them.
    """
    ours = llama_settings.flags(spec, 0)
    if embedded:
        given = _Given(llama_words.pairs([*ours, *llama_settings.optional_flags(spec), *args]), {})
    else:
        own = {**llama_settings.optional_env(spec), **dict(spec.env), **llama_words.assignments(spec.command)}
        words = [*llama_words.server_words(spec.command), *ours, *args]
        given = _Given(llama_words.pairs(words), own)
    batch = given.unsigned("batch", _BATCH)
    cache = given.number("cache_ram", 0) or 0
    return Settings(
        tokens=given.number("context", None) or None,
        slots=max(1, given.number("slots", 1) or 1),
        unified=given.switch("unified"),
        key_type=given.kind("key_type"),
        value_type=given.kind("value_type"),
        batch=batch,
        # 0 stands for as many as the batch has.
        micro_batch=min(batch, given.unsigned("micro_batch", _MICRO_BATCH) or batch),
        flash=given.flash(),
        full_windows=given.switch("full_windows"),
        load_mode=given.load_mode(),
        gpu_layers=_gpu_layers(given),
        repack=given.switch("repack"),
        prompt_cache=None if cache < 0 else cache * _MIB,
        checkpoints=max(0, given.number("checkpoints", llama_settings.CHECKPOINTS) or 0),
        vectors=spec.role in (Role.EMBEDDING, Role.RERANK)
        or given.switch("vectors")
        or given.switch("scores"),
        projector=given.value("projector"),
        draft=given.value("draft"),
        draft_tokens=given.number("draft_context", None),
        loras=tuple(_adapters(given)),
        template=given.value("template"),
    )


def locks(spec: LaunchSpec, *, embedded: bool) -> bool:
    """Return whether the server will lock its weights in memory."""
    try:
        return "mlock" in read_settings(spec, spec.args, embedded=embedded).load_mode
    except SettingsError:
        return spec.load_mode is LoadMode.MLOCK


@dataclass(frozen=True, slots=True)
class _Given:
    words: tuple[tuple[str, str], ...]
    env: Mapping[str, str]

    def value(self, setting: str) -> str | None:
        names, variables = _VALUES[setting]
        values = [value for name, value in self.words if name in names]
        values = values or [self.env[name] for name in reversed(variables) if name in self.env]
        return values[-1] if values else None

    def number(self, setting: str, default: int | None) -> int | None:
        value = self.value(setting)
        if value is None:
            return default
        try:
            return llama_values.whole_number(value)
        except ValueError as error:
            raise RefusedError(f"{_VALUES[setting][0][-1]} {value} {error}") from None

    def unsigned(self, setting: str, default: int) -> int:
        """Return a number as llama.cpp takes it over: one below 0 becomes a very large one."""
        number = self.number(setting, default)
        return (default if number is None else number) % _WRAP

    def kind(self, setting: str) -> str:
        value = self.value(setting) or "f16"
        if value not in ELEMENT:
            raise SettingsError(f"{_VALUES[setting][0][-1]} {value} is not a cache type")
        return value

    def flash(self) -> bool:
        value = self.value("flash") or "auto"
        if value not in TRUE | FALSE | _AUTO:
            raise RefusedError(f"--flash-attn {value} is none of on, off, auto")
        return value not in FALSE

    def switch(self, setting: str) -> bool:
        found = switched(setting, self.words, self.env)
        return setting == "repack" if found is None else found

    def load_mode(self) -> str:
        mode = load_mode(self.words, self.env)
        if mode not in llama_values.LOAD_MODES:
            raise SettingsError(f"--load-mode {mode} is none of {', '.join(sorted(llama_values.LOAD_MODES))}")
        return mode


def _adapters(given: _Given) -> Iterator[str]:
    """Yield the adapters' files: `--lora FILE,FILE` and `--lora-scaled FILE:SCALE,FILE:SCALE`."""
    for name, value in given.words:
        if name == llama_files.LORA:
            yield from filter(None, value.split(","))
        elif name == llama_files.SCALED_LORA:
            yield from (file.rpartition(":")[0] or file for file in filter(None, value.split(",")))


def _gpu_layers(given: _Given) -> int | None:
    if given.value("device") == "none":
        return 0
    value = given.value("gpu_layers")
    return int(value) if value is not None and value.isdecimal() else None
