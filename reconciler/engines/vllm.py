"""The engine `vllm`: vLLM's HTTP server. Its pool of keys and values has the size the context needs, never a share."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import anyio.to_thread
import httpx

from reconciler.core.launch import LaunchSpec, Role, Sleep
from reconciler.core.memory import Said
from reconciler.core.types import Preflight, Reason
from reconciler.engines import adapter_checks, arguments, formats, refusals, vllm_log, weights
from reconciler.engines.adapter import OFFLINE, OPENAI_ROUTES, Adapter
from reconciler.engines.base import EngineError, Finding, Server, Sleeper
from reconciler.engines.requests import post
from reconciler.engines.vllm_sleep import VllmSleeper
from reconciler.memory.hf import Runtime

_POOL_FLAG: Final = "--kv-cache-memory-bytes"
_MIB: Final = 1 << 20
#: Its server, its engine and one worker are processes of their own: 1440 MiB with a model of 2 MB.
_PROCESSES: Final = 1400 * _MIB
_FP8: Final = ("fp8", "fp8_e4m3", "fp8_e5m2")
_CACHE_TYPES: Final = ("f16", "bfloat16", *_FP8)
#: Roles whose models give a result for the whole input, not one token after the other.
_POOLING: Final = (Role.EMBEDDING, Role.RERANK, Role.CLASSIFY)
_GENERATION: Final = frozenset(
    {
        *("/v1/chat/completions", "/v1/completions", "/v1/responses"),
        *("/v1/messages", "/v1/messages/count_tokens", "/tokenize", "/detokenize"),
    }
)
#: Tokens that a draft model guesses at once.
_GUESSES: Final = 5
#: What of a chat counts beside its messages.
_CHAT_PARTS: Final = ("tools", "chat_template_kwargs", "chat_template", "add_generation_prompt")


class Vllm(Adapter):
    """Serves one folder of Hugging Face weights."""

    name = "vllm"
    roles = frozenset({Role.CHAT, Role.COMPLETION, Role.VISION, Role.ASR, *_POOLING})
    script = "vllm"
    distribution = "vllm"
    checked = ("0.32",)
    #: Its port is closed until it is ready: this is what it answers once its engine has died.
    fatal = frozenset({503})
    install = "pip install vllm (with `python:` naming the environment, or on PATH)"
    routes: Mapping[Role, frozenset[str]] = {
        **OPENAI_ROUTES,
        **dict.fromkeys((Role.CHAT, Role.VISION, Role.COMPLETION), _GENERATION),
        Role.CLASSIFY: frozenset({"/classify"}),
    }
    uses = refusals.PACKAGE | refusals.CONTEXT | {"adapters", "draft"}
    owned: Mapping[str, str] = {
        "--model": "weights",
        "--model-tag": "weights",
        "--config": "its file could set what reconcile sets: give its settings one by one as `args`",
        "--task": "role",
        "--runner": "role",
        "--enable-lora": "adapters",
        "--lora-modules": "adapters",
        "--speculative-config": "draft",
        "-sc": "draft",
        **dict.fromkeys(("--api-server-count", "-asc", "--headless", "--grpc", "--root-path", "--uds"), ""),
        **dict.fromkeys(("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs"), ""),
        "--host": "",
        "--port": "port",
        "--served-model-name": "aliases",
        "--max-model-len": "context.max_tokens",
        "--max-num-seqs": "context.slots",
        "--kv-cache-dtype": "context.cache_type",
        # A share of the whole machine's memory, whoever uses it.
        "--gpu-memory-utilization": "context.max_tokens",
        "--device-memory-utilization": "context.max_tokens",
        "--enable-sleep-mode": "sleep",
    }
    owned_variables: Mapping[str, str] = {"VLLM_PORT": "vLLM takes it for a port of its own: leave it out"}
    sizes: Mapping[str, Mapping[str, int]] = {_POOL_FLAG: arguments.BINARY}
    #: What moves weights or caches elsewhere, adds some, or spreads them over devices and processes.
    sizing = frozenset(
        {
            *("--cpu-offload-gb", "--cpu-offload-params", "--offload-backend", "--offload-group-size"),
            *("--offload-num-in-group", "--offload-params", "--offload-prefetch-step", "--swap-space"),
            *("--kv-offloading-size", "--kv-offloading-backend", "--kv-transfer-config"),
            *("--kv-cache-dtype-skip-layers", "--num-gpu-blocks-override", "--mm-processor-cache-gb"),
            *(
                "--tensor-parallel-size",
                "-tp",
                "--pipeline-parallel-size",
                "-pp",
                "--data-parallel-size",
                "-dp",
            ),
            *("--data-parallel-size-local", "-dpl", "--enable-expert-parallel", "-ep"),
            *("--quantization", "-q", "--dtype", "--hf-overrides", "--compilation-config", "-cc", "-O"),
            *("--max-num-batched-tokens", "--max-cudagraph-capture-size"),
            *("--max-loras", "--max-lora-rank", "--max-cpu-loras"),
        }
    )
    sizing_variables = ("VLLM_CPU_KVCACHE_SPACE",)
    key_variables = ("VLLM_API_KEY",)
    not_inherited = ("VLLM_",)
    known_failures = vllm_log.KNOWN

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield what vLLM cannot do."""
        yield from adapter_checks.one_adapter(spec, self.name)
        yield from adapter_checks.cache_type(spec, self.name, _CACHE_TYPES)

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return what follows the program. Reads the weights' header for the size of the pool."""
        words = ["serve", spec.weights or "", "--host", "127.0.0.1", "--port", str(port)]
        words += ["--served-model-name", _base_name(spec)]
        words += ["--runner", "pooling" if spec.role in _POOLING else "generate"]
        if spec.role not in _POOLING:
            words += ["--max-num-seqs", str(spec.slots)]
        if spec.context_tokens is not None:
            words += ["--max-model-len", str(spec.context_tokens)]
        if spec.cache_type != "f16":
            words += ["--kv-cache-dtype", spec.cache_type]
        if (pool := _pool(spec)) is not None:
            words += [_POOL_FLAG, str(pool)]
        for adapter in spec.adapters:
            words += ["--enable-lora", "--lora-modules", f"{spec.model}={adapter.path}"]
        if spec.draft is not None:
            draft = {"method": "draft_model", "model": spec.draft, "num_speculative_tokens": _GUESSES}
            words += ["--speculative-config", json.dumps(draft)]
        return [*words, "--enable-sleep-mode"] if spec.sleep is not Sleep.OFF else words

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the variables; the addresses for sleep are there in development mode only."""
        # On CPUs it would take all cores for itself, whatever OMP_NUM_THREADS says.
        own = {**OFFLINE, "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        return own if spec.sleep is Sleep.OFF else {**own, "VLLM_SERVER_DEV_MODE": "1"}

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return the size with the pool it is given; without one vLLM would take most of the machine: refused."""
        on_cpu: Runtime | None = "transformers" if spec.device.gpus == () else None
        found = weights.hugging_face(spec, "vllm", element=_element(spec), loading=on_cpu)
        if found.reason is not None:
            return found
        pool = _pool(spec)
        if pool is None:
            what = "how much its context takes is not known, and vLLM would take a share of the whole machine"
            hint = f"give context.bytes_per_token, or args: [{_POOL_FLAG}, 4G]"
            return replace(found, reason=Reason.NOT_STARTABLE, message=f"{what}: {hint}")
        if found.parts is None:
            return found
        # A driver's context is in the estimate, and there is none on a CPU.
        overhead = _PROCESSES + (0 if on_cpu else found.parts.overhead)
        parts = replace(found.parts, context=pool, overhead=overhead)
        return replace(found, steady=parts.steady, peak=parts.peak, parts=parts)

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why it is no language model, where it should be one."""
        return formats.no_language(spec)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the model's name: it answers 404 to any other."""
        return spec.model

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return one more than it computes side by side; what it pools it batches as it likes."""
        return None if spec.role in _POOLING else spec.slots + 1

    async def count_tokens(
        self,
        spec: LaunchSpec,
        base_url: str,
        path: str,
        body: Mapping[str, object],
        client: httpx.AsyncClient,
    ) -> int | None:
        """Return the prompt tokens as the server counts them, its chat template included."""
        asked: dict[str, object] = {"model": self.upstream_model(spec)}
        if path == "/v1/chat/completions":
            asked |= {"messages": body.get("messages"), **{k: body[k] for k in _CHAT_PARTS if k in body}}
        elif path == "/v1/completions" and isinstance(body.get("prompt"), str):
            asked["prompt"] = body["prompt"]
        else:
            return None
        key = await anyio.to_thread.run_sync(self.api_key, spec)
        try:
            answer = await post(Server(spec, base_url, client, key), "/tokenize", asked)
        except EngineError:
            return None
        count = answer.get("count") if isinstance(answer, dict) else None
        return count if isinstance(count, int) else None

    def said(self, log: str) -> Said | None:
        """Return what it says of its weights and of its pool."""
        return vllm_log.said(log)

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """Return its sleep mode. On CPUs it says that it sleeps, and frees nothing."""
        return VllmSleeper()


def _base_name(spec: LaunchSpec) -> str:
    """Return what the weights are called: with an adapter the model's name means both together."""
    return f"{spec.model}-base" if spec.adapters else spec.model


def _element(spec: LaunchSpec) -> float | None:
    return 1.0 if spec.cache_type in _FP8 else None


def _pool(spec: LaunchSpec) -> int | None:
    """Return the bytes for keys and values: as `args` say, else what all slots need, in whole MiB; None = unknown."""
    stated = arguments.value(spec.args, _POOL_FLAG)
    if stated is not None:
        return arguments.size(stated, arguments.BINARY)
    needed = weights.context_bytes(spec, "vllm", element=_element(spec))
    return None if needed is None else -(-needed // _MIB) * _MIB


ENGINE = Vllm()
