"""Measuring what a model really takes: while it loads, and once it works."""

from reconciler.measure.calls import ask_model
from reconciler.measure.own import MeasureError, Taken, measure_once
from reconciler.measure.watch import Measured, Watch

__all__ = ["MeasureError", "Measured", "Taken", "Watch", "ask_model", "measure_once"]
