"""HTTP/1.1 on one loopback port: a thread for each kept connection, one write for each answer."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Generator
from contextlib import closing
from http import HTTPStatus
from typing import Any

from . import body, head
from .control import Route, routes
from .errors import GONE, Refused, body_of, told
from .service import Answer, Events, Reply, Request, Service, reply
from .stats import Stats

#: Seconds a connection may be silent, within a request or between two.
_SILENT_SECONDS = 600.0
#: Seconds a client may leave an event of a stream unread: the class waits for it, and others for the class.
_UNREAD_SECONDS = 30.0
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


class Handler(socketserver.StreamRequestHandler):
    """One connection."""

    disable_nagle_algorithm = True
    timeout = _SILENT_SECONDS
    server: Server
    _keeps = True
    _chunked = True

    def handle(self) -> None:
        """Answer one request after the other."""
        while self._keeps:
            try:
                request = head.read(self.rfile)
            except Refused as error:
                self._keeps = False
                self._send_error(error)
                return
            if request is None:
                return
            self._keeps, self._chunked = request.keeps, request.version == "1.1"
            if request.method == "POST":
                self._count(request)
            else:
                self._look(request)

    def _look(self, request: head.Head) -> None:
        """Answer /health and /stats."""
        # A body would be taken for the next request.
        self._keeps = self._keeps and not request.values("content-length") + request.values(
            "transfer-encoding"
        )
        if request.method != "GET":
            self._send_error(Refused(f"there is no {request.method} here", 405))
        elif request.path == "/health":
            self._send(self._health())
        elif request.path == "/stats":
            self._send(reply(self.server.stats.document()))
        else:
            self._send_error(Refused(f"there is nothing to get at {request.path}", 404))

    def _count(self, request: head.Head) -> None:
        """Do one piece of work."""
        stats, status = self.server.stats, 499
        stats.begin()
        try:
            status = self._work(request)
        finally:
            stats.end(status)

    def _work(self, request: head.Head) -> int:
        try:
            if "100-continue" in request.value("expect").lower():
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            data = body.read(request, self.rfile)
        except Refused as error:
            self._keeps = False  # what is left of the body would be taken for the next request
            return self._send_error(error)
        try:
            answer = self._answer(request, data)
            # What fails before the first event is an answer like any other.
            first = next(answer.pieces, b"") if isinstance(answer, Events) else b""
        except BaseException as error:  # one request's failure is told to its client, and ends nothing
            return self._send_error(told(error))
        return self._send_events(first, answer.pieces) if isinstance(answer, Events) else self._send(answer)

    def _answer(self, request: head.Head, data: bytes) -> Answer:
        path = request.path
        route = self.server.routes.get(path)
        if route is None:
            known = ", ".join(sorted(self.server.routes))
            raise Refused(f"there is nothing at {path}; there is {known}", 404)
        if path in _STATE and request.values("origin"):
            # A page in a browser can reach every port of its machine; it is to have no files written.
            raise Refused("this is not for browsers", 403)
        if self.server.stopping:
            raise Refused("the worker is stopping", 503)
        service = self.server.service
        if service is None:
            raise Refused("the class is still being constructed", 503)
        return route(service, Request(path, data, request.value("content-type"), self._gone))

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
        if status == GONE:
            self._keeps = False
            return status
        return self._send(reply(document, status))

    def _send(self, answer: Reply) -> int:
        lines = self._head(answer.status, answer.content_type, f"Content-Length: {len(answer.body)}")
        self.wfile.write(lines + answer.body)
        return answer.status

    def _send_events(self, first: bytes, pieces: Generator[bytes, None, None]) -> int:
        """Send events as they come."""
        self._keeps = self._keeps and self._chunked
        more = ("Transfer-Encoding: chunked",) if self._chunked else ()
        lines = self._head(200, "text/event-stream", "Cache-Control: no-cache", *more)
        # What is not taken in time ends the connection, and with it the generator and the work of the class.
        self.connection.settimeout(_UNREAD_SECONDS)
        with closing(pieces):
            self.wfile.write(lines + self._chunk(first))
            for piece in pieces:
                self.wfile.write(self._chunk(piece))
        if self._chunked:
            self.wfile.write(b"0\r\n\r\n")
        self.connection.settimeout(self.timeout)
        return 200

    def _head(self, status: int, content_type: str, *lines: str) -> bytes:
        closing = () if self._keeps else ("Connection: close",)
        phrase = HTTPStatus(status).phrase
        text = (f"HTTP/1.1 {status} {phrase}", f"Content-Type: {content_type}", *lines, *closing, "", "")
        return "\r\n".join(text).encode("latin-1", "replace")

    def _chunk(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data
