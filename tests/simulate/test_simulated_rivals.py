"""Pairs that took turns in a simulated memory: named with ways out that were tried, or not at all."""

from dataclasses import replace

import pytest

import simulate_samples as samples
from reconciler.core.types import ModelSpec, Reason
from reconciler.simulate.adviser import Adviser
from reconciler.simulate.layout import Layout
from reconciler.simulate.result import Action, Result
from reconciler.simulate.rivals import rivals

GIB = samples.GIB


def layout(budget: int) -> Layout:
    """Return the desk of the samples with so many bytes for its models."""
    made = samples.layout("desk.yaml")
    return replace(made, manifest=replace(made.manifest, memory=budget, reserve=0))


def turns(count: int, wanted_after: float | None = 48.0) -> Result:
    names = ("chat", "coder") * count
    actions = tuple(
        Action("evict", names[n], Reason.MAKE_ROOM, n * 50.0, n * 50.0 + 2, names[n + 1], wanted_after)
        for n in range(count)
    )
    return replace(samples.result(), actions=actions)


@pytest.mark.parametrize(
    ("budget", "wanted_after", "swaps", "short"),
    [
        (60 * GIB, 48.0, 4, 3 * GIB),
        (63 * GIB, 48.0, 4, None),  # both fit beside the pinned one
        (62 * GIB, 48.0, 4, GIB),  # they fit, but not beside it
        (40 * GIB, 48.0, 4, None),  # chat alone does not fit beside it
        (60 * GIB, 601.0, 4, None),  # not at once
        (60 * GIB, None, 4, None),
        (60 * GIB, 48.0, 2, None),  # may be chance
    ],
)
def test_only_those_that_never_fit_and_are_used_at_once_are_rivals(
    budget: int, wanted_after: float | None, swaps: int, short: int | None
) -> None:
    found = rivals(Adviser(layout(budget), described=True), turns(swaps, wanted_after))
    assert [(r.models, r.swaps, r.short) for r in found] == (
        [(("chat", "coder"), swaps, short)] if short else []
    )


def test_less_context_is_advised_only_as_far_as_there_is_context() -> None:
    """chat has 4 GiB of context, of which an eighth stays; of coder nothing is known but its size."""
    [enough] = rivals(Adviser(layout(60 * GIB), described=True), turns(4))
    assert [(c.kind, c.model, c.bytes, c.tokens, c.tokens_left) for c in enough.changes] == [
        ("context", "coder", 3 * GIB, None, None),
        ("context", "chat", 3 * GIB, 49152, 16384),
        ("memory", None, 3 * GIB, None, None),
    ]
    [scarce] = rivals(Adviser(layout(58 * GIB), described=True), turns(4))
    assert [(c.kind, c.model, c.bytes) for c in scarce.changes] == [
        ("context", "coder", 5 * GIB),
        ("memory", None, 5 * GIB),
    ]


def test_what_is_advised_is_never_less_than_what_is_enough() -> None:
    """3 GiB and one byte are lacking: 3.0 GiB less would not do."""
    [found] = rivals(Adviser(layout(60 * GIB - 1), described=True), turns(4))
    assert found.short == 3 * GIB + 1
    assert found.text.startswith(
        "chat and coder do not fit together: they lack 3.1 GiB; 3.1 GiB less for coder (less context, or"
        " smaller weights) or 3.1 GiB less context for chat (49168 tokens less, 16368 left) would fit both"
    )


def test_a_pair_of_which_a_size_is_unknown_is_no_advice() -> None:
    made = layout(60 * GIB)
    models = tuple(ModelSpec(m.name, m.digest) if m.name == "coder" else m for m in made.manifest.models)
    made = replace(made, manifest=replace(made.manifest, models=models))
    assert rivals(Adviser(made, described=True), turns(4)) == ()
