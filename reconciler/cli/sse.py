"""Server-sent events of the running loop."""

import http.client
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

from reconciler.cli.client import RefusedError, key_header, refusal

#: Seconds without a byte after which a stream is given up: it says every 15 s that it lives.
SILENCE: Final = 45.0
#: The last line of a stream that ends with its loop.
_OVER: Final = b": over\n"


def stream(
    url: str,
    path: str,
    seen: int | None = None,
    opened: Callable[[], None] = lambda: None,
    silence: float = SILENCE,
) -> Iterator[tuple[str, bytes]]:
    """Yield kind ("" = none is said) and data of each event, until the stream ends in good order.

    `seen` is the id to go on after; `opened` is called once the loop has begun to answer; after `silence` seconds
    without a byte it counts as broken. Raises OSError or HTTPException where the stream breaks, RefusedError where
    there is none.
    """
    place = urlsplit(url)
    headers = {"Accept": "text/event-stream", **key_header()}
    if seen is not None:
        headers["Last-Event-ID"] = str(seen)
    connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port or 80, timeout=silence)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise refusal(url, answer.status, answer.read())
        if not (answer.headers.get("content-type") or "").startswith("text/event-stream"):
            raise RefusedError(f"what answers at {url} does not tell of events", answer.status)
        opened()
        yield from _events(answer)
    finally:
        connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, bytes]]:
    kind = ""
    # The library takes a connection that is lost between two pieces for the end.
    while (line := answer.readline()) != _OVER:
        if not line:
            raise ConnectionError("the connection was lost")
        if line.startswith(b"event: "):
            kind = line[7:].strip().decode("ascii", "replace")
        elif line.startswith(b"data: "):
            yield kind, line[6:]
            kind = ""
