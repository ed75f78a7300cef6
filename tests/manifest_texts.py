"""Helpers for manifest tests: load a text, or get what was wrong with it, without the program's real engines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight
from reconciler.engines import adapter_checks
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Command, Finding, Probe, Readiness
from reconciler.manifest import Applied, Diagnostic, ManifestError, load_manifest

HEAD = "apiVersion: reconciler/v1\n"
#: A manifest that uses every key.
FULL = """\
apiVersion: reconciler/v1
x-note: [anything, {at: all}]
machine: {memory: 16GiB, reserve: 1GiB, ports: 19000-19010}
policy: lru
prewarm: full
prewarm_per_hour: 7
gateway:
  listen: "[::1]:9999"
  api_keys: [k1, {key: k2, name: phone, scopes: [infer, read], priority: low}]
  hosts: [box.lan]
  origins: ["https://chat.lan"]
  max_body: 128MiB
  max_connections: 100
  comments: true
  gates: {heavy: ~, llm: {limit: 3}, disk: {limit: 2, above: 1GB, roles: [embedding]}}
defaults:
  timeouts: {load: 3m, stop: 5}
  env: {A: one, B: two}
models:
  big:
    engine: command
    command: [./bin/serve, --port, "${port}"]
    weights: ../weights/big.gguf
    role: vision
    aliases: [large, huge]
    priority: critical
    residency: pinned
    context: {max_tokens: 4096, slots: 2, cache_type: q8_0, bytes_per_token: 1000, overflow: summarize,
      summarizer: little}
    memory: {steady: 4GiB, peak: 5GiB, mode: mlock}
    idle_ttl: 5m
    min_resident: 10s
    cooldown: 20s
    may_preempt: lower
    reload_after: 30s
    concurrency: 4
    gate: [llm, disk]
    queue: {max: 3, timeout: 10s}
    timeouts: {load: 1m, first_byte: 20s, chunk: 1m, request: 10m, drain: 0, stop: 1}
    env: {B: three}
    args: [--flash-attn, on]
    cwd: work
    port: 9101
    health: /ready
  small: {aliases: [little]}
virtual:
  auto:
    rules:
      - {when: {role: embedding}, use: large}
      - when: {image: false, code: true, tools: false, min_tokens: 10, max_tokens: 20, header: {X-Task: code}}
        use: [big, little]
        strategy: fits
      - {when: {header: {X-Any: ~}}, use: big}
    use: [little, big]
    strategy: ready
"""


@dataclass
class PlainEngine(Adapter):
    """An engine that objects only to what a test tells it to."""

    name: str
    findings: tuple[Finding, ...] = ()
    roles = frozenset(Role)

    def check(self, spec: LaunchSpec) -> tuple[Finding, ...]:
        return (*self.findings, *adapter_checks.sleeping(self, spec))

    def preflight(self, spec: LaunchSpec) -> Preflight:
        return Preflight(spec.model)

    def command(self, spec: LaunchSpec, port: int, saves: str | None = None) -> Command:
        return Command(spec.command, spec.cwd)

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        return Probe(Readiness.READY)


@dataclass
class PlainEngines:
    """The two engines of these tests."""

    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        return ("command", "llama.cpp")

    def get(self, name: str) -> PlainEngine:
        if name not in self.names():
            raise KeyError(name)
        return PlainEngine(name, self.findings.get(name, ()))


ENGINES = PlainEngines()


def load(
    path: Path,
    *,
    environ: Mapping[str, str] | None = None,
    engines: PlainEngines = ENGINES,
    rev: str | None = None,
) -> Applied:
    """Load the manifest at `path` with the tests' engines and no environment."""
    return load_manifest(path, rev=rev, environ=environ or {}, engines=engines)


def accept(tmp_path: Path, text: str | bytes, **options: Any) -> Applied:
    """Write `text` as m.yaml and load it."""
    path = tmp_path / "m.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path, **options)


def refuse(tmp_path: Path, text: str | bytes, **options: Any) -> tuple[Diagnostic, ...]:
    """Write `text` as m.yaml; return what loading it complains about."""
    with pytest.raises(ManifestError) as caught:
        accept(tmp_path, text, **options)
    return caught.value.diagnostics


def places(diagnostics: tuple[Diagnostic, ...]) -> list[tuple[int, int, str]]:
    """Return line, column and code of each."""
    return [(d.line, d.col, d.code) for d in diagnostics]
