"""From a launch to llama.cpp's settings: which flags, which environment, how much context in bytes."""

from collections.abc import Iterator, Sequence
from typing import Final

from reconciler.core.launch import Batching, LaunchSpec, LoadMode, Role, Sleep
from reconciler.engines import adapter_checks, devices
from reconciler.engines.base import Finding
from reconciler.engines.llama import device as llama_device
from reconciler.engines.llama import files as llama_files
from reconciler.engines.llama import switches as llama_switches
from reconciler.engines.llama import words as llama_words

#: Settings that the manager needs to know, so they have keys of their own in the manifest.
_OWNED: Final = {
    (
        "-m",
        "--model",
        "-mu",
        "--model-url",
        "-hf",
        "-hfr",
        "--hf-repo",
        "-dr",
        "--docker-repo",
    ): "the weights are stated as `weights:`",
    ("--host", "--port"): "the address is chosen by reconcile; a fixed port is stated as `port:`",
    (
        "-c",
        "--ctx-size",
        "--kv-unified-per-slot",
    ): "the context is stated as `context.max_tokens`, for each of `context.slots`",
    ("-np", "--parallel"): "the number of requests side by side is stated as `context.slots`",
}
_CACHE_TYPES: Final = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
#: Threads that wait for each other spin for some microseconds, then sleep. Spinning longer takes the cores from the
#: thread waited for as soon as a second model is busy (5 s instead of 0.4 s); sleeping at once costs a model that is
#: alone two fifths of its speed.
COMMON_ENV: Final = {"GOMP_SPINCOUNT": "1000", "OMP_WAIT_POLICY": "passive"}
#: `LLAMA_MAX_SEQ`, and what llama.cpp's number of tokens has room for.
_MOST_SLOTS: Final = 256
_MOST_TOKENS: Final = 2**31 - 1
_VECTORS: Final = (Role.EMBEDDING, Role.RERANK)
#: What a llama.cpp server can be.
ROLES: Final = frozenset({Role.CHAT, Role.COMPLETION, Role.VISION, Role.EMBEDDING, Role.RERANK})
#: An embedding's input must fit one physical batch. Larger batches cost compute buffers, so there is a bound.
_LEAST_BATCH: Final = 512
_MOST_BATCH: Final = 8192
#: Copies of its state that a slot keeps for going back in a text, where the model has sliding windows or recurrent
#: layers. Each prompt makes two, near its end, where the next prompt of a conversation goes on. The engine's own bound
#: of 32 would be up to 32 times the windows' cache, unseen by any estimate.
CHECKPOINTS: Final = 2
#: What the prompt cache may grow to, in MiB: by default 8 GiB, unseen by any estimate.
_PROMPT_CACHE: Final = 0


def check(spec: LaunchSpec) -> tuple[Finding, ...]:
    """Return what is wrong with the settings themselves."""
    findings = []
    if spec.weights is None:
        findings.append(Finding(("weights",), "this engine needs weights", "weights: path/to/model.gguf"))
    findings += _owned(("command",), llama_words.server_words(spec.command))
    findings += _owned(("args",), spec.args)
    findings += _unclear(spec)
    findings += _foreign(spec)
    findings += llama_files.check(spec)
    findings += llama_device.check(spec)
    if spec.role not in ROLES:
        message = f"a llama.cpp server is no {spec.role.value} model"
        hint = f"one of {', '.join(sorted(ROLES))}; or `engine: command` with a program that is one"
        findings.append(Finding(("role",), message, hint))
    if spec.cache_type not in _CACHE_TYPES:
        message = f"{spec.cache_type!r} is not a cache type"
        # What no engine has is a slip, wherever it is written.
        needless = spec.cache_type in adapter_checks.CACHE_TYPES
        hint = f"one of {', '.join(_CACHE_TYPES)}"
        findings.append(Finding(("context", "cache_type"), message, hint, needless=needless))
    if not 1 <= spec.slots <= _MOST_SLOTS:
        findings.append(Finding(("context", "slots"), f"must be at least 1 and at most {_MOST_SLOTS}"))
    if spec.context_tokens is not None and spec.context_tokens * spec.slots > _MOST_TOKENS:
        message = f"all slots together may have {_MOST_TOKENS} tokens"
        findings.append(Finding(("context", "max_tokens"), message, "make it or context.slots smaller"))
    return tuple(findings)


def _owned(path: tuple[str, ...], words: Sequence[str]) -> Iterator[Finding]:
    """Yield the flags that are set by keys of their own."""
    for name, _ in llama_words.pairs(words):
        for names, message in _OWNED.items():
            if name in names:
                yield Finding(path, f"{name} cannot be given here", message)


