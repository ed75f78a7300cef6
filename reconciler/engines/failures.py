"""What the last words of servers mean that many share: Python, torch, CUDA, Metal. An adapter puts its own before."""

import re
from collections.abc import Iterable
from typing import Final

from reconciler.core.crashes import FailureKind
from reconciler.engines.exits import explain_exit

#: A pattern, the sentence it stands for (`{0}` is its first group), and the kind of failure, where that is certain.
Known = tuple[re.Pattern[str], str, FailureKind | None]

OUT_OF_MEMORY: Final = FailureKind.OUT_OF_MEMORY
BAD_FILE: Final = FailureKind.BAD_FILE
BAD_ARGUMENT: Final = FailureKind.BAD_ARGUMENT
PROGRAM_MISSING: Final = FailureKind.PROGRAM_MISSING
PORT_TAKEN: Final = FailureKind.PORT_TAKEN

_FILE: Final = re.compile(r'(?:^|\s)(File "[^"]+", line \d+)')


def known(*entries: tuple[str, str] | tuple[str, str, FailureKind]) -> tuple[Known, ...]:
    """Return patterns ready to be searched for, in the order they are given: the more specific first.

    What is given a kind that no repetition mends is tried again in minutes instead of seconds: it has to be certain.
    """
    return tuple(
        (re.compile(entry[0], re.IGNORECASE), entry[1], entry[2] if len(entry) > 2 else None)
        for entry in entries
    )


COMMON: Final = known(
    (
        r"MPS backend out of memory[^\n]*",
        "Metal has not enough memory: lower the context or memory.limit, or evict others",
        OUT_OF_MEMORY,
    ),
    (
        r"(?:CUDA|HIP|ROCm|XPU)[^\n]*out of memory|OutOfMemoryError",
        "the GPU has not enough memory: lower the context, or give the model another device",
        OUT_OF_MEMORY,
    ),
    (
        r"std::bad_alloc|cannot allocate memory|DefaultCPUAllocator: [^\n]*memory|(?m:(?:^|[\s.])MemoryError(?::|$))",
        "there was not enough memory",
        OUT_OF_MEMORY,
    ),
    (r"address already in use|\[Errno (?:48|98)\]", "its port is taken by another process", PORT_TAKEN),
    (
        r"No module named '?([\w.]+)",
        "the Python package {0} is not installed in its environment (`python:` names the environment)",
        PROGRAM_MISSING,
    ),
    (
        r"Repo id must be|is not a (?:local folder|valid model identifier)|LocalEntryNotFoundError|HFValidationError",
        "the weights are not where they were said to be: it took the path for the name of a model on the Hub",
        BAD_FILE,
    ),
    (
        r"SafetensorError: ([^\n]*)|Error while deserializing header[^\n]*",
        "a weights file is damaged",
        BAD_FILE,
    ),
    (r"No space left on device", "the disk is full"),
    (
        r"error: unrecognized arguments: ([^\n]*)|no such option:? '?([^\s'.]+)|unexpected argument '([^']*)'",
        "it does not know the flag {0}",
        BAD_ARGUMENT,
    ),
    (
        r"model type `?([\w.-]+)`? but Transformers does not recognize",
        "it does not know the kind of model {0}: a newer transformers may",
        BAD_FILE,
    ),
    (
        r"Tokenizer class (\w+) does not exist",
        "the weights were saved by a newer transformers than its own (tokenizer {0})",
        BAD_FILE,
    ),
    (
        r"ignore_mismatched_sizes|size mismatch for \S+",
        "the weights and config.json are not of one model",
        BAD_FILE,
    ),
    (r"No CUDA GPUs are available|no NVIDIA driver", "there is no NVIDIA GPU that it can use"),
)


def without_source(log: str) -> str:
    """Return a log without the lines of programs that tracebacks quote: what they name need not have happened.

    They stand below the line of their file and further in, behind the same prefix if the log has one.

    >>> without_source('  File "a.py", line 3, in f\\n    except MemoryError:\\nKeyError: 1')
    '  File "a.py", line 3, in f\\nKeyError: 1'
    """
    kept: list[str] = []
    column: int | None = None
    for line in log.split("\n"):
        if found := _FILE.search(line):
            column = found.start(1)
        elif column is not None:
            if line[column : column + 2] == "  ":
                continue
            column = None
        kept.append(line)
    return "\n".join(kept)


def explain(log_tail: str, exit_status: int | None, own: Iterable[Known] = ()) -> str | None:
    """Return one sentence on a failure, or None if neither log nor exit status say anything known.

    `own` are an adapter's patterns: they come before those that all share.
    """
    found = search(log_tail, own)
    return explain_exit(exit_status) if found is None else found[0]


def kind(log_tail: str, own: Iterable[Known] = ()) -> FailureKind | None:
    """Return what kind of failure a log tells of, or None if it tells of none that is known."""
    found = search(log_tail, own)
    return None if found is None else found[1]


def search(log_tail: str, own: Iterable[Known] = ()) -> tuple[str, FailureKind | None] | None:
    """Return the sentence and the kind of the first known failure that a log tells of, or None."""
    said = without_source(log_tail)
    for pattern, sentence, kind in (*own, *COMMON):
        if found := pattern.search(said):
            groups = [group for group in found.groups() if group]
            text = sentence.format(*groups) if groups or "{" not in sentence else sentence.format(found[0])
            return text, kind
    return None
