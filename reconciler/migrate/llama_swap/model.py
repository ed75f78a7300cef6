"""A model's command: the engine it becomes a model of, and its keys."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.tree import Mark
from reconciler.manifest.words import SplitError, split
from reconciler.migrate import hints
from reconciler.migrate.finding import Kind, Report
from reconciler.migrate.llama_swap import address, flags, macros, servers
from reconciler.migrate.llama_swap.command import Split, split_command, value_of
from reconciler.migrate.llama_swap.flags import Converted
from reconciler.migrate.llama_swap.job import Job
from reconciler.migrate.llama_swap.paths import placed, relative_words

#: Programs that are written where llama-swap is to start nothing.
_IDLE: Final = frozenset({"sleep", "tail", "true", "echo"})
_DETACHED: Final = frozenset({"-d", "--detach", "--detach=true"})


def convert(job: Job, *, plain: str = "") -> bool:
    """Fill the job's draft from its command; tell whether it can be a model.

    `plain` = why it is to be one of the engine `command`.
    """
    source = job.section.scalar("cmd")
    if source is None:
        if not job.section.has("cmd"):
            job.at_model(Kind.ERROR, "a model needs `cmd`")
        return False
    job.cmd = job.expanded("cmd")
    proxy = job.expanded("proxy", address.DEFAULT)
    command = split_command(job.cmd, source, job.section.call("cmd"), job.report)
    # A macro that is not known has been noted, and what it stands in is no address of its own fault.
    if job.report.has(Kind.ERROR) or command is None or not address.usable(job, proxy):
        return False
    command = _variables_split(job, command)
    port = address.fixed_port(proxy)
    made = None if plain else _engine(job, command)
    if made is not None and made.refused:
        plain, made = made.refused, None
    if made is None:
        _plain(job, address.put_port(job, command, port, ours=False), plain)
    else:
        address.put_port(job, command, port, ours=True)
        _known(job, made, command)
    _size(job)
    return not job.report.has(Kind.ERROR)


def _engine(job: Job, command: Split) -> Converted | None:
    """Return what an engine that knows the server makes of it, or None."""
    command = replace(command, words=tuple(macros.ours(word) for word in command.words))
    base = job.common.base
    if command.llama:
        made = flags.llama(command.args, base, job.common.environ)
        if len(command.words) > 1 + len(command.args) or command.program != "llama-server":
            program = placed(command.program, base) if "/" in command.program else command.program
            made.keys["command"] = [*command.words[: command.at], program]
        return made
    return servers.convert(command, base) if servers.recognised(command) else None


def _known(job: Job, made: Converted, command: Split) -> None:
    job.draft.keys |= made.keys
    if made.args:
        job.draft.keys["args"] = _safe(job, made.args)
        if relative_words(made.args, job.common.base):
            job.draft.keys["cwd"] = str(job.common.base)
    for what, advice in made.lost:
        job.say(Kind.LOST, "cmd", what, advice)
    for what, advice in made.differs:
        job.say(Kind.DIFFERS, "cmd", what, advice)
    host = value_of(command.args, "--host")
    if host is not None and host not in ("127.0.0.1", "localhost", "::1"):
        job.say(
            Kind.DIFFERS,
            "cmd",
            f"--host {host} is left out: engines listen on 127.0.0.1, and clients ask the gateway",
        )


def _plain(job: Job, command: Split, why: str) -> None:
    """Make it a model of the engine `command`: its words as they are."""
    if why:
        job.say(
            Kind.DIFFERS,
            "cmd",
            f"kept as a plain command: {why}",
            "with an engine of its own its size would be known",
        )
    base = job.common.base
    words = [macros.ours(word) for word in command.words]
    job.draft.keys["engine"] = "command"
    job.draft.keys["command"] = _safe(job, words)
    if ("/" in words[0] and not words[0].startswith(("/", "${"))) or relative_words(words, base):
        job.draft.keys["cwd"] = str(base)
    role = (
        "embedding"
        if {"--embedding", "--embeddings"} & set(words)
        else "rerank"
        if {"--rerank", "--reranking"} & set(words)
        else ""
    )
    if role:
        job.draft.keys["role"] = role
    if command.name in _IDLE:
        what = f"`{command.name}` is no server, and reconcile asks none but those that it starts"
        job.say(Kind.TODO, "cmd", what, "write the command that starts the server")
    if command.container:
        _container(job, command)
    elif command.shell:
        what = f"started through {command.name}: reconcile ends the shell and all it started"
        job.say(Kind.NOTE, "cmd", what, "`exec` before the server leaves the shell out")
    if "${port}" not in " ".join(words) and "port" not in job.draft.keys:
        job.say(Kind.ERROR, "cmd", "nothing tells the server its port", "write ${PORT} where it belongs")


def _container(job: Job, command: Split) -> None:
    if _DETACHED & set(command.args):
        what = f"`{command.name} run -d` returns at once, and reconcile takes that for the server's end"
        job.say(Kind.TODO, "cmd", what, "take -d out, here and in the manifest")
    what = f"the memory of a container is not in the {command.name} process, so it is not measured"
    job.say(Kind.DIFFERS, "cmd", what, "memory.steady is what counts for it: state it with care")


def _size(job: Job) -> None:
    """Say what is known of the size where no engine works it out: only a comment may tell."""
    if job.draft.keys.get("engine") not in ("command", "tei", "sd.cpp"):
        return
    stated = hints.stated_size(job.common.comments.of(job.name))
    measure = f"or have it measured before the first start: reconcile measure {job.name} PATH --write"
    if stated is None:
        what = "nothing says what it takes, and reconcile loads nothing of unknown size"
        job.at_model(Kind.TODO, what, f"write memory: {{steady: SIZE}}, {measure}")
        return
    job.draft.nested("memory")["steady"] = stated
    job.draft.behind["memory"] = "a size from your comment"
    job.at_model(Kind.TODO, f"the size {stated} is taken from a comment", f"check it, {measure}")


def _safe(job: Job, words: Sequence[str]) -> list[str]:
    """Return words with secrets taken out."""
    safe, taken = job.common.secrets.words(job.name, list(words))
    say_taken(job, "cmd", taken)
    return safe


def say_taken(job: Job, key: str, names: Iterable[str]) -> None:
    """Note the variables that hold a secret from now on."""
    say_taken_at(job.report, job.section.mark(key), job.section.call(key), names)


def say_taken_at(report: Report, mark: Mark, key: str, names: Iterable[str]) -> None:
    """Note the same of a place."""
    for name in names:
        what = f"a secret is kept out of the manifest: ${{env:{name}}} stands in its place"
        report.add(Kind.TODO, mark, key, what, f"set {name} where reconcile is started")


def _variables_split(job: Job, command: Split) -> Split:
    """Return the command with the variables filled in that are several words: in a manifest one stays one word."""
    words: list[str] = []
    for word in command.words:
        found = re.fullmatch(r"\$\{env\.([A-Za-z_]\w*)\}", word)
        value = job.common.environ.get(found[1], "") if found else ""
        parts = _words(value)
        if found and len(parts) > 1:
            what = f"${{env.{found[1]}}} holds {len(parts)} words: they are written out as they are now"
            job.say(Kind.DIFFERS, "cmd", what)
            words += [part.replace("${", "$${") for part in parts]
        else:
            words.append(word)
    at = words.index(command.program) if command.program in words else command.at
    program = re.fullmatch(r"\$\{env\.([A-Za-z_]\w*)\}", words[at])
    return Split(tuple(words), at, job.common.environ.get(program[1], "") if program else "")


def _words(text: str) -> list[str]:
    try:
        return split(text)
    except SplitError:
        return [quoted(text)]
