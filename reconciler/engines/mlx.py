"""The engine `mlx`: mlx-lm's HTTP server, for language models on Apple silicon (and on CPUs, slowly)."""

from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight
from reconciler.engines import adapter_checks, arguments, failures, formats, refusals, weights
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Finding
from reconciler.engines.proof import Call

#: Cache type -> bits, and the bytes of one element with its share of scale and bias: two halves for a group of 64.
BITS: Final = {"q8_0": ("8", 8.5 / 8), "q4_0": ("4", 4.5 / 8)}
CACHE_TYPES: Final = ("f16", *BITS)
#: Requests whose prompts are read side by side, at most: mlx-lm's own bound.
_MOST_PROMPTS: Final = 8
_GROUP: Final = "--kv-group-size"
#: Bits of the scale and the bias that a group of quantised elements has.
_SCALES: Final = 32
#: It takes small letters too.
_UNITS: Final = arguments.DECIMAL | {unit.lower(): size for unit, size in arguments.DECIMAL.items()}
_CACHED: Final = "--prompt-cache-size"
# The plain completion serves chat models too, and needs no chat template to work.
_COMPLETION: Final = Call("/v1/completions", {"model": "${model}", "prompt": "a", "max_tokens": 1})
KNOWN: Final = failures.known(
    (
        r"Insufficient Memory|kIOGPUCommandBufferCallbackErrorOutOfMemory|\[metal::malloc\][^\n]*",
        "Metal has not enough memory: lower the context, or evict others",
        failures.OUT_OF_MEMORY,
    ),
    (
        r"Model type (\S+) not supported",
        "it does not know the architecture {0}: a newer version may",
        failures.BAD_FILE,
    ),
    (
        r"(?:Received|Missing) \d+ parameters",
        "the weights and config.json are not of one model, or were quantised for another program",
        failures.BAD_FILE,
    ),
    (
        r"RotatingKVCache Quantization NYI",
        "this model's cache cannot be quantised: leave context.cache_type out",
        failures.BAD_ARGUMENT,
    ),
    (
        r"\[quantize\] The last dimension[^\n]*group size (\d+)",
        "this model's heads cannot be quantised in groups of {0}: args: [--kv-group-size, '32'], or no cache_type",
        failures.BAD_ARGUMENT,
    ),
    (r"\[load_safetensors\] ([^\n]*)", "a weights file cannot be read: {0}", failures.BAD_FILE),
)


def element(spec: LaunchSpec) -> float | None:
    """Return the bytes of one cached key or value; None = those of the model's own type."""
    bits = BITS.get(spec.cache_type)
    group = arguments.count(spec.args, _GROUP)
    return None if bits is None else bits[1] if group is None else (int(bits[0]) + _SCALES / group) / 8


class Mlx(Adapter):
    """Serves one folder of MLX or Hugging Face weights."""

    name = "mlx"
    torch = False
    roles = frozenset({Role.CHAT, Role.COMPLETION})
    script = "mlx_lm.server"
    distribution = "mlx-lm"
    checked = ("0.32",)
    install = "pip install mlx-lm (with `python:` naming the environment, or on PATH)"
    #: The thread that loads and computes has died; the process stays and answers this for good.
    fatal = frozenset({503})
    #: It loads whatever folder they name.
    withheld = frozenset({"adapters", "draft_model"})
    swaps = True
    calls: Mapping[Role, Call] = {Role.CHAT: _COMPLETION, Role.COMPLETION: _COMPLETION}
    uses = refusals.PACKAGE | refusals.CONTEXT | {"adapters", "draft"}
    owned: Mapping[str, str] = {
        "--api-key": "mlx-lm's server has no key: leave it out",
        "--model": "weights",
        "--host": "",
        "--port": "port",
        "--adapter-path": "adapters",
        "--draft-model": "draft",
        "--kv-bits": "context.cache_type",
        "--quantized-kv-start": "context.cache_type",
        "--decode-concurrency": "context.slots",
        "--prompt-concurrency": "context.slots",
    }
    sizes: Mapping[str, Mapping[str, int]] = {"--prompt-cache-bytes": _UNITS}
    sizing = frozenset({"--pipeline", "--prefill-step-size"})
    sizing_variables = ("MLX_",)
    not_inherited = ("MLX_", "MLXLM_")
    known_failures = KNOWN

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield what mlx-lm cannot do."""
        yield from adapter_checks.cache_type(spec, self.name, CACHE_TYPES)
        yield from adapter_checks.one_adapter(spec, self.name)
        if spec.slots > 1 and _one_by_one(spec):
            message = "with a draft model or a quantised cache, mlx-lm serves one request at a time"
            hint = "make it 1, or leave `draft` and `cache_type` out"
            yield Finding(("context", "slots"), message, hint, needless=True)
        yield from _counts(spec)

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the flags. There is none for the length of a context: the gateway keeps requests to it."""
        slots = str(spec.slots)
        words = ["--model", spec.weights or "", "--host", "127.0.0.1", "--port", str(port)]
        words += ["--decode-concurrency", slots, "--prompt-concurrency", str(min(spec.slots, _MOST_PROMPTS))]
        words += ["--prompt-cache-size", str(_kept(spec)), "--prompt-cache-bytes", str(_prompt_cache(spec))]
        for adapter in spec.adapters:
            words += ["--adapter-path", adapter.path]
        if spec.draft is not None:
            words += ["--draft-model", spec.draft]
        if bits := BITS.get(spec.cache_type):
            # By itself it would keep the first 5000 tokens as they are.
            words += ["--kv-bits", bits[0], "--quantized-kv-start", "0"]
        return words

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return the size: contexts that are worked on, and those kept for the next request besides."""
        cache = _prompt_cache(spec)
        return weights.hugging_face(spec, "mlx", element=element(spec), prompt_cache=cache)

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why it is no language model, where it should be one."""
        return formats.no_language(spec)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the word for what it has: of any other name it would load that model in place of ours."""
        return "default_model"

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return one more than it computes side by side."""
        return 1 + spec.slots


def _one_by_one(spec: LaunchSpec) -> bool:
    return spec.draft is not None or spec.cache_type in BITS


def _counts(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield the numbers that the size depends on, and that mlx-lm could not read."""
    for flag in (_CACHED, _GROUP):
        if arguments.given(spec.args, flag) and arguments.count(spec.args, flag) is None:
            yield Finding(("args",), f"{flag} wants a whole number, at least 1")


def _kept(spec: LaunchSpec) -> int:
    """Return how many contexts are kept for later requests, where `args` do not say.

    Where requests are served one by one, this number is the only bound that holds: bytes count in a batch alone.
    A batch keeps the beginnings of its prompts besides.
    """
    return 1 if _one_by_one(spec) else 2 * spec.slots


def _prompt_cache(spec: LaunchSpec) -> int:
    """Return the bytes of contexts kept for later requests: as `args` say, else as many as are worked on."""
    context = weights.context_bytes(spec, "mlx", element=element(spec)) or 0
    if _one_by_one(spec):
        # Bytes bound nothing here: each context that is kept may be as long as the one that is worked on.
        return context * (arguments.count(spec.args, _CACHED) or 1)
    stated = arguments.value(spec.args, "--prompt-cache-bytes")
    size = None if stated is None else arguments.size(stated, _UNITS)
    return context if size is None else size


ENGINE = Mlx()
