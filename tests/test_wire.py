"""The world of a loop survives its way through JSON unchanged, whatever it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board_samples import NOW, SECRET, snapshot
from reconciler.core.memory import Memory
from reconciler.core.types import (
    Chance,
    Demand,
    Instance,
    LedgerEntry,
    Observation,
    Preflight,
    Prewarms,
    Swap,
    World,
)
from reconciler.wire import SeenWorld, WireError, world_from_json, world_to_json

SECONDS = st.floats(0, 1e9)
BYTES = st.integers(0, 2**50)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

WORLDS = st.builds(
    World,
    observation=st.builds(
        Observation,
        seq=st.integers(0, 10**9),
        at=SECONDS,
        memory=st.builds(Memory, st.none() | BYTES, st.none() | BYTES, TEXT),
        instances=st.lists(
            st.builds(
                Instance,
                model=TEXT,
                digest=TEXT,
                pid=BYTES,
                started=BYTES,
                port=st.integers(1, 65535),
                ready=st.booleans(),
                committed=st.none() | BYTES,
                warm=st.none() | BYTES,
                loaded_at=SECONDS,
                last_used=SECONDS,
                served=st.integers(0, 10**6),
            ),
            max_size=3,
        ).map(tuple),
        demands=st.lists(
            st.builds(
                Demand,
                TEXT,
                st.integers(0, 99),
                st.integers(0, 99),
                st.none() | SECONDS,
                st.booleans(),
                st.booleans(),
            ),
            max_size=3,
        ).map(tuple),
        preflights=st.lists(
            st.builds(Preflight, TEXT, st.none() | TEXT, TEXT, st.none() | BYTES, st.none() | BYTES),
            max_size=3,
        ).map(tuple),
    ),
    ledger=st.lists(
        st.builds(
            LedgerEntry, TEXT, TEXT, BYTES, st.integers(0, 99), st.none() | SECONDS, TEXT, st.none() | SECONDS
        ),
        max_size=3,
    ).map(tuple),
    chances=st.lists(st.builds(Chance, TEXT, st.floats(0, 1)), max_size=3).map(tuple),
    prewarms=st.builds(
        Prewarms,
        st.lists(SECONDS, max_size=3).map(tuple),
        st.lists(st.tuples(TEXT, SECONDS), max_size=3).map(tuple),
        st.lists(st.tuples(TEXT, st.integers(1, 99)), max_size=3).map(tuple),
    ),
    swaps=st.lists(st.builds(Swap, TEXT, TEXT, SECONDS), max_size=3).map(tuple),
)


@given(WORLDS)
def test_any_world_round_trips(world: World) -> None:
    from dataclasses import replace

    sent = json.loads(json.dumps(world_to_json(replace(snapshot(), world=world))))
    assert world_from_json(sent) == SeenWorld(NOW - 1, 7, "abc123", "0.1.0", world)


def test_nothing_but_the_world_is_sent() -> None:
    assert SECRET not in json.dumps(world_to_json(snapshot()))


def test_a_field_of_a_later_program_is_ignored() -> None:
    document = world_to_json(snapshot())
    document["mood"] = "fine"
    document["world"]["observation"]["weather"] = "rain"
    assert world_from_json(document).world == snapshot().world


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"formatVersion": 2}, r"format version 2, this program 1: restart the loop"),
        ({"world": {}}, r"cannot be read: world\.observation: Field required"),
        ({"at": "soon"}, r"cannot be read: at: "),
    ],
)
def test_what_cannot_be_read_is_said(change: dict[str, object], message: str) -> None:
    with pytest.raises(WireError, match=message):
        world_from_json({**world_to_json(snapshot()), **change})


@pytest.mark.parametrize("document", [None, [], "hello", {}, {"error": {"message": "no"}}])
def test_another_program_is_told_from_a_loop(document: object) -> None:
    with pytest.raises(WireError, match="another program"):
        world_from_json(document)
