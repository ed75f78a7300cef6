"""The engine `infinity`: infinity-emb, for embeddings, ranks and classes with PyTorch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight
from reconciler.engines import failures, formats, refusals, weights
from reconciler.engines.adapter import OFFLINE, Adapter
from reconciler.engines.proof import OPENAI_CALLS, Call

#: Texts it computes at once.
_BATCH: Final = 32


class Infinity(Adapter):
    """Serves one folder of Hugging Face weights."""

    name = "infinity"
    torch = True
    roles = frozenset({Role.EMBEDDING, Role.RERANK, Role.CLASSIFY})
    script = "infinity_emb"
    distribution = "infinity-emb"
    checked = ("0.0.78",)
    install = "pip install 'infinity-emb[server,torch]' (with `python:` naming the environment, or on PATH)"
    calls: Mapping[Role, Call] = {
        Role.EMBEDDING: OPENAI_CALLS[Role.EMBEDDING],
        Role.RERANK: OPENAI_CALLS[Role.RERANK],
        Role.CLASSIFY: Call("/v1/classify", {"model": "${model}", "input": ["a"]}),
    }
    routes: Mapping[Role, frozenset[str]] = {
        Role.EMBEDDING: frozenset({"/v1/embeddings"}),
        Role.RERANK: frozenset({"/v1/rerank"}),
        Role.CLASSIFY: frozenset({"/v1/classify"}),
    }
    abbreviates = False
    uses = refusals.PACKAGE | {"context.bytes_per_token", "context.max_tokens"}
    owned: Mapping[str, str] = {
        **dict.fromkeys(("--preload-only", "--proxy-root-path"), ""),
        "--model-id": "weights",
        "--served-model-name": "aliases",
        "--host": "",
        "--port": "port",
        "--url-prefix": "",
        "--device": "device.gpus",
        "--device-id": "device.gpus",
    }
    sizing = frozenset(
        {
            *("--batch-size", "--bettertransformer", "--compile", "--dtype", "--embedding-dtype", "--engine"),
        }
    )
    key_variables = ("INFINITY_API_KEY",)
    not_inherited = ("INFINITY_",)
    known_failures = failures.known(
        (
            r"BetterTransformer[^\n]*(?:requires|not supported|ImportError)[^\n]*",
            "its fast path does not fit the installed transformers: args: [--no-bettertransformer]",
            failures.BAD_ARGUMENT,
        ),
        (
            r"trust_remote_code=True",
            "this model brings its own code: args: [--trust-remote-code], if you trust it",
            failures.BAD_ARGUMENT,
        ),
    )

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return what follows the program. Nothing is compiled, and code that comes with weights is not run."""
        words = ["v2", "--model-id", spec.weights or "", "--served-model-name", spec.model]
        words += [
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--url-prefix",
            "/v1",
            "--batch-size",
            str(_BATCH),
        ]
        words += ["--engine", "torch", "--device", "cpu" if spec.device.gpus == () else "auto"]
        return [
            *words,
            "--no-trust-remote-code",
            "--no-compile",
            "--no-bettertransformer",
            "--no-vector-disk-cache",
        ]

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return the variables."""
        return {**OFFLINE, "INFINITY_ANONYMOUS_USAGE_STATS": "0"}

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return the size. It loads weights of 16 bits in 32, and on CPUs leaves them so."""
        found = weights.hugging_face(spec, "transformers")
        if found.parts is None or found.parts.weights is None or not weights.half(spec):
            return found
        size = found.parts.weights
        parts = replace(found.parts, loading=found.parts.loading + size)
        if spec.device.gpus == ():
            parts = replace(parts, weights=2 * size)
        return replace(found, steady=parts.steady, peak=parts.peak, parts=parts)

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why it gives no scores, where it should."""
        return formats.no_scores(spec)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the name it was given: it answers 400 to any other."""
        return spec.model


ENGINE = Infinity()
