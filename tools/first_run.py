"""What `make run` runs: `reconcile` on a manifest, and a first chat request through it, shown with its answer.

    python tools/first_run.py [manifests] [--listen 127.0.0.1:8090] [--state-dir DIR]

This process becomes `reconcile` itself, so signals, exit status and terminal are its own. The request is sent by a
second process, which says what it sees and ends.
"""

import argparse
import json
import os
import shlex
import socket
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NoReturn

import psutil

from reconciler.gateway.server import AddressInUse, BindError, bind, port_holder
from reconciler.host.lock import holder_of
from reconciler.manifest import ManifestError, load_manifest
from reconciler.manifest.applied import GatewaySettings
from reconciler.store.paths import RUN_FILE
from reconciler.store.paths import state_dir as resolve_state_dir

QUESTION: Final = "In one sentence: what does a gardener do?"
#: Seconds that the gateway may take to come up, and the first answer, load included.
UP_SECONDS: Final = 60
ANSWER_SECONDS: Final = 300
_POLL: Final = 0.05
_WIDTH: Final = 100
_LONGEST: Final = 600
#: Ports that are suggested in place of a busy one.
_OTHERS: Final = range(8090, 8190)
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class FirstRunError(Exception):
    """The run cannot begin, or the request brought no answer; the message says why and what helps."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Become `reconcile`, or exit with a message if that cannot be."""
    parser = argparse.ArgumentParser(description="Run reconcile and send a first request through it.")
    parser.add_argument("manifest", nargs="?", default="manifests", type=Path)
    parser.add_argument("--listen", metavar="HOST:PORT")
    parser.add_argument("--state-dir", type=Path)
    options = parser.parse_args(argv)
    directory = resolve_state_dir(options.state_dir)
    try:
        check_free(options.manifest, options.listen, directory)
    except FirstRunError as error:
        sys.exit(f"error: {error}")
    leave_behind(psutil.Process(), directory, options.manifest)
    program = Path(sys.executable).with_name("reconcile")
    command = [str(program), str(options.manifest)]
    command += ["--listen", options.listen] if options.listen else []
    command += ["--state-dir", str(options.state_dir)] if options.state_dir else []
    # Readable lines also where stderr is not a terminal: whoever called this wants to read along.
    os.execve(program, command, {"RECONCILE_LOG": "text", **os.environ})  # noqa: S606 - no shell is wanted


def check_free(manifest: Path, listen: str | None, directory: Path) -> None:
    """Raise `FirstRunError` if a manager already runs on this state, or someone else has the gateway's address."""
    if holder := holder_of(directory):
        raise FirstRunError(
            f"reconcile already runs (pid {holder.pid}). See it: .venv/bin/reconcile status; "
            "end it: .venv/bin/reconcile stop"
        )
    settings = address(manifest, listen)
    if settings is None:
        return
    try:
        bind(settings).close()
    except AddressInUse as error:
        other = port_holder(settings.port)
        who = f"pid {other[0]} ({other[1]})" if other else "another process"
        raise FirstRunError(
            f"{settings.host}:{settings.port} is in use by {who}."
            f"\nStop that, or choose another address: make run LISTEN=127.0.0.1:{free_port()}"
        ) from error
    except BindError as error:
        raise FirstRunError(str(error)) from error


def address(manifest: Path, listen: str | None) -> GatewaySettings | None:
    """Return where the gateway will listen; None if `reconcile` is going to refuse what it is given, and say why."""
    try:
        settings = load_manifest(manifest, environ=os.environ).gateway
    except ManifestError:
        return None
    if listen is None:
        return settings
    host, _, port = listen.rpartition(":")
    return replace(settings, host=host.strip("[]"), port=int(port)) if host and port.isdecimal() else None


def free_port() -> int:
    """Return a port to suggest: nobody listens on it now."""
    for port in _OTHERS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    return 0


def leave_behind(loop: psutil.Process, directory: Path, manifest: Path) -> None:
    """Start the process that sends the request, as nobody's child: what becomes `reconcile` has none to reap."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    if os.fork():
        os._exit(0)
    status = 1
    try:
        status = greet(loop, directory, manifest)
    finally:
        sys.stdout.flush()
        os._exit(status)


def greet(loop: psutil.Process, directory: Path, manifest: Path) -> int:
    """Send the request once the gateway is up, and show it with its answer. Says nothing if the loop ends first."""
    try:
        url = wait_for_gateway(loop, directory)
        first_request(url)
        what_next(url, manifest)
    except KeyboardInterrupt:
        return 130
    except (FirstRunError, BrokenPipeError) as error:
        if runs(loop) and isinstance(error, FirstRunError):
            show(f"The first request {error}", "The gateway goes on; Ctrl-C ends it.")
        return 1
    return 0


def wait_for_gateway(loop: psutil.Process, directory: Path) -> str:
    """Return the gateway's address once the loop has looked at the machine. Raises `FirstRunError`."""
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline and runs(loop):
        url = noted_address(loop.pid, directory)
        if url is not None and turns(url):
            return url
        time.sleep(_POLL)
    raise FirstRunError(f"was not sent: the gateway did not come up within {UP_SECONDS} s.")


