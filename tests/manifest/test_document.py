"""The keys of a manifest: what each becomes, and how a wrong one is answered."""

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest

from manifest_texts import FULL, HEAD, PlainEngines, accept, places, refuse
from reconciler.core.launch import LaunchSpec, LoadMode, Role, launch_digest
from reconciler.core.memory import Watermarks
from reconciler.core.types import Manifest, MayPreempt, ModelSpec, Policy, Prewarm, Residency
from reconciler.engines.base import Finding
from reconciler.leases import QueueLimits
from reconciler.manifest.applied import (
    GENERATING,
    ApiKey,
    ContextLimits,
    Gate,
    GatewaySettings,
    Overflow,
    RequestLimits,
    Rule,
    Scope,
    Strategy,
    Virtual,
    When,
)

#: What a manifest that says nothing of it watches the machine by.
WATCHED: Any = {"watermarks": Watermarks(), "max_swap": 10 << 30}


def test_every_key_reaches_what_uses_it(tmp_path: Path) -> None:
    applied = accept(tmp_path, FULL)
    launch = LaunchSpec(
        model="big",
        engine="command",
        command=(f"{tmp_path}/bin/serve", "--port", "${port}"),
        weights=f"{tmp_path.parent}/weights/big.gguf",
        role=Role.VISION,
        context_tokens=4096,
        slots=2,
        cache_type="q8_0",
        context_bytes_per_token=1000,
        load_mode=LoadMode.MLOCK,
        cwd=f"{tmp_path}/work",
        env=(("A", "one"), ("B", "three")),
        args=("--flash-attn", "on"),
        port=9101,
        health_path="/ready",
    )
    small = LaunchSpec(
        model="small",
        engine="llama.cpp",
        cwd=str(tmp_path),
        cwd_matters=False,
        env=(("A", "one"), ("B", "two")),
    )
    assert applied.launches == {"big": launch, "small": small}
    big_spec = ModelSpec(
        name="big",
        digest=launch_digest(launch),
        priority=1000,
        residency=Residency.PINNED,
        steady=4 << 30,
        peak=5 << 30,
        idle_ttl=300,
        min_resident=10,
        cooldown=20,
        may_preempt=MayPreempt.LOWER,
        patience=5,  # half of how long its queue waits
        load_timeout=60,
        drain_timeout=0,
        stop_grace=1,
        reload_after=30,
    )
    small_spec = ModelSpec("small", launch_digest(small), load_timeout=180, stop_grace=5)
    assert applied.manifest == Manifest(
        (big_spec, small_spec),
        memory=16 << 30,
        reserve=1 << 30,
        watermarks=Watermarks(),
        max_swap=10 << 30,
        policy=Policy.LRU,
        prewarm=Prewarm.FULL,
        prewarm_per_hour=7,
    )
    assert applied.limits["big"] == RequestLimits(
        QueueLimits(3, 10),
        first_byte=20,
        chunk=60,
        request=600,
        concurrency=4,
        gates=("llm", "disk"),
        priority=1000,
        context=ContextLimits(4096, Overflow.SUMMARIZE, "small"),
        role=Role.VISION,
    )
    assert applied.limits["small"] == RequestLimits(QueueLimits(64, 120), first_byte=600, request=None)
    assert applied.gateway == GatewaySettings(
        host="::1",
        port=9999,
        api_keys=(
            ApiKey("k1", "key-1"),
            ApiKey("k2", "phone", frozenset({Scope.INFER, Scope.READ}), priority=250),
        ),
        hosts=("box.lan",),
        origins=("https://chat.lan",),
        max_body=128 << 20,
        max_connections=100,
        comments=True,
        gates={"disk": Gate(2, 10**9, frozenset({Role.EMBEDDING})), "llm": Gate(3, None, GENERATING)},
    )
    everything = When(
        image=False, code=True, tools=False, min_tokens=10, max_tokens=20, header=("x-task", "code")
    )
    rules = (
        Rule(When(role=Role.EMBEDDING), ("big",), Strategy.READY),
        Rule(everything, ("big", "small"), Strategy.FITS),
        Rule(When(header=("x-any", None)), ("big",), Strategy.READY),
        Rule(When(), ("small", "big"), Strategy.READY),
    )
    assert applied.virtual == {"auto": Virtual("auto", rules)}
    assert applied.routes == {
        "big": "big",
        "huge": "big",
        "large": "big",
        "little": "small",
        "small": "small",
    }
    assert applied.ports == (19000, 19010)


