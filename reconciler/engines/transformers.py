"""The engine `transformers`: `transformers serve`, which loads whatever the library knows."""

from collections.abc import Mapping
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight
from reconciler.engines import failures, formats, refusals, weights
from reconciler.engines.adapter import OPENAI_ROUTES, Adapter
from reconciler.engines.proof import OPENAI_CALLS, Call

_GENERATION: Final = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses"})
# The plain completion serves chat models too, and needs no chat template to work.
_COMPLETION: Final = OPENAI_CALLS[Role.COMPLETION]


class Transformers(Adapter):
    """Serves one folder of Hugging Face weights, one request after the other."""

    name = "transformers"
    swaps = True
    torch = True
    roles = frozenset({Role.CHAT, Role.COMPLETION, Role.VISION, Role.ASR})
    script = "transformers"
    distribution = "transformers"
    checked = ("5.24",)
    install = "pip install 'transformers[serving]' accelerate torch (with `python:` naming the environment)"
    calls: Mapping[Role, Call] = {**OPENAI_CALLS, Role.CHAT: _COMPLETION}
    routes: Mapping[Role, frozenset[str]] = {
        **OPENAI_ROUTES,
        **dict.fromkeys((Role.CHAT, Role.COMPLETION), _GENERATION),
        Role.VISION: frozenset({"/v1/chat/completions", "/v1/responses"}),
        Role.ASR: frozenset({"/v1/audio/transcriptions"}),
    }
    #: It serves one request at a time, with a cache of the model's own type.
    abbreviates = False
    uses = refusals.PACKAGE | {"context.bytes_per_token", "context.max_tokens"}
    hints: Mapping[str, str] = {
        "context.slots": "it serves one request at a time: leave it out, or take vllm"
    }
    owned: Mapping[str, str] = {
        "--host": "",
        "--port": "port",
        "--device": "device.gpus",
        "--force-model": "weights",
        "--model-timeout": "idle_ttl",
    }
    sizing = frozenset(
        {
            *("--continuous-batching", "--cb-block-size", "--cb-num-blocks", "--cb-max-batch-tokens"),
            *("--cb-max-memory-percent", "--cb-use-cuda-graph", "--compile", "--decision-config"),
            *("--dtype", "--quantization"),
        }
    )
    not_inherited = ("TRANSFORMERS_",)
    known_failures = failures.known(
        (
            r"Missing dependencies for serving|pip install transformers\[serving\]",
            "its server lacks packages: pip install 'transformers[serving]' accelerate",
            failures.PROGRAM_MISSING,
        ),
        (
            r"Unrecognized model in (\S+?)\. ",
            "config.json in {0} does not say what kind of model it is",
            failures.BAD_FILE,
        ),
        (
            r"Error no file named ([\w., -]+?),? found in directory",
            "the weights are not complete: there is no {0}",
            failures.BAD_FILE,
        ),
    )

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return what follows the program. There is no flag for the length of a context: the gateway keeps to it."""
        device = "cpu" if spec.device.gpus == () else "auto"
        words = ["serve", spec.weights or "", "--host", "127.0.0.1", "--port", str(port)]
        return [*words, "--device", device, "--dtype", "auto", "--log-level", "info"]

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return the size with one context at full length."""
        return weights.hugging_face(spec, "transformers")

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why it is no language model, where it should be one."""
        return formats.no_language(spec)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the path it is pinned to: it refuses any other name."""
        return spec.weights

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return one more than it computes."""
        return 2


ENGINE = Transformers()
