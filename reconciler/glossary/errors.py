"""The errors of the gateway, from its own list."""

from typing import Final

from reconciler.glossary.words import Kind, Word

#: What helps, where the sentence of the list does not say it already.
_HELPS: Final = {
    "context_length_exceeded": "ask with a shorter prompt or a smaller `max_tokens`; or raise `context.max_tokens`, or"
    " set `context.overflow` to `trim` or `summarize`",
    "invalid_api_key": "send a key of `gateway.api_keys` as `Authorization: Bearer KEY`",
    "forbidden_host": "add the name to `gateway.hosts`",
    "forbidden_origin": "add the page's origin to `gateway.origins`",
    "insufficient_scope": "use a key with the scope that the message names",
    "model_not_found": "`reconcile status`, or GET /v1/models, lists the names",
    "not_loaded": "POST to it, or `reconcile load NAME` first",
    "model_pinned": "set `residency` to warm or on_demand, save, and ask again",
    "cannot_load": "`reconcile explain NAME` says why, and what would let it in",
    "queue_full": "ask again after `Retry-After`; or raise `queue.max` of the model",
    "queue_timeout": "`reconcile explain NAME` says what it waited for; raise `queue.timeout` if one may wait longer",
    "upstream_error": "`reconcile logs NAME` shows what the server said last",
    "load_failed": "`reconcile explain NAME` says what went wrong and what helps; `reconcile logs NAME` has all of it",
    "upstream_timeout": "raise the entry of `timeouts` that the message names, if the model needs longer",
    "insufficient_memory": "`reconcile explain NAME` says who holds the memory, and what would let it in",
    "never_fits": "raise `machine.memory`, shrink the model (context, slots, quantisation), or pin less",
    "not_startable": "`reconcile validate` and `reconcile explain NAME` name what has to be mended",
    "given_up": "mend what the message names, then `reconcile load NAME`",
    "model_hung": "ask again; if it happens often, `reconcile logs NAME` and `reconcile history NAME`",
    "history_unavailable": "free disk or mend the state directory, as the message says",
    "log_unavailable": "mend the permissions of the logs in the state directory, as the message says",
}
_PAGE: Final = "gateway.md#errors"


def errors() -> tuple[Word, ...]:
    """Return the gateway's errors with their HTTP status."""
    from reconciler.gateway.errors import (
        CODES,
    )  # the HTTP front is a lot to load for who asks for another word

    return tuple(
        Word(name, Kind.ERROR, f"HTTP {code.status}. {code.when}", _HELPS.get(name, ""), _PAGE)
        for name, code in CODES.items()
    )
