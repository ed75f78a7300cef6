"""The engine `llama.cpp`: a `llama-server` of the user's, or the server embedded in the extra `llama`."""

from collections.abc import Mapping
from typing import Final

import anyio.to_thread
import httpx

from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Said
from reconciler.core.types import Preflight, Reason
from reconciler.engines import devices, placeholders, refusals
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Command, Finding, Probe, Readiness, Saver
from reconciler.engines.health import ask_health
from reconciler.engines.llama import errors as llama_errors
from reconciler.engines.llama import key as llama_key
from reconciler.engines.llama import log as llama_log
from reconciler.engines.llama import notes as llama_notes
from reconciler.engines.llama import preflight as llama_preflight
from reconciler.engines.llama import routes as llama_routes
from reconciler.engines.llama import server as llama_server
from reconciler.engines.llama import settings as llama_settings
from reconciler.engines.llama.args import locks
from reconciler.engines.llama.probe import call_once
from reconciler.engines.llama.state import LlamaSaver

#: What we inherit of these would decide the server's memory, known neither to the estimate nor to the digest.
#: A key of the user's for some server must not become one that this server asks for.
_NOT_INHERITED: Final = ("GGML_", "LLAMA_ARG_", "LLAMA_API_KEY")


class LlamaCpp(Adapter):
    """Serves one GGUF file."""

    name = "llama.cpp"
    roles = llama_settings.ROLES
    #: Checked in a place of its own, `llama/settings.py`.
    uses = refusals.CHOSEN - {"batch", "entry", "python"}
    torch = False
    checked = (llama_notes.CHECKED,)

    def check(self, spec: LaunchSpec) -> tuple[Finding, ...]:
        """Return what is wrong with the settings themselves; reads no file."""
        return llama_settings.check(spec)

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return the user's server, or else the embedded one; None = neither is there."""
        server = llama_server.find(placeholders.filled(spec, spec.port or 0))
        return None if server is None else server.argv

    def preflight(self, spec: LaunchSpec) -> Preflight:
        """Say whether server and weights are there and how many bytes it takes once loaded. Reads files."""
        spec = placeholders.filled(spec, 0)
        found = self.sized(spec)
        wrong = found.message if found.reason is Reason.NOT_STARTABLE else None
        if problems := [text for text in (llama_preflight.problem(spec), wrong) if text]:
            return Preflight(spec.model, Reason.NOT_STARTABLE, ". ".join(dict.fromkeys(problems)))
        return found

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return what the files say of the size, whether or not its server is installed here. Reads files."""
        return llama_preflight.sized(placeholders.filled(spec, 0))

    def command(self, spec: LaunchSpec, port: int, saves: str | None = None) -> Command:
        """Return the server's command line. Of a setting given twice, the manifest's `args` and `env` rule."""
        spec = placeholders.filled(spec, port)
        server = llama_server.find(spec) or llama_server.Program(
            spec.command or ("llama-server",), embedded=False
        )
        argv = [*server.argv, *llama_settings.flags(spec, port)]
        own = dict(spec.env)
        # Together or not at all: a policy of the user's means nothing beside our count.
        env = {} if own.keys() & llama_settings.COMMON_ENV.keys() else dict(llama_settings.COMMON_ENV)
        if server.embedded:
            argv += llama_settings.optional_flags(spec)
        else:
            env |= llama_settings.optional_env(spec)
        if saves is not None:
            # The slash at the end: older builds put folder and name together as they are.
            argv += ["--slot-save-path", f"{saves.rstrip('/')}/"]
        return Command(
            (*argv, *spec.args),
            spec.cwd,
            {**devices.gpu_variables(spec), **env, **own},
            without=_NOT_INHERITED,
            cpus=spec.device.cpus,
            nice=spec.device.nice,
            locks=locks(spec, embedded=server.embedded),
        )

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        """Ask the health address; once it says yes, let the model do one token's work."""
        key = await anyio.to_thread.run_sync(self.api_key, spec)
        health = await ask_health(base_url, "/health", client, key)
        if health.readiness is not Readiness.READY:
            return health
        return await call_once(spec.role, base_url, client, key)

    def version(self, spec: LaunchSpec) -> str | None:
        """Return the version of the embedded server, or of a package that brought the user's; None = nothing tells."""
        spec = placeholders.filled(spec, spec.port or 0)
        server = llama_server.find(spec)
        return None if server is None else llama_server.version(spec, server)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return None: the server serves one model and ignores the name."""
        return None

    def api_key(self, spec: LaunchSpec) -> str | None:
        """Return the first of the keys that `--api-key`, `LLAMA_API_KEY` or `--api-key-file` state."""
        return llama_key.key_of(placeholders.filled(spec, spec.port or 0))

    def serves(self, spec: LaunchSpec) -> frozenset[str] | None:
        """Return the paths that answer for the model's role: llama.cpp starts in one mode or another."""
        return llama_routes.serves(spec)

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return one more than the slots, so that none is idle between two requests; embeddings are batched."""
        return None if spec.role in (Role.EMBEDDING, Role.RERANK) else spec.slots + 1

    async def count_tokens(
        self,
        spec: LaunchSpec,
        base_url: str,
        path: str,
        body: Mapping[str, object],
        client: httpx.AsyncClient,
    ) -> int | None:
        """Return the prompt tokens as the running server counts them, its chat template included."""
        key = await anyio.to_thread.run_sync(self.api_key, spec)
        return await llama_routes.count_tokens(base_url, path, body, client, key)

    def said(self, log: str) -> Said | None:
        """Return what the buffers of the last start in the log add up to, or None if there are none."""
        return llama_log.said(log)

    def explain(self, log_tail: str, exit_status: int | None) -> str | None:
        """Return the known failure the log or the exit status tells of."""
        return llama_errors.explain(log_tail, exit_status)

    def failure_kind(self, log_tail: str) -> FailureKind | None:
        """Return what kind of failure the log tells of."""
        return llama_errors.kind(log_tail)

    def saver(self, spec: LaunchSpec) -> Saver | None:
        """Return how the slots are kept over an unload; a server has to be started for it."""
        return LlamaSaver() if spec.saves_state else None


ENGINE = LlamaCpp()
