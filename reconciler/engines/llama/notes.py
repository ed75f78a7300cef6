"""What is worth saying of a llama.cpp model, though nothing hinders it: weights too coarse, a file without use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines.llama import fits as llama_fits
from reconciler.engines.llama.args import Settings
from reconciler.engines.llama.server import Program, embedded_version
from reconciler.memory.gguf import Header, find_weights
from reconciler.memory.gguf.quantisation import Quantisation, quantisation

#: Bits a weight from which vectors and scores are those of the model, and from which they come close to it.
_EXACT: Final = 16.0
_CLOSE: Final = 8.0
#: Bits a weight below which answers are noticeably worse.
_COARSE: Final = 4.0
#: Types that models are trained in: there is nothing finer to take.
_TRAINED: Final = frozenset({"MXFP4", "NVFP4", "Q1_0", "Q2_0", "TQ1_0", "TQ2_0"})
#: How tokens are guessed ahead: a flag that `draft:` gives by itself.
_HOW: Final = "--spec-type"
#: A flag that may state another length than the file does.
_OVERRIDE: Final = "--override-kv"
#: The series of xllamacpp, by year, that this was checked with, and its build.
_CHECKED_SERIES: Final = "2026"
CHECKED: Final = "2026.10.11549"


def notes(spec: LaunchSpec, settings: Settings, header: Header, program: Program | None) -> Iterator[str]:
    """Yield one sentence for each thing worth saying. Reads the draft model's file; raises `WeightsError`."""
    role = spec.role
    found = quantisation(header)
    if found is not None and found.main not in _TRAINED:
        yield from _coarse(role, found)
    yield from _beyond(spec, settings, header)
    if program is not None and program.embedded:
        yield from _untried(embedded_version())
    if settings.draft is not None:
        yield from _unused(spec, settings.draft, header, program)


def _coarse(role: Role, found: Quantisation) -> Iterator[str]:
    name = f"{found.name} ({found.bits:.1f} bits a weight)"
    if role is Role.EMBEDDING and found.bits < _CLOSE:
        yield (
            f"{name} is coarse for embeddings: vectors of another quantisation are not comparable; F16 is usual"
        )
    elif role is Role.EMBEDDING and found.bits < _EXACT:
        yield f"{name} gives vectors close to those of F16; keep one index to vectors of one file"
    elif role is Role.RERANK and found.bits < _CLOSE:
        yield f"{name} is coarse for ranking: passages of similar worth change places; F16 is usual"
    elif role is Role.RERANK and found.bits < _EXACT:
        yield f"{name} gives scores close to those of F16; a threshold on them is one for this file"
    elif role not in (Role.EMBEDDING, Role.RERANK) and found.bits < _COARSE:
        yield f"{name} is coarse for generation: answers are noticeably worse than from 4 bits a weight on"


def _beyond(spec: LaunchSpec, settings: Settings, header: Header) -> Iterator[str]:
    """Say that slots are longer than the server lets them be: it caps them, and holds the cache of the whole."""
    made = header.keys.get(f"{header.keys.get('general.architecture')}.context_length")
    if not isinstance(made, int) or settings.tokens is None or _OVERRIDE in spec.args:
        return
    length = settings.tokens if settings.unified else settings.tokens // settings.slots
    if 0 < made < length:
        yield (
            f"it was made for {made} tokens of context: llama-server serves no more in one request, and holds "
            f"memory for {length}; what helps: context: {{max_tokens: {made}}}"
        )


def _unused(spec: LaunchSpec, draft: str, header: Header, program: Program | None) -> Iterator[str]:
    path = Path(spec.cwd) / draft
    if problem := llama_fits.draft(find_weights(path).header, header):
        yield f"the draft model {path} is loaded and not used: {problem}"
    elif spec.draft is None and program is not None and program.embedded and _HOW not in spec.args:
        yield f"the draft model {path} is loaded and not used: state it as `draft:`, or add {_HOW} draft-simple"


def _untried(version: str) -> Iterator[str]:
    if version.partition(".")[0] != _CHECKED_SERIES:
        yield f"xllamacpp {version} is of a series this was not checked with ({CHECKED} was)"
