"""A scripted stand-in for a model server: one file, standard library only, listening within 50 ms.

Run it as `python tests/fake_engine.py --port N [options]`; unknown options are ignored (try any argv).
It speaks HTTP/1.1 by hand, because `http.server` alone takes longer to import than all the rest.
A POST whose JSON says `"grow_mib": N` makes it hold so many MiB more before it answers.
POST /sleep frees the memory of --hold-mib until POST /wake_up; meanwhile it serves nobody.
POST /save writes a file into the folder of its `path`, POST /load reads it.
With --job a POST is answered at once and worked on for so long; GET /queue tells of it as ComfyUI does.
A chat with `tools` is answered by a call of the first one, unless its `tool_choice` is "none".
It answers GET /health, /v1/models, /echo, /stats, POST on any path (OpenAI-shaped), and idles on a WebSocket.
It ends itself after 15 minutes, so that nothing a failed test leaves behind stays for long.
"""

import argparse
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

LIFETIME_SECONDS = int(os.environ.get("FAKE_ENGINE_LIFETIME", "900"))
MIB = 1 << 20


class ClientGoneError(Exception):
    """The client closed its connection before the answer was complete."""


class Stats:
    """What happened so far; GET /stats shows it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requests = 0
        self.active = 0
        self.most_active = 0
        #: Wall-clock seconds at which a client was seen to have left early.
        self.closed_early: list[float] = []
        self.last_bodies: list[dict[str, object]] = []

    def begin(self) -> None:
        with self.lock:
            self.requests += 1
            self.active += 1
            self.most_active = max(self.most_active, self.active)

    def end(self) -> None:
        with self.lock:
            self.active -= 1

    def left(self) -> None:
        with self.lock:
            self.closed_early.append(time.time())
        say(f"client closed early at {time.time():.3f}")

    def body(self, body: bytes, headers: dict[str, str]) -> None:
        import hashlib

        framing = {
            k: headers[k] for k in ("content-length", "transfer-encoding", "content-type") if k in headers
        }
        entry: dict[str, object] = {"sha256": hashlib.sha256(body).hexdigest(), "length": len(body)}
        with self.lock:
            self.last_bodies = [*self.last_bodies[-49:], {**entry, "headers": framing}]

    def show(self) -> dict[str, object]:
        names = ("requests", "active", "most_active", "closed_early", "last_bodies")
        with self.lock:
            return {name: getattr(self, name) for name in names}


def parse() -> argparse.Namespace:
    """Read the command line; what is not known is left alone."""
    p = argparse.ArgumentParser(allow_abbrev=False, description=__doc__.splitlines()[0] if __doc__ else "")
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--v6only", action="store_true")
    p.add_argument("--load", type=float, default=0.0, help="seconds of 503 on /health")
    p.add_argument("--load-until", default=None, help="a file: 503 on /health until it is there")
    p.add_argument("--rss-mib", type=int, default=0, help="anonymous memory touched at start")
    p.add_argument("--grow-mib", type=int, default=0, help="anonymous memory touched once ready")
    p.add_argument(
        "--load-mib",
        type=int,
        default=0,
        help="anonymous memory touched bit by bit over --load, before it is ready",
    )
    p.add_argument("--hold-mib", type=int, default=0, help="anonymous memory that /sleep frees")
    p.add_argument("--sleep-says", type=int, default=200, help="status of /sleep; not 200 = nothing is freed")
    p.add_argument("--sleep-lies", action="store_true", help="/sleep says yes and frees nothing")
    p.add_argument("--sleep-takes", type=float, default=0.0, help="seconds before /sleep is answered")
    p.add_argument("--wake-lies", action="store_true", help="/wake_up says yes and takes nothing; it serves")
    p.add_argument("--wake-says", type=int, default=200, help="status of /wake_up; not 200 = it sleeps on")
    p.add_argument("--wake-takes", type=float, default=0.0, help="seconds before /wake_up is answered")
    p.add_argument(
        "--hold",
        default=None,
        help="a file: while it is there nothing but GET is answered, and streams stand still",
    )
    p.add_argument("--job", type=float, default=0.0, help="seconds of work after each answer")
    p.add_argument("--ignore-term", action="store_true")
    p.add_argument(
        "--exit", type=int, default=None, help="exit with this code (negative: die of that signal)"
    )
    p.add_argument("--last-words", default=None, help="logged before --exit, with $NAME filled in")
    p.add_argument("--after", type=float, default=0.0, help="seconds before --exit")
    p.add_argument("--hang-after", type=int, default=None, help="POSTs after which none is answered any more")
    p.add_argument("--fail-after", type=int, default=None, help="POSTs after which all are answered by 500")
    p.add_argument("--deaf-after", type=int, default=None, help="POSTs after which its port is closed")
    p.add_argument("--spin", type=float, default=0.0, help="seconds computed before a POST is answered")
    p.add_argument("--think", type=float, default=0.0, help="seconds before a POST is answered")
    p.add_argument("--stream", type=int, default=None, help="number of SSE events")
    p.add_argument("--delay", type=float, default=0.0, help="seconds between SSE events")
    p.add_argument("--cut-after", type=int, default=None, help="break the connection after this many events")
    p.add_argument(
        "--odd-stream", action="store_true", help="comments, one 700 KB line, one emoji in two chunks"
    )
    p.add_argument("--gzip", action="store_true", help="compress for clients that accept it")
    p.add_argument("--status", type=int, default=200, help="status of every POST")
    p.add_argument("--retry-after", default=None)
    p.add_argument("--api-key", default=None)
    p.add_argument("--print-mib", type=int, default=0, help="MiB of 200-byte log lines at start")
    p.add_argument("--chatter", type=float, default=0.0, help="seconds between log lines while it loads")
    p.add_argument("--worker", action="store_true", help="fork a child that lives on in its own session")
    return p.parse_known_args()[0]


ARGS = argparse.Namespace()
STATS = Stats()
STARTED = time.monotonic()
HELD: list[bytearray] = []
#: What --hold-mib takes; empty while it sleeps.
POOL: list[bytearray] = []
#: When each job of --job is done, monotonic seconds.
JOBS: list[float] = []
#: The socket that takes connections.
LISTENING: list[socket.socket] = []
#: Set while --load-mib is being taken.
TAKING = threading.Event()
#: Steps in which --load-mib is taken.
LOAD_STEPS = 50


def say(text: str) -> None:
    """Log one line."""
    print(text, flush=True)


def ready() -> bool:
    """Return whether the scripted load is over."""
    if ARGS.load_until is not None and not os.path.exists(ARGS.load_until):
        return False
    return time.monotonic() - STARTED >= float(ARGS.load) and not TAKING.is_set()


def watch_while(sock: socket.socket, seconds: float) -> None:
    """Wait, raising `ClientGoneError` as soon as the client closes."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        readable = select.select([sock], [], [], max(0.0, left))[0]
        if readable:
            try:
                if not sock.recv(1, socket.MSG_PEEK):
                    raise ClientGoneError
            except OSError as error:
                raise ClientGoneError from error
            time.sleep(
                min(0.01, max(0.0, left))
            )  # the next request is already here: keep waiting for this one
        if time.monotonic() >= end:
            return


