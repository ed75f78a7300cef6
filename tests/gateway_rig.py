"""A gateway served by a real server on loopback, with real or scripted engines behind it."""

import asyncio
import hashlib
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import httpx

from reconciler.board import Board, Snapshot
from reconciler.core.machine import Idle
from reconciler.core.memory import Memory
from reconciler.core.types import Account, Instance, Manifest, ModelSpec, Observation, Plan, World
from reconciler.gateway.app import create_app
from reconciler.gateway.server import GatewayServer, bind, serve
from reconciler.gateway.upstream.pool import UpstreamPool
from reconciler.gateway.views import Views
from reconciler.leases import Endpoint, LeaseBook
from reconciler.manifest.applied import Applied, GatewaySettings, RequestLimits, Source
from support import FAKE, free_port, healthy, wait_for, wait_for_async

CHAT = "/v1/chat/completions"
VIEWS = Views(
    status=lambda snapshot, now: {"seen": "status", "models": len(snapshot.applied.manifest.models)},
    plan=lambda snapshot, now: {"seen": "plan", "generation": snapshot.plan.generation},
    world=lambda snapshot, now: {"seen": "world", "age": now - snapshot.at},
    budget=lambda snapshot, now: {"seen": "budget", "pid": snapshot.pid},
    advice=lambda snapshot, now, model: {"seen": "advice", "model": model},
    live=lambda snapshot, now: (
        {"models": len(snapshot.applied.manifest.models), "age": now - snapshot.at},
        {"generation": snapshot.plan.generation, "seq": snapshot.plan.seq},
    ),
)


def snapshot(
    *models: ModelSpec,
    aliases: Mapping[str, str] | None = None,
    limits: RequestLimits | None = None,
    settings: GatewaySettings | None = None,
    ready: tuple[str, ...] = (),
    log_paths: Mapping[str, str] | None = None,
    plan: Plan | None = None,
    at: float | None = None,
) -> Snapshot:
    """Return what a loop might publish for these models."""
    specs = tuple(sorted(models, key=lambda m: m.name))
    applied = Applied(
        manifest=Manifest(specs),
        launches={},
        routes={**{m.name: m.name for m in specs}, **(aliases or {})},
        limits={m.name: limits or RequestLimits() for m in specs},
        gateway=settings or GatewaySettings(),
        ports=(18100, 18199),
        digest="d",
        source=Source("manifests"),
    )
    now = time.monotonic() if at is None else at
    instances = tuple(Instance(name, "d", 1, 1, 1, True, 0, 0, now, now) for name in ready)
    observation = Observation(1, now, Memory(None, None), instances)
    made = plan or Plan(0, 1, Account())
    return Snapshot(now, applied, World(observation), made, Idle(), (), {}, log_paths=log_paths or {})


@dataclass
class Rig:
    """Everything a test of the gateway needs."""

    book: LeaseBook
    board: Board
    pool: UpstreamPool
    port: int
    client: httpx.AsyncClient
    server: GatewayServer
    wakes: list[float]
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def publish(self, made: Snapshot) -> None:
        """Be the loop at the end of a pass."""
        self.board.publish(made)
        self.book.configure({name: limits.queue for name, limits in made.applied.limits.items()})

    def settings(self, settings: GatewaySettings) -> None:
        """Apply other gateway settings."""
        assert self.board.snapshot is not None
        applied = replace(self.board.snapshot.applied, gateway=settings)
        self.publish(replace(self.board.snapshot, applied=applied))

    def open(self, port: int, model: str = "chat", upstream_model: str | None = None) -> None:
        """Be the loop when a model is ready."""
        endpoint = Endpoint(model, f"http://127.0.0.1:{port}", upstream_model)
        self.book.open(endpoint, time.monotonic())

    def engine(self, *args: str, log: Path | None = None) -> int:
        """Start a fake engine, wait until it is healthy, return its port."""
        port = free_port()
        with (log or Path("/dev/null")).open("ab") as out:
            self.processes.append(subprocess.Popen([*FAKE, "--port", str(port), *args], stdout=out))
        wait_for(lambda: healthy(port), 10, "the fake engine to be healthy")
        return port

    async def post(self, value: Any, path: str = CHAT, **kwargs: Any) -> httpx.Response:
        """POST a JSON body."""
        return await self.client.post(path, json=value, **kwargs)

    async def raw(self, data: bytes) -> anyio.abc.SocketStream:
        """Open a connection, send `data`, return the stream."""
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        await stream.send(data)
        return stream

    async def exchange(self, data: bytes) -> bytes:
        """Send a request that asks to close; return all that came back."""
        async with await self.raw(data) as stream:
            return await receive_all(stream)

    async def idle(self) -> None:
        """Wait until no lease is held and nobody waits."""
        await wait_for_async(lambda: not self.book.demands(), 2, "leases and queue entries to be gone")


