"""The engine `ollama`: an `ollama serve` of its own for one model of Ollama's folder."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import anyio

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.memory import Said
from reconciler.core.types import Preflight
from reconciler.engines import (
    adapter_checks,
    failures,
    ggml_threads,
    ollama_size,
    ollama_store,
    programs,
    requests,
)
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Command, EngineError, Finding, Readiness, Server, Sleeper
from reconciler.engines.llama import log as llama_log
from reconciler.engines.llama import settings as llama_settings
from reconciler.engines.proof import Call, prove

#: Seconds a load may take. Ollama gives a load up when the one who asked for it leaves.
_LOAD: Final = 600.0
_GENERATE: Final = "/api/generate"
_WORD: Final = Call(
    _GENERATE,
    {"model": "${model}", "prompt": "a", "stream": False, "options": {"num_predict": 1}},
    timeout=_LOAD,
)
_CALLS: Final[Mapping[Role, Call]] = {
    Role.CHAT: _WORD,
    Role.COMPLETION: _WORD,
    Role.VISION: _WORD,
    Role.EMBEDDING: Call("/api/embed", {"model": "${model}", "input": "a"}, timeout=_LOAD),
}
_TEXT: Final = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"})
_CACHE_TYPES: Final = ("f16", "q4_0", "q8_0")
_EXAMPLE: Final = '"${env:HOME}/.ollama/models/manifests/registry.ollama.ai/library/gemma3/4b" is gemma3:4b'


class Ollama(Adapter):
    """Serves one model. Ollama's own scheduler is given nothing to decide."""

    name = "ollama"
    swaps = True
    roles = frozenset(_CALLS)
    torch = False
    checked = ("the sources of 2026-08-21",)
    health = "/api/version"
    calls = _CALLS
    routes: Mapping[Role, frozenset[str]] = {
        Role.CHAT: _TEXT,
        Role.COMPLETION: _TEXT,
        Role.VISION: _TEXT,
        Role.EMBEDDING: frozenset({"/v1/embeddings"}),
    }
    uses = frozenset({"command", "context.cache_type", "context.max_tokens", "context.slots"})
    hints: Mapping[str, str] = {
        "adapters": "ADAPTER in its Modelfile",
        "device.threads": "PARAMETER num_thread in its Modelfile",
    }
    owned_variables: Mapping[str, str] = {
        "OLLAMA_CONTEXT_LENGTH": "context.max_tokens",
        "OLLAMA_FLASH_ATTENTION": "context.cache_type",
        "OLLAMA_HOST": "port",
        "OLLAMA_KEEP_ALIVE": "idle_ttl",
        "OLLAMA_KV_CACHE_TYPE": "context.cache_type",
        "OLLAMA_MAX_LOADED_MODELS": "",
        "OLLAMA_MODELS": "weights",
        "OLLAMA_NUM_PARALLEL": "context.slots",
    }
    #: Its runner is a llama-server, which reads these.
    sizing_variables = ("LLAMA_ARG_", "OLLAMA_NEW_ENGINE", "OLLAMA_LLM_LIBRARY")
    not_inherited = ("GGML_", "LLAMA_ARG_", "LLAMA_API_KEY", "OLLAMA_")
    install = "install Ollama so that `ollama` is on PATH, or name its path as `command:`"
    known_failures = failures.known(
        (
            r"model requires more system memory \(([^)\n]*)\)",
            "Ollama says that the model needs {0} of memory, and that there is less",
            failures.OUT_OF_MEMORY,
        ),
        (
            r"(?:unsupported|unknown) model architecture:? '?([\w.-]*)",
            "this Ollama does not know the architecture {0}",
            failures.BAD_FILE,
        ),
        (r"exec format error|llama runner process has terminated[^\n]*", "its runner ended: the lines before say why"),
        (r"mkdir [^\n]*: permission denied|open [^\n]*: permission denied", "it may not use its folder of models"),
        (r"timed out waiting for llama runner", "its runner did not come up in time"),
    )  # fmt: skip

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return `command`, or `ollama` on PATH."""
        return programs.server(spec, self.name)

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the verb: everything else is a variable."""
        return ["serve"]

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the settings. It loads one model and keeps it; the address is in `command`, which knows the port."""
        where = ollama_store.place(spec.weights or "")
        env = {
            **ggml_threads.variables(spec),
            # Its runner is a llama-server, whose caches would grow to gigabytes that no estimate sees.
            "LLAMA_ARG_CACHE_RAM": "0",
            "LLAMA_ARG_CTX_CHECKPOINTS": str(llama_settings.CHECKPOINTS),
            "OLLAMA_KEEP_ALIVE": "-1",
            "OLLAMA_MAX_LOADED_MODELS": "1",
            "OLLAMA_NOPRUNE": "1",
            "OLLAMA_NO_CLOUD": "1",
            "OLLAMA_NUM_PARALLEL": str(spec.slots),
        }
        if where is not None:
            env["OLLAMA_MODELS"] = str(where.folder)
        if spec.context_tokens is not None:
            env["OLLAMA_CONTEXT_LENGTH"] = str(spec.context_tokens)
        if spec.cache_type != "f16":
            env |= {"OLLAMA_FLASH_ATTENTION": "1", "OLLAMA_KV_CACHE_TYPE": spec.cache_type}
        return env

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield weights that are not where Ollama keeps them."""
        if spec.weights is not None and ollama_store.place(spec.weights) is None:
            yield Finding(
                ("weights",), "it is not the file of a model in Ollama's folder of manifests", _EXAMPLE
            )
        if spec.args:
            yield Finding(("args",), "`ollama serve` takes no arguments", "its settings are variables: `env`")
        yield from adapter_checks.cache_type(spec, "Ollama", _CACHE_TYPES)

    def command(self, spec: LaunchSpec, port: int, saves: str | None = None) -> Command:
        """Return the command line; the address is a variable too."""
        command = super().command(spec, port, saves)
        return replace(command, env={"OLLAMA_HOST": f"127.0.0.1:{port}", **command.env})

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return the size of its GGUF file as llama.cpp takes it, which is what Ollama runs. Blocks."""
        return ollama_size.preflight(spec)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the model's name in Ollama."""
        where = ollama_store.place(spec.weights or "")
        return where.tag if where else None

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return one more than it computes side by side."""
        return spec.slots + 1

    def said(self, log: str) -> Said | None:
        """Return what its runner says, whose log is part of its own."""
        return llama_log.said(log)

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """Return the ending of its runner; the server stays."""
        return EndRunner()


class EndRunner(Sleeper):
    """Has the runner ended by `keep_alive: 0`, and loads the model again by a first word."""

    def __init__(self, patience: float = 15.0, pause: float = 0.2) -> None:
        """Wait at most `patience` seconds until it is gone, and look each `pause` seconds."""
        self._patience, self._pause = patience, pause

    async def sleep(self, server: Server) -> None:
        """Have the runner ended, and wait until none is there. Raises EngineError."""
        tag = ENGINE.upstream_model(server.spec)
        await requests.post(server, _GENERATE, {"model": tag, "keep_alive": 0})
        with anyio.move_on_after(self._patience):
            while True:
                if not await self._loaded(server):
                    return
                await anyio.sleep(self._pause)
        raise EngineError(f"it was asked to unload {tag}, and after {self._patience:g} s it had not")

    async def wake(self, server: Server) -> None:
        """Have the model loaded. Raises EngineError."""
        name = ENGINE.upstream_model(server.spec) or server.spec.model
        probe = await prove(_CALLS[server.spec.role], name, server.base_url, server.client, server.key)
        if probe.readiness is not Readiness.READY:
            raise EngineError(f"it does not load {name} again: {probe.detail}")

    async def _loaded(self, server: Server) -> bool:
        answer = await requests.get(server, "/api/ps")
        return bool(isinstance(answer, dict) and answer.get("models"))


ENGINE = Ollama()
