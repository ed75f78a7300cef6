"""The flags of `llama-server` that the embedded server knows, and what each sets. Standard library only.

The table below is the whole command line: a flag that is not in it is refused, as `llama-server` refuses it.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reconciler.memory.regular import read_regular

#: Bytes of a chat template; the longest known ones have some 20 KiB.
_LONGEST_TEMPLATE: Final = 1 << 20

#: `xllamacpp` and its `CommonParams`: extension types without stubs.
Library = Any
Params = Any


class FlagError(ValueError):
    """The command line cannot be used; the message says which word and why."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One option with all its spellings. `apply` gets the value, or "" for a switch."""

    names: tuple[str, ...]
    apply: Callable[[Params, Library, str], None]
    switch: bool = False


def parse(argv: Sequence[str]) -> list[tuple[Flag, str]]:
    """Return flags and values in order. Raises `FlagError` for an unknown flag or a missing value."""
    result: list[tuple[Flag, str]] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        flag = FLAGS.get(name)
        if flag is None:
            raise FlagError(_unknown(word))
        if flag.switch:
            if equals:
                raise FlagError(f"{name} takes no value")
            result.append((flag, ""))
            continue
        if not equals:
            following = next(words, None)
            if following is None:
                raise FlagError(f"{name} needs a value")
            value = following
        result.append((flag, value))
    return result


def apply(argv: Sequence[str], params: Params, library: Library) -> None:
    """Set `params` as `argv` says; of a flag given twice the last one rules. Raises `FlagError`."""
    for flag, value in parse(argv):
        try:
            flag.apply(params, library, value)
        except (ValueError, TypeError, OverflowError, OSError) as error:
            raise FlagError(f"{flag.names[0]} {value}: {error}") from error


def _unknown(word: str) -> str:
    near = difflib.get_close_matches(word.partition("=")[0], FLAGS, n=1, cutoff=0.6)
    hint = f"; the nearest is {near[0]}" if near else ""
    return f"unknown flag {word}{hint}"


def _text(field: str) -> Callable[[Params, Library, str], None]:
    return lambda params, _, value: _set(params, field, value)


def _number(field: str) -> Callable[[Params, Library, str], None]:
    return lambda params, _, value: _set(params, field, int(value))


def _real(field: str) -> Callable[[Params, Library, str], None]:
    return lambda params, _, value: _set(params, field, float(value))


def _switch(field: str, setting: bool) -> Callable[[Params, Library, str], None]:
    return lambda params, _, __: _set(params, field, setting)


def _choice(field: str, enum: str, members: Mapping[str, str]) -> Callable[[Params, Library, str], None]:
    def put(params: Params, library: Library, value: str) -> None:
        _set(params, field, getattr(getattr(library, enum), _one_of(members, value)))

    return put


def _one_of(members: Mapping[str, str], value: str) -> str:
    if value not in members:
        raise ValueError(f"must be one of {', '.join(sorted(members))}")
    return members[value]


def _set(params: Params, field: str, value: object) -> None:
    """Set a field, or a field of a field (`model.path`)."""
    *path, last = field.split(".")
    for step in path:
        params = getattr(params, step)
    setattr(params, last, value)


def _host(params: Params, _: Library, value: str) -> None:
    if hasattr(params, "hostnames"):
        params.hostnames = [value]
    else:  # wheels before autumn 2026
        params.hostname = value


def _load_mode(params: Params, library: Library, value: str) -> None:
    name = _one_of(_LOAD_MODES, value)
    if hasattr(params, "load_mode"):
        params.load_mode = getattr(library.llama_load_mode, name)
    else:  # wheels before autumn 2026
        params.use_mmap = value in ("auto", "mmap", "mmap+mlock")
        params.use_mlock = "mlock" in value


def _gpu_layers(params: Params, _: Library, value: str) -> None:
    params.n_gpu_layers = {"auto": -1, "all": -2}.get(value) or int(value)


def _rerank(params: Params, library: Library, _: str) -> None:
    params.embedding = True
    params.pooling_type = library.llama_pooling_type.LLAMA_POOLING_TYPE_RANK


def _slot_save_path(params: Params, _: Library, value: str) -> None:
    # The server joins folder and file name as strings.
    params.slot_save_path = value.rstrip("/") + "/"


def _chat_template_file(params: Params, _: Library, value: str) -> None:
    text = read_regular(Path(value), _LONGEST_TEMPLATE + 1)
    if len(text) > _LONGEST_TEMPLATE:
        raise ValueError(f"has more than {_LONGEST_TEMPLATE >> 20} MiB")
    params.chat_template = text.decode()


def _api_key(params: Params, _: Library, value: str) -> None:
    params.api_keys = [*params.api_keys, *value.split(",")]


def _timeout(params: Params, _: Library, value: str) -> None:
    params.timeout_read = params.timeout_write = int(value)


def _lora(params: Params, library: Library, value: str) -> None:
    params.lora_adapters = [*params.lora_adapters, library.CommonAdapterLoraInfo(value, 1.0)]


def _fit(params: Params, _: Library, value: str) -> None:
    params.fit_params = _one_of({"on": "on", "off": "off"}, value) == "on"


def _alias(params: Params, _: Library, value: str) -> None:
    params.model_alias = set(value.split(","))


