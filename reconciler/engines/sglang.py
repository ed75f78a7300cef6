"""The engine `sglang`: SGLang's HTTP server. Its pool holds the tokens that the context needs, counted exactly."""

from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.core.launch import LaunchSpec, Role, Sleep
from reconciler.core.types import Preflight
from reconciler.engines import adapter_checks, failures, formats, refusals, weights
from reconciler.engines.adapter import OFFLINE, OPENAI_ROUTES, Adapter
from reconciler.engines.base import Finding, Server, Sleeper
from reconciler.engines.requests import post

_FP8: Final = ("fp8_e4m3", "fp8_e5m2")
_CACHE_TYPES: Final = ("f16", "bf16", *_FP8)
_POOLING: Final = (Role.EMBEDDING, Role.RERANK, Role.CLASSIFY)
_GENERATION: Final = frozenset(
    {
        *("/v1/chat/completions", "/v1/completions", "/v1/responses"),
        *("/v1/messages", "/v1/messages/count_tokens", "/v1/tokenize", "/v1/detokenize"),
    }
)
#: What its adapter is called beside the weights.
_ADAPTER: Final = "adapter"


class _SglangSleeper(Sleeper):
    """Light: a copy of the weights stays in host memory. Deep: they are read from disk again."""

    async def sleep(self, server: Server) -> None:
        """Have the pool, the weights and the graphs given back. Raises EngineError."""
        await post(server, "/release_memory_occupation")

    async def wake(self, server: Server) -> None:
        """Have it take its memory again. Raises EngineError."""
        await post(server, "/resume_memory_occupation")
        if server.spec.sleep is Sleep.DEEP:
            # Without a copy the weights come back as whatever was in that memory.
            await post(server, "/update_weights_from_disk", {"model_path": server.spec.weights})


class Sglang(Adapter):
    """Serves one folder of Hugging Face weights."""

    name = "sglang"
    roles = frozenset({Role.CHAT, Role.COMPLETION, Role.VISION, *_POOLING})
    script = "sglang"
    distribution = "sglang"
    checked = ("0.5",)
    install = "pip install sglang (with `python:` naming the environment, or on PATH)"
    routes: Mapping[Role, frozenset[str]] = {
        **OPENAI_ROUTES,
        **dict.fromkeys((Role.CHAT, Role.VISION, Role.COMPLETION), _GENERATION),
        Role.CLASSIFY: frozenset({"/v1/classify"}),
    }
    uses = refusals.PACKAGE | refusals.CONTEXT | {"adapters", "draft"}
    owned: Mapping[str, str] = {
        "--config": "its file could set what reconcile sets: give its settings one by one as `args`",
        "--device": "device.gpus",
        "--base-gpu-id": "device.gpus",
        "--enable-lora": "adapters",
        **dict.fromkeys(("--grpc-mode", "--smg-grpc-mode", "--fastapi-root-path", "--uds"), ""),
        **dict.fromkeys(("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs"), ""),
        "--model-path": "weights",
        "--model": "weights",
        "--host": "",
        "--port": "port",
        "--served-model-name": "aliases",
        "--context-length": "context.max_tokens",
        "--max-total-tokens": "context.max_tokens",
        "--max-running-requests": "context.slots",
        "--kv-cache-dtype": "context.cache_type",
        "--lora-paths": "adapters",
        "--speculative-draft-model-path": "draft",
        "--speculative-draft-model": "draft",
        "--enable-memory-saver": "sleep",
        "--enable-weights-cpu-backup": "sleep",
        "--is-embedding": "role",
    }
    #: Not `--mem-fraction-static`: it bounds a pool whose tokens are counted, and can only make it smaller.
    sizing = frozenset(
        {
            *("--enable-hierarchical-cache", "--hicache-ratio", "--hicache-size", "--cpu-offload-gb"),
            *("--tp", "--tp-size", "--tensor-parallel-size", "--pp", "--pp-size", "--pipeline-parallel-size"),
            *("--dp", "--dp-size", "--data-parallel-size", "--ep", "--ep-size", "--expert-parallel-size"),
            *("--quantization", "--dtype", "--json-model-override-args", "--swa-full-tokens-ratio"),
            *("--chunked-prefill-size", "--max-prefill-tokens", "--cuda-graph-max-bs", "--cuda-graph-bs"),
            *("--max-loras-per-batch", "--max-lora-rank", "--tokenizer-worker-num", "--enable-torch-compile"),
            "--speculative-algorithm",
        }
    )
    not_inherited = ("SGLANG_", "SGL_")
    known_failures = failures.known(
        (
            r"Not enough memory\. Please try to increase --mem-fraction-static",
            "its share of the free memory holds no pool: give args: [--mem-fraction-static, '0.95'], or evict others",
            failures.OUT_OF_MEMORY,
        ),
        (
            r"[Mm]odel architectures \[([^\]]*)\] are not supported|Unsupported architectures: ([^\n]*)",
            "it does not know the architecture {0}: a newer version may",
            failures.BAD_FILE,
        ),
        (
            r"Context length[^\n]*exceeds|longer than the derived context length",
            "context.max_tokens is more than the model can take",
            failures.BAD_ARGUMENT,
        ),
    )

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield what SGLang cannot do."""
        yield from adapter_checks.one_adapter(spec, self.name)
        yield from adapter_checks.cache_type(spec, self.name, _CACHE_TYPES)

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return what follows the program. Reads config.json for the tokens of the pool."""
        words = ["serve", "--model-path", spec.weights or "", "--host", "127.0.0.1", "--port", str(port)]
        words += ["--served-model-name", spec.model]
        if spec.role in _POOLING:
            words += ["--is-embedding"]
        else:
            words += ["--max-running-requests", str(spec.slots)]
        if spec.context_tokens is not None:
            words += ["--context-length", str(spec.context_tokens)]
        if (tokens := weights.max_tokens(spec)) is not None:
            words += ["--max-total-tokens", str(tokens * spec.slots)]
        if spec.cache_type != "f16":
            words += ["--kv-cache-dtype", spec.cache_type]
        for adapter in spec.adapters:
            words += ["--lora-paths", f"{_ADAPTER}={adapter.path}"]
        if spec.draft is not None:
            words += ["--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", spec.draft]
        if spec.device.gpus == ():
            words += ["--device", "cpu"]
        if spec.sleep is not Sleep.OFF:
            words += ["--enable-memory-saver"]
        return [*words, "--enable-weights-cpu-backup"] if spec.sleep is Sleep.LIGHT else words

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the variables; its health address would make a token each time it is asked."""
        return {**OFFLINE, "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return the size; layers with a window have room for the whole context too."""
        element = 1.0 if spec.cache_type in _FP8 else None
        return weights.hugging_face(spec, "vllm", element=element, loading="transformers", windows=False)

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why it is no language model, where it should be one."""
        return formats.no_language(spec)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the model's name, with its adapter's behind it."""
        return f"{spec.model}:{_ADAPTER}" if spec.adapters else spec.model

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return one more than it computes side by side; what it pools it batches as it likes."""
        return None if spec.role in _POOLING else spec.slots + 1

    def sleeper(self, spec: LaunchSpec) -> Sleeper | None:
        """Return its memory saver."""
        return _SglangSleeper()


ENGINE = Sglang()
