"""Plan, status and diagnostics as text or JSON: the only place that builds sentences."""
