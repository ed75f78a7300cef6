"""Which words of a llama.cpp command line are flags, which are values, and which of two settings rules."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.core.launch import LaunchSpec, LoadMode
from reconciler.engines import registry
from reconciler.engines.llama.args import RefusedError, SettingsError, read_settings
from reconciler.engines.llama.words import assignments, pairs, server_words

ENGINE = registry.get("llama.cpp")
MIB = 1024 * 1024

SERVERS = [
    (("llama-server",), ()),
    (("/opt/my-server", "-ub", "9"), ("-ub", "9")),
    (("taskset", "-c", "0-3", "llama-server", "-b", "9"), ("-b", "9")),
    (("numactl", "--interleave=all", "/opt/server", "-c", "9"), ("-c", "9")),
    (("nice", "-n", "5", "/opt/server", "--mlock"), ("--mlock",)),
    (("env", "A=b", "/opt/server", "-c", "9"), ("-c", "9")),
    (("my-wrapper", "-c", "conf", "/opt/llama-server-cuda", "-b", "9"), ("-b", "9")),
    (("/usr/bin/python3.11", "-P", "-m", "my.server", "-b", "9"), ("-b", "9")),
    (("python3", "server.py", "-b", "9"), ("-b", "9")),
    (("sh", "-c", 'exec llama-server "$@"', "sh", "-b", "9"), ("sh", "-b", "9")),
    # Nothing tells where the server is: all counts.
    (("setsid", "-w", "-c", "9"), ("-w", "-c", "9")),
    ((), ()),
]


@pytest.mark.parametrize(("command", "words"), SERVERS)
def test_words_after_the_server_are_its_own(command: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert server_words(command) == words


def test_variables_set_before_the_server() -> None:
    assert assignments(("env", "LLAMA_ARG_UBATCH=9", "llama-server", "X=1")) == {"LLAMA_ARG_UBATCH": "9"}
    assert assignments(("llama-server", "--override-kv", "A=b")) == {}


PAIRS = [
    (("--ubatch_size", "9"), (("--ubatch-size", "9"),)),
    (("--cache_ram=9",), (("--cache-ram", "9"),)),
    (("--chat-template", "-ub", "--no-slots"), (("--chat-template", "-ub"), ("--no-slots", ""))),
    (("--grammar", "--ctx-size", "-cram", "-1"), (("--grammar", "--ctx-size"), ("-cram", "-1"))),
    (("--mlock", "-ub", "9"), (("--mlock", ""), ("-ub", "9"))),
    (("--brand-new", "-ub", "9"), (("--brand-new", ""), ("-ub", "9"))),
    (("--brand-new", "x", "-ub", "9"), (("--brand-new", "x"), ("-ub", "9"))),
    (("--brand-new", "-5", "-b", "9"), (("--brand-new", "-5"), ("-b", "9"))),
    # It had no value once.
    (("-fa", "-ub", "9"), (("-fa", ""), ("-ub", "9"))),
    (("-fa", "-1", "stray"), (("-fa", "-1"),)),
    (("-ub",), (("-ub", ""),)),
]


@pytest.mark.parametrize(("words", "expected"), PAIRS)
def test_flags_and_their_values(words: tuple[str, ...], expected: tuple[tuple[str, str], ...]) -> None:
    assert pairs(words) == expected


def settings(*args: str, command: tuple[str, ...] = ("llama-server",), **more: Any) -> Any:
    spec = LaunchSpec("m", "llama.cpp", weights="/m.gguf", context_tokens=2048, command=command, **more)
    return read_settings(spec, args, embedded=False)


RULES: list[tuple[tuple[str, ...], str, object]] = [
    (("-no-kvu", "-kvu"), "unified", True),
    (("-kvu", "--no-kv-unified"), "unified", False),
    (("--no-repack", "--repack"), "repack", True),
    (("--repack", "-nr"), "repack", False),
    (("--no-mmap", "--mmap"), "load_mode", "mmap"),
    (("--mmap", "--no_mmap"), "load_mode", "none"),
    (("--direct-io",), "load_mode", "dio"),
    (("-dio", "-ndio"), "load_mode", "mmap"),
    (("-dio", "-lm", "none"), "load_mode", "none"),
    (("-lm", "none", "--mlock"), "load_mode", "mlock"),
    (("--no-mmap", "--mlock"), "load_mode", "mlock"),
    (("--cache_ram", "64"), "prompt_cache", 64 * MIB),
    (("--ubatch_size", "64"), "micro_batch", 64),
    (("--swa_full",), "full_windows", True),
    (("--spec-draft-model", "/d"), "draft", "/d"),
    (("--reranking",), "vectors", True),
    (("-ub", "0"), "micro_batch", 2048),
    (("-b", "64", "-ub", "0"), "micro_batch", 64),
    (("-b", "-1"), "micro_batch", 512),
    (("-ub", "-1"), "micro_batch", 2048),
    (("-b", "-1", "-ub", "-1"), "micro_batch", 2**32 - 1),
]


@pytest.mark.parametrize(("args", "field", "expected"), RULES)
def test_the_last_flag_rules(args: tuple[str, ...], field: str, expected: object) -> None:
    assert getattr(settings(*args), field) == expected


VARIABLES: list[tuple[str, str, str, object]] = [
    ("LLAMA_ARG_MMAP", "0", "load_mode", "none"),
    ("LLAMA_ARG_MMAP", "true", "load_mode", "mmap"),
    ("LLAMA_ARG_NO_MMAP", "0", "load_mode", "none"),
    ("LLAMA_ARG_DIO", "1", "load_mode", "dio"),
    ("LLAMA_ARG_REPACK", "0", "repack", False),
    ("LLAMA_ARG_REPACK", "1", "repack", True),
    ("LLAMA_ARG_NO_REPACK", "", "repack", False),
    ("LLAMA_ARG_SWA_FULL", "on", "full_windows", True),
    ("LLAMA_ARG_KV_UNIFIED", "enabled", "unified", True),
    ("LLAMA_ARG_RERANKING", "1", "vectors", True),
    ("LLAMA_ARG_SPEC_DRAFT_MODEL", "/d", "draft", "/d"),
    ("LLAMA_ARG_MODEL_DRAFT", "/d", "draft", "/d"),
]


@pytest.mark.parametrize(("name", "value", "field", "expected"), VARIABLES)
def test_variables_of_the_model_count(name: str, value: str, field: str, expected: object) -> None:
    assert getattr(settings(env=((name, value),)), field) == expected
    assert getattr(settings(command=("env", f"{name}={value}", "llama-server")), field) == expected


def test_a_flag_rules_over_a_variable() -> None:
    assert settings("--mmap", env=(("LLAMA_ARG_MMAP", "0"),)).load_mode == "mmap"
    assert settings("--no-mmap", load_mode=LoadMode.MMAP).load_mode == "none"
    assert settings(load_mode=LoadMode.MLOCK).load_mode == "mlock"


def test_words_of_the_command_come_before_ours_and_args_after() -> None:
    given = ("llama-server", "--cache-ram", "4096", "-ub", "4096", "-b", "4096", "--swa-full", "-ctk", "q8_0")
    found = settings(command=given)
    assert (found.prompt_cache, found.micro_batch, found.full_windows) == (4096 * MIB, 4096, True)
    # Ours are said later, and args last.
    assert found.key_type == "f16"
    assert settings("-cram", "1", command=given).prompt_cache == MIB


@pytest.mark.parametrize("value", ["1_000", " 5 ", "1e3", "5MiB", "99999999999999", "", "٣"])
def test_only_whole_numbers_count(value: str) -> None:
    with pytest.raises(RefusedError, match="--cache-ram"):
        settings("-cram", value)


def test_names_a_newer_server_may_know_have_no_size() -> None:
    for args in (("-lm", "foo"), ("-ctk", "q9_9")):
        with pytest.raises(SettingsError, match=args[1]) as raised:
            settings(*args)
        assert not isinstance(raised.value, RefusedError)


OWNED: list[tuple[dict[str, Any], tuple[str, ...] | None]] = [
    ({"command": ("llama-server", "-c", "512", "--port", "1")}, ("command",)),
    ({"command": ("llama-server", "--ctx_size=9")}, ("command",)),
    ({"command": ("taskset", "-c", "0-3", "llama-server")}, None),
    ({"command": ("taskset", "-c", "0-3", "llama-server", "-np", "2")}, ("command",)),
    ({"args": ("--n_parallel", "2")}, None),
    ({"args": ("--ctx_size", "9")}, ("args",)),
    ({"args": ("-hf", "a/b")}, ("args",)),
    ({"args": ("--chat-template", "-c")}, None),
    ({"slots": 257}, ("context", "slots")),
    ({"slots": 256, "context_tokens": 2**24}, ("context", "max_tokens")),
    ({"env": (("LLAMA_ARG_SWA_FULL", "yes"),)}, ("env", "LLAMA_ARG_SWA_FULL")),
    ({"env": (("LLAMA_ARG_MMAP", "0"), ("LLAMA_ARG_NO_REPACK", "yes"))}, None),
]


@pytest.mark.parametrize(("more", "path"), OWNED)
def test_findings(more: dict[str, Any], path: tuple[str, ...] | None) -> None:
    spec = LaunchSpec("m", "llama.cpp", weights="/m.gguf", **more)
    assert {finding.path for finding in ENGINE.check(spec)} == ({path} if path else set())


def test_placeholders_in_the_command_are_filled(tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    spec = LaunchSpec("m", "llama.cpp", weights="/m.gguf", command=(str(server), "--alias", "${model}-2"))
    assert ENGINE.command(spec, 7).argv[:3] == (str(server), "--alias", "m-2")