def test_the_smallest_manifest_takes_the_documented_defaults(tmp_path: Path) -> None:
    applied = accept(tmp_path, f"{HEAD}models: {{a: {{}}}}\n")
    assert applied.manifest == Manifest(
        (ModelSpec("a", applied.manifest.models[0].digest),), watermarks=Watermarks(), max_swap=10 << 30
    )
    assert applied.gateway == GatewaySettings()
    assert applied.ports == (18100, 18199)


def one(line: str) -> str:
    return f"{HEAD}models:\n  a:\n    engine: command\n    {line}\n"


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("priority: hihg", "priority", "did you mean high?"),
        ("priority: 1.5", "priority", "write one of"),
        ("priority: true", "priority", "write one of"),
        ("residency: on-demand", "choice", "did you mean on_demand?"),
        ("residency: Pinned", "choice", "did you mean pinned?"),
        ("role: embeddings", "choice", "did you mean embedding?"),
        ("may_preempt: all", "choice", "write one of none, lower, equal"),
        ("memory: {mode: mmpa}", "choice", "did you mean mmap?"),
        ("memory: 8GiB", "wrong-type", ""),
        ("memory: {steady: 2GiB, peak: 1GiB}", "memory", "peak counts everything"),
        ("idle_ttl: 0", "duration", "residency: transient"),
        ("idle_ttl: 5 minutes", "duration", "5m"),
        ("queue: {timeout: 0}", "duration", "more than 0"),
        ("queue: {max: 0}", "range", "write 1 or more"),
        ("port: 70000", "range", "write 65535 or less"),
        ("args: --flash-attn", "wrong-type", "write [one, two]"),
        ("env: [A=b]", "wrong-type", ""),
        ("env: {A: 1}", "quote-it", "quote it"),
        ("env: {A: }", "empty-value", "use quotes"),
        ("env: {'A=B': x}", "env-name", ""),
        ("context: {max_tokens: 8k}", "wrong-type", "plain decimal digits"),
        ("context: {max_token: 8}", "unknown-key", "did you mean max_tokens?"),
        ("weights: ~/m.gguf", "path", "${env:HOME}"),
        ("cwd: $HOME", "path", "${env:HOME}"),
        ("max_tokens: 8", "misplaced-key", "models.NAME.context.max_tokens"),
        ("steady: 8", "misplaced-key", "models.NAME.memory.steady"),
        ("listen: 8", "misplaced-key", "gateway.listen"),
        ("ttl: 60", "unknown-key", "did you mean idle_ttl?"),
        ("cmd: x", "unknown-key", "did you mean command?"),
        ("name: x", "unknown-key", "the key above it"),
        ("preload: true", "unknown-key", "residency: warm"),
        ("zzz: 1", "unknown-key", "known here: adapters, aliases, "),
        ("health: ready", "pattern", ""),
    ],
)
def test_a_wrong_value_is_answered_with_what_to_write(
    tmp_path: Path, line: str, code: str, hint: str
) -> None:
    (found,) = refuse(tmp_path, one(line))
    assert (found.line, found.code) == (5, code)
    assert hint in found.hint


def test_a_list_of_models_is_told_how_to_write_a_mapping(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  - name: a\n")
    assert (found.line, found.code, found.hint) == (
        3,
        "wrong-type",
        "write `NAME: {...}` for each model, without dashes",
    )


def test_an_unknown_engine_gets_the_nearest_name(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  a: {{engine: llama-cpp}}\n")
    assert (found.line, found.col, found.code, found.hint) == (3, 15, "engine", "did you mean llama.cpp?")


def test_what_an_engine_objects_to_is_shown_at_the_setting(tmp_path: Path) -> None:
    findings = (Finding(("context", "slots"), "too many", "write 1"), Finding(("weights",), "needed"))
    engines = PlainEngines({"command": findings})
    text = f"{HEAD}models:\n  a:\n    engine: command\n    context:\n      slots: 9\n"
    weights, slots = refuse(tmp_path, text, engines=engines)
    assert (slots.line, slots.col, slots.message, slots.hint) == (6, 14, "too many", "write 1")
    assert (weights.line, weights.col, weights.message) == (3, 3, "weights: needed")


def test_a_fault_in_the_defaults_is_reported_once_where_it_is(tmp_path: Path) -> None:
    text = f"{HEAD}defaults: {{memory: {{steady: 8G}}, zzz: 1}}\nmodels: {{a: {{}}, b: {{}}}}\n"
    assert places(refuse(tmp_path, text)) == [(2, 29, "size"), (2, 34, "unknown-key")]


@pytest.mark.parametrize("key", ["engine: command", "weights: x", "aliases: [x]", "command: x", "port: 9101"])
def test_what_belongs_to_one_model_is_no_default(tmp_path: Path, key: str) -> None:
    found = refuse(tmp_path, f"{HEAD}defaults: {{{key}}}\nmodels: {{}}\n")
    assert places(found) == [(2, 12, "misplaced-key")]


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("memory: 0", "size"),
        ("reserve: 100%", "percent"),
        ("reserve: 120%", "percent"),
        ("memory: 1GiB, reserve: 2GiB", "budget"),
        ("ports: 18100", "ports"),
        ("ports: 18200-18100", "ports"),
        ("ports: 18100-70000", "ports"),
        ("watermarks: {low: 10%}", "unknown-key"),
        ("watermarks: {soft: 90%}", "watermarks"),
        ("watermarks: {target: 86%}", "watermarks"),
        ("watermarks: {hard: 96%}", "watermarks"),
        ("watermarks: {hard: 0%}", "percent"),
        ("watermarks: {hard: 8GiB}", "percent"),
        ("watermarks: {window: 0s}", "duration"),
        ("watermarks: {window: 999ms}", "duration"),
        ("watermarks: {window: 11m}", "duration"),
        ("swap: {max_used: some}", "size"),
    ],
)
def test_a_wrong_machine(tmp_path: Path, machine: str, code: str) -> None:
    assert [d.code for d in refuse(tmp_path, f"{HEAD}machine: {{{machine}}}\nmodels: {{}}\n")] == [code]


