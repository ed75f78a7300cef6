"""Events as they come, from the running loop."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from reconciler.cli.client import NotRunningError, running_url
from reconciler.cli.past import events_query, given
from reconciler.cli.sse import stream

if TYPE_CHECKING:
    from reconciler.render.event_query import EventQuery

#: Tries to take up a stream that broke, one a second.
TRIES: Final = 5


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
    for _, data in stream(url, f"/api/v1/events?{urlencode(given(events_query(query)))}", seen):
        yield json.loads(data)
