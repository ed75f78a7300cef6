"""The embedded llama.cpp server: `python -m reconciler.engines.llama.launcher -m FILE --port N ...`.

A process of its own around `xllamacpp.Server`, kept light so that a load is little more than the
engine's own.
It outlives its parent on purpose: models go on serving while the manager restarts.
"""

import ctypes
import signal
import sys
from collections.abc import Sequence

from reconciler.engines.llama.flags import FlagError, apply, parse
from reconciler.engines.llama.setters import Library
from reconciler.worker.nap import stay_awake

#: At this level the log tells the size of each buffer while the model loads, in about 15 kB; it also tells some
#: ten lines about each request, so it is for the load only.
_WHILE_LOADING = 4


def main(argv: Sequence[str]) -> int:
    """Serve until a signal ends it. Returns 2 for a bad command line, 1 if the model does not load."""
    # While the model loads, the extension holds the interpreter lock: a Python handler could not run, so
    # signals keep their default and end the process at once, in every state.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if slow := stay_awake("serves a language model"):
        print(f"launcher: {slow}", file=sys.stderr)  # noqa: T201
    try:
        given = {name for flag, _ in parse(argv) for name in flag.names}
        return _serve(argv, given)
    except FlagError as error:
        print(f"launcher: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _serve(argv: Sequence[str], given: set[str]) -> int:
    import xllamacpp

    params = xllamacpp.CommonParams()
    apply(argv, params, xllamacpp)
    if not params.model.path:
        raise FlagError("-m FILE is missing")
    if "-t" in given and "-tb" not in given:
        params.cpuparams_batch.n_threads = params.cpuparams.n_threads
    usual = params.verbosity
    if "-lv" not in given:
        params.verbosity = max(usual, _WHILE_LOADING)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        print(f"launcher: {error}: {params.model.path}", file=sys.stderr)  # noqa: T201
        return 1
    _set_verbosity(xllamacpp, usual)
    print(f"launcher: serving on {server.listening_address}", file=sys.stderr, flush=True)  # noqa: T201
    while True:
        signal.pause()


def _set_verbosity(library: Library, level: int) -> None:
    """Log at this level from now on. A build that hides the variable goes on as it began: nothing depends on it."""
    try:
        extension = ctypes.CDLL(library.xllamacpp.__file__)
        ctypes.c_int.in_dll(extension, "common_log_verbosity_thold").value = level
    except (AttributeError, OSError, ValueError):
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