def noted_address(pid: int, directory: Path) -> str | None:
    """Return the address that the loop with this pid has noted in its state directory."""
    try:
        note = json.loads((directory / RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(note["url"]) if note["pid"] == pid else None


def turns(url: str) -> bool:
    """Return whether the gateway answers and its loop has made its first pass."""
    try:
        with _OPENER.open(f"{url}/healthz", timeout=5):
            return True
    except (OSError, HTTPException):
        return False


def runs(process: psutil.Process) -> bool:
    """Return whether this very process still runs; one that ended and was not reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def first_request(url: str) -> None:
    """Ask the first model that is kept loaded; print the curl line and the answer. Raises `FirstRunError`."""
    model = pick(call(url, "/v1/models")["data"])
    body = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": 60,
        "temperature": 0,
    }
    path = "/v1/chat/completions"
    data = json.dumps(body)
    show(
        f"A first request, to the model {model}. It waits while the model is loaded:",
        f"curl -s {url}{path} -H 'Content-Type: application/json' \\\n  -d {shlex.quote(data)}",
    )
    began = time.monotonic()
    answer = call(url, path, data.encode())
    try:
        text = str(answer["choices"][0]["message"]["content"]).strip()
    except (LookupError, TypeError) as error:
        raise FirstRunError(
            f"{model} answered with something else than a chat: {str(answer)[:200]}"
        ) from error
    show(f"{model} answered after {time.monotonic() - began:.1f} s:", bounded(text))


def pick(models: Sequence[dict[str, Any]]) -> str:
    """Return the model to ask: `chat` of the shipped layout, else the first one that is kept loaded, else the first."""
    own = {m["id"]: m["reconcile"]["residency"] for m in models if m["id"] == m["reconcile"]["model"]}
    kept = [name for name, residency in own.items() if residency in ("pinned", "warm")]
    order = ["chat"] * ("chat" in own) + kept + list(own)
    if not order:
        raise FirstRunError("has no model to ask: the manifest names none.")
    return str(order[0])


def call(url: str, path: str, body: bytes | None = None) -> dict[str, Any]:
    """Return the JSON object that the gateway answers with. Raises `FirstRunError` with the gateway's own words."""
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("RECONCILE_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url + path, data=body, headers=headers)  # noqa: S310 - http, our own gateway
    try:
        with _OPENER.open(request, timeout=ANSWER_SECONDS) as answer:
            document: dict[str, Any] = json.load(answer)
            return document
    except urllib.error.HTTPError as error:
        with error:
            raise FirstRunError(f"was answered {error.code}: {reason(error.read())}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise FirstRunError(f"brought no answer: {error}") from error


def reason(body: bytes) -> str:
    """Return the message of an error in OpenAI's form, or the start of whatever came instead."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return body[:200].decode(errors="replace")


def what_next(url: str, manifest: Path) -> None:
    """Say what to try now."""
    names = {m["id"] for m in call(url, "/v1/models")["data"]}
    lines = [f"Clients that speak OpenAI's API: give them the base URL {url}/v1."]
    if {"chat", "long"} <= names:
        lines.append(
            'Ask the second model: the same curl line with "model": "long". Both do not fit, so chat gives way.\n'
            f"Then let both fit: in {manifest}/models.yaml write `memory: 1GiB`, save, and watch this terminal."
        )
    lines.append(
        f"Before you save an edit, or after it: .venv/bin/reconcile --dry-run {manifest}\n"
        "What runs, and why: .venv/bin/reconcile status, .venv/bin/reconcile explain MODEL"
    )
    lines.append(
        "Ctrl-C here ends the gateway and its models.\nA second one cuts what is still being answered."
    )
    show("What to try, in a second terminal:", *lines)


def bounded(text: str) -> str:
    """Return text for a terminal: no control characters, folded, at most `_LONGEST` characters."""
    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    short = plain if len(plain) <= _LONGEST else plain[:_LONGEST] + " ..."
    return "\n".join(textwrap.fill(line, _WIDTH - 4) for line in short.splitlines())


def show(title: str, *paragraphs: str) -> None:
    """Print a block apart from the log lines around it, in one write."""
    blocks = [textwrap.indent(paragraph, "    ") for paragraph in paragraphs]
    sys.stdout.write("\n" + "\n".join([f"  {title}", *blocks]) + "\n\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
