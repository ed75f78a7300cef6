"""A model server whose every answer is written down in a table: for engines that cannot run where the tests do.

    with scripted({"GET /health": [503, 200], "POST /v1/embeddings": [(200, {"data": []})]}) as server:
        ...  # ask server.url
    assert server.bodies("POST /v1/embeddings") == [{"model": "m", "input": "a"}]

The answers of a route come one after the other, and the last one for ever. What has no route is answered 404.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: A status, or status and body: bytes as they are, anything else as JSON. `CUT` = the connection is closed unanswered.
Answer = int | tuple[int, object]
CUT = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came. `path` is without the query; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def route(self) -> str:
        """Return what it is looked up by."""
        return f"{self.method} {self.path}"

    def json(self) -> Any:
        """Return the body read as JSON; None if there is none."""
        return json.loads(self.body) if self.body else None


@dataclass
class Scripted:
    """A running scripted server and all that it was asked, in order."""

    url: str
    port: int
    routes: dict[str, list[Answer]]
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Answer:
        """Note the request and return the answer that is due."""
        with self.lock:
            self.requests.append(request)
            due = self.routes.get(request.route)
            if not due:
                return 404, {"error": {"message": f"there is no {request.route}"}}
            return due.pop(0) if len(due) > 1 else due[0]

    def set(self, route: str, *answers: Answer) -> None:
        """Give a route other answers from now on."""
        with self.lock:
            self.routes[route] = list(answers)

    def asked(self, route: str = "") -> list[Request]:
        """Return the requests to `route`, or all."""
        with self.lock:
            return [request for request in self.requests if route in ("", request.route)]

    def bodies(self, route: str) -> list[Any]:
        """Return the JSON bodies that came to `route`."""
        return [request.json() for request in self.asked(route)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    script: Scripted


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.script.answer(Request(self.command, path, query, headers, body))
        status, content = answer if isinstance(answer, tuple) else (answer, {})
        if status == CUT:
            self.close_connection = True
            return
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    # The names under which http.server looks for them.
    do_GET = do_POST = do_DELETE = do_PUT = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing: the test reads `requests`."""


@contextmanager
def scripted(routes: Mapping[str, Sequence[Answer]], port: int = 0) -> Iterator[Scripted]:
    """Serve `routes` (`"GET /health"` -> answers) on a loopback port until the block ends."""
    with _Server(("127.0.0.1", port), _Handler) as server:
        bound = server.server_address[1]
        script = Scripted(f"http://127.0.0.1:{bound}", bound, {k: list(v) for k, v in sorted(routes.items())})
        server.script = script
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()