@asynccontextmanager
async def rig(
    *models: ModelSpec,
    max_body: int | None = None,
    start_seconds: float = 0.05,
    views: Views = VIEWS,
) -> AsyncIterator[Rig]:
    """Serve a gateway for `models` (default: chat and other), with nothing loaded."""
    wakes: list[float] = []
    book = LeaseBook(lambda: wakes.append(time.monotonic()))
    board, pool = Board(), UpstreamPool()
    app = create_app(book, board, views=views, pool=pool, max_body=max_body, start_seconds=start_seconds)
    sock = bind(GatewaySettings(port=0))
    port = sock.getsockname()[1]
    running: asyncio.Future[GatewayServer] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(app, GatewaySettings(), sock=sock, started=running.set_result))
    server = await running
    base = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=20) as client:
        made = Rig(book, board, pool, port, client, server, wakes)
        made.publish(snapshot(*(models or (ModelSpec("chat", "d"), ModelSpec("other", "d")))))
        try:
            yield made
        finally:
            for process in made.processes:
                process.kill()
                process.wait()
            server.force_exit = True
            server.stop()
            await task
            await pool.aclose()


@dataclass
class Exchange:
    """One request as an engine sees it; the test writes the answer."""

    head: bytes
    body: bytes
    writer: asyncio.StreamWriter
    gone: asyncio.Event

    def header(self, name: str) -> list[str]:
        """Return all values of a header."""
        pairs = [line.decode().split(":", 1) for line in self.head.split(b"\r\n")[1:]]
        return [value.strip() for key, value in pairs if key.lower() == name]

    async def write(self, data: bytes) -> None:
        """Send a part of the answer."""
        self.writer.write(data)
        await self.writer.drain()

    async def left(self) -> None:
        """Return when the gateway has closed the connection."""
        with anyio.fail_after(2):
            await self.gone.wait()


class Scripted:
    """An engine in this process: each request comes out of `requests`, and waits for the test to answer it."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[Exchange] = asyncio.Queue()
        self.port = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = asyncio.Event()
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                exchange = Exchange(head, b"", writer, gone)
                exchange.body = await reader.readexactly(int((exchange.header("content-length") or ["0"])[0]))
                await self.requests.put(exchange)
        except (asyncio.IncompleteReadError, ConnectionError):
            gone.set()

    async def next(self) -> Exchange:
        """Return the next request; fails after 5 s."""
        with anyio.fail_after(5):
            return await self.requests.get()


@asynccontextmanager
async def scripted() -> AsyncIterator[Scripted]:
    """Run a scripted engine."""
    engine = Scripted()
    writers: list[asyncio.StreamWriter] = []

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await engine._serve(reader, writer)

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0, limit=1 << 20)
    engine.port = server.sockets[0].getsockname()[1]
    try:
        yield engine
    finally:
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        server.close()
        await server.wait_closed()


def request(
    body: bytes, *headers: str, path: str = CHAT, host: str = "127.0.0.1", method: str = "POST"
) -> bytes:
    """Return the bytes of a request with Content-Length."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def receive_all(stream: anyio.abc.SocketStream) -> bytes:
    """Return everything until the peer closes (10 s at most)."""
    data = b""
    with anyio.fail_after(10), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            data += await stream.receive()
    return data


async def receive_until(stream: anyio.abc.SocketStream, mark: bytes) -> bytes:
    """Return what arrives up to and with `mark`, and what came with it."""
    data = b""
    with anyio.fail_after(5):
        while mark not in data:
            data += await stream.receive()
    return data


def sha256(data: bytes) -> str:
    """Return the hex digest."""
    return hashlib.sha256(data).hexdigest()
