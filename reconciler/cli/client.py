"""Talking to the running loop over its loopback address, past any proxy."""

import http.client
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from reconciler.cli.output import CliError, note
from reconciler.render.paint import one_line

KEY_VARIABLE: Final = "RECONCILE_API_KEY"
#: Seconds one answer may take; the loop answers from memory.
TIMEOUT: Final = 10.0
#: Seconds that a loop which has just been started is waited for, and those between two looks.
STARTING: Final = 10.0
_POLL: Final = 0.05


class NotRunningError(CliError):
    """No loop answers."""


class RefusedError(CliError):
    """The loop answered with an error; `status` is the HTTP one, `kind` its code, if it is ours."""

    def __init__(self, message: str, status: int, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True)
class LoopClient:
    """The control API of one loop."""

    url: str
    #: Seconds one answer may take.
    timeout: float = TIMEOUT

    def status(self) -> dict[str, Any]:
        """Return the status document. Raises NotRunningError, RefusedError."""
        document = self.call("GET", "/api/v1/status")
        if document.get("formatVersion") != 1:
            version = document.get("formatVersion")
            raise CliError(f"the loop at {self.url} speaks status format {version!r}, this program reads 1")
        return document

    def plan(self) -> dict[str, Any]:
        """Return the plan document. Raises NotRunningError, RefusedError."""
        return self.call("GET", "/api/v1/plan")

    def newest_events(self, count: int) -> list[dict[str, Any]]:
        """Return the newest events, oldest first; none where the ledger cannot be read now.

        Raises NotRunningError, RefusedError.
        """
        try:
            found: list[dict[str, Any]] = self.call("GET", f"/api/v1/events?limit={count}")["events"]
        except RefusedError as error:
            if error.kind != "history_unavailable":
                raise
            return []
        return found

    def act(self, model: str, verb: str) -> dict[str, Any]:
        """Ask for a load, an evict or a forget, by name or alias. Raises NotRunningError, RefusedError."""
        return self.call("POST", f"/api/v1/models/{quote(model, safe='')}/{verb}")

    def advice(self, model: str) -> dict[str, Any] | None:
        """Return the advice document of a model; None = the loop is of a version that gives none.

        Raises NotRunningError, RefusedError.
        """
        try:
            return self.call("GET", f"/api/v1/models/{quote(model, safe='')}/advice")
        except RefusedError as error:
            if error.status == 404:  # its status has just named the model
                return None
            raise

    def renew(self, lease_id: str, duration: str) -> dict[str, Any]:
        """Let a lease last for `duration` from now. Raises NotRunningError, RefusedError."""
        return self.call("PUT", _lease_path(lease_id), {"for": duration})

    def release(self, lease_id: str) -> None:
        """End a lease. Raises NotRunningError, RefusedError."""
        self.call("DELETE", _lease_path(lease_id))

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Send one request, with a JSON body if there is one, and return the JSON object of its answer.

        An answer without content is an empty object. A loop in its first pass is asked again until it is through.

        Raises NotRunningError when nobody answers, RefusedError for an error status or an answer that is not ours.
        """
        until = time.monotonic() + STARTING
        while True:
            try:
                return self._call(method, path, body)
            except RefusedError as error:
                if error.kind != "starting" or time.monotonic() >= until:
                    raise
            time.sleep(_POLL)

    def _call(self, method: str, path: str, body: Mapping[str, object] | None) -> dict[str, Any]:
        place = urlsplit(self.url)
        headers = {"Accept": "application/json", **key_header()}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(
            place.hostname or "127.0.0.1", place.port or 80, timeout=self.timeout
        )
        try:
            connection.request(method, path, data, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise NotRunningError(f"no loop answers at {self.url} ({_cause(error)})") from error
        finally:
            connection.close()
        return {} if answer.status == http.client.NO_CONTENT else _read(self.url, answer.status, text)


def key_header() -> dict[str, str]:
    """Return the header with the API key of the environment, or none. Raises CliError for what can be no key."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not all("!" <= character <= "~" for character in key):
        raise CliError(f"{KEY_VARIABLE} is no API key: it has blanks or characters that are not ASCII")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _lease_path(lease_id: str) -> str:
    return f"/api/v1/leases/{quote(lease_id, safe='')}"


