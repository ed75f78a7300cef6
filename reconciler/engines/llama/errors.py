"""What llama.cpp's last words mean: known failures, one sentence each."""

from typing import Final

from reconciler.core.crashes import FailureKind
from reconciler.engines import failures
from reconciler.engines.exits import explain_exit
from reconciler.engines.failures import BAD_ARGUMENT, BAD_FILE, OUT_OF_MEMORY, PORT_TAKEN, PROGRAM_MISSING

#: First match wins, so the more specific cause comes first.
_KNOWN: Final = failures.known(
    (r"launcher: (unknown flag.*)", "{0}", BAD_ARGUMENT),
    (
        r"launcher: (.* needs a value|.* takes no value|.*must be one of.*)",
        "bad command line: {0}",
        BAD_ARGUMENT,
    ),
    (
        r'error while handling argument "--lora-scaled"|lora-scaled format',
        "this llama-server writes the scale of an adapter in another way: update it, or leave `scale` out",
        BAD_ARGUMENT,
    ),
    (r"error: invalid argument: (\S+)", "this llama-server does not know the flag {0}", BAD_ARGUMENT),
    (r"invalid magic characters", "the weights file is not GGUF", BAD_FILE),
    (
        r"failed to read key-value pairs|data is not within the file bounds|file is truncated",
        "the weights file is truncated or damaged",
        BAD_FILE,
    ),
    (
        r"has invalid ggml type (\d+)",
        "the weights use a quantisation (type {0}) this build does not know",
        BAD_FILE,
    ),
    (
        r"unknown model architecture: '([^']*)'",
        "this build does not know the model architecture {0!r}",
        BAD_FILE,
    ),
    (r"unknown pre-tokenizer type: '([^']*)'", "this build does not know the pre-tokenizer {0!r}", BAD_FILE),
    (
        r"quantized V cache requires flash_attn|V cache quantization requires flash_attn",
        "a quantised cache needs flash attention: remove `-fa off` or set context.cache_type: f16",
        BAD_ARGUMENT,
    ),
    (r"failed to apply lora adapter: ([^\n(]*[^\n( ])", "an adapter is for another model: {0}", BAD_FILE),
    (
        r"mismatch between text model \(n_embd = (\d+)\) and mmproj \(n_embd = (\d+)\)",
        "the projector is for another model: it makes vectors of {1} numbers, this one takes {0}",
        BAD_FILE,
    ),
    (r"unknown projector type: (\S+)", "this build does not know projectors of type {0}", BAD_FILE),
    (r"couldn't bind HTTP server socket", "its port is taken by another process", PORT_TAKEN),
    (
        r"failed to allocate buffer for kv cache|failed to allocate .*kv cache",
        "there was not enough memory for the context: lower context.max_tokens or context.slots",
        OUT_OF_MEMORY,
    ),
    (
        r"failed to allocate (\S+) buffer of size (\d+)",
        "there was not enough memory: {0} refused {1} bytes",
        OUT_OF_MEMORY,
    ),
    (
        r"(CUDA|Vulkan|ROCm|HIP|Metal)[^\n]*out of memory|ErrorOutOfDeviceMemory",
        "the GPU has not enough memory",
        OUT_OF_MEMORY,
    ),
    (
        r"unable to allocate|std::bad_alloc|cannot allocate memory",
        "there was not enough memory",
        OUT_OF_MEMORY,
    ),
    (
        r"No module named '?(xllamacpp|reconciler)",
        "its Python package {0} is not installed any more",
        PROGRAM_MISSING,
    ),
    (r"failed to open GGUF file", "the weights file is not there or may not be read", BAD_FILE),
    (r"error loading model: ([^\n]*)", "the model did not load: {0}"),
)

#: As the host reports the signal, and as a shell does.
_ILLEGAL_INSTRUCTION: Final = (-4, 132)
_OTHER_CPU: Final = (
    "this build of llama.cpp is for another CPU (illegal instruction): take one built on this machine "
    "(`pip install --no-binary xllamacpp xllamacpp`, or a llama-server as `command:`)"
)


def explain(log_tail: str, exit_status: int | None) -> str | None:
    """Return one sentence, or None if neither log nor status say anything known."""
    for pattern, sentence, _kind in _KNOWN:
        if found := pattern.search(log_tail):
            return sentence.format(*found.groups())
    if exit_status in _ILLEGAL_INSTRUCTION:
        return _OTHER_CPU
    return explain_exit(exit_status)


def kind(log_tail: str) -> FailureKind | None:
    """Return what kind of failure the log tells of, or None if it tells of none that is certain."""
    return next((kind for pattern, _sentence, kind in _KNOWN if pattern.search(log_tail)), None)