_LOAD_MODES: Final = {
    "auto": "LLAMA_LOAD_MODE_AUTO",
    "none": "LLAMA_LOAD_MODE_NONE",
    "mmap": "LLAMA_LOAD_MODE_MMAP",
    "mlock": "LLAMA_LOAD_MODE_MLOCK",
    "mmap+mlock": "LLAMA_LOAD_MODE_MMAP_MLOCK",
    "dio": "LLAMA_LOAD_MODE_DIRECT_IO",
}
_CACHE_TYPES: Final = {
    name: f"GGML_TYPE_{name.upper()}"
    for name in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
}
_POOLINGS: Final = {
    name: f"LLAMA_POOLING_TYPE_{name.upper()}" for name in ("none", "mean", "cls", "last", "rank")
}
_FLASH: Final = {
    "on": "LLAMA_FLASH_ATTN_TYPE_ENABLED",
    "off": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
    "auto": "LLAMA_FLASH_ATTN_TYPE_AUTO",
}
_SPLITS: Final = {name: f"LLAMA_SPLIT_MODE_{name.upper()}" for name in ("none", "layer", "row", "tensor")}
_REASONING: Final = {
    "none": "COMMON_REASONING_FORMAT_NONE",
    "auto": "COMMON_REASONING_FORMAT_AUTO",
    "deepseek": "COMMON_REASONING_FORMAT_DEEPSEEK",
    "deepseek-legacy": "COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY",
}

_VALUES: Final = (
    Flag(("-m", "--model"), _text("model.path")),
    Flag(("-mm", "--mmproj"), _text("mmproj.path")),
    Flag(("--host",), _host),
    Flag(("--port",), _number("port")),
    Flag(("-c", "--ctx-size"), _number("n_ctx")),
    Flag(("-np", "--parallel"), _number("n_parallel")),
    Flag(("-n", "--predict", "--n-predict"), _number("n_predict")),
    Flag(("-b", "--batch-size"), _number("n_batch")),
    Flag(("-ub", "--ubatch-size"), _number("n_ubatch")),
    Flag(("-t", "--threads"), _number("cpuparams.n_threads")),
    Flag(("-tb", "--threads-batch"), _number("cpuparams_batch.n_threads")),
    Flag(("--threads-http",), _number("n_threads_http")),
    Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), _gpu_layers),
    Flag(("-sm", "--split-mode"), _choice("split_mode", "llama_split_mode", _SPLITS)),
    Flag(("-mg", "--main-gpu"), _number("main_gpu")),
    Flag(("-ctk", "--cache-type-k"), _choice("cache_type_k", "ggml_type", _CACHE_TYPES)),
    Flag(("-ctv", "--cache-type-v"), _choice("cache_type_v", "ggml_type", _CACHE_TYPES)),
    Flag(("-fa", "--flash-attn"), _choice("flash_attn_type", "llama_flash_attn_type", _FLASH)),
    Flag(("-lm", "--lm", "--load-mode"), _load_mode),
    Flag(("-fit", "--fit"), _fit),
    Flag(("-a", "--alias"), _alias),
    Flag(("--api-key",), _api_key),
    Flag(("--pooling",), _choice("pooling_type", "llama_pooling_type", _POOLINGS)),
    Flag(("-cram", "--cache-ram"), _number("cache_ram_mib")),
    Flag(("-ctxcp", "--ctx-checkpoints"), _number("n_ctx_checkpoints")),
    Flag(("--cache-reuse",), _number("n_cache_reuse")),
    Flag(("-lv", "--verbosity", "--log-verbosity"), _number("verbosity")),
    Flag(("--slot-save-path",), _slot_save_path),
    Flag(("--sleep-idle-seconds",), _number("sleep_idle_seconds")),
    Flag(("-to", "--timeout"), _timeout),
    Flag(("--sse-ping-interval",), _number("sse_ping_interval")),
    Flag(("--lora",), _lora),
    Flag(("--chat-template",), _text("chat_template")),
    Flag(("--chat-template-file",), _chat_template_file),
    Flag(("--reasoning-format",), _choice("reasoning_format", "common_reasoning_format", _REASONING)),
    Flag(("-s", "--seed"), _number("sampling.seed")),
    Flag(("--temp", "--temperature"), _real("sampling.temp")),
    Flag(("--top-k",), _number("sampling.top_k")),
    Flag(("--top-p",), _real("sampling.top_p")),
    Flag(("--min-p",), _real("sampling.min_p")),
)
_SWITCHES: Final = (
    Flag(("-kvu", "--kv-unified"), _switch("kv_unified", True), switch=True),
    Flag(("--embeddings", "--embedding"), _switch("embedding", True), switch=True),
    Flag(("--rerank", "--reranking"), _rerank, switch=True),
    Flag(("--warmup",), _switch("warmup", True), switch=True),
    Flag(("--no-warmup",), _switch("warmup", False), switch=True),
    Flag(("--metrics",), _switch("endpoint_metrics", True), switch=True),
    Flag(("--slots",), _switch("endpoint_slots", True), switch=True),
    Flag(("--no-slots",), _switch("endpoint_slots", False), switch=True),
    Flag(("--props",), _switch("endpoint_props", True), switch=True),
    Flag(("--swa-full",), _switch("swa_full", True), switch=True),
    Flag(("-nr", "--no-repack"), _switch("no_extra_bufts", True), switch=True),
    Flag(("-nkvo", "--no-kv-offload"), _switch("no_kv_offload", True), switch=True),
    Flag(("--jinja",), _switch("use_jinja", True), switch=True),
    Flag(("--no-jinja",), _switch("use_jinja", False), switch=True),
    Flag(("--no-ui", "--no-webui"), _switch("ui", False), switch=True),
    Flag(("--no-cache-prompt",), _switch("cache_prompt", False), switch=True),
    Flag(("--offline",), _switch("offline", True), switch=True),
)
#: Every spelling -> its flag.
FLAGS: Final[Mapping[str, Flag]] = {name: flag for flag in (*_VALUES, *_SWITCHES) for name in flag.names}
