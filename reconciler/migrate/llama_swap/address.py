"""Where a model's server listens: `proxy`, the port in its command, and what a manifest makes of it."""

import ipaddress
import re
from dataclasses import replace
from typing import Final
from urllib.parse import SplitResult, urlsplit

from reconciler.migrate.finding import Kind
from reconciler.migrate.llama_swap.command import Split
from reconciler.migrate.llama_swap.job import Job
from reconciler.migrate.llama_swap.macros import PORT

DEFAULT: Final = f"http://localhost:{PORT}"
#: Stands for `${PORT}` while an address is taken apart.
_SOME_PORT: Final = "1"


def fixed_port(proxy: str) -> int | None:
    """Return the port that an address names by number, or None."""
    if PORT in proxy:
        return None
    parts = _parts(proxy)
    try:
        return (parts.port or 80) if parts else None
    except ValueError:
        return None


def host(address: str) -> str:
    """Return host and port of an address, for a message: it may hold a password besides."""
    parts = _parts(address)
    return parts.netloc.rpartition("@")[2] or "?" if parts else "?"


def usable(job: Job, proxy: str) -> bool:
    """Note what of an address has no counterpart; tell whether a server of this machine stands behind it."""
    parts = _parts(proxy.replace(PORT, _SOME_PORT))
    if PORT in proxy and PORT not in job.cmd:
        what = "the address has ${PORT}, the command does not: llama-swap refuses the file"
        job.say(
            Kind.ERROR,
            "proxy" if job.section.has("proxy") else "cmd",
            what,
            "tell the server its port, or write it into `proxy`",
        )
        return False
    if parts is None or not parts.hostname:
        job.say(Kind.ERROR, "proxy", "it is no address", "write it as http://127.0.0.1:${PORT}")
        return False
    if not _here(parts.hostname) or parts.scheme != "http":
        far = f"the server is reached at {parts.scheme}://{parts.hostname}"
        what = f"{far}, and reconcile asks servers of this machine alone, without TLS: the model is left out"
        job.say(Kind.LOST, "proxy", what, "let clients ask it directly")
        return False
    if parts.path not in ("", "/"):
        what = f"the path {parts.path} before each request's own is not put there"
        job.say(Kind.LOST, "proxy", what, "have the server answer at /v1")
    return True


def _parts(proxy: str) -> SplitResult | None:
    try:
        return urlsplit(proxy)
    except ValueError:
        return None


def _here(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def put_port(job: Job, command: Split, port: int | None, *, ours: bool) -> Split:
    """State a fixed port, or have one chosen where several models name it. `ours` = the engine tells the server."""
    if port is None:
        return command
    if port not in job.common.shared_ports:
        job.draft.keys["port"] = port
        return command
    if ours:
        job.say(Kind.DIFFERS, _key(job), f"several models name port {port}; here each gets one of its own")
        return command
    words = tuple(
        _without(word, command.words[n - 1] if n else "", port) for n, word in enumerate(command.words)
    )
    if words == command.words:
        what = f"several models name port {port}, and nothing in this command says it, so it cannot be given another"
        job.say(Kind.ERROR, _key(job), what, "write ${PORT} into the command")
        return command
    job.say(Kind.DIFFERS, _key(job), f"several models name port {port}; here each is told one of its own")
    return replace(command, words=words)


def _key(job: Job) -> str:
    return "proxy" if job.section.has("proxy") else "cmd"


def _without(word: str, before: str, port: int) -> str:
    """Return a word with the port in it left open."""
    if word == str(port) and before.startswith("-"):
        return PORT
    if before in ("-p", "--publish"):
        return re.sub(rf"(^|:){port}(?=:)", rf"\g<1>{PORT}", word)
    return re.sub(rf"(?<=port=){port}$", PORT, word)
