"""Refused keys in the log: often enough to be seen, seldom enough not to fill it."""

from typing import Final

import structlog
from starlette.types import Scope as Asgi

log = structlog.get_logger(__name__)

#: Seconds between two lines.
LOG_SECONDS: Final = 10.0
SHOWN_CHARACTERS: Final = 100


class Refusals:
    """Counts what is refused; at most one line for a while says how much of it there was."""

    def __init__(self) -> None:
        self._next = float("-inf")
        self._unsaid = 0

    def note(self, scope: Asgi, code: str, name: str, now: float) -> None:
        """Note one request that was refused with `code`; `name` is its key's, "" = it sent none that is known."""
        self._unsaid += 1
        if now < self._next:
            return
        client = scope.get("client")
        log.warning(
            "request_refused",
            reason=code,
            client=client[0] if client else None,
            method=scope["method"],
            path=scope["path"][:SHOWN_CHARACTERS],
            sender=name or None,
            requests=self._unsaid,
        )
        self._unsaid = 0
        self._next = now + LOG_SECONDS
