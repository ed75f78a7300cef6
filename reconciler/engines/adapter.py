"""What most engines have in common: an adapter states what is its own as attributes, and overrides what differs.

A whole engine is then a class of some fifty lines; docs/engines.md shows one being made.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio.to_thread
import httpx

from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Said
from reconciler.core.types import Preflight, Reason
from reconciler.engines import (
    adapter_checks,
    adapter_flags,
    api_key,
    devices,
    failures,
    placeholders,
    programs,
    python_env,
    refusals,
    weights_text,
)
from reconciler.engines.base import Command, Finding, Probe, Readiness, Saver, Server, Sleeper
from reconciler.engines.health import ask_health
from reconciler.engines.proof import OPENAI_CALLS, Call, prove
from reconciler.engines.weights import look_at

#: Nothing is looked up on the network, and nobody is told of what we do.
OFFLINE: Final = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
_GENERATION: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
#: OpenAI's paths by role.
OPENAI_ROUTES: Final[Mapping[Role, frozenset[str]]] = {
    Role.CHAT: _GENERATION,
    Role.COMPLETION: frozenset({"/v1/completions"}),
    Role.VISION: _GENERATION,
    Role.EMBEDDING: frozenset({"/v1/embeddings"}),
    Role.RERANK: frozenset({"/v1/rerank"}),
    Role.ASR: frozenset({"/v1/audio/transcriptions", "/v1/audio/translations"}),
    Role.TTS: frozenset({"/v1/audio/speech"}),
    Role.IMAGE: frozenset({"/v1/images/generations"}),
}


class Adapter:
    """An `Engine` made of data; see `reconciler.engines.base.Engine` for what each method is asked."""

    name: str
    roles: frozenset[Role]
    #: The program that is run, as it is called on PATH or in the model's environment.
    script: str = ""
    #: The Python distribution whose version is the engine's, or "".
    distribution: str = ""
    #: Beginnings of the versions this adapter was checked with; () = it does not depend on them.
    checked: tuple[str, ...] = ()
    #: Whether a model has weights: without, `weights:` is refused if this is None, asked for if it is True.
    weights: bool | None = True
    health: str = "/health"
    #: Status codes of that address by which it says that it has failed for good.
    fatal: frozenset[int] = frozenset()
    calls: Mapping[Role, Call] = OPENAI_CALLS
    routes: Mapping[Role, frozenset[str]] = OPENAI_ROUTES
    #: Keys of the manifest it has a use for, of `refusals.CHOSEN`; the others are refused where a model states them.
    uses: frozenset[str] = refusals.PACKAGE
    #: Key it has no use for -> what to do instead.
    hints: Mapping[str, str] = {}
    #: Flags that cannot be given as `args` -> the key they have in a manifest, or a sentence; "" = they are for us to
    #: choose.
    owned: Mapping[str, str] = {}
    #: Whether its parser takes the beginning of a flag for the flag, as argparse does. Then one in `args` is refused.
    abbreviates: bool = True
    #: Whether its parser takes `-p80` for `-p 80`.
    glued: bool = False
    #: The same of variables in `env`.
    owned_variables: Mapping[str, str] = {}
    #: Flags whose values `sized` reads -> the units in which the program reads them.
    sizes: Mapping[str, Mapping[str, int]] = {}
    #: Flags, and beginnings of variables, that change what it takes in a way that `sized` does not follow: with one of
    #: them the size is unknown, and `memory.steady` is asked for.
    sizing: frozenset[str] = frozenset()
    sizing_variables: tuple[str, ...] = ()
    known_failures: tuple[failures.Known, ...] = ()
    #: Beginnings of variables that would decide what we decide, if they were inherited.
    not_inherited: tuple[str, ...] = ()
    #: Variables that it takes its key from, besides `--api-key`.
    key_variables: tuple[str, ...] = ()
    #: Said where the program is missing: how to get it.
    install: str = ""
    #: Whether it computes with PyTorch, whose allocator can be told a limit; None = that is not known.
    torch: bool | None = None
    #: Whether its server is told `memory.limit` itself, whatever it computes on.
    takes_limit: bool = False
    #: Fields of a request's body by which a client would have it load files that no account shows.
    withheld: frozenset[str] = frozenset()
    #: Whether it loads whatever model a request names in place of ours, or beside it.
    swaps: bool = False

    # -- what an adapter overrides ---------------------------------------------------------------------------------

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return the first words of the command line, or None if the program is not there. Reads the file system."""
        named = spec.command[0] if spec.command else None
        path = programs.resolve(spec, named) if named else python_env.script(spec, self.script)
        return (path, *spec.command[1:]) if path else None

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return what follows the program; the manifest's `args` come behind it."""
        raise NotImplementedError

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return variables besides those for devices and threads; the manifest's `env` rules."""
        return dict(OFFLINE)

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield what is wrong with the settings, besides what all adapters check. Reads no file."""
        return iter(())

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return what the weights say of the size; called when everything needed is there. Reads files."""
        return look_at(spec)

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why it could never load these weights, in a sentence; None = nothing tells. Reads files."""
        return None

    def foreseen(self, spec: LaunchSpec) -> Preflight:
        """Return what the files tell of the size, whether or not the program is here. Reads files."""
        spec = placeholders.filled(spec, spec.port or 0)
        found = self.sized(spec)
        word = adapter_flags.deciding(self, spec)
        if found.reason is None and (why := self.misfit(spec)) is not None:
            return Preflight(spec.model, Reason.NOT_STARTABLE, why)
        if word is None or found.reason is not None:
            return found
        parts = None if found.parts is None else replace(found.parts, context=None)
        message = f"{word} decides what it takes, and nothing tells how much: give memory.steady"
        return replace(found, steady=None, peak=None, parts=parts, message=message)

    # -- what all do alike -----------------------------------------------------------------------------------------

    def check(self, spec: LaunchSpec) -> tuple[Finding, ...]:
        """Return what is wrong with the settings themselves; reads no file."""
        return (*adapter_checks.common(self, spec), *self.settings(spec))

    def preflight(self, spec: LaunchSpec) -> Preflight:
        """Say whether program and weights are there, and how many bytes it takes once loaded. Reads files."""
        spec = placeholders.filled(spec, spec.port or 0)
        found = self.foreseen(spec)
        wrong = found.message if found.reason is Reason.NOT_STARTABLE else None
        # A manifest written for another machine is told of everything at once.
        if problems := [text for text in (self._problem(spec), wrong) if text]:
            message = ". ".join((*problems, *weights_text.of_hub(spec)))
            return Preflight(spec.model, Reason.NOT_STARTABLE, message)
        version = self.version(spec)
        build = f"{self.name} {version}" if version else self.name
        return replace(found, build=found.build or build, notes=(*found.notes, *self._notes(version)))

    def _problem(self, spec: LaunchSpec) -> str | None:
        if not Path(spec.cwd).is_dir():
            return f"the working directory {spec.cwd} does not exist"
        if spec.python is not None and python_env.interpreter(spec) is None:
            return python_env.why_no_interpreter(spec)
        if self.program(spec) is None:
            if spec.command and programs.resolve(spec, spec.command[0]) is None:
                return programs.why_not(spec, spec.command[0])
            return f"its server is not installed: {self.install}"
        return None

    def _notes(self, version: str | None) -> Iterator[str]:
        if not self.checked:
            return
        tried = ", ".join(self.checked)
        if version is None:
            yield f"the version of {self.name} cannot be told; this was checked with {tried}"
        elif not any(f"{version}.".startswith((f"{one}.", f"{one}+")) for one in self.checked):
            yield f"{self.name} {version} is not a version this was checked with ({tried}); its flags may differ"

    def command(self, spec: LaunchSpec, port: int, saves: str | None = None) -> Command:
        """Return the server's command line. Of a setting given twice, the manifest's `args` and `env` rule."""
        spec = placeholders.filled(spec, port)
        program = self.program(spec) or spec.command or (self.script or self.name,)
        env = devices.gpu_variables(spec) | devices.thread_variables(spec) | python_env.activation(spec)
        return Command(
            (*program, *self.arguments(spec, port), *spec.args),
            spec.cwd,
            {**env, **self.environment(spec), **dict(spec.env)},
            without=self.not_inherited,
            cpus=spec.device.cpus,
            nice=spec.device.nice,
        )

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """Ask the health address; once it says yes, let the model do the smallest piece of work."""
        key = await anyio.to_thread.run_sync(self.api_key, spec)
        health = await ask_health(base_url, self.health, client, key, self.fatal)
        call = self.calls.get(spec.role)
        if health.readiness is not Readiness.READY or call is None:
            return health
        return await prove(call, self.upstream_model(spec) or spec.model, base_url, client, key)

    async def prove(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """Ask as while it starts: that includes a call that only a model that works can answer."""
        return await self.probe(spec, base_url, client)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return None: the client's name is passed on."""
        return None

    def api_key(self, spec: LaunchSpec) -> str | None:
        """Return what `--api-key`, or one of `key_variables`, states."""
        spec = placeholders.filled(spec, spec.port or 0)
        inherited = [(k, v) for k, v in sorted(os.environ.items()) if not k.startswith(self.not_inherited)]
        words = (*spec.command, *spec.args)
        return api_key.stated(words, (*inherited, *spec.env), self.key_variables)

    def serves(self, spec: LaunchSpec) -> frozenset[str] | None:
        """Return the paths that answer for the model's role; None for a role that has no usual ones."""
        return self.routes.get(spec.role)

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return None: the server knows best."""
        return None

    async def count_tokens(
        self,
        spec: LaunchSpec,
        base_url: str,
        path: str,
        body: Mapping[str, object],
        client: httpx.AsyncClient,
    ) -> int | None:
        """Return None: it cannot count."""
        return None

    def said(self, log: str) -> Said | None:
        """Return None: its log tells nothing of its size."""
        return None

    def explain(self, log_tail: str, exit_status: int | None) -> str | None:
        """Return the known failure the log or the exit status tells of."""
        return failures.explain(log_tail, exit_status, self.known_failures)

    def failure_kind(self, log_tail: str) -> FailureKind | None:
        """Return what kind of failure the log tells of."""
        return failures.kind(log_tail, self.known_failures)

    def version(self, spec: LaunchSpec) -> str | None:
        """Return the version of the package it comes with."""
        if not self.distribution or not (program := self.program(spec)):
            return None
        return python_env.dist_version(Path(program[0]), self.distribution)

    def sources(self, spec: LaunchSpec) -> tuple[str, ...]:
        """Return (): it is made of its program and its weights."""
        return ()

    def saver(self, spec: LaunchSpec) -> Saver | None:
        """Return None: its state ends with it."""
        return None

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """Return None: its memory comes back when it ends."""
        return None

    def has_jobs(self, spec: LaunchSpec) -> bool:
        """Say no: when it has answered, it is done."""
        return False

    async def jobs(self, server: Server) -> int | None:
        """Return None: nothing is asked of it."""
        return None
