"""A line in the log for each request that is over, for who wants them (`--log-requests`).

Written from the rows that the history is written from, at most a second after their end: no request waits for it.
"""

from collections.abc import Iterable

import structlog

from reconciler.leases import Ended

log = structlog.get_logger("reconciler.loop")


def tell(requests: Iterable[Ended]) -> None:
    """Log requests that are over. Seconds; `cold` is what of the wait was for the model to be loaded."""
    for one in requests:
        prompt, answer = one.tokens or (None, None)
        known = {"prompt_tokens": prompt, "completion_tokens": answer}
        log.info(
            "request",
            model=one.model,
            owner=one.owner or None,
            outcome=one.outcome,
            waited=one.waited,
            cold=one.cold,
            seconds=one.seconds,
            **{name: count for name, count in known.items() if count is not None},
        )
