"""Answers in pieces: how far a class runs ahead of who reads, what a probe takes, calls of tools, what ends them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from reconciler.worker import server as server_module
from reconciler.worker.errors import Failed
from reconciler.worker.gathered import MOST, Gathered
from reconciler.worker.jobs import _AHEAD
from support import wait_for
from worker_process import SOON, events
from worker_threads import serving

ASKED = {"messages": [{"role": "user", "content": "a"}]}


class Endless:
    """Never comes to an end, and says how far it is."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = 0
        self.piece = "word "

    def chat(self, messages: object) -> Iterator[str]:
        """Yield for ever."""
        try:
            while True:
                self.made += 1
                yield self.piece
        finally:
            self.closed += 1


class EndlessAsync(Endless):
    """The same, asynchronous."""

    async def chat(self, messages: object) -> AsyncIterator[str]:  # type: ignore[override]
        """Yield for ever."""
        for piece in super().chat(messages):
            await asyncio.sleep(0)
            yield piece


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("kind", [Endless, EndlessAsync])
def test_a_probe_takes_the_first_piece_and_no_more(kind: type[Endless], concurrent: bool) -> None:
    model = kind()
    model.concurrent = concurrent  # type: ignore[attr-defined]
    with serving(model) as client:
        assert client.post("/probe").json() == {"status": "ok"}
        assert model.made == 1
        if kind is Endless:
            wait_for(lambda: model.closed == 1, SOON, "the generator to be closed")


def open_stream(client: httpx.Client) -> socket.socket:
    """Ask for a stream, and read none of it."""
    port = client.base_url.port
    assert port is not None
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(SOON)
    connection.connect(("127.0.0.1", port))
    body = b'{"messages":[{"role":"user","content":"a"}],"stream":true}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n"
    connection.sendall(head % len(body) + body)
    return connection


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_class_waits_for_a_client_that_reads_nothing_and_then_serves_others(
    monkeypatch: pytest.MonkeyPatch, concurrent: bool
) -> None:
    monkeypatch.setattr(server_module, "_UNREAD_SECONDS", 0.5)
    model = Endless()
    model.concurrent = concurrent  # type: ignore[attr-defined]
    model.piece = "x" * (1 << 20)
    with serving(model) as client, open_stream(client):
        wait_for(lambda: model.closed == 1, SOON, "the stream to be given up")
        # What the system's buffers take, what lies in line, and one that waits to get there.
        assert _AHEAD < model.made < _AHEAD + 40
        assert client.post("/probe").json() == {"status": "ok"}


def test_a_client_that_leaves_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Endless()
    with serving(model) as client:
        with open_stream(client) as connection:
            assert connection.recv(100)
        wait_for(lambda: model.closed == 1, SOON, "the generator to be closed")


def test_a_whole_answer_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.worker.gathered.MOST", 10_000)
    model = Endless()
    with serving(model) as client:
        answer = client.post("/v1/chat/completions", json=ASKED)
        assert answer.status_code == 500
        assert "chat returned more than" in answer.json()["error"]["message"]
        wait_for(lambda: model.closed == 1, SOON, "the generator to be closed")
    assert MOST == 64 << 20


RAISED = [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, SystemExit, ValueError]


