"""The engine `command`: any program that serves HTTP on a port it is told."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx

from reconciler.core.launch import LaunchSpec, LoadMode, Role
from reconciler.core.types import Preflight, Reason
from reconciler.engines import api_key, placeholders, programs, refusals
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Command, Finding, Probe, Readiness
from reconciler.engines.exits import explain_exit
from reconciler.engines.health import ask_health
from reconciler.engines.proof import OPENAI_CALLS, understood


class CommandEngine(Adapter):
    """Starts what `command:` and `args:` say, and believes the health address."""

    name = "command"
    roles = frozenset(Role)
    weights = False
    #: The context is kept by the gateway, and counts in what is said of the size.
    uses = refusals.PROGRAM | {
        "context.bytes_per_token",
        "context.max_tokens",
        "context.slots",
        "memory.mode",
    }

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield what its command line lacks."""
        if not spec.command:
            hint = "command: [my-server, --port, '${port}']"
            yield Finding(("command",), "this engine needs a command", hint)
        seen = {name for _, text in placeholders.words(spec) for name in placeholders.used(text)}
        if "weights" in seen and spec.weights is None:
            yield Finding(("weights",), "${weights} is used, but no weights are given")
        if spec.command and "port" not in seen and spec.port is None:
            hint = "write ${port} where the port belongs, or state the port it always uses as `port:`"
            yield Finding(("command",), "nothing tells the server its port", hint)
        if spec.load_mode not in (LoadMode.AUTO, LoadMode.MLOCK):
            message = "how its program loads is for its command line"
            hint = "leave it out; `mlock` raises the limit of locked memory"
            yield Finding(("memory", "mode"), message, hint, needless=True)
        if not spec.health_path.startswith("/"):
            yield Finding(("health",), "must be a path that begins with /", "health: /health")

    def preflight(self, spec: LaunchSpec) -> Preflight:
        """Say whether program, folder and weights are there. The size is for the manifest to state. Reads files."""
        found = self.sized(spec)
        wrong = found.message if found.reason is Reason.NOT_STARTABLE else None
        if problems := [text for text in (self._problem(spec), wrong) if text]:
            return Preflight(spec.model, Reason.NOT_STARTABLE, ". ".join(problems))
        return found

    def _problem(self, spec: LaunchSpec) -> str | None:
        if not spec.command:
            return "no command is given"
        if not Path(spec.cwd).is_dir():
            return f"the working directory {spec.cwd} does not exist"
        if not os.access(spec.cwd, os.X_OK):
            return f"the working directory {spec.cwd} may not be entered"
        program = spec.command[0]
        return programs.why_not(spec, program) if programs.resolve(spec, program) is None else None

    def command(self, spec: LaunchSpec, port: int, saves: str | None = None) -> Command:
        """Return the command line with `port` and the other placeholders filled in. No shell sees it."""
        values = {"port": str(port), "model": spec.model}
        if spec.weights is not None:
            values["weights"] = spec.weights
        argv = [placeholders.fill(word, values) for word in (*spec.command, *spec.args)]
        argv[0] = programs.resolve(spec, argv[0]) or argv[0]
        env = {name: placeholders.fill(value, values) for name, value in spec.env}
        return Command(tuple(argv), spec.cwd, env)

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """Ask the health address once. What a real call would be is not known for any program there is."""
        return await ask_health(base_url, spec.health_path, client, self.api_key(spec))

    async def prove(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """Ask the health address, then make a call of the usual form for its role, which it need not understand."""
        health = await self.probe(spec, base_url, client)
        call = OPENAI_CALLS.get(spec.role)
        if health.readiness is not Readiness.READY or call is None:
            return health
        return await understood(call, spec.model, base_url, client, self.api_key(spec))

    def api_key(self, spec: LaunchSpec) -> str | None:
        """Return what `--api-key`, or a variable that known servers read, states; it inherits all of ours."""
        return api_key.of(spec)

    def serves(self, spec: LaunchSpec) -> frozenset[str] | None:
        """Return None: any program may be behind it."""
        return None

    def explain(self, log_tail: str, exit_status: int | None) -> str | None:
        """Return what the exit status alone says."""
        return explain_exit(exit_status)


ENGINE = CommandEngine()