def find_loop(state_dir: Path) -> LoopClient:
    """Return the client for the loop of this state directory; whether it answers is seen at the first call.

    Raises NotRunningError when no loop has left a note there, or the one that did is gone. No other address is tried:
    whoever listens there may be somebody else's server.
    """
    url = awaited_url(state_dir)
    if url is None:
        raise NotRunningError(
            f"no loop runs with the state directory {state_dir}; "
            "start one with `reconcile PATH`, or name another with --state-dir or RECONCILE_STATE_DIR"
        )
    return LoopClient(url)


def awaited_url(state_dir: Path) -> str | None:
    """Return the address of the loop, None if none runs; one that was started a moment ago is waited for.

    Raises NotRunningError for one that does not listen for too long.
    """
    until, told = time.monotonic() + STARTING, False
    while (url := running_url(state_dir)) is None and (pid := _starting(state_dir)) is not None:
        if time.monotonic() >= until:
            raise NotRunningError(
                f"pid {pid} holds {state_dir} as its loop, and has not begun to listen within {STARTING:g} s:"
                f" see what it says; `kill {pid}` ends it"
            )
        if not told:
            note(f"the loop (pid {pid}) does not listen: waiting while it starts, or ends")
            told = True
        time.sleep(_POLL)
    return url


def _starting(state_dir: Path) -> int | None:
    """Return the process that holds the lock to serve, whether or not it does already; None = there is none."""
    try:
        written = json.loads((state_dir / "lock.holder").read_text(encoding="utf-8"))
        pid, started, serves = int(written["pid"]), written["started"], written["serves"] is True
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if serves and _lives(pid, started) else None


def running_url(state_dir: Path) -> str | None:
    """Return the address in the loop's `run.json` while the process that wrote it lives, else None."""
    try:
        written = json.loads((state_dir / "run.json").read_text(encoding="utf-8"))
        pid, started, url = int(written["pid"]), written["started"], str(written["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # After a crash the pid may have another owner by now, and the address another listener.
    return url if _lives(pid, started) else None


def _lives(pid: int, started: object) -> bool:
    """Return whether the process that wrote this of itself lives."""
    mine = _started(pid)
    return _alive(pid) and (mine is None or mine == started)


def _started(pid: int) -> int | None:
    """Return a process's start time as the loop notes it, or None where there is no /proc.

    What the host package reads too; it would cost this light program an import of psutil.
    """
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
        return int(data[data.rfind(b")") + 2 :].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return pid > 0


def refusal(url: str, status: int, body: bytes) -> RefusedError:
    """Return what an answer with an error status says."""
    return _refused(url, status, _parsed(body))


def _read(url: str, status: int, body: bytes) -> dict[str, Any]:
    document = _parsed(body)
    if status >= http.client.BAD_REQUEST:
        raise _refused(url, status, document)
    if not isinstance(document, dict):
        raise RefusedError(f"what answers at {url} is not a reconcile loop", status)
    return document


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _refused(url: str, status: int, document: object) -> RefusedError:
    if status == http.client.UNAUTHORIZED:
        return RefusedError(_key_wanted(url), status)
    message = _message(document) or f"{url} answered with HTTP status {status}"
    return RefusedError(message, status, _kind(document))


def _key_wanted(url: str) -> str:
    if key_header():
        return f"the loop at {url} does not know the API key in {KEY_VARIABLE}: it is none of the manifest's"
    return f"the loop at {url} asks for an API key: set {KEY_VARIABLE}"


def _message(document: object) -> str | None:
    message = _error(document).get("message")
    return one_line(message) if isinstance(message, str) else None


def _kind(document: object) -> str:
    code = _error(document).get("code")
    return code if isinstance(code, str) else ""


def _error(document: object) -> Mapping[str, Any]:
    error = document.get("error") if isinstance(document, Mapping) else None
    return error if isinstance(error, Mapping) else {}


def _cause(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:.0f} s"
    return one_line(str(error)) or type(error).__name__