def _unclear(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield the switches whose value llama.cpp takes neither for yes nor for no: it would end or pass them over."""
    for name, value in spec.env:
        if name in llama_switches.VARIABLES and value not in llama_switches.TRUE | llama_switches.FALSE:
            yield Finding(("env", name), f"{value!r} is neither yes nor no to llama.cpp", "write 1 or 0")


def _foreign(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield the keys that are for other engines."""
    keys = (
        (("memory", "limit"), spec.allocator_limit is not None, "llama.cpp takes at its start what it needs"),
        (("entry",), spec.entry is not None, "a class of yours is served by `engine: python`"),
        (
            ("python",),
            spec.python is not None,
            "another server is named as `command: [path/to/llama-server]`",
        ),
        (("batch",), spec.batch != Batching(), "requests side by side are stated as `context.slots`"),
        (("sleep",), spec.sleep is not Sleep.OFF, "it ends; `state: {save: true}` keeps what it knows"),
    )
    for path, given, hint in keys:
        if given:
            yield Finding(path, f"llama.cpp has no `{'.'.join(path)}`", hint, needless=True)


def stated_context_bytes(spec: LaunchSpec, tokens: int | None) -> int | None:
    """Return the bytes `tokens` of context take where the manifest states the bytes of one, or None."""
    if spec.context_bytes_per_token is None or tokens is None:
        return None
    return spec.context_bytes_per_token * tokens


def flags(spec: LaunchSpec, port: int) -> list[str]:
    """Return the flags every build of the server has."""
    result = ["-m", spec.weights or "", "--host", "127.0.0.1", "--port", str(port), "-a", spec.model]
    result += ["-np", str(spec.slots), "-t", str(devices.threads(spec))]
    if spec.context_tokens is not None:
        # The server divides its context among the slots.
        result += ["-c", str(spec.context_tokens * spec.slots)]
    elif spec.slots > 1:
        # No budget stated: any slot may use the model's own length, as long as the others leave it.
        result += ["-kvu"]
    result += ["-ctk", spec.cache_type, "-ctv", spec.cache_type]
    result += [*llama_device.flags(spec), *llama_files.flags(spec)]
    if spec.role in _VECTORS:
        batch = str(min(max(spec.context_tokens or 2048, _LEAST_BATCH), _MOST_BATCH))
        result += ["--rerank" if spec.role is Role.RERANK else "--embeddings", "-b", batch, "-ub", batch]
    return result


def bounds() -> list[str]:
    """Return the flags that bound what grows after the load."""
    return ["--cache-ram", str(_PROMPT_CACHE), "--ctx-checkpoints", str(CHECKPOINTS)]


def optional_flags(spec: LaunchSpec) -> list[str]:
    """Return further settings for the embedded server, which knows all its flags."""
    # A ping each second lets the server notice soon that a client has left; fitting to free memory is what the plan
    # is for. The call that proves it ready does the work of a warm-up run, so the server need not make one before.
    result = ["-fit", "off", *bounds()]
    result += ["--sse-ping-interval", "1", "--no-ui", "--offline", "--no-warmup"]
    if spec.load_mode is not LoadMode.AUTO:
        result += ["-lm", spec.load_mode.value]
    return [*result, *llama_device.optional_flags(spec), *llama_files.optional_flags(spec)]


def optional_env(spec: LaunchSpec) -> dict[str, str]:
    """Return the same settings for a `llama-server` of any age: it ignores a name it does not know.

    As flags they would end a build that does not have them, or has them no more.
    """
    env = {
        "LLAMA_ARG_CACHE_RAM": str(_PROMPT_CACHE),
        "LLAMA_ARG_CTX_CHECKPOINTS": str(CHECKPOINTS),
        "LLAMA_ARG_FIT": "off",
        "LLAMA_ARG_NO_WEBUI": "1",
        "LLAMA_ARG_OFFLINE": "1",
        "LLAMA_ARG_SSE_PING_INTERVAL": "1",
        "LLAMA_ARG_UI": "0",
    }
    if spec.load_mode is not LoadMode.AUTO:
        env["LLAMA_ARG_LOAD_MODE"] = spec.load_mode.value
    if spec.load_mode is LoadMode.NONE:
        env["LLAMA_ARG_NO_MMAP"] = "1"
    if spec.load_mode is LoadMode.MLOCK:
        env["LLAMA_ARG_MLOCK"] = "1"
    return {**env, **llama_device.optional_env(spec), **llama_files.optional_env(spec)}
