"""Which layers attend to a sliding window only, and how wide it is.

Newer files say it with a key; for older ones each architecture has its own rule in llama.cpp (`load_arch_hparams`).
"""

from dataclasses import dataclass
from typing import Final

from reconciler.memory.gguf.keys import Keys

_WINDOW: Final = "attention.sliding_window"
_PATTERN: Final = "attention.sliding_window_pattern"


@dataclass(frozen=True, slots=True)
class _Rule:
    """Of `period` layers one attends to everything: the last, or the first. `window` counts without a key."""

    period: int
    full_first: bool = False
    #: Tokens without the key; None = without it there is no window.
    window: int | None = None
    #: Tokens whatever a key other than 0 says.
    always: int | None = None


_RULES: Final = {
    "afmoe": _Rule(4),
    "cohere2": _Rule(4),
    "cohere2moe": _Rule(4),
    "exaone-moe": _Rule(4),
    "gemma-embedding": _Rule(6),
    "gemma2": _Rule(2, window=4096),
    "gemma3": _Rule(6),
    "gemma3n": _Rule(5),
    "gpt-oss": _Rule(2),
    "llama4": _Rule(4, window=8192, always=8192),
    "modern-bert": _Rule(3, full_first=True),
    "olmo2": _Rule(4),
    "plamo3": _Rule(8),
    "smallthinker": _Rule(4, full_first=True, always=4096),
}
#: llama.cpp ignores the windows of these (its conversion once wrote wrong ones).
_IGNORED: Final = frozenset({"phi3", "phimoe"})
#: Only this size of exaone4 has windows; the smaller one does not.
_EXAONE4_LAYERS: Final = 64


def windows(keys: Keys, layers: int) -> tuple[int | None, ...]:
    """Return for each layer the tokens of its window, or None for full attention.

    An architecture without a rule here and without a pattern in the file attends to everything: llama.cpp keeps
    all tokens for those, and a window taken for granted would make the estimate too small.
    """
    rule = _rule(keys, layers)
    each = _widths(keys, layers, rule)
    if keys.arch in _IGNORED or each is None:
        return (None,) * layers
    return tuple(
        width if is_windowed and width else None
        for width, is_windowed in zip(each, _pattern(keys, layers, rule), strict=True)
    )


def _rule(keys: Keys, layers: int) -> _Rule | None:
    if keys.arch == "exaone4":
        return _Rule(4, window=4096) if layers == _EXAONE4_LAYERS else None
    return _RULES.get(keys.arch)


def _widths(keys: Keys, layers: int, rule: _Rule | None) -> tuple[int, ...] | None:
    default = (rule.window,) * layers if rule and rule.window is not None else None
    if not keys.has(_WINDOW):
        return default
    widths = keys.per_layer(_WINDOW, layers)
    if rule and rule.always is not None:
        return tuple(rule.always if width else 0 for width in widths)
    return widths


def _pattern(keys: Keys, layers: int, rule: _Rule | None) -> tuple[bool, ...]:
    stated = keys.array(_PATTERN)
    if stated is not None:
        # A short pattern repeats.
        return tuple(bool(stated[i % len(stated)]) for i in range(layers))
    period = keys.optional(_PATTERN)
    if period is None:
        if rule is None:
            return (False,) * layers
        period = rule.period
    if period == 0:
        return (True,) * layers
    if rule and rule.full_first:
        return tuple(i % period != 0 for i in range(layers))
    return tuple(i % period < period - 1 for i in range(layers))
