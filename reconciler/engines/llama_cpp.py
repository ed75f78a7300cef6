"""The engine `llama.cpp`: a `llama-server` of the user's, or the server embedded in the extra `llama`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread
import httpx

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Said
from reconciler.core.types import Preflight, Reason
from reconciler.engines import (
    devices,
    llama_build,
    llama_errors,
    llama_estimate,
    llama_key,
    llama_log,
    llama_notes,
    llama_problems,
    llama_routes,
    llama_server,
    llama_settings,
    placeholders,
    programs,
)
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Command, Finding, Probe, Readiness, Saver
from reconciler.engines.health import ask_health
from reconciler.engines.llama_args import RefusedError, SettingsError, locks, read_settings
from reconciler.engines.llama_flags import FlagError, verify
from reconciler.engines.llama_probe import call_once
from reconciler.engines.llama_state import LlamaSaver
from reconciler.memory.gguf import Weights, WeightsError, find_weights

_NO_SERVER: Final = (
    "there is no llama.cpp server: install one of `pip install 'reconciler[llama]'` (embedded) "
    "or llama.cpp's `llama-server` on PATH, or name its path as `command:`"
)


def _hint(missing: str, instead: str = "") -> str:
    """Return what is missing for a size, and what to write; one sentence."""
    return f"{missing}: give {f'{instead}, or ' if instead else ''}memory.steady"


#: What we inherit of these would decide the server's memory, known neither to the estimate nor to the digest.
#: A key of the user's for some server must not become one that this server asks for.
_NOT_INHERITED: Final = ("GGML_", "LLAMA_ARG_", "LLAMA_API_KEY")


class LlamaCpp(Adapter):
    """Serves one GGUF file."""

    name = "llama.cpp"
    roles = llama_settings.ROLES
    torch = False
    checked = (llama_notes.CHECKED,)

    def check(self, spec: LaunchSpec) -> tuple[Finding, ...]:
        """Return what is wrong with the settings themselves; reads no file."""
        return llama_settings.check(spec)

    def preflight(self, spec: LaunchSpec) -> Preflight:
        """Say whether server and weights are there and how many bytes it takes once loaded. Reads files."""
        spec = placeholders.filled(spec, 0)
        if problem := self._problem(spec):
            return Preflight(spec.model, Reason.NOT_STARTABLE, problem)
        return self.sized(spec)

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return what the files say of the size, whether or not its server is installed here. Reads files."""
        spec = placeholders.filled(spec, 0)
        if spec.weights is None:
            return Preflight(spec.model, Reason.NOT_STARTABLE, "no weights are given")
        try:
            weights = find_weights(Path(spec.weights))
        except WeightsError as error:
            return Preflight(spec.model, Reason.NOT_STARTABLE, str(error))
        return self._sized(spec, weights)

    def _sized(self, spec: LaunchSpec, weights: Weights) -> Preflight:
        """Return the preflight of a launch that can be started: its size, or what is missing for one."""
        server = llama_server.find(spec)
        embedded = server is not None and server.embedded
        build = llama_build.build(spec, server.argv if server else (), embedded=embedded)
        try:
            settings = read_settings(spec, spec.args, embedded=embedded)
            if problem := llama_problems.why_not(spec, settings, weights, embedded=embedded):
                return Preflight(spec.model, Reason.NOT_STARTABLE, problem, build=build)
            sized = llama_estimate.size(spec, settings, weights, llama_build.place(settings, new=embedded))
        except (RefusedError, WeightsError) as error:
            return Preflight(spec.model, Reason.NOT_STARTABLE, str(error), build=build)
        except SettingsError as error:
            return Preflight(spec.model, message=_hint(str(error)), build=build)
        return Preflight(
            spec.model,
            message=_hint(sized.missing, sized.instead) if sized.missing else "",
            steady=sized.estimate.steady,
            peak=sized.estimate.peak,
            parts=sized.estimate,
            files=sized.files,
            context_tokens=settings.tokens,
            build=build,
            notes=tuple(llama_notes.notes(spec.role, weights.header, server)),
        )

    def _problem(self, spec: LaunchSpec) -> str | None:
        if not Path(spec.cwd).is_dir():
            return f"the working directory {spec.cwd} does not exist"
        server = llama_server.find(spec)
        if server is None:
            return programs.why_not(spec, spec.command[0]) if spec.command else _NO_SERVER
        if server.embedded:
            try:
                verify(spec.args)
            except FlagError as error:
                return f"the embedded llama.cpp server does not take these args: {error}"
        return None

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

    def saver(self, spec: LaunchSpec) -> Saver | None:
        """Return how the slots are kept over an unload; a server has to be started for it."""
        return LlamaSaver() if spec.saves_state else None


ENGINE = LlamaCpp()
