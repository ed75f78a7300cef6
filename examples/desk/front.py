"""The one address that all models of the desk are asked at, and the journal of what asking them caused."""

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

#: Seconds that one answer may take, a load and a wait in line included.
ANSWER_SECONDS: Final = 300.0
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class DeskError(Exception):
    """A request brought no answer, or one that cannot be right; the message says which."""


class Front:
    """A client of the gateway's data API."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Send JSON, return what comes. Raises DeskError with the gateway's own words."""
        return self._send(path, json.dumps(body).encode(), "application/json")

    def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send JSON, return the JSON that comes. Raises DeskError."""
        return json.loads(self.post(path, body))

    def upload(self, path: str, fields: Mapping[str, str], name: str, content: bytes) -> Any:
        """Send a form with one file, return the JSON that comes. Raises DeskError."""
        border = uuid.uuid4().hex
        head = f'--{border}\r\nContent-Disposition: form-data; name="'
        parts = [f'{head}{key}"\r\n\r\n{value}\r\n'.encode() for key, value in sorted(fields.items())]
        parts.append(f'{head}file"; filename="{name}"\r\n\r\n'.encode() + content + b"\r\n")
        parts.append(f"--{border}--\r\n".encode())
        return json.loads(self._send(path, b"".join(parts), f"multipart/form-data; boundary={border}"))

    def status(self) -> dict[str, Any]:
        """Return what `reconcile status --json` says. Raises DeskError."""
        document: dict[str, Any] = json.loads(self._send("/api/v1/status", None, "application/json"))
        return document

    def _send(self, path: str, body: bytes | None, kind: str) -> bytes:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": kind})  # noqa: S310 - http, ours
        try:
            with _OPENER.open(request, timeout=ANSWER_SECONDS) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise DeskError(f"{path} was answered {error.code}: {error.read()[:500].decode()}") from error
        except OSError as error:
            raise DeskError(f"{path} brought no answer: {error}") from error


class Journal:
    """What the manager logs: one JSON object a line."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._read = 0

    def news(self) -> list[str]:
        """Return a line for each load and eviction since the last call, in order."""
        return [line for entry in self._entries() if (line := told(entry)) is not None]

    def _entries(self) -> Iterator[dict[str, Any]]:
        if self._path is None:
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):  # still being written
                    break
                self._read += len(line)
                if line.startswith(b"{"):
                    yield json.loads(line)


def told(entry: Mapping[str, Any]) -> str | None:
    """Return an entry as a line, or None for one that is about something else.

    >>> told({"event": "evict", "model": "ocr", "reason": "MakeRoom", "for_model": "asr", "frees": "1 MiB",
    ...       "why": "priority 500 = 500, idle 2.0s"})
    '- ocr     frees 1 MiB   MakeRoom for asr: priority 500 = 500, idle 2.0s'
    """
    model, why = entry.get("model", ""), f": {entry['why']}" if entry.get("why") else ""
    match entry["event"]:
        case "load":
            return f"+ {model:7} needs {entry['needs']}   {entry['reason']}{why}"
        case "loaded":
            return f"= {model:7} holds {entry['holds']}   ready after {entry['seconds']:.1f} s"
        case "evict":
            cause = f" for {entry['for_model']}" if entry.get("for_model") else ""
            return f"- {model:7} frees {entry['frees']}   {entry['reason']}{cause}{why}"
        case _ if entry.get("level") in ("warning", "error", "critical"):
            return f"! {model:7} {entry['event']}{why} {entry.get('error') or ''}".rstrip()
    return None


class Watch:
    """Measures seconds."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __str__(self) -> str:
        return f"{time.monotonic() - self._began:.1f} s"
