"""Keeps the AI model servers of one machine the way a YAML manifest says."""

__version__ = "0.1.0"
