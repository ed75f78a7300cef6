"""Events as they come, from the running loop."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from reconciler.cli.client import NotRunningError, RefusedError, key_header, refusal, running_url
from reconciler.cli.past import events_query, given

if TYPE_CHECKING:
    from reconciler.render.event_query import EventQuery

#: Seconds without a byte after which a stream is given up: it says every 15 s that it lives.
SILENCE: Final = 45.0
#: Tries to take up a stream that broke, one a second.
TRIES: Final = 5
#: The last line of a stream that ends with its loop.
_OVER: Final = b": over\n"


def follow(
    directory: Path, query: "EventQuery", pause: Callable[[], None] = lambda: time.sleep(1.0)
) -> Iterator[dict[str, Any]]:
    """Yield the events that are meant, then each as it comes, until the loop has ended in good order.

    A stream that breaks is taken up where it broke. Raises NotRunningError when no loop runs, RefusedError.
    """
    seen, tries = None, 0
    while True:
        url = running_url(directory)
        if url is None:
            raise NotRunningError(
                f"no loop runs with the state directory {directory} whose events could be followed"
            )
        try:
            for event in _stream(url, query, seen):
                seen, tries = event["id"], 0
                yield event
        except (OSError, http.client.HTTPException) as error:
            tries += 1
            if tries > TRIES:
                raise NotRunningError(f"the events of the loop at {url} broke off ({error})") from error
            pause()
        else:
            return


def _stream(url: str, query: "EventQuery", seen: int | None) -> Iterator[dict[str, Any]]:
    place = urlsplit(url)
    headers = {"Accept": "text/event-stream", **key_header()}
    if seen is not None:
        headers["Last-Event-ID"] = str(seen)
    connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port or 80, timeout=SILENCE)
    try:
        connection.request("GET", f"/api/v1/events?{urlencode(given(events_query(query)))}", headers=headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise refusal(url, answer.status, answer.read())
        if not (answer.headers.get("content-type") or "").startswith("text/event-stream"):
            raise RefusedError(f"what answers at {url} does not tell of events", answer.status)
        # The library takes a connection that is lost between two pieces for the end.
        while (line := answer.readline()) != _OVER:
            if not line:
                raise ConnectionError("the connection was lost")
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    finally:
        connection.close()