@pytest.mark.parametrize(
    ("listen", "code"),
    [
        ("8080", "listen"),
        ('":8080"', "listen"),
        ("127.0.0.1", "listen"),
        ('"::1:8080"', "listen"),
        ("127.0.0.1:99999", "listen"),
        ("http://127.0.0.1:8080", "listen"),
        ("0.0.0.0:8080", "open-gateway"),
        ('"[::]:8080"', "open-gateway"),
        ("box.lan:8080", "open-gateway"),
        ("127.0.0.1:18150", "port-clash"),
    ],
)
def test_a_wrong_address(tmp_path: Path, listen: str, code: str) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}gateway: {{listen: {listen}}}\nmodels: {{}}\n")
    assert (found.line, found.col, found.code) == (2, 19, code)


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.1.2.3:1", ("127.1.2.3", 1)), ("localhost:0", ("localhost", 0)), ('"[::1]:80"', ("::1", 80))],
)
def test_loopback_addresses_need_no_keys(tmp_path: Path, listen: str, address: tuple[str, int]) -> None:
    gateway = accept(tmp_path, f"{HEAD}gateway: {{listen: {listen}}}\nmodels: {{}}\n").gateway
    assert (gateway.host, gateway.port) == address


def test_keys_from_a_file_open_the_gateway(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("# for the phone\nCANARY-1\n\n  CANARY-2  \n")
    text = f"{HEAD}gateway: {{listen: '0.0.0.0:80', api_keys: {{file: keys.txt}}}}\nmodels: {{}}\n"
    applied = accept(tmp_path, text)
    assert [key.key for key in applied.gateway.api_keys] == ["CANARY-1", "CANARY-2"]
    assert applied.source.also_read == (str(tmp_path / "keys.txt"),)
    assert "CANARY" not in repr(applied)


@pytest.mark.parametrize("content", [None, "", "# none\n", "two words CANARY\n", "Käse-CANARY\n"])
def test_a_file_of_keys_that_is_no_use_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "keys.txt").write_text(content)
    (found,) = refuse(tmp_path, f"{HEAD}gateway: {{api_keys: {{file: keys.txt}}}}\nmodels: {{}}\n")
    in_a_line = "CANARY" in (content or "")
    assert found.file.endswith("keys.txt" if in_a_line else "m.yaml")
    assert (found.line, found.col, found.code) == (*((1, 1) if in_a_line else (2, 28)), "api-keys")
    assert "CANARY" not in found.render()


