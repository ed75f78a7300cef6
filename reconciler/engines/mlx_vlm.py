"""The engine `mlx-vlm`: mlx-vlm's HTTP server, for models that see, hear, speak or draw on Apple silicon."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight
from reconciler.engines import adapter_checks, formats, mlx, refusals, weights
from reconciler.engines.adapter import OPENAI_ROUTES, Adapter
from reconciler.engines.base import Finding

#: What a model is for -> the flag it is loaded by.
_FLAGS: Final = {
    Role.CHAT: "--model",
    Role.VISION: "--model",
    Role.EMBEDDING: "--embedding-model",
    Role.RERANK: "--reranker-model",
    Role.ASR: "--stt-model",
    Role.TTS: "--tts-model",
    Role.IMAGE: "--image-model",
}
_GENERATION: Final = frozenset(
    {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"}
)
_QUANTISED: Final = (
    *("--kv-bits", "--kv-key-bits", "--kv-value-bits", "--kv-key-scheme", "--kv-value-scheme"),
    *("--kv-quant-scheme", "--quantized-kv-start"),
)
#: Beginnings of the variables that its flags become.
_VARIABLES: Final = (
    *("APC_", "EXPERT_CACHE_GB", "KV_", "MAX_KV_SIZE", "PREFILL_STEP_SIZE"),
    *("QUANTIZED_KV_START", "TOP_LOGPROBS_K"),
)
_LANGUAGE: Final = (Role.CHAT, Role.VISION)


class MlxVlm(Adapter):
    """Serves one folder of weights, by its role."""

    name = "mlx-vlm"
    torch = False
    roles = frozenset(_FLAGS)
    script = "mlx_vlm.server"
    withheld = frozenset({"adapter_path"})
    swaps = True
    distribution = "mlx-vlm"
    checked = ("0.7",)
    install = "pip install mlx-vlm (with `python:` naming the environment, or on PATH)"
    routes: Mapping[Role, frozenset[str]] = {
        **OPENAI_ROUTES,
        Role.CHAT: _GENERATION,
        Role.VISION: _GENERATION,
        Role.IMAGE: frozenset({"/v1/images/generations", "/v1/images/edits"}),
    }
    uses = refusals.PACKAGE | refusals.CONTEXT | {"adapters", "draft"}
    owned: Mapping[str, str] = {
        **dict.fromkeys(sorted({*_FLAGS.values(), "--decision-model", "--model-dir"}), "weights"),
        **dict.fromkeys(_QUANTISED, "context.cache_type"),
        "--reload": "",
        "--host": "",
        "--port": "port",
        "--adapter-path": "adapters",
        "--draft-model": "draft",
        "--max-kv-size": "context.max_tokens",
        "--max-num-seqs": "context.slots",
    }
    sizing = frozenset(
        {
            *("--expert-cache-gb", "--kv-group-size", "--max-pixels", "--prefill-step-size"),
            *("--draft-block-size", "--top-logprobs-k", "--vision-cache-size"),
        }
    )
    sizing_variables = _VARIABLES
    key_variables = ("MLX_VLM_SERVER_API_KEY",)
    #: Its flags become these, and those that are not given are taken from what is there.
    not_inherited = (*_VARIABLES, "MLX_")
    known_failures = mlx.KNOWN

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield what mlx-vlm cannot do."""
        yield from adapter_checks.cache_type(spec, self.name, mlx.CACHE_TYPES)
        yield from adapter_checks.one_adapter(spec, self.name)
        if spec.role not in _LANGUAGE:
            keys = refusals.CONTEXT - {"context.max_tokens"} | {"adapters", "draft"}
            yield from refusals.unused(spec, f"{self.name} as {spec.role.value} server", keys)

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the flags; its own default is to listen on every address."""
        words = ["--host", "127.0.0.1", "--port", str(port)]
        words += [_FLAGS.get(spec.role, "--model"), spec.weights or ""]
        if spec.role not in _LANGUAGE:
            return words
        words += ["--max-num-seqs", str(spec.slots)]
        if spec.context_tokens is not None:
            words += ["--max-kv-size", str(spec.context_tokens)]
        for adapter in spec.adapters:
            words += ["--adapter-path", adapter.path]
        if spec.draft is not None:
            words += ["--draft-model", spec.draft]
        if bits := mlx.BITS.get(spec.cache_type):
            words += ["--kv-bits", bits[0], "--kv-quant-scheme", "uniform", "--quantized-kv-start", "0"]
        return words

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return the size of a language model; of others only the weights are known."""
        if spec.role in _LANGUAGE:
            return weights.hugging_face(spec, "mlx", element=mlx.element(spec))
        return weights.look_at(spec)

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why MLX cannot read them; those of a language model are looked at for its size."""
        return None if spec.role in _LANGUAGE else formats.not_for_mlx(Path(spec.weights or ""))

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the path it has loaded: of any other name it would load that model in place of ours."""
        return spec.weights

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return one more than it computes side by side; other models than those for language queue by themselves."""
        return 1 + spec.slots if spec.role in _LANGUAGE else None


ENGINE = MlxVlm()
