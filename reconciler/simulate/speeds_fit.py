"""How fast a model serves, worked out from requests it has served: seconds = fixed + prompt / p + output / o."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

#: Tokens a second of what takes no time at all.
INSTANT: Final = 1e9
#: Fewer requests than these do not tell three figures apart.
ENOUGH: Final = 8
#: Rounds after which the weights of the requests have settled.
_ROUNDS: Final = 12
#: A request off by more than this many times the usual error counts less and less (the 95 % point of Huber's rule).
_FAR: Final = 1.345
#: The usual error of a normal one, from the median of its size.
_SPREAD: Final = 1.4826
#: Seconds: errors below it are those of the clock, and nothing is known better.
_LEAST_ERROR: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Served:
    """One request that was served: its seconds, and its tokens."""

    seconds: float
    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second, and the seconds that every request takes besides."""

    prompt: float
    output: float
    fixed: float

    def seconds(self, served: Served) -> float:
        """Return how long a request like this one takes."""
        return self.fixed + served.prompt / self.prompt + served.output / self.output


def fit(samples: Sequence[Served], guess: Rates) -> Rates | None:
    """Return the rates that explain the requests best; `guess` is what they would be believed to be without.

    None of the three parts is ever negative. Outliers (a prompt that was in the cache, a machine that was busy) count
    for less: least squares by Huber's weights. A few requests only say how far off the guess is as a whole. None = no
    requests.
    """
    if len(samples) < ENOUGH:
        return _scaled(samples, guess)
    weights = [1.0] * len(samples)
    parts = (0.0, 0.0, 0.0)
    for _ in range(_ROUNDS):
        parts = _least_squares(samples, weights)
        errors = [abs(s.seconds - _seconds(parts, s)) for s in samples]
        limit = _FAR * max(_LEAST_ERROR, _SPREAD * median(errors))
        weights = [1.0 if error <= limit else limit / error for error in errors]
    fixed, prompt, output = parts
    return Rates(_rate(prompt), _rate(output), fixed)


def _scaled(samples: Sequence[Served], guess: Rates) -> Rates | None:
    """Return the guess, as many times slower or faster as the requests were."""
    ratios = [s.seconds / expected for s in samples if (expected := guess.seconds(s)) > 0]
    if not ratios or (factor := median(ratios)) <= 0:
        return None
    return Rates(guess.prompt / factor, guess.output / factor, guess.fixed * factor)


def _seconds(parts: Sequence[float], served: Served) -> float:
    return parts[0] + parts[1] * served.prompt + parts[2] * served.output


def _rate(seconds_a_token: float) -> float:
    return min(INSTANT, 1 / seconds_a_token) if seconds_a_token > 0 else INSTANT


def _least_squares(samples: Sequence[Served], weights: Sequence[float]) -> tuple[float, float, float]:
    """Return fixed seconds, and seconds a token of prompt and output, with the least weighted squares of errors.

    With three unknowns every choice of those that are not zero can be tried: the best without a negative one is exact.
    """
    moments = _moments(samples, weights)
    best, least = (0.0, 0.0, 0.0), 0.0
    for count in (1, 2, 3):
        for chosen in combinations(range(3), count):
            found = _solve([[moments[i][j] for j in chosen] for i in chosen], [moments[i][3] for i in chosen])
            if found is None or min(found) < 0:
                continue
            gain = -sum(x * moments[i][3] for x, i in zip(found, chosen, strict=True))
            if gain < least:
                full = [0.0, 0.0, 0.0]
                for x, i in zip(found, chosen, strict=True):
                    full[i] = x
                best, least = (full[0], full[1], full[2]), gain
    return best


def _moments(samples: Sequence[Served], weights: Sequence[float]) -> list[list[float]]:
    """Return the sums of products of each part (1, prompt, output) with each, and with the seconds."""
    sums = [[0.0] * 4 for _ in range(3)]
    for sample, weight in zip(samples, weights, strict=True):
        row = (1.0, float(sample.prompt), float(sample.output), sample.seconds)
        for i in range(3):
            for j in range(4):
                sums[i][j] += weight * row[i] * row[j]
    return sums


def _solve(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Return the solution of a small symmetric system; None if its rows say the same thing twice."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(size):
        # What is left of a diagonal that others explain is rounding.
        if rows[i][i] <= 1e-9 * matrix[i][i] or rows[i][i] <= 0:
            return None
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    result = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * result[j] for j in range(i + 1, size))
        result[i] = (rows[i][size] - known) / rows[i][i]
    return result