def test_two_models_on_one_port_name_each_other(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  a: {{port: 9101}}\n  b: {{port: 9101}}\n")
    assert (found.line, found.col, found.code) == (4, 13, "port-clash")
    assert '"a"' in found.message
    assert "m.yaml:3:13" in found.message


def test_pinned_models_must_fit_together(tmp_path: Path) -> None:
    pinned = "{residency: pinned, memory: {steady: 3GiB}}"
    text = f"{HEAD}machine: {{memory: 6GiB, reserve: 10%}}\nmodels:\n  a: {pinned}\n  b: {pinned}\n"
    (found,) = refuse(tmp_path, text)
    assert (found.line, found.col, found.code) == (2, 19, "budget")
    assert '"a" 3.0 GiB, "b" 3.0 GiB' in found.message
    accept(tmp_path, text.replace("10%", "0"))


def test_a_model_too_large_for_the_budget_is_a_warning(tmp_path: Path) -> None:
    text = f"{HEAD}machine: {{memory: 2GiB}}\nmodels:\n  a: {{memory: {{steady: 3GiB}}}}\n"
    (warning,) = accept(tmp_path, text).warnings
    assert '"a" can never be loaded' in warning


def test_notation_and_comments_do_not_count_as_change(tmp_path: Path) -> None:
    defaults = f"{HEAD}defaults: {{idle_ttl: 5m}}\nmodels:\n  b: {{}}\n"
    first = accept(tmp_path, defaults + "  a: {memory: {steady: 1GiB}, aliases: [x, y]}\n")
    same = accept(
        tmp_path,
        f"# changed\nmodels:\n  a:\n    aliases: [y, x]\n    idle_ttl: 300s\n"
        f"    memory: {{steady: '1073741824'}}\n  b: {{idle_ttl: 300}}\n{HEAD}",
    )
    other = accept(tmp_path, defaults + "  a: {memory: {steady: 1GiB}, aliases: [x]}\n")
    assert first.digest == same.digest != other.digest
    assert first.launches == same.launches


def test_an_estimate_restarts_nothing(tmp_path: Path) -> None:
    digests = {
        accept(tmp_path, one(f"context: {{bytes_per_token: {n}}}")).manifest.models[0].digest
        for n in (1000, 2000)
    }
    assert len(digests) == 1


def test_a_diagnostic_shows_line_caret_and_help(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, one("prioritiy: 5"))
    path = tmp_path / "m.yaml"
    assert found.render() == (
        f'{path}:5:5: error: unknown key "prioritiy" [unknown-key]\n'
        "    5 |     prioritiy: 5\n"
        "      |     ^\n"
        "help: did you mean priority?"
    )


def test_no_secret_is_repeated(tmp_path: Path) -> None:
    text = f"""\
{HEAD}gateway: {{api_keys: [CANARY-1, "CANARY 2"], zzz: 1}}
models:
  a: {{env: {{HF: CANARY-3}}, zzz: 1}}
  b: {{args: [--api-key, CANARY-4, --hf-token=CANARY-5, --port, 1]}}
  c: {{env: {{N: 4711}}, args: [--token, 4712]}}
  d: {{env: {{HF_TOKEN: CANARY-6}} }} }}
"""
    found = refuse(tmp_path, text) + refuse(tmp_path, "\n".join(text.splitlines()[:-1]) + "\n")
    shown = "".join(d.render() + repr(d) for d in found)
    assert len(found) >= 6
    for secret in ("CANARY", "4711", "4712"):
        assert secret not in shown


def test_the_manifest_that_ships_is_valid() -> None:
    from reconciler.manifest import load_manifest

    applied = load_manifest(Path(__file__).parents[2] / "manifests", environ={})
    assert applied.warnings == ()
    assert json.dumps(applied.routes)


def test_a_key_without_a_value_is_named_where_it_stands(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n")
    assert (found.line, found.col) == (HEAD.count("\n") + 1, 1)
    assert "models:" in found.render()


def test_where_a_manifest_lies_restarts_only_commands(tmp_path: Path) -> None:
    text = f"{HEAD}models:\n  a: {{engine: llama.cpp}}\n  b: {{engine: command, command: [serve]}}\n"
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        applied = accept(tmp_path / name, text)
        digests.append({m.name: m.digest for m in applied.manifest.models})
    assert digests[0]["a"] == digests[1]["a"]
    assert digests[0]["b"] != digests[1]["b"]


@pytest.mark.parametrize(("text", "seconds"), [("never", inf), ("0s", 0.0), ("90s", 90.0)])
def test_a_drain_may_be_without_end(tmp_path: Path, text: str, seconds: float) -> None:
    applied = accept(tmp_path, f"{HEAD}models:\n  a: {{timeouts: {{drain: {text}}}}}\n")
    assert applied.manifest.models[0].drain_timeout == seconds


def test_a_mistyped_token_count_is_shown_and_a_token_is_not(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  a: {{context: {{max_token: 1024}}}}\n")
    assert "max_token: 1024" in found.render()
    (found,) = refuse(tmp_path, f"{HEAD}models:\n  a: {{hf_token: CANARY}}\n")
    assert "CANARY" not in found.render()
