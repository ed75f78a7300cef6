"""The clients of a soak: what they ask, what they were answered, and whether an answer may be what it is."""

import time
from dataclasses import dataclass, field
from typing import Final

import httpx

from manager import CHAT, Background, Manager, chat

#: Longer than any queue: a client that waits for so long has met a fault.
PATIENCE: Final = 60.0
WORDS: Final = "so many words are in this prompt "


@dataclass(frozen=True)
class Request:
    """What one client asks."""

    model: str
    kind: str = "chat"
    prompt: str = "hi"
    tokens: int = 2
    #: Seconds after which the client leaves; None = it stays.
    leaves: float | None = None


@dataclass
class Answer:
    """What came of a request. `status` is None for a client that left before it was answered."""

    request: Request
    status: int | None = None
    #: The `code` of an error, or what went wrong below HTTP.
    code: str = ""
    message: str = ""
    seconds: float = 0.0


class Client(Background):
    """One request on its way."""

    def __init__(self, manager: Manager, request: Request) -> None:
        super().__init__()
        self.url, self.answer = manager.url, Answer(request)
        self.start()

    def work(self) -> None:
        request, answer = self.answer.request, self.answer
        began = time.monotonic()
        timeout = httpx.Timeout(PATIENCE if request.leaves is None else request.leaves)
        try:
            with httpx.Client(trust_env=False, timeout=timeout, base_url=self.url) as client:
                self._ask(client, request)
        except httpx.TimeoutException:
            if request.leaves is None:
                answer.code = f"no answer within {PATIENCE:g} s"
        except httpx.HTTPError as error:
            answer.code = repr(error)
        answer.seconds = time.monotonic() - began

    def _ask(self, client: httpx.Client, request: Request) -> None:
        if request.kind == "embeddings":
            self._take(client.post("/v1/embeddings", json={"model": request.model, "input": request.prompt}))
            return
        body = chat(request.model, max_tokens=request.tokens, stream=request.kind == "stream")
        body["messages"] = [{"role": "user", "content": request.prompt}]
        if request.kind != "stream":
            self._take(client.post(CHAT, json=body))
            return
        with client.stream("POST", CHAT, json=body) as reply:
            text = "".join(reply.iter_text())
        self._take(reply, text)
        if reply.status_code == 200 and "data: [DONE]" not in text:
            self.answer.code = f"the stream ended early: {text[-200:]!r}"

    def _take(self, reply: httpx.Response, text: str | None = None) -> None:
        self.answer.status = reply.status_code
        if reply.status_code != 200:
            self.answer.message = reply.text if text is None else text
            self.answer.code = code_of(self.answer.message)


def code_of(text: str) -> str:
    """Return the code of an error reply, or its beginning if it is no such reply."""
    try:
        return str(httpx.Response(502, text=text).json()["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


@dataclass
class Answers:
    """All answers of a soak."""

    hopeless: str
    all: list[Answer] = field(default_factory=list)

    @property
    def refused(self) -> dict[str, int]:
        """How many were answered with an error, by model and code, those that no memory would have fitted too."""
        counts: dict[str, int] = {}
        for answer in self.all:
            if answer.code:
                key = f"{answer.request.model}: {answer.code}"
                counts[key] = counts.get(key, 0) + 1
        return dict(sorted(counts.items()))

    @property
    def faults(self) -> list[str]:
        """Answers that must not be: every model fits beside the pinned ones, except the one that never does."""
        found = []
        for answer in self.all:
            wanted = (507, "never_fits") if answer.request.model == self.hopeless else (200, "")
            left = answer.request.leaves is not None and answer.status is None and not answer.code
            if not left and (answer.status, answer.code) != wanted:
                found.append(
                    f"{answer.request} after {answer.seconds:.1f} s: {answer.status} {answer.code} {answer.message}"
                )
        return found

    @property
    def longest(self) -> float:
        """Seconds that the slowest answer took."""
        return max((answer.seconds for answer in self.all), default=0.0)