class Raises:
    """Raises what it is told to, at each place there is."""

    def __init__(self, error: type[BaseException], concurrent: bool) -> None:
        self.error, self.concurrent = error, concurrent

    def chat(self, messages: list[dict[str, str]]) -> Any:
        """Raise at once, or after a piece."""
        return self._pieces() if messages[0]["content"] == "late" else self._raise()

    def _raise(self) -> Any:
        raise self.error

    def _pieces(self) -> Iterator[str]:
        yield "one"
        raise self.error

    async def embed(self, texts: object) -> Any:
        """Raise in the event loop."""
        raise self.error

    async def complete(self, prompt: str) -> AsyncIterator[str]:
        """Raise in the event loop, after a piece."""
        yield "one"
        raise self.error

    def infer(self, payload: object) -> object:
        """Work."""
        return payload

    def empty_cache(self) -> None:
        """Raise where nobody asked."""
        raise self.error


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("error", RAISED)
def test_whatever_a_class_raises_its_client_is_told_and_the_next_is_served(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], concurrent: bool
) -> None:
    monkeypatch.setattr("reconciler.worker.caches.EVERY_CALLS", 1)
    monkeypatch.setattr("reconciler.worker.caches.EVERY_SECONDS", 0.0)
    monkeypatch.setattr("reconciler.worker.caches.gc.collect", int)  # of all that pytest holds
    with serving(Raises(error, concurrent), "chat") as client:
        for content, stream in (("early", False), ("early", True), ("late", False)):
            body = {"messages": [{"role": "user", "content": content}], "stream": stream}
            answer = client.post("/v1/chat/completions", json=body)
            assert answer.status_code == 500
            assert error.__name__ in answer.json()["error"]["message"]
        body = {"messages": [{"role": "user", "content": "late"}], "stream": True}
        *_, last = events(client.post("/v1/chat/completions", json=body))
        assert error.__name__ in last["error"]["message"]
        assert client.post("/infer", json=1).json() == 1


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("error", RAISED)
def test_the_same_in_an_event_loop(error: type[BaseException], concurrent: bool) -> None:
    model = Raises(error, concurrent)
    for role, path, body in (
        ("embedding", "/v1/embeddings", {"input": "a"}),
        ("completion", "/v1/completions", {"prompt": "a"}),
    ):
        with serving(model, role) as client:
            for _ in range(2):
                answer = client.post(path, json=body)
                assert answer.status_code == 500
                assert error.__name__ in answer.json()["error"]["message"]


class Unspeakable(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class Speaks:
    """Raises exceptions that are odd themselves."""

    def infer(self, payload: int) -> object:
        """Raise one that cannot be told, or one that is very long."""
        raise Unspeakable if payload else ValueError("x" * 1_000_000)


def test_exceptions_that_cannot_be_told_and_very_long_ones(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(Speaks()) as client:
        message = client.post("/infer", json=1).json()["error"]["message"]
        assert message == "Unspeakable: (its text cannot be had: RuntimeError)"
        long = client.post("/infer", json=0).json()["error"]["message"]
        assert long.endswith("xxx ... (1000000 characters)")
        assert len(long) < 2100
    assert len(capfd.readouterr().err) < 60_000


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


class Tools:
    """Asks for a tool, at once or in pieces."""

    def chat(self, messages: list[dict[str, str]]) -> Any:
        """Return a message, or its pieces."""
        if messages[0]["content"] == "pieces":
            first = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
            return iter(
                [{"tool_calls": [first]}, {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}]
            )
        return {"content": None, "tool_calls": [CALL]}


@pytest.mark.parametrize("content", ["whole", "pieces"])
def test_calls_of_tools(content: str) -> None:
    body = {"messages": [{"role": "user", "content": content}]}
    with serving(Tools()) as client:
        [choice] = client.post("/v1/chat/completions", json=body).json()["choices"]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"] == {"role": "assistant", "content": None, "tool_calls": [CALL]}
        *pieces, done = events(client.post("/v1/chat/completions", json={**body, "stream": True}))
    assert done == "[DONE]"
    deltas = [piece["choices"][0]["delta"] for piece in pieces]
    assert [piece["choices"][0]["finish_reason"] for piece in pieces][-2:] == [None, "tool_calls"]
    assert deltas[0]["role"] == "assistant"
    assert deltas[0]["tool_calls"][0]["index"] == 0
    arguments = [delta["tool_calls"][0]["function"]["arguments"] for delta in deltas[:-1]]
    assert "".join(arguments) == "{}"


def test_calls_that_come_one_after_the_other_are_numbered() -> None:
    gathered = Gathered("chat")
    numbers = [gathered.add({"tool_calls": [CALL]})["tool_calls"][0]["index"] for _ in range(2)]
    assert numbers == [0, 1]
    assert gathered.message()["tool_calls"] == [CALL, CALL]


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        (3, "chat returned a int: a text or a dict is wanted"),
        ({"content": ["a"]}, "chat returned a list as content: a text is wanted"),
        ({"tool_calls": {"id": 1}}, "chat returned a dict as tool_calls: a list of dicts is wanted"),
    ],
)
def test_what_is_no_piece_of_an_answer(piece: object, message: str) -> None:
    with pytest.raises(Failed, match=message):
        Gathered("chat").add(piece)