def held(sock: socket.socket) -> None:
    """Wait while the file of --hold is there, raising `ClientGoneError` as soon as the client closes."""
    while ARGS.hold is not None and os.path.exists(ARGS.hold):
        watch_while(sock, 0.01)


class Connection:
    """One client connection, kept alive over several requests."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.file = sock.makefile("rb")
        self.method = self.path = ""
        self.headers: dict[str, str] = {}

    def serve(self) -> None:
        try:
            while self.read_head():
                if self.method in ("GET", "HEAD"):
                    self.get()
                else:
                    self.post()
                if self.headers.get("connection", "").lower() == "close":
                    break
        except ClientGoneError:
            STATS.left()
        except OSError as error:
            say(f"connection lost: {error}")
        finally:
            self.file.close()
            self.sock.close()

    def read_head(self) -> bool:
        line = self.file.readline(65536).decode("latin-1").split()
        if len(line) != 3:
            return False
        self.method, self.path, self.headers = line[0], line[1], {}
        while (header := self.file.readline(65536)) not in (b"\r\n", b"\n", b""):
            name, _, value = header.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
        return True

    def read_body(self) -> bytes:
        if self.headers.get("expect", "").lower() == "100-continue":
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            length = int(self.headers.get("content-length", "0"))
            body = self.file.read(length)
            if len(body) < length:
                raise ClientGoneError
            return body
        parts = []
        while size := int(self.file.readline().split(b";")[0] or b"0", 16):
            parts.append(self.file.read(size))
            self.file.readline()
        while self.file.readline() not in (b"\r\n", b"\n", b""):
            pass
        return b"".join(parts)

    def send(self, status: int, value: object, extra: tuple[tuple[str, str], ...] = ()) -> None:
        data = json.dumps(value).encode()
        headers = [("Content-Type", "application/json"), *extra]
        if self.compresses():
            import gzip

            data = gzip.compress(data)
            headers.append(("Content-Encoding", "gzip"))
        headers.append(("Content-Length", str(len(data))))
        self.sock.sendall(head(status, headers) + (b"" if self.method == "HEAD" else data))

    def compresses(self) -> bool:
        return bool(ARGS.gzip) and "gzip" in self.headers.get("accept-encoding", "")

    def refused(self) -> bool:
        if ARGS.api_key is None or self.headers.get("authorization") == f"Bearer {ARGS.api_key}":
            return False
        self.send(401, error_body("Invalid API Key", "authentication_error", 401))
        return True

    def get(self) -> None:
        path = self.path.partition("?")[0]
        if self.headers.get("upgrade", "").lower() == "websocket":
            self.websocket()
        elif path == "/health":
            if ready():
                self.send(200, {"status": "ok"})
            else:
                self.send(503, error_body("Loading model", "unavailable_error", 503))
        elif path == "/echo":
            env = os.environ.get("GREETING")
            self.send(200, {"argv": sys.argv, "cwd": os.getcwd(), "env": env, "pid": os.getpid()})
        elif path == "/stats":
            self.send(200, STATS.show())
        elif path == "/queue":
            left = [at for at in list(JOBS) if at > time.monotonic()]
            self.send(200, {"queue_running": left[:1], "queue_pending": left[1:]})
        elif path == "/v1/models":
            if not self.refused():
                entry = {"id": "fake", "object": "model", "created": 0, "owned_by": "fake"}
                self.send(200, {"object": "list", "data": [entry]})
        else:
            self.send(404, error_body(f"no such path: {self.path}", "not_found_error", 404))

    def post(self) -> None:
        STATS.begin()
        try:
            body = self.read_body()
            STATS.body(body, self.headers)
            if self.refused():
                return
            if self.path.partition("?")[0] in ("/sleep", "/wake_up"):
                self.rest()
                return
            if self.path in ("/save", "/load"):
                self.keep(body)
                return
            if not ready() or asleep():
                self.send(503, error_body("Loading model", "unavailable_error", 503))
                return
            if ARGS.job:
                JOBS.append(max([time.monotonic(), *JOBS]) + ARGS.job)
            self.misbehave()
            watch_while(self.sock, ARGS.think)
            if ARGS.status != 200:
                extra = (("Retry-After", ARGS.retry_after),) if ARGS.retry_after else ()
                self.send(
                    ARGS.status, error_body(f"scripted {ARGS.status}", "fake_error", ARGS.status), extra
                )
                return
            self.answer(body)
        finally:
            STATS.end()

    def misbehave(self) -> None:
        """Hang, fail or close the port, as the script says; compute for a while before an answer."""
        until = time.monotonic() + ARGS.spin
        while time.monotonic() < until:
            watch_while(self.sock, 0.0)
        if ARGS.hang_after is not None and STATS.requests > ARGS.hang_after:
            say("hangs")
            watch_while(self.sock, LIFETIME_SECONDS)
        if ARGS.fail_after is not None and STATS.requests > ARGS.fail_after:
            ARGS.status = 500
        if ARGS.deaf_after is not None and STATS.requests > ARGS.deaf_after:
            LISTENING[0].shutdown(socket.SHUT_RDWR)  # whoever waits in accept() keeps a closed one open

    def rest(self) -> None:
        """Sleep or wake, as far as the script lets it."""
        sleeps = self.path.startswith("/sleep")
        status = ARGS.sleep_says if sleeps else ARGS.wake_says
        say(f"{self.path} begins")
        watch_while(self.sock, ARGS.sleep_takes if sleeps else ARGS.wake_takes)
        held(self.sock)
        if status == 200 and not (sleeps and ARGS.sleep_lies):
            POOL.clear()
            if not sleeps:
                POOL.append(bytearray()) if ARGS.wake_lies else fill()
        say(f"{self.path} {status}")
        self.send(status, {} if status == 200 else error_body("scripted", "fake_error", status))

    def keep(self, body: bytes) -> None:
        """Write what is to be known later, or read it; a file is written before the wait of --hold."""
        file = os.path.join(json.loads(body)["path"], "state.bin")
        if self.path == "/save":
            with open(file, "wb") as out:
                out.write(b"what it knew")
        say(f"{self.path} begins")
        held(self.sock)
        if self.path == "/load":
            with open(file, "rb") as kept:
                kept.read()
        self.send(200, {"tokens": 3})

    def answer(self, body: bytes) -> None:
        try:
            asked = json.loads(body)
        except ValueError:
            asked = {}
        asked = asked if isinstance(asked, dict) else {}
        grow = asked.get("grow_mib")
        touch(grow if isinstance(grow, int) else 0)
        path = self.path.partition("?")[0]
        if path.endswith("/embeddings"):
            self.send(200, embeddings(asked))
        elif asked.get("stream", ARGS.stream is not None):
            self.stream(asked)
        else:
            held(self.sock)
            self.send(200, completion(asked, chat=path.endswith("chat/completions")))

    def stream(self, asked: dict[str, object]) -> None:
        headers = [
            ("Content-Type", "text/event-stream"),
            ("Cache-Control", "no-store"),
            ("X-Accel-Buffering", "no"),
        ]
        packer = None
        if self.compresses():
            import zlib

            packer = zlib.compressobj(wbits=31)
            headers.append(("Content-Encoding", "gzip"))
        self.sock.sendall(head(200, [*headers, ("Transfer-Encoding", "chunked")]))
        for number, (pause, piece) in enumerate(events(asked)):
            watch_while(self.sock, pause)
            if number:
                held(self.sock)
            if ARGS.cut_after is not None and number >= ARGS.cut_after:
                raise OSError("cut on purpose")
            if packer is not None:
                import zlib

                piece = packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
            self.chunk(piece)
        if packer is not None:
            self.chunk(packer.flush())
        self.sock.sendall(b"0\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        try:
            self.sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))
        except OSError as error:
            raise ClientGoneError from error

    def websocket(self) -> None:
        import base64
        import hashlib

        key = self.headers.get("sec-websocket-key", "") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        answer = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)]
        self.sock.sendall(head(101, answer))
        while self.file.read(1):
            pass
        raise ClientGoneError


def head(status: int, headers: list[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} Fake", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def error_body(message: str, kind: str, code: int) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "code": code}}


def completion(asked: dict[str, object], *, chat: bool) -> dict[str, object]:
    text = f"hello from {os.getpid()}"
    choice: dict[str, object] = {"index": 0, "finish_reason": "stop"}
    choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    if chat and (tool := wanted_tool(asked)):
        call = {
            "id": "call-1",
            "type": "function",
            "function": {"name": tool, "arguments": tool_arguments(asked)},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice |= {"message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}
    kind = "chat.completion" if chat else "text_completion"
    return envelope(asked, kind) | {"choices": [choice], "usage": usage}


def wanted_tool(asked: dict[str, object]) -> str | None:
    """Return the name of the tool a chat is answered with."""
    tools = asked.get("tools")
    if not isinstance(tools, list) or not tools or asked.get("tool_choice") == "none":
        return None
    function = tools[0].get("function") if isinstance(tools[0], dict) else None
    return str(function["name"]) if isinstance(function, dict) and "name" in function else None


def tool_arguments(asked: dict[str, object]) -> str:
    """Return arguments that tell what the last message of the chat was."""
    messages = asked.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else {}
    last = last if isinstance(last, dict) else {}
    return json.dumps({"role": last.get("role"), "heard": last.get("content")})


def tool_events(asked: dict[str, object], tool: str) -> Iterator[tuple[float, bytes]]:
    """Yield the events of a streamed call: its name first, then its arguments in pieces of five characters."""
    arguments = tool_arguments(asked)
    pieces = [arguments[i : i + 5] for i in range(0, len(arguments), 5)]
    first = {"index": 0, "id": "call-1", "type": "function", "function": {"name": tool, "arguments": ""}}
    calls = [first, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    choices: list[dict[str, object]] = [
        {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None} for call in calls
    ]
    for choice in [*choices, {"index": 0, "delta": {}, "finish_reason": "tool_calls"}]:
        value = envelope(asked, "chat.completion.chunk") | {"choices": [choice]}
        yield 0.0, f"data: {json.dumps(value)}\n\n".encode()
    yield 0.0, b"data: [DONE]\n\n"


def envelope(asked: dict[str, object], kind: str) -> dict[str, object]:
    model = asked.get("model", "fake")
    return {"id": "fake-1", "object": kind, "created": int(time.time()), "model": model, "pid": os.getpid()}


def embeddings(asked: dict[str, object]) -> dict[str, object]:
    texts = asked.get("input", "")
    rows = [
        {"object": "embedding", "index": i, "embedding": [len(str(text)) / 100, 0.5, -0.5, 1.0]}
        for i, text in enumerate(texts if isinstance(texts, list) else [texts])
    ]
    usage = {"prompt_tokens": len(rows), "total_tokens": len(rows)}
    return {"object": "list", "model": asked.get("model", "fake"), "data": rows, "usage": usage}


def events(asked: dict[str, object]) -> Iterator[tuple[float, bytes]]:
    """Yield (seconds to wait before, bytes of one HTTP chunk); each event says when it was sent."""
    if tool := wanted_tool(asked):
        yield from tool_events(asked, tool)
        return
    count = 3 if ARGS.stream is None else ARGS.stream
    for number in range(count):
        odd = ARGS.odd_stream
        text = (
            "x" * 700_000
            if odd and number == 1
            else "\U0001f600"
            if odd and number == 2
            else f"token{number} "
        )
        delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        value = envelope(asked, "chat.completion.chunk") | {
            "choices": [delta],
            "sent": time.time(),
            "n": number,
        }
        data = f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
        pause = ARGS.delay if number else 0.0
        if odd and number == 0:
            yield 0.0, b": a comment\n\n"
        if odd and number == 2:
            middle = data.index("\U0001f600".encode()) + 2
            yield pause, data[:middle]
            pause, data = 0.0, data[middle:]
        yield pause, data
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    yield (
        0.0,
        f"data: {json.dumps(envelope(asked, 'chat.completion.chunk') | {'choices': [last]})}\n\n".encode(),
    )
    yield 0.0, b"data: [DONE]\n\n"


def listen() -> socket.socket:
    """Bind as told; `::` takes both families unless --v6only."""
    family = socket.AF_INET6 if ":" in ARGS.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(ARGS.v6only))
    sock.bind((ARGS.host, ARGS.port))
    sock.listen(128)
    return sock


def take(mib: int, seconds: float) -> None:
    """Hold `mib` MiB more, bit by bit."""
    for step in range(LOAD_STEPS):
        touch(mib * (step + 1) // LOAD_STEPS - mib * step // LOAD_STEPS)
        time.sleep(seconds / LOAD_STEPS)
    TAKING.clear()


def touch(mib: int) -> None:
    """Hold `mib` MiB of memory whose pages are really there."""
    HELD.append(bytearray(b"\x01") * (mib * MIB))


def fill() -> None:
    """Take the memory of --hold-mib."""
    POOL.append(bytearray(b"\x01") * (ARGS.hold_mib * MIB))


def asleep() -> bool:
    """Return whether the memory of --hold-mib was given back."""
    return bool(ARGS.hold_mib) and not POOL


def burst(mib: int) -> None:
    """Write numbered log lines of 200 bytes."""
    total = mib * MIB // 200
    for first in range(0, total, 5000):
        lines = (f"line {n:08d} ".ljust(199, "x") + "\n" for n in range(first, min(first + 5000, total)))
        sys.stdout.write("".join(lines))
    sys.stdout.flush()
    say(f"burst of {total} lines done")


def chat() -> None:
    """Write a line now and then until the load is over."""
    while not ready():
        say("still loading")
        time.sleep(ARGS.chatter)


def leave() -> None:
    """End as --exit says."""
    say(f"fake engine leaves with {ARGS.exit}")
    if ARGS.last_words is not None:
        say(os.path.expandvars(ARGS.last_words))
    if ARGS.exit < 0:
        os.kill(os.getpid(), -ARGS.exit)
    os._exit(ARGS.exit)


def later(seconds: float, do: Callable[..., None], *args: object) -> None:
    """Call `do` in a thread after `seconds`; at once, in this thread, for 0."""
    if seconds <= 0:
        do(*args)
        return
    timer = threading.Timer(seconds, do, args)
    timer.daemon = True
    timer.start()


def fork_worker() -> None:
    """Leave a child in its own session that nobody ends unless they look for it."""
    if os.fork() == 0:
        os.setsid()
        signal.alarm(LIFETIME_SECONDS)
        while True:
            signal.pause()


def main() -> None:
    """Serve until killed."""
    global ARGS
    ARGS = parse()
    signal.alarm(LIFETIME_SECONDS)
    if ARGS.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if ARGS.worker:
        fork_worker()
    sock = listen()
    LISTENING.append(sock)
    say(f"fake engine {os.getpid()} listening on {ARGS.host} port {sock.getsockname()[1]}")
    touch(ARGS.rss_mib)
    fill()
    if ARGS.load_mib:
        TAKING.set()
        threading.Thread(target=take, args=(ARGS.load_mib, ARGS.load), daemon=True).start()
    if ARGS.grow_mib:
        later(ARGS.load, touch, ARGS.grow_mib)
    if ARGS.print_mib:
        burst(ARGS.print_mib)
    if ARGS.chatter:
        threading.Thread(target=chat, daemon=True).start()
    if ARGS.exit is not None:
        later(ARGS.after, leave)
    while True:
        try:
            client, _ = sock.accept()
        except OSError:  # --deaf-after
            sock.close()
            signal.pause()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=Connection(client).serve, daemon=True).start()


if __name__ == "__main__":
    main()
