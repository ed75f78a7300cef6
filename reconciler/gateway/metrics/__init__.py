"""`GET /metrics`: what goes on, for Prometheus. The list of all of it is docs/metrics.md."""
