"""The command line of the embedded server: each flag sets what it says, and nothing unknown passes."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.engines.llama.flags import FLAGS, FlagError, apply, parse, verify

xllamacpp = pytest.importorskip("xllamacpp")


def applied(*argv: str) -> Any:
    params = xllamacpp.CommonParams()
    apply(argv, params, xllamacpp)
    return params


SETTINGS = [
    (("-m", "/a b.gguf"), "model.path", "/a b.gguf"),
    (("--mmproj", "/p.gguf"), "mmproj.path", "/p.gguf"),
    (("--port", "7"), "port", 7),
    (("--host", "127.0.0.2"), "hostnames", ["127.0.0.2"]),
    (("-c", "2048"), "n_ctx", 2048),
    (("-np", "3"), "n_parallel", 3),
    (("-kvu",), "kv_unified", True),
    (("-b", "64"), "n_batch", 64),
    (("--ubatch-size=32",), "n_ubatch", 32),
    (("-t", "2"), "cpuparams.n_threads", 2),
    (("-ngl", "all"), "n_gpu_layers", -2),
    (("-ngl", "9"), "n_gpu_layers", 9),
    (("-ngl", "0"), "n_gpu_layers", 0),
    (("-ctk", "q8_0"), "cache_type_k", "GGML_TYPE_Q8_0"),
    (("-ctv", "bf16"), "cache_type_v", "GGML_TYPE_BF16"),
    (("-fa", "on"), "flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_ENABLED"),
    (("-lm", "mmap+mlock"), "load_mode", "LLAMA_LOAD_MODE_MMAP_MLOCK"),
    (("--lm", "none"), "load_mode", "LLAMA_LOAD_MODE_NONE"),
    (("-fit", "off"), "fit_params", False),
    (("-a", "x,y"), "model_alias", {"x", "y"}),
    (("--embeddings",), "embedding", True),
    (("--pooling", "mean"), "pooling_type", "LLAMA_POOLING_TYPE_MEAN"),
    (("--rerank",), "pooling_type", "LLAMA_POOLING_TYPE_RANK"),
    (("--cache-ram", "0"), "cache_ram_mib", 0),
    (("--no-warmup",), "warmup", False),
    (("-lv", "4"), "verbosity", 4),
    (("--metrics",), "endpoint_metrics", True),
    (("--no-slots",), "endpoint_slots", False),
    (("--slot-save-path", "/s"), "slot_save_path", "/s/"),
    (("--swa-full",), "swa_full", True),
    (("--no-repack",), "no_extra_bufts", True),
    (("--no-jinja",), "use_jinja", False),
    (("--chat-template", "chatml"), "chat_template", "chatml"),
    (("--sse-ping-interval", "1"), "sse_ping_interval", 1),
    (("--api-key", "a,b"), "api_keys", ["a", "b"]),
    (("--no-ui",), "ui", False),
    (("-c", "1", "-c", "2"), "n_ctx", 2),
    (("-c", "+2"), "n_ctx", 2),
    (("--ctx_size", "2"), "n_ctx", 2),
    (("--swa_full",), "swa_full", True),
    (("--no-repack", "--repack"), "no_extra_bufts", False),
    (("-kvu", "-no-kvu"), "kv_unified", False),
    (("-s", "4294967295"), "sampling.seed", 4294967295),
    (("-md", "/d.gguf"), "speculative.draft.mparams.path", "/d.gguf"),
    (("--spec-draft-n-max", "7"), "speculative.draft.n_max", 7),
    (("-ngld", "0"), "speculative.draft.n_gpu_layers", 0),
    (("--no-mmproj-offload",), "mmproj_use_gpu", False),
    (("--no-op-offload",), "no_op_offload", True),
]


@pytest.mark.parametrize(("argv", "field", "expected"), SETTINGS)
def test_a_flag_sets_its_field(argv: tuple[str, ...], field: str, expected: object) -> None:
    value = applied(*argv)
    for step in field.split("."):
        value = getattr(value, step)
    assert getattr(value, "name", value) == expected


#: A value that each flag with one accepts, for those whose values are not numbers.
VALUES = {
    "--flash-attn": "on",
    "--load-mode": "none",
    "--fit": "on",
    "--cache-type-k": "f16",
    "--cache-type-v": "f16",
    "--split-mode": "row",
    "--pooling": "cls",
    "--reasoning-format": "none",
    "--lora": "/l.gguf",
    "--lora-scaled": "/l.gguf:0.5",
    "--spec-type": "draft-simple",
    "--chat-template-file": __file__,
}


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_every_flag_reaches_the_library(name: str) -> None:
    flag = FLAGS[name]
    value = VALUES.get(flag.names[-1], "1")
    applied(*((name,) if flag.switch else (name, value)))


BAD = {
    "unknown flag --prot; the nearest is --port": ["--prot", "1"],
    "unknown flag stray": ["stray"],
    "--port needs a value": ["--port"],
    "--metrics takes no value": ["--metrics=1"],
    "--port x: is not a whole number": ["--port", "x"],
    "-ctk f17: must be one of bf16, f16": ["-ctk", "f17"],
    "-fa yes: must be one of auto, off, on": ["-fa", "yes"],
    "--lora-scaled /a: /a is not FILE:SCALE": ["--lora-scaled", "/a"],
    "--lora-scaled /a:x: could not convert": ["--lora-scaled", "/a:x"],
    "--spec-type fast: must be one of": ["--spec-type", "fast"],
    "--chat-template-file /none": ["--chat-template-file", "/none"],
    "--chat-template-file /dev/zero: [Errno 22] it is a device": ["--chat-template-file", "/dev/zero"],
}


@pytest.mark.parametrize("words", BAD)
def test_a_bad_command_line_is_named(words: str) -> None:
    with pytest.raises(FlagError) as raised:
        applied(*BAD[words])
    assert str(raised.value).startswith(words)


def test_parsing_needs_no_library() -> None:
    assert [(flag.names[0], value) for flag, value in parse(["--port", "1", "--jinja"])] == [
        ("--port", "1"),
        ("--jinja", ""),
    ]


def test_older_wheels_are_set_by_their_own_fields() -> None:
    old = SimpleNamespace(hostname="", use_mmap=True, use_mlock=False)
    apply(["--host", "::1", "-lm", "mlock"], old, SimpleNamespace())
    assert (old.hostname, old.use_mmap, old.use_mlock) == ("::1", False, True)


def test_several_adapters_are_split_at_commas() -> None:
    params = applied("--lora", "/a,/b", "--lora", "/c")
    assert [adapter.path for adapter in params.lora_adapters] == ["/a", "/b", "/c"]


def test_adapters_have_their_scales() -> None:
    params = applied("--lora", "/a", "--lora-scaled", "/b:0.5,/c:d:-2")
    scales = [(adapter.path, adapter.scale) for adapter in params.lora_adapters]
    assert scales == [("/a", 1.0), ("/b", 0.5), ("/c:d", -2.0)]


def test_several_ways_to_guess_ahead() -> None:
    types = applied("--spec-type", "draft-simple,ngram-mod").speculative.types
    assert [kind.name.rpartition("TYPE_")[2] for kind in types] == ["DRAFT_SIMPLE", "NGRAM_MOD"]


def test_what_an_older_wheel_does_not_have_is_said() -> None:
    with pytest.raises(FlagError, match="-md: this xllamacpp is too old for it"):
        apply(["-md", "/d"], SimpleNamespace(), SimpleNamespace())


EDGES = [
    "0",
    "-1",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "1_0",
]
EDGES += ["", " 1", "1.5", "x", "on", "auto", "none", "f16"]


@pytest.mark.parametrize("name", sorted({flag.names[0] for flag in FLAGS.values() if not flag.switch}))
def test_a_value_is_refused_before_the_start_or_taken_by_the_library(name: str) -> None:
    # A file is looked for where the server will run.
    for value in EDGES if name != "--chat-template-file" else ():
        assert complaint(verify, name, value) == complaint(applied, name, value)


def complaint(take: Callable[..., object], name: str, value: str) -> str:
    try:
        take(*((name, value) if take is applied else ([name, value],)))
    except FlagError as error:
        return str(error)
    return ""
