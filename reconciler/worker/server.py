"""HTTP/1.1 on one loopback port: a thread for each kept connection, one write for each answer."""

from __future__ import annotations

import json
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from . import body
from .control import Route, routes
from .errors import Refused, body_of
from .jobs import told
from .service import Answer, Events, Reply, Request, Service, reply
from .stats import Stats

#: Seconds a connection may be silent, within a request or between two.
_SILENT_SECONDS = 600.0
_STATE = ("/save_state", "/load_state")


class Server(socketserver.ThreadingTCPServer):
    """Answers from the very start: until there is a service, that it is loading."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], role: str, connections: int, stats: Stats) -> None:
        self.routes: dict[str, Route] = routes(role)
        self.service: Service | None = None
        self.stopping = False
        self.stats = stats
        self._room = threading.BoundedSemaphore(connections)
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or close it if there are too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it is closed."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left in the middle: that is no fault."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = _SILENT_SECONDS
    server: Server

    def do_GET(self) -> None:
        """Answer /health and /stats."""
        if self.path == "/health":
            self._send(self._health())
        elif self.path == "/stats":
            self._send(reply(self.server.stats.document()))
        else:
            self._send_error(Refused(f"there is nothing at {self.path}", 404))

    def do_POST(self) -> None:
        """Do one piece of work."""
        stats, status = self.server.stats, 500
        stats.begin()
        try:
            status = self._post()
        finally:
            stats.end(status)

    def _post(self) -> int:
        try:
            data = body.read(self.headers, self.rfile)
        except Refused as error:
            self.close_connection = True  # what is left of the body would be taken for the next request
            return self._send_error(error)
        try:
            answer = self._answer(data)
            if isinstance(answer, Events):
                return self._send_events(answer.pieces)
            return self._send(answer)
        except (BrokenPipeError, ConnectionError, TimeoutError):
            self.close_connection = True
            return 499
        except Exception as error:  # one request's failure is told to its client, and ends nothing
            return self._send_error(told(error))

    def _answer(self, data: bytes) -> Answer:
        path = self.path.partition("?")[0]
        route = self.server.routes.get(path)
        if route is None:
            known = ", ".join(sorted(self.server.routes))
            raise Refused(f"there is nothing at {path}; there is {known}", 404)
        if path in _STATE and self.headers.get("Origin") is not None:
            # A page in a browser can reach every port of its machine; it is to have no files written.
            raise Refused("this is not for browsers", 403)
        if self.server.stopping:
            raise Refused("the worker is stopping", 503)
        service = self.server.service
        if service is None:
            raise Refused("the class is still being constructed", 503)
        return route(service, Request(path, data, self.headers.get("Content-Type", ""), self._gone))

    def _health(self) -> Reply:
        if self.server.stopping:
            return reply({"status": "stopping"}, 503)
        return reply({"status": "loading"}, 503) if self.server.service is None else reply({"status": "ok"})

    def _gone(self) -> bool:
        """Say whether the client has closed its end of the connection."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        try:
            return bool(poll.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _send_error(self, error: BaseException) -> int:
        status, document = body_of(error)
        if status == 499:
            self.close_connection = True
            return status
        return self._send(Reply(json.dumps(document).encode(), status=status))

    def _send(self, answer: Reply) -> int:
        head = self._head(answer.status, answer.content_type, f"Content-Length: {len(answer.body)}")
        self.wfile.write(head + answer.body)
        return answer.status

    def _send_events(self, pieces: Iterator[bytes]) -> int:
        """Send events as they come. What fails before the first one is an answer like any other."""
        first = next(pieces, b"")
        chunked = self.request_version != "HTTP/1.0"
        self.close_connection = self.close_connection or not chunked
        kind = "Transfer-Encoding: chunked" if chunked else "X-Accel-Buffering: no"
        self.wfile.write(
            self._head(200, "text/event-stream", f"Cache-Control: no-cache\r\n{kind}")
            + _chunk(first, chunked)
        )
        for piece in pieces:
            self.wfile.write(_chunk(piece, chunked))
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        return 200

    def _head(self, status: int, content_type: str, *lines: str) -> bytes:
        phrase = HTTPStatus(status).phrase
        closing = ("Connection: close",) if self.close_connection else ()
        head = (f"HTTP/1.1 {status} {phrase}", f"Content-Type: {content_type}", *lines, *closing, "", "")
        return "\r\n".join(head).encode("latin-1", "replace")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Tell a client of what the library refuses in the shape of all other errors."""
        self.close_connection = True
        self._send_error(Refused(message or HTTPStatus(code).phrase, code))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing of each request."""


def _chunk(data: bytes, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if chunked and data else data
