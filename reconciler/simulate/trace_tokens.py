"""Tokens that a trace does not tell: those of a model's requests are taken to be as many as is usual for it."""

from array import array
from collections.abc import Iterable
from dataclasses import replace
from math import isnan
from statistics import median_low

from reconciler.simulate.trace import UNKNOWN, Trace


def assumed(trace: Trace) -> Trace:
    """Return a trace that tells all tokens; one that does so already is returned as it is.

    What is unknown becomes the median of what is known of the same model, or 0 where nothing is.
    """
    if not _lacking(trace):
        return trace
    return replace(
        trace,
        prompt_tokens=_filled(trace.model, trace.prompt_tokens),
        output_tokens=_filled(trace.model, trace.output_tokens),
    )


def assumption(trace: Trace) -> str | None:
    """Return a sentence on the tokens that have to be assumed; None = none have to.

    They decide nothing of a request of which it is known how long it takes.
    """
    lacking = [row for row in _lacking(trace) if isnan(trace.seconds[row])]
    if not lacking:
        return None
    prompts, outputs = _known(trace.model, trace.prompt_tokens), _known(trace.model, trace.output_tokens)
    if not prompts and not outputs and len(lacking) == len(trace):
        return "the tokens of no request are known: assumed to be none"
    if not outputs and UNKNOWN not in trace.prompt_tokens:
        return "the tokens of no answer are known: assumed to be none"
    if not prompts and UNKNOWN not in trace.output_tokens:
        return "the tokens of no prompt are known: assumed to be none"
    told = prompts.keys() & outputs.keys()
    of = f"the tokens of {len(lacking):,} of {len(trace):,} requests are not known"
    blind = sorted({trace.models[trace.model[row]] for row in lacking if trace.model[row] not in told})
    if not blind:
        return f"{of}: assumed to be the median of those of the same model"
    names = ", ".join(blind[:5]) + (f" and {len(blind) - 5} more" if len(blind) > 5 else "")
    return f"{of}: assumed to be the median of those of the same model, and none for {names}, of which none are known"


def _lacking(trace: Trace) -> list[int]:
    if UNKNOWN not in trace.prompt_tokens and UNKNOWN not in trace.output_tokens:
        return []
    columns = zip(trace.prompt_tokens, trace.output_tokens, strict=True)
    return [row for row, tokens in enumerate(columns) if UNKNOWN in tokens]


def _known(models: Iterable[int], tokens: Iterable[int]) -> dict[int, list[int]]:
    """Return model -> all that is told in a column."""
    known: dict[int, list[int]] = {}
    for model, count in zip(models, tokens, strict=True):
        if count != UNKNOWN:
            known.setdefault(model, []).append(count)
    return known


def _filled(models: Iterable[int], tokens: "array[int]") -> "array[int]":
    usual = {model: median_low(counts) for model, counts in _known(models, tokens).items()}
    filled = (
        usual.get(model, 0) if count == UNKNOWN else count
        for model, count in zip(models, tokens, strict=True)
    )
    return array("I", filled)
