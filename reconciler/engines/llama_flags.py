"""The flags of `llama-server` that the embedded server knows, and what each sets. Standard library only.

The table below is the whole command line: a flag that is not in it is refused, as `llama-server` refuses it.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reconciler.engines import llama_values
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
    #: Raises `ValueError` for a value that `apply` would refuse; needs no library.
    check: Callable[[str], object] = str


def canonical(name: str) -> str:
    """Return a flag's usual spelling: as in `llama-server`, `_` counts as `-` in a long one."""
    return name.replace("_", "-") if name.startswith("--") else name


def parse(argv: Sequence[str]) -> list[tuple[Flag, str]]:
    """Return flags and values in order. Raises `FlagError` for an unknown flag or a missing value."""
    result: list[tuple[Flag, str]] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        flag = FLAGS.get(canonical(name))
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


def verify(argv: Sequence[str]) -> None:
    """Raise `FlagError` for a flag or value that `apply` would refuse; reads no file and needs no library."""
    for flag, value in parse(argv):
        try:
            flag.check(value)
        except ValueError as error:
            raise FlagError(f"{flag.names[0]} {value}: {error}") from error


def apply(argv: Sequence[str], params: Params, library: Library) -> None:
    """Set `params` as `argv` says; of a flag given twice the last one rules. Raises `FlagError`."""
    for flag, value in parse(argv):
        try:
            flag.apply(params, library, value)
        except (ValueError, TypeError, OverflowError, OSError) as error:
            raise FlagError(f"{flag.names[0]} {value}: {error}") from error


def _unknown(word: str) -> str:
    near = difflib.get_close_matches(canonical(word.partition("=")[0]), FLAGS, n=1, cutoff=0.6)
    hint = f"; the nearest is {near[0]}" if near else ""
    return f"unknown flag {word.partition('=')[0]}{hint}"


def _text(field: str) -> Callable[[Params, Library, str], None]:
    return lambda params, _, value: _set(params, field, value)


def _number(field: str) -> Callable[[Params, Library, str], None]:
    return lambda params, _, value: _set(params, field, llama_values.whole_number(value))


def _real(field: str) -> Callable[[Params, Library, str], None]:
    return lambda params, _, value: _set(params, field, float(value))


def _switch(field: str, setting: bool) -> Callable[[Params, Library, str], None]:
    return lambda params, _, __: _set(params, field, setting)


def _choice(field: str, enum: str, members: Mapping[str, str]) -> Callable[[Params, Library, str], None]:
    def put(params: Params, library: Library, value: str) -> None:
        _set(params, field, getattr(getattr(library, enum), llama_values.one_of(members, value)))

    return put


def _integer(names: tuple[str, ...], field: str) -> Flag:
    return Flag(names, _number(field), check=llama_values.whole_number)


def _named(names: tuple[str, ...], field: str, enum: str, members: Mapping[str, str]) -> Flag:
    return Flag(names, _choice(field, enum, members), check=llama_values.among(members))


def _seed(params: Params, _: Library, value: str) -> None:
    params.sampling.seed = llama_values.seed_number(value)


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
    name = llama_values.one_of(llama_values.LOAD_MODES, value)
    if hasattr(params, "load_mode"):
        params.load_mode = getattr(library.llama_load_mode, name)
    else:  # wheels before autumn 2026
        params.use_mmap = value in ("auto", "mmap", "mmap+mlock")
        params.use_mlock = "mlock" in value


def _gpu_layers(params: Params, _: Library, value: str) -> None:
    params.n_gpu_layers = llama_values.layers(value)


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
    params.timeout_read = params.timeout_write = llama_values.whole_number(value)


def _lora(params: Params, library: Library, value: str) -> None:
    adapters = [library.CommonAdapterLoraInfo(file, 1.0) for file in value.split(",") if file]
    params.lora_adapters = [*params.lora_adapters, *adapters]


def _fit(params: Params, _: Library, value: str) -> None:
    params.fit_params = llama_values.one_of(llama_values.FITS, value) == "on"


def _alias(params: Params, _: Library, value: str) -> None:
    params.model_alias = set(value.split(","))


