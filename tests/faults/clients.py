"""People who ask: every request is on record with how it ended, so that the oracle can judge all of them."""

import json
import time
from dataclasses import dataclass
from typing import Final

import httpx

from manager import CHAT, Background, chat
from support import wait_for

#: Seconds within which every request of a cell has to be over, one way or the other.
BOUND: Final = 25.0


@dataclass(frozen=True)
class End:
    """How a request ended."""

    #: `answered`, `told` (a JSON error with a code), `cut` or `refused` (the connection), `odd` (anything else).
    kind: str
    #: The code of the error, or what is odd.
    what: str = ""
    status: int = 0
    #: Who answered: the pid of the model's process.
    by: int | None = None


class Asked(Background):
    """One chat request on its way; a stream is read to its end."""

    def __init__(self, url: str, model: str, *, stream: bool = False) -> None:
        super().__init__()
        self.url, self.model, self.stream = url, model, stream
        #: Monotonic seconds.
        self.began = self.over = time.monotonic()
        self.end: End | None = None
        self.events = 0
        #: The code of an error that came as an event.
        self.told = ""
        self.start()

    def work(self) -> None:
        try:
            self.end = self._ask()
        except httpx.ConnectError as error:
            self.end = End("refused", str(error))
        except httpx.TimeoutException:
            self.end = End("odd", f"no answer within {BOUND:g} s")
        except httpx.TransportError as error:  # after its last words a broken stream has no proper end
            self.end = End("told", self.told, 200) if self.told else End("cut", str(error))
        finally:
            self.over = time.monotonic()

    def _ask(self) -> End:
        body = chat(self.model, stream=self.stream)
        with (
            httpx.Client(trust_env=False, timeout=BOUND) as client,
            client.stream("POST", self.url + CHAT, json=body) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
                return _told(answer)
            if not self.stream:
                answer.read()
                return End("answered", status=200, by=answer.json()["pid"])
            return self._read(answer)

    def _read(self, answer: httpx.Response) -> End:
        done, by = False, None
        for line in answer.iter_lines():
            done = done or line == "data: [DONE]"
            if line.startswith("data: {"):
                said = json.loads(line.removeprefix("data: "))
                self.events += 1
                by = said.get("pid", by)
                self.told = said["error"]["code"] if "error" in said else ""
        return (
            End("answered", status=200, by=by)
            if done
            else End("odd", "a stream ended early as if it were whole")
        )

    def flowing(self) -> "Asked":
        """Wait until the stream has begun."""
        wait_for(lambda: self.events or self.end, BOUND, "the first event of a stream")
        assert self.events, f"the stream never began: {self.end}"
        return self

    def ended(self) -> End:
        """Wait for the end."""
        self.finish(BOUND + 5)
        assert self.end is not None
        return self.end

    def answered(self) -> End:
        """Wait for the end, which must be a right answer."""
        end = self.ended()
        assert end.kind == "answered", end
        return end


def _told(answer: httpx.Response) -> End:
    try:
        code = answer.json()["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return End("odd", f"{answer.status_code}: {answer.text[:200]}", answer.status_code)
    return End("told", str(code), answer.status_code)
