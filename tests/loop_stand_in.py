"""A local HTTP server that answers as a running loop would, from a script, for tests of the command line."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from reconciler.host import identify

Answer = tuple[int, object]


class StandIn:
    """Answers requests with `routes["GET /path"]()`; what was asked is in `asked`."""

    def __init__(self) -> None:
        self.routes: dict[str, Callable[[], Answer]] = {}
        self.asked: list[str] = []
        self.keys: list[str | None] = []
        #: The JSON bodies that came, with their route.
        self.bodies: list[tuple[str, Any]] = []
        self.url = ""
        self.close: Callable[[], None] = lambda: None

    def documents(self, route: str, *answers: Any) -> None:
        """Answer `route` with these documents in turn; the last is repeated."""
        left = list(answers)
        self.routes[route] = lambda: (200, left.pop(0) if len(left) > 1 else left[0])

    def error(self, route: str, status: int, message: str) -> None:
        """Answer `route` with an error as the gateway shapes it."""
        self.routes[route] = lambda: (status, {"error": {"message": message, "type": "t", "code": "c"}})


@contextmanager
def standing_in(state_dir: Path) -> Iterator[StandIn]:
    """Run a stand-in on a free port, with its `run.json` in `state_dir`."""
    stand_in = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            route = f"{self.command} {self.path}"
            stand_in.asked.append(route)
            stand_in.keys.append(self.headers.get("Authorization"))
            if length := int(self.headers.get("Content-Length") or 0):
                stand_in.bodies.append((route, json.loads(self.rfile.read(length))))
            answer = stand_in.routes.get(route, lambda: (404, {"error": {"message": f"no {route}"}}))
            status, document = answer()
            if status == 204:
                self.send_response(status)
                self.end_headers()
                return
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    stand_in.close = close
    stand_in.url = f"http://127.0.0.1:{server.server_address[1]}"
    state_dir.mkdir(exist_ok=True)
    me = identify(os.getpid())
    assert me is not None
    note = {"pid": me.pid, "started": me.started, "url": stand_in.url, "version": "0.1.0"}
    (state_dir / "run.json").write_text(json.dumps(note))
    try:
        yield stand_in
    finally:
        if thread.is_alive():
            close()
