"""What the gateway adds to a request, and how fast it passes a stream on, against a direct connection."""

import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from benchmarks import firehose
from benchmarks.manager import STEP_SECONDS, Manager, manifest, running
from benchmarks.report import Figure, progress
from benchmarks.stats import in_ms, median, percentile
from support import free_port

MODEL: Final = "proxied"
PATH: Final = "/v1/chat/completions"
SMALL: Final = 3_000
STREAMS: Final = 15
#: Not counted: the first ones pay for what is done once.
WARM_UP: Final = 100


def run() -> Iterator[Figure]:
    """Ask through the gateway and directly, in turn."""
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        path, port = Path(name) / "models.yaml", free_port()
        model = {
            "engine": "command",
            "command": [sys.executable, firehose.__file__, "${port}"],
            "port": port,
            "memory": {"steady": "32MiB"},
            "residency": "pinned",
            "health": "/v1/models",
        }
        path.write_text(manifest({MODEL: model}))
        with running(path) as manager:
            manager.wait(MODEL, "ready")
            progress(f"proxy: {SMALL} small requests each way")
            yield from _latency(manager, port)
            progress(f"proxy: {STREAMS} streams each way")
            yield _throughput(manager, port)


def _latency(manager: Manager, port: int) -> Iterator[Figure]:
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]})
    through, direct = (HTTPConnection("127.0.0.1", p, timeout=STEP_SECONDS) for p in (manager.port, port))
    pairs = [(_ask(through, body), _ask(direct, body)) for _ in range(WARM_UP + SMALL)][WARM_UP:]
    through.close()
    direct.close()
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    for name, of_ours, of_theirs in (
        ("median", median(ours), median(theirs)),
        ("p99", percentile(ours, 99), percentile(theirs, 99)),
    ):
        yield Figure(
            what=f"small request through the gateway, {name}",
            measured=f"{in_ms(of_ours)}, adds {in_ms(of_ours - of_theirs)}",
            reference=f"direct: {in_ms(of_theirs)}",
            ratio=of_ours / of_theirs,
        )


def _ask(connection: HTTPConnection, body: str) -> float:
    """Return the seconds of one request over a kept connection."""
    began = time.perf_counter()
    connection.request("POST", PATH, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    seconds = time.perf_counter() - began
    if answer.status != 200:
        raise RuntimeError(f"{PATH} answered {answer.status}: {data[:500]!r}")
    return seconds


def _throughput(manager: Manager, port: int) -> Figure:
    pairs = [(_stream(manager.port), _stream(port)) for _ in range(STREAMS + 1)][1:]
    ours, direct = (firehose.EVENTS / median([pair[i] for pair in pairs]) for i in (0, 1))
    return Figure(
        what=f"stream of {firehose.EVENTS:,} events through the gateway",
        measured=f"{ours:,.0f} events/s",
        reference=f"direct: {direct:,.0f} events/s",
        ratio=median([theirs / mine for mine, theirs in pairs]),
    )


def _stream(port: int) -> float:
    """Return the seconds that a whole stream takes; every event must have come."""
    body = json.dumps({"model": MODEL, "messages": [], "stream": True}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    answer = bytearray()
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=STEP_SECONDS) as sock:
        sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            part = sock.recv(1 << 18)
            if not part:
                raise RuntimeError(f"the stream ended early: {bytes(answer[-500:])!r}")
            answer += part
    seconds = time.perf_counter() - began
    count = _unframed(bytes(answer)).count(b'"finish_reason"')
    if count != firehose.EVENTS:
        raise RuntimeError(f"{count} of {firehose.EVENTS} events came")
    return seconds


def _unframed(answer: bytes) -> bytes:
    """Return the body of an answer in chunks, which may begin and end within an event."""
    at = answer.index(b"\r\n\r\n") + 4
    pieces: list[bytes] = []
    while True:
        end = answer.index(b"\r\n", at)
        size = int(answer[at:end], 16)
        if size == 0:
            return b"".join(pieces)
        pieces.append(answer[end + 2 : end + 2 + size])
        at = end + size + 4
