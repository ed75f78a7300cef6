"""What a model of each role is asked while it is measured, and what is made of its refusals."""

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from reconciler.core.launch import Role
from reconciler.engines.proof import Call
from reconciler.measure.calls import ask_model


class Server(ThreadingHTTPServer):
    """Answers some paths, and refuses texts that are longer than `most` with `status`."""

    def __init__(self, paths: tuple[str, ...], most: int, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.paths, self.most, self.status = paths, most, status
        self.asked: list[tuple[str, int, int]] = []


class Handler(BaseHTTPRequestHandler):
    """Notes what it is asked."""

    server: Server

    def do_POST(self) -> None:
        """Answer as the server says."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        length = len(body) if b"WAVE" in body else longest(json.loads(body))
        status = 404 if self.path not in self.server.paths else 200
        if status == 200 and length > self.server.most:
            status = self.server.status
        self.server.asked.append((self.path, status, length))
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def longest(value: Any) -> int:
    if isinstance(value, Mapping):
        value = list(value.values())
    return max(map(longest, value), default=0) if isinstance(value, list) else len(str(value))


@pytest.fixture
def serve() -> Iterator[Any]:
    started: list[Server] = []

    def start(*paths: str, most: int = 10**7, status: int = 400) -> tuple[str, list[tuple[str, int, int]]]:
        server = Server(paths, most, status)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}", server.asked

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("role", "path"),
    [
        (Role.CHAT, "/v1/chat/completions"),  # what a Python worker serves
        (Role.CHAT, "/v1/completions"),
        (Role.VISION, "/v1/chat/completions"),
        (Role.EMBEDDING, "/v1/embeddings"),
        (Role.RERANK, "/v1/rerank"),
        (Role.RERANK, "/rerank"),
        (Role.ASR, "/v1/audio/transcriptions"),
        (Role.TTS, "/v1/audio/speech"),
        (Role.IMAGE, "/v1/images/generations"),
        (Role.CLASSIFY, "/classify"),
        (Role.CLASSIFY, "/v1/classify"),
    ],
)
def test_a_short_and_a_longer_request_for_every_role(role: Role, path: str, serve: Any) -> None:
    url, asked = serve(path)
    assert ask_model(url, "m", role) == ()
    (_, _, short), (_, _, long) = [one for one in asked if one[1] == 200]
    assert long > 100 * short if role is not Role.ASR else long > 900_000


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_a_small_context_gets_what_fits_it(status: int, serve: Any) -> None:
    url, asked = serve("/v1/embeddings", most=512, status=status)
    assert ask_model(url, "m", Role.EMBEDDING) == ()
    assert 256 <= asked[-1][2] <= 512


def test_the_engines_own_proof_is_the_last_that_is_tried(serve: Any) -> None:
    url, asked = serve("/probe")
    [problem] = ask_model(url, "m", Role.IMAGE)
    assert problem.startswith("a request was not answered (404: {})")
    assert ask_model(url, "m", Role.IMAGE, own=Call("/probe")) == ()
    assert [path for path, status, _ in asked if status == 200] == ["/probe", "/probe"]
