"""What happened in this run, counted for whoever measures it. Imports no metrics library: counting is all it does."""

from reconciler.counts.counts import MOST_MODELS, OTHER, Counts, ModelCounts
from reconciler.counts.histogram import Histogram

__all__ = ["MOST_MODELS", "OTHER", "Counts", "Histogram", "ModelCounts"]
