"""What people read of whether a model still answers."""

from dataclasses import asdict

import pytest

from reconciler.board import Health
from reconciler.render.health_document import health_document, health_text

NOW = 1000.0
WHY = "1 request got nothing for 30s, and its process does nothing"


@pytest.mark.parametrize(
    ("health", "text"),
    [
        (None, ""),
        (Health(), ""),
        (Health(faults=2, fault="it answered 500"), "failed 2 in a row: it answered 500"),
        (
            Health(suspect=WHY, asking=True),
            f"may hang: {WHY}; a request of our own waits for its answer",
        ),
        (
            Health(suspect=WHY, probed=False),
            f"may hang: {WHY}, and is only watched (liveness: off)",
        ),
        (Health(hung=WHY), f"hangs: {WHY}"),
        (
            Health(asked_at=NOW - 60, took=0.25),
            "answered a request of our own in 0.2s, 60s ago",
        ),
        (
            Health(suspect=WHY, asked_at=NOW - 2, took=0.1, wrong="it says\n500"),
            f"may hang: {WHY}; answered a request of our own wrongly (it says 500) in 0.1s, 2.0s ago",
        ),
    ],
)
def test_health_in_a_sentence(health: Health | None, text: str) -> None:
    document = health_document(health, NOW)
    assert health_text(asdict(document) if document is not None else None) == text


def test_what_was_never_asked_has_no_times() -> None:
    document = health_document(Health(), NOW)
    assert document is not None
    assert (document.liveness, document.probed, document.probe_seconds) == ("auto", None, None)