_VALUES: Final = (
    Flag(("-m", "--model"), _text("model.path")),
    Flag(("-mm", "--mmproj"), _text("mmproj.path")),
    Flag(("--host",), _host),
    _integer(("--port",), "port"),
    _integer(("-c", "--ctx-size"), "n_ctx"),
    _integer(("-np", "--parallel"), "n_parallel"),
    _integer(("-n", "--predict", "--n-predict"), "n_predict"),
    _integer(("-b", "--batch-size"), "n_batch"),
    _integer(("-ub", "--ubatch-size"), "n_ubatch"),
    _integer(("-t", "--threads"), "cpuparams.n_threads"),
    _integer(("-tb", "--threads-batch"), "cpuparams_batch.n_threads"),
    _integer(("--threads-http",), "n_threads_http"),
    Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), _gpu_layers, check=llama_values.layers),
    _named(("-sm", "--split-mode"), "split_mode", "llama_split_mode", llama_values.SPLITS),
    _integer(("-mg", "--main-gpu"), "main_gpu"),
    _named(("-ctk", "--cache-type-k"), "cache_type_k", "ggml_type", llama_values.CACHE_TYPES),
    _named(("-ctv", "--cache-type-v"), "cache_type_v", "ggml_type", llama_values.CACHE_TYPES),
    _named(("-fa", "--flash-attn"), "flash_attn_type", "llama_flash_attn_type", llama_values.FLASH),
    Flag(("-lm", "--lm", "--load-mode"), _load_mode, check=llama_values.among(llama_values.LOAD_MODES)),
    Flag(("-fit", "--fit"), _fit, check=llama_values.among(llama_values.FITS)),
    Flag(("-a", "--alias"), _alias),
    Flag(("--api-key",), _api_key),
    _named(("--pooling",), "pooling_type", "llama_pooling_type", llama_values.POOLINGS),
    _integer(("-cram", "--cache-ram"), "cache_ram_mib"),
    _integer(("-ctxcp", "--ctx-checkpoints"), "n_ctx_checkpoints"),
    _integer(("--cache-reuse",), "n_cache_reuse"),
    _integer(("-lv", "--verbosity", "--log-verbosity"), "verbosity"),
    Flag(("--slot-save-path",), _slot_save_path),
    _integer(("--sleep-idle-seconds",), "sleep_idle_seconds"),
    Flag(("-to", "--timeout"), _timeout, check=llama_values.whole_number),
    _integer(("--sse-ping-interval",), "sse_ping_interval"),
    Flag(("--lora",), _lora),
    Flag(("--chat-template",), _text("chat_template")),
    Flag(("--chat-template-file",), _chat_template_file),
    _named(("--reasoning-format",), "reasoning_format", "common_reasoning_format", llama_values.REASONINGS),
    Flag(("-s", "--seed"), _seed, check=llama_values.seed_number),
    Flag(("--temp", "--temperature"), _real("sampling.temp"), check=float),
    _integer(("--top-k",), "sampling.top_k"),
    Flag(("--top-p",), _real("sampling.top_p"), check=float),
    Flag(("--min-p",), _real("sampling.min_p"), check=float),
)
_SWITCHES: Final = (
    Flag(("-kvu", "--kv-unified"), _switch("kv_unified", True), switch=True),
    Flag(("-no-kvu", "--no-kv-unified"), _switch("kv_unified", False), switch=True),
    Flag(("--embeddings", "--embedding"), _switch("embedding", True), switch=True),
    Flag(("--rerank", "--reranking"), _rerank, switch=True),
    Flag(("--warmup",), _switch("warmup", True), switch=True),
    Flag(("--no-warmup",), _switch("warmup", False), switch=True),
    Flag(("--metrics",), _switch("endpoint_metrics", True), switch=True),
    Flag(("--slots",), _switch("endpoint_slots", True), switch=True),
    Flag(("--no-slots",), _switch("endpoint_slots", False), switch=True),
    Flag(("--props",), _switch("endpoint_props", True), switch=True),
    Flag(("--swa-full",), _switch("swa_full", True), switch=True),
    Flag(("--repack",), _switch("no_extra_bufts", False), switch=True),
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
