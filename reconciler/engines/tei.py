"""The engine `tei`: Hugging Face's text-embeddings-router, for embeddings, ranks and classes."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight, Reason
from reconciler.engines import failures, formats, refusals, weights
from reconciler.engines.adapter import Adapter
from reconciler.engines.proof import OPENAI_CALLS, Call

#: Tokens of one batch at least, and where nothing is known. Its own 16384 hang or end it on Metal while it warms up.
_LEAST_BATCH: Final = 512
#: Its second port, for metrics, lies so far from its first: two servers must not have the same.
_APART: Final = 10_000
_LAST_PORT: Final = 65_535


class Tei(Adapter):
    """Serves one folder of Hugging Face weights. It is a program of its own, not a Python package."""

    name = "tei"
    torch = False
    roles = frozenset({Role.EMBEDDING, Role.RERANK, Role.CLASSIFY})
    script = "text-embeddings-router"
    checked = ("1.9",)
    install = "brew install text-embeddings-inference, or build it with cargo, and put it on PATH"
    calls: Mapping[Role, Call] = {
        Role.EMBEDDING: OPENAI_CALLS[Role.EMBEDDING],
        Role.RERANK: Call("/rerank", {"query": "a", "texts": ["a"]}),
        Role.CLASSIFY: Call("/predict", {"inputs": "a"}),
    }
    routes: Mapping[Role, frozenset[str]] = {
        Role.EMBEDDING: frozenset({"/v1/embeddings"}),
        # Its own shape: `texts` for `documents`.
        Role.RERANK: frozenset({"/rerank"}),
        Role.CLASSIFY: frozenset({"/predict"}),
    }
    #: A program by itself.
    abbreviates = False
    uses = refusals.PROGRAM | {"context.bytes_per_token", "context.max_tokens"}
    hints: Mapping[str, str] = {
        "python": "it is no Python program: name its path as `command`, or leave it out"
    }
    glued = True
    owned: Mapping[str, str] = {
        "--model-id": "weights",
        "--hostname": "",
        "--port": "port",
        "-p": "port",
        "--prometheus-port": "",
        "--uds-path": "",
        "--served-model-name": "aliases",
    }
    #: Each of its flags may be a variable as well; these it has in common with other programs.
    not_inherited = (
        "API_KEY",
        "DTYPE",
        "HF_API_TOKEN",
        "HOSTNAME",
        "MAX_",
        "MODEL_ID",
        "POOLING",
        "PORT",
        "REVISION",
    )
    key_variables = ("API_KEY",)
    known_failures = failures.known(
        (r"Could not (?:start|create) backend: ([^\n]*)", "it cannot compute this model: {0}"),
        (
            r"`config\.json` not found|config\.json[^\n]*No such file",
            "the weights have no config.json",
            failures.BAD_FILE,
        ),
        (
            r"tokenizer\.json[^\n]*(?:not found|No such file)",
            "the weights have no tokenizer.json, which it needs",
            failures.BAD_FILE,
        ),
        (
            r"`max_batch_tokens` must be|max_input_length[^\n]*greater",
            "args: [--max-batch-tokens, N] is less than one text",
            failures.BAD_ARGUMENT,
        ),
    )

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return the flags. Reads config.json for the longest text."""
        socket = Path(tempfile.gettempdir()) / f"reconcile-tei-{port}"
        beside = port + _APART if port + _APART <= _LAST_PORT else port - _APART
        words = ["--model-id", spec.weights or "", "--hostname", "127.0.0.1", "--port", str(port)]
        words += ["--prometheus-port", str(beside), "--uds-path", str(socket)]
        batch = max(weights.max_tokens(spec) or 0, _LEAST_BATCH)
        return [*words, "--served-model-name", spec.model, "--max-batch-tokens", str(batch)]

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return whether it can load the folder; nobody has measured what it takes besides. Reads files."""
        found = weights.look_at(spec)
        if found.reason is not None:
            return found
        # Some builds compute with ONNX, and all read one form of pickled weights where there are no others.
        why, notes = formats.folder(Path(spec.weights or ""), (".onnx", "pytorch_model.bin", "onnx"))
        if why is not None:
            return Preflight(spec.model, Reason.NOT_STARTABLE, why)
        return replace(found, notes=(*found.notes, *notes))

    def misfit(self, spec: LaunchSpec) -> str | None:
        """Return why it gives no scores, where it should."""
        return formats.no_scores(spec)

    def upstream_model(self, spec: LaunchSpec) -> str | None:
        """Return the name it was given."""
        return spec.model


ENGINE = Tei()
