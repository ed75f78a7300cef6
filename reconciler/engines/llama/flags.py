"""The flags of `llama-server` that the embedded server knows, and what each sets. Standard library only.

The table below is the whole command line: a flag that is not in it is refused, as `llama-server` refuses it.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from reconciler.engines.llama import setters as put
from reconciler.engines.llama import values as llama_values
from reconciler.engines.llama.setters import Flag, Library, Params


class FlagError(ValueError):
    """The command line cannot be used; the message says which word and why."""


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
        except AttributeError as error:
            message = f"{flag.names[0]}: this xllamacpp is too old for it ({error})"
            raise FlagError(message) from error


def _unknown(word: str) -> str:
    near = difflib.get_close_matches(canonical(word.partition("=")[0]), FLAGS, n=1, cutoff=0.6)
    hint = f"; the nearest is {near[0]}" if near else ""
    return f"unknown flag {word.partition('=')[0]}{hint}"


_VALUES: Final = (
    Flag(("-m", "--model"), put.text("model.path")),
    Flag(("-mm", "--mmproj"), put.text("mmproj.path")),
    Flag(("--host",), put.host),
    put.integer(("--port",), "port"),
    put.integer(("-c", "--ctx-size"), "n_ctx"),
    put.integer(("-np", "--parallel"), "n_parallel"),
    put.integer(("-n", "--predict", "--n-predict"), "n_predict"),
    put.integer(("-b", "--batch-size"), "n_batch"),
    put.integer(("-ub", "--ubatch-size"), "n_ubatch"),
    put.integer(("-t", "--threads"), "cpuparams.n_threads"),
    put.integer(("-tb", "--threads-batch"), "cpuparams_batch.n_threads"),
    put.integer(("--threads-http",), "n_threads_http"),
    Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), put.gpu_layers, check=llama_values.layers),
    put.named(("-sm", "--split-mode"), "split_mode", "llama_split_mode", llama_values.SPLITS),
    put.integer(("-mg", "--main-gpu"), "main_gpu"),
    put.named(("-ctk", "--cache-type-k"), "cache_type_k", "ggml_type", llama_values.CACHE_TYPES),
    put.named(("-ctv", "--cache-type-v"), "cache_type_v", "ggml_type", llama_values.CACHE_TYPES),
    put.named(("-fa", "--flash-attn"), "flash_attn_type", "llama_flash_attn_type", llama_values.FLASH),
    Flag(("-lm", "--lm", "--load-mode"), put.load_mode, check=llama_values.among(llama_values.LOAD_MODES)),
    Flag(("-fit", "--fit"), put.fit, check=llama_values.among(llama_values.FITS)),
    Flag(("-a", "--alias"), put.alias),
    Flag(("--api-key",), put.api_key),
    put.named(("--pooling",), "pooling_type", "llama_pooling_type", llama_values.POOLINGS),
    put.integer(("-cram", "--cache-ram"), "cache_ram_mib"),
    put.integer(("-ctxcp", "--ctx-checkpoints"), "n_ctx_checkpoints"),
    put.integer(("--cache-reuse",), "n_cache_reuse"),
    put.integer(("-lv", "--verbosity", "--log-verbosity"), "verbosity"),
    Flag(("--slot-save-path",), put.slot_save_path),
    put.integer(("--sleep-idle-seconds",), "sleep_idle_seconds"),
    Flag(("-to", "--timeout"), put.timeout, check=llama_values.whole_number),
    put.integer(("--sse-ping-interval",), "sse_ping_interval"),
    Flag(("--lora",), put.lora),
    Flag(("--lora-scaled",), put.scaled_lora, check=llama_values.scaled_files),
    Flag(("-md", "--model-draft", "--spec-draft-model"), put.text("speculative.draft.mparams.path")),
    Flag(("--spec-type",), put.speculation, check=llama_values.speculations),
    put.integer(("--spec-draft-n-max",), "speculative.draft.n_max"),
    put.integer(("--spec-draft-n-min",), "speculative.draft.n_min"),
    Flag(("--spec-draft-p-min", "--draft-p-min"), put.real("speculative.draft.p_min"), check=float),
    Flag(
        ("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl"),
        put.draft_gpu_layers,
        check=llama_values.layers,
    ),
    Flag(("--chat-template",), put.text("chat_template")),
    Flag(("--chat-template-file",), put.chat_template_file),
    put.named(
        ("--reasoning-format",), "reasoning_format", "common_reasoning_format", llama_values.REASONINGS
    ),
    Flag(("-s", "--seed"), put.seed, check=llama_values.seed_number),
    Flag(("--temp", "--temperature"), put.real("sampling.temp"), check=float),
    put.integer(("--top-k",), "sampling.top_k"),
    Flag(("--top-p",), put.real("sampling.top_p"), check=float),
    Flag(("--min-p",), put.real("sampling.min_p"), check=float),
)
_SWITCHES: Final = (
    Flag(("-kvu", "--kv-unified"), put.switch("kv_unified", True), switch=True),
    Flag(("-no-kvu", "--no-kv-unified"), put.switch("kv_unified", False), switch=True),
    Flag(("--embeddings", "--embedding"), put.switch("embedding", True), switch=True),
    Flag(("--rerank", "--reranking"), put.rerank, switch=True),
    Flag(("--warmup",), put.switch("warmup", True), switch=True),
    Flag(("--no-warmup",), put.switch("warmup", False), switch=True),
    Flag(("--metrics",), put.switch("endpoint_metrics", True), switch=True),
    Flag(("--slots",), put.switch("endpoint_slots", True), switch=True),
    Flag(("--no-slots",), put.switch("endpoint_slots", False), switch=True),
    Flag(("--props",), put.switch("endpoint_props", True), switch=True),
    Flag(("--swa-full",), put.switch("swa_full", True), switch=True),
    Flag(("--repack",), put.switch("no_extra_bufts", False), switch=True),
    Flag(("-nr", "--no-repack"), put.switch("no_extra_bufts", True), switch=True),
    Flag(("-nkvo", "--no-kv-offload"), put.switch("no_kv_offload", True), switch=True),
    Flag(("--mmproj-offload",), put.switch("mmproj_use_gpu", True), switch=True),
    Flag(("--no-mmproj-offload",), put.switch("mmproj_use_gpu", False), switch=True),
    Flag(("--op-offload",), put.switch("no_op_offload", False), switch=True),
    Flag(("--no-op-offload",), put.switch("no_op_offload", True), switch=True),
    Flag(("--lora-init-without-apply",), put.switch("lora_init_without_apply", True), switch=True),
    Flag(("--jinja",), put.switch("use_jinja", True), switch=True),
    Flag(("--no-jinja",), put.switch("use_jinja", False), switch=True),
    Flag(("--no-ui", "--no-webui"), put.switch("ui", False), switch=True),
    Flag(("--no-cache-prompt",), put.switch("cache_prompt", False), switch=True),
    Flag(("--offline",), put.switch("offline", True), switch=True),
)
#: Every spelling -> its flag.
FLAGS: Final[Mapping[str, Flag]] = {name: flag for flag in (*_VALUES, *_SWITCHES) for name in flag.names}
