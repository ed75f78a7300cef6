"""What a failure costs: the wait for the next try, and what makes the count begin anew."""

from itertools import pairwise

import pytest

from reconciler.core import book, crashes
from reconciler.core.types import LedgerEntry

EMPTY = LedgerEntry("m", "d")


def waits_after(count: int, answered: int, ran: float = 5.0) -> list[float | None]:
    """Return the waits after so many runs in a row, each of which answered so many requests before it died."""
    entry, waits = EMPTY, []
    for at in range(count):
        now = 1000.0 * at
        entry = book.crashed(book.loaded(entry, 1.0), "it died: exit code 1", ran, answered, now)
        waits.append(None if entry.retry_at is None else entry.retry_at - now)
    return waits


def test_one_that_dies_of_its_first_requests_is_tried_more_and_more_seldom() -> None:
    waits = waits_after(12, answered=book.STABLE_ANSWERS - 1)
    assert waits[:4] == [2, 4, 8, 16]
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(waits))
    assert waits[crashes.GIVE_UP_AFTER - 2 :] == [crashes.BACKOFF_CAP] + [crashes.GIVEN_UP_SECONDS] * 3


def test_one_that_served_well_between_two_crashes_begins_anew_but_never_spins() -> None:
    assert waits_after(5, answered=book.STABLE_ANSWERS) == [crashes.BACKOFF_FIRST] * 5
    assert waits_after(5, answered=0, ran=book.STABLE_SECONDS) == [None] * 5


@pytest.mark.parametrize(
    ("ran", "answered", "left"),
    [(5.0, 9, 3), (5.0, 10, 0), (60.0, 0, 0), (59.0, 0, 3)],
)
def test_failures_are_forgotten_while_it_serves(ran: float, answered: int, left: int) -> None:
    assert book.stable(LedgerEntry("m", "d", failures=3), ran, answered).failures == left


def test_a_persons_wish_begins_the_count_anew_and_waking_does_not() -> None:
    failed = book.failed(book.failed(EMPTY, "no", 0.0), "no", 0.0)
    assert failed.failures == 2
    wished = book.wished(failed)
    assert (wished.failures, wished.retry_at) == (0, None)
    assert book.mishap(book.failed(wished, "no", 0.0)) == "failed once"
    assert (book.woken(failed).failures, book.woken(failed).retry_at) == (2, None)


def test_that_it_died_is_said_once_in_a_sentence() -> None:
    entry = book.crashed(EMPTY, "it died: exit code 1", 1.0, 0, 0.0)
    assert f"{book.mishap(entry)}: {book.cause(entry)}" == "died once: exit code 1"


def test_what_the_next_try_leaves_out_is_tried_at_once_and_counts_all_the_same() -> None:
    entry, waits = EMPTY, []
    for _ in range(crashes.GIVE_UP_AFTER):
        entry = book.failed(entry, "no", 5.0, afresh=True)
        waits.append((entry.retry_at or 0.0) - 5.0)
    assert waits[:4] == [0, 4, 8, 16]
    assert book.gave_up(entry)
