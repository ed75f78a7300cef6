"""The page of all keys, and how one key is found."""

import pytest

from reconciler.manifest.reference import PATH, Key, find, keys, page

KNOWN = keys()


def test_the_page_is_the_one_that_is_committed() -> None:
    assert PATH.read_text("utf-8") == page()


def test_every_key_says_what_it_takes_and_what_it_means() -> None:
    assert [key.path for key in KNOWN if not key.takes or not key.means] == []
    assert len({key.path for key in KNOWN}) == len(KNOWN) > 120


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("machine.watermarks.soft", "machine.watermarks.soft"),
        ("models.chat.queue.max", "models.NAME.queue.max"),
        ("queue.max", "models.NAME.queue.max"),
        ("models.NAME.adapters.[].scale", "models.NAME.adapters[].scale"),
        ("models.chat.adapters.scale", "models.NAME.adapters[].scale"),
        ("gateway.gates.heavy.limit", "gateway.gates.NAME.limit"),
    ],
)
def test_a_key_is_found_by_its_path(asked: str, path: str) -> None:
    found = find(asked, KNOWN)
    assert found is not None
    assert found.path == path


def test_what_is_no_key_is_not_found() -> None:
    assert find("machine.colour", KNOWN) is None


def test_what_a_key_takes_is_said_in_words() -> None:
    known = {key.path: key for key in KNOWN}
    assert known["machine.memory"].takes == "`auto`, size"
    assert known["machine.reserve"] == Key(
        "machine.reserve",
        "percentage, size",
        "10%",
        required=False,
        means="Memory kept free for the system: a percentage of the memory, or a size. Applies at once.",
    )
    assert known["models.NAME.idle_ttl"].takes == "`never`, duration"
    assert known["apiVersion"].required
