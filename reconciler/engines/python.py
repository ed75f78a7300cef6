"""The engine `python`: a class of the user's, served by `reconciler/worker/` in an environment of the user's."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import reconciler
from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight, Reason
from reconciler.engines import devices, python_entry, python_env, python_words, refusals
from reconciler.engines.adapter import OFFLINE, Adapter
from reconciler.engines.base import Command, Finding, Saver
from reconciler.engines.proof import Call
from reconciler.engines.python_state import WorkerSaver
from reconciler.engines.weights import look_at

#: A file, not a module: nothing of ours can be imported where it runs.
WORKER: Final = Path(reconciler.__file__).with_name("worker") / "__main__.py"
#: What the worker is written for.
_OLDEST: Final = (3, 9)
#: Roles whose requests are put together.
_BATCHED: Final = frozenset({Role.EMBEDDING, Role.RERANK, Role.CLASSIFY})
_PATHS: Final[Mapping[Role, str]] = {
    Role.CHAT: "/v1/chat/completions",
    Role.VISION: "/v1/chat/completions",
    Role.COMPLETION: "/v1/completions",
    Role.EMBEDDING: "/v1/embeddings",
    Role.RERANK: "/v1/rerank",
    Role.ASR: "/v1/audio/transcriptions",
    Role.TTS: "/v1/audio/speech",
    Role.IMAGE: "/v1/images/generations",
    Role.CLASSIFY: "/classify",
}


class PythonEngine(Adapter):
    """Starts the worker with the interpreter that `python:` names; docs/worker.md."""

    name = "python"
    roles = frozenset(Role)
    takes_limit = True
    weights = False
    uses = frozenset({"batch", "context.max_tokens", "context.slots", "device.threads", "entry", "python"})
    #: The worker itself knows the smallest piece of work of its class.
    calls: Mapping[Role, Call] = {role: Call("/probe") for role in Role}
    routes: Mapping[Role, frozenset[str]] = {
        role: frozenset({path, "/infer"}) for role, path in _PATHS.items()
    }
    not_inherited = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONSAFEPATH")

    def program(self, spec: LaunchSpec) -> tuple[str, ...] | None:
        """Return the interpreter and the worker's file."""
        python = python_env.interpreter(spec)
        return (str(python), str(WORKER)) if python is not None else None

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        """Return what the worker is told; the manifest's `args`, which follow, are for the class."""
        words = ["--entry", spec.entry or "", "--port", str(port)]
        words += ["--role", spec.role.value, f"--name={spec.model}", "--threads", str(devices.threads(spec))]
        words += ["--batch-max", str(spec.batch.most), "--batch-wait", f"{spec.batch.wait:g}"]
        if spec.weights is not None:
            words += ["--weights", spec.weights]
        if spec.device.gpus == ():
            words += ["--device", "cpu"]
        if spec.allocator_limit is not None:
            words += ["--memory-limit", str(spec.allocator_limit)]
        if spec.context_tokens is not None:
            words += ["--context-tokens", str(spec.context_tokens)]
        return [*words, "--"]

    def command(self, spec: LaunchSpec, port: int, saves: str | None = None) -> Command:
        """Return the worker's command line; only into `saves` will it write a state."""
        made = super().command(spec, port, saves)
        words = ("--saves", saves) if saves is not None else ()
        return replace(made, argv=(*made.argv[:2], *words, *made.argv[2:]))

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        """Return what keeps frameworks off the network, and lines of the log from being held back."""
        return {**OFFLINE, "PYTHONUNBUFFERED": "1"}

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        """Yield a missing entry, and keys that a class is not told."""
        if spec.entry is None:
            yield Finding(("entry",), "this engine needs a class to serve", "entry: package.module:Class")
        elif name := python_entry.of_python(spec.entry):
            hint = f"give yours another name than {name}.py"
            yield Finding(("entry",), f"{name} is a module that Python itself brings", hint)
        if spec.role not in _BATCHED:
            yield from refusals.unused(spec, f"{self.name} as {spec.role.value} server", ("batch",))

    def _problem(self, spec: LaunchSpec) -> str | None:
        if spec.entry is None:
            return "no entry is given"
        if problem := super()._problem(spec) or _too_old(spec):
            return problem
        return python_entry.find(spec).problem(python_entry.interpreter_version(spec))

    def sized(self, spec: LaunchSpec) -> Preflight:
        """Return what the weights say; the rest of its size is for the manifest to state. Reads files."""
        found = look_at(spec)
        if found.reason is Reason.NOT_STARTABLE or spec.entry is None:
            return found
        entry, version = python_entry.find(spec), python_entry.interpreter_version(spec)
        # What a class was measured to hold is true of the code that was measured.
        build = f"python {version or python_env.interpreter(spec)} {spec.entry} {entry.changed or 0:x}"
        notes = found.notes
        if lacks := entry.note(spec.role):
            notes += (lacks,)
        if entry.file is None:
            notes += (f"{entry.module} is neither in {spec.cwd} nor among the packages of its interpreter",)
        message = found.message or "nobody can know what a class of yours takes: give memory.steady"
        return replace(found, build=build, notes=notes, message=message)

    def sources(self, spec: LaunchSpec) -> tuple[str, ...]:
        """Return the module's file; what it imports is not followed."""
        file = python_entry.find(spec).file if spec.entry is not None else None
        return (str(file),) if file is not None else ()

    def version(self, spec: LaunchSpec) -> str | None:
        """Return the version of the interpreter."""
        return python_entry.interpreter_version(spec)

    def api_key(self, spec: LaunchSpec) -> str | None:
        """Return None: the worker asks for no key, and what looks like one in `args` is for the class."""
        return None

    def parallel(self, spec: LaunchSpec) -> int | None:
        """Return two batches of single items, one computed and one in line; else one more than the slots."""
        return 2 * spec.batch.most if spec.role in _BATCHED else spec.slots + 1

    def explain(self, log_tail: str, exit_status: int | None) -> str | None:
        """Return what the worker said last of why it could not serve, or else what is known of any program."""
        return python_words.explain(log_tail, exit_status)

    def failure_kind(self, log_tail: str) -> FailureKind | None:
        """Return what kind of failure the log tells of: what calls failed of does not count."""
        return python_words.kind(log_tail)

    def saver(self, spec: LaunchSpec) -> Saver | None:
        """Return what asks the class to save its state."""
        return WorkerSaver()


def _too_old(spec: LaunchSpec) -> str | None:
    version = python_entry.interpreter_version(spec)
    if version is None or tuple(map(int, version.split("."))) >= _OLDEST:
        return None
    return f"{spec.python} has Python {version}: 3.9 or newer is needed"


ENGINE = PythonEngine()
