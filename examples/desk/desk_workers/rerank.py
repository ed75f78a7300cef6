"""Orders passages by a query."""

from collections.abc import Sequence
from pathlib import Path

from desk_workers.minilm import MiniLM


class Rerank:
    """Scores each passage by the cosine of its vector and the query's.

    A bi-encoder: a cross-encoder, which reads both together, would judge better, but no package brings the weights of
    one.
    """

    def __init__(self, weights: str) -> None:
        self.model = MiniLM(Path(weights))

    def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return one score from -1 to 1 for each passage."""
        vectors = self.model.vectors([query, *documents])
        return [float(score) for score in vectors[1:] @ vectors[0]]
